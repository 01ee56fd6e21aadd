/** A stored session as a conversation to read. */
import type { Message, Session } from '@service/client/api';
import { localTime } from './local-time.ts';
import { isTerminal, paint, printable, shown } from './output.ts';

type Part = Message['parts'][number];

/** What a tool gave can be long, and is seldom what is looked for. */
const resultLines = 12;

/** What stands above the messages. */
export function describeSession({ id, title, model, status, created_at, updated_at }: Session): string {
  const facts = [
    id,
    ...(model ? [model] : []),
    ...(status === 'idle' ? [] : [status]),
    `begun ${localTime(created_at)}`,
    `changed ${localTime(updated_at)}`,
  ];
  return `${paint('bold', printable(title))}\n${paint('dim', printable(facts.join(' · ')))}`;
}

/** One message with who says it; what tools gave stands below the call. */
export function describeMessage({ role, parts, model, created_at, stop_reason }: Message): string {
  const body = parts.map(describePart).join('\n');
  if (role === 'tool') return body;
  const speaker = role === 'user' ? paint('cyan', 'You') : paint('green', printable(model ?? 'Assistant'));
  const cut =
    stop_reason === 'interrupted' || stop_reason === 'error' ? [paint('yellow', `(${stop_reason})`)] : [];
  return [`\n${speaker} ${paint('dim', localTime(created_at))}`, body, ...cut].filter(Boolean).join('\n');
}

function describePart(part: Part): string {
  switch (part.type) {
    case 'text':
      return asWritten(part.text.trimEnd());
    case 'reasoning':
      return paint('dim', `✻ ${asWritten(part.text.trim())}`);
    case 'tool_use':
      return paint('dim', `● ${printable(part.name)} ${printable(JSON.stringify(part.input))}`);
    case 'file':
      return paint('dim', `▣ ${printable(part.name ?? part.url ?? part.media_type)}`);
    case 'tool_result':
      return describeResult(part.content, part.is_error);
  }
}

function describeResult(content: string, failed: boolean): string {
  const lines = asWritten(content.trimEnd()).split('\n');
  const kept = lines.slice(0, resultLines).map((line) => `  ${line}`);
  const more = lines.length - kept.length;
  const text = [...kept, ...(more > 0 ? [`  … ${more} more lines`] : [])].join('\n');
  return paint(failed ? 'red' : 'dim', text);
}

/** Exact in a pipe, harmless on a terminal. */
function asWritten(text: string): string {
  return isTerminal() ? shown(text) : text;
}
