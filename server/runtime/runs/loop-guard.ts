/** Notices a model that does the same again and again. */
import { createHash } from 'node:crypto';
import type { ModelMessage } from '../models/model.ts';

const recentSteps = 10;
const mostRepetitions = 5;

/** The tool whose same call gave the same result too often in the newest steps since the prompt; null where none did. */
export function repeatedTool(conversation: readonly ModelMessage[]): string | null {
  const counts = new Map<string, number>();
  for (const step of newestSteps(conversation)) {
    // The same call twice in one step is one attempt.
    for (const [signature, name] of step) {
      const count = (counts.get(signature) ?? 0) + 1;
      if (count > mostRepetitions) return name;
      counts.set(signature, count);
    }
  }
  return null;
}

/** Of each step the tools by the signatures of their calls with what they gave. */
function newestSteps(conversation: readonly ModelMessage[]): ReadonlyMap<string, string>[] {
  const prompt = conversation.findLastIndex(({ role }) => role === 'user');
  const steps: ReadonlyMap<string, string>[] = [];
  for (let at = conversation.length - 1; at > prompt && steps.length < recentSteps; at -= 1) {
    const [message, next] = [conversation[at], conversation[at + 1]];
    if (message?.role === 'assistant') steps.push(signaturesOf(message, next));
  }
  return steps;
}

function signaturesOf({ parts }: ModelMessage, results: ModelMessage | undefined): Map<string, string> {
  const found = new Map<string, string>();
  for (const call of parts) {
    if (call.type !== 'tool_use') continue;
    const result = results?.parts.find((part) => part.type === 'tool_result' && part.tool_use_id === call.id);
    if (result?.type !== 'tool_result') continue;
    const signature = JSON.stringify([call.name, call.input, result.content, result.is_error]);
    found.set(createHash('sha256').update(signature).digest('base64'), call.name);
  }
  return found;
}
