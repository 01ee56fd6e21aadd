/** The built-in demonstration: a script that streams like a model, says that it is none, and can be asked to use a tool. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ToolResult, Usage } from '../../contract/api.ts';
import type { Model, ModelMessage, ModelMessagePart, ModelPart, ModelRequest } from '../models/model.ts';
import { arePassages, readPassages, type ShownPassage } from '../prompt/passages.ts';

export const demoProviderId = 'demo';
export const demoModelId = 'demo-1';

/** Between words, so that a stream looks like one. */
const wordPauseMs = 15;
/** As much of a prompt or result as the script reads and quotes: patterns over megabytes would block the server. */
const readLimit = 1000;
/** Of the passages that a query was given. */
const mostQuotes = 3;
const quoteLimit = 600;
const introduction = 'This is the built-in demonstration: a script answers, not a model.';

/** What the script does for a prompt that names a tool; the first that matches. */
const toolScripts: readonly {
  readonly tool: string;
  readonly pattern: RegExp;
  readonly input: (match: RegExpExecArray) => Record<string, unknown>;
}[] = [
  {
    tool: 'ask_user',
    pattern: /\bask me\b[:,]?\s*(.*)/is,
    input: ([, text]) => ({
      questions: [
        { id: 'q1', type: 'free_text', text: (text?.trim() || 'What should I know?').slice(0, 240) },
      ],
    }),
  },
  {
    tool: 'write',
    pattern: /\b(?:write|create)\b.*?\bfile\b(?:\s+(?:named|called))?\s+[`"']?([\w./-]+\w)[`"']?/is,
    // With the time in it, so that writing it again is a change to be seen.
    input: ([, path]) => ({
      file_path: path,
      content: `Hello from the demonstration, at ${new Date().toISOString()}.\n`,
    }),
  },
  {
    tool: 'view',
    pattern: /\b(?:read|view|show)\b.*?\bfile\b\s+[`"']?([\w./-]+\w)[`"']?/is,
    input: ([, path]) => ({ file_path: path }),
  },
  {
    tool: 'bash',
    pattern: /\brun\b.*?\b(?:command|shell)\b[:,]?\s*[`"']?([^`"'\n]+)[`"']?/is,
    input: ([, command]) => ({ command: command?.trim() }),
  },
  {
    tool: 'plan',
    pattern: /^(.+)$/is,
    input: ([, text]) => ({
      title: (text?.trim() || 'A plan').slice(0, 60).trim(),
      content: `1. Look at what there is.\n2. Do it: ${text?.trim()}\n3. See that it works.`,
    }),
  },
  {
    tool: 'corpus_search',
    pattern: /\bsearch\b.*?\b(?:corpus|documents?)\b.*?\bfor\b\s+(.+)/is,
    input: ([, query]) => ({ query: query?.trim() }),
  },
  { tool: 'ls', pattern: /\blist\b.*?\bfiles\b/is, input: () => ({}) },
];

/** A model that needs no key and no network. */
export function demoModel(): Model {
  return {
    name: `${demoProviderId}:${demoModelId}`,
    facts: async () => ({ contextWindow: null, maxOutputTokens: null, price: () => 0 }),
    async *stream(request, signal) {
      const results = resultsSincePrompt(request.messages);
      const call = nextCall(request, results);
      if (call) yield* writeCall(call, request, signal);
      else yield* writeAnswer(answer(request, results), request, signal);
    },
  };
}

interface Call {
  readonly name: string;
  readonly input: Record<string, unknown>;
}

/** One call of the tool that the prompt names. A file that is there already is viewed first, as the tool demands. */
function nextCall(request: ModelRequest, results: readonly ToolResult[]): Call | null {
  const call = toolCall(request);
  const [first, second] = results;
  if (!call || !first) return call;
  const stood = call.name === 'write' && first.is_error && !first.content.startsWith('Permission denied');
  if (!stood || results.length > 2) return null;
  return second ? call : { name: 'view', input: { file_path: call.input.file_path } };
}

function toolCall(request: ModelRequest): Call | null {
  const prompt = lastPrompt(request.messages);
  for (const { tool, pattern, input } of toolScripts) {
    const match = pattern.exec(prompt);
    if (match && request.tools.some(({ name }) => name === tool)) return { name: tool, input: input(match) };
  }
  return null;
}

function answer(request: ModelRequest, results: readonly ToolResult[]): string {
  const result = results.at(-1);
  const passages = shownPassages(request.messages);
  if (!result && passages.length > 0) return quoted(passages);
  if (!result) return `${introduction} You said: ${lastPrompt(request.messages)}`;
  const outcome = result.is_error ? 'did not succeed' : 'answered';
  return `${introduction} The tool ${result.name} ${outcome}: ${result.content.slice(0, readLimit)}`;
}

/** What a script can do with passages: quote them, and say where they stand. */
function quoted(passages: readonly ShownPassage[]): string {
  const quotes = passages.slice(0, mostQuotes).map(({ number, place, text }) => {
    const isCut = text.length > quoteLimit;
    return `“${isCut ? `${text.slice(0, quoteLimit).toWellFormed()} …` : text}” [${number}] ${place}`;
  });
  const rest = 'It quotes what the search found first, whether or not that answers you:';
  return `${introduction} ${rest}\n\n${quotes.join('\n\n')}`;
}

async function* writeCall(
  { name, input }: Call,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const opening = `${introduction} I use the tool ${name}.`;
  yield* writeWords(opening, signal);
  if (signal.aborted) return;
  const id = `call_demo_${request.messages.length}`;
  const json = JSON.stringify(input);
  yield { type: 'tool_input', id, name, json };
  yield { type: 'tool_use', id, name, input };
  yield { type: 'finish', stopReason: 'tool_use', usage: usage(request, `${opening} ${json}`) };
}

async function* writeAnswer(
  text: string,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelPart> {
  const limit = request.maxTokens ?? Number.POSITIVE_INFINITY;
  const words = text.split(/(?<=\s)/);
  const kept = words.slice(0, limit).join('');
  yield* writeWords(kept, signal);
  if (signal.aborted) return;
  const stopReason = words.length > limit ? 'max_tokens' : 'end_turn';
  yield { type: 'finish', stopReason, usage: usage(request, kept) };
}

async function* writeWords(text: string, signal: AbortSignal): AsyncGenerator<ModelPart> {
  for (const word of text.split(/(?<=\s)/)) {
    if (signal.aborted) return;
    await sleep(wordPauseMs);
    yield { type: 'text', text: word };
  }
}

/** Words stand for tokens here, which is all that a script can count. */
function usage(request: ModelRequest, written: string): Usage {
  const read = request.messages.flatMap(({ parts }) => parts.map((part) => count(readable(part))));
  return {
    input_tokens: read.reduce((sum, words) => sum + words, 0),
    output_tokens: count(written),
    cached_input_tokens: 0,
  };
}

/** Counted by hand: a prompt may have megabytes, and an array of its words would stop the server for a second. */
function count(text: string): number {
  let words = 0;
  let between = true;
  for (let index = 0; index < text.length; index += 1) {
    // Everything up to the blank is space, or nothing that anybody would call a word.
    const space = text.charCodeAt(index) <= 0x20;
    if (between && !space) words += 1;
    between = space;
  }
  return words;
}

function readable(part: ModelMessagePart): string {
  if (part.type === 'tool_use') return JSON.stringify(part.input);
  if (part.type === 'file') return '';
  return part.type === 'tool_result' ? part.content : part.text;
}

function lastPrompt(messages: readonly ModelMessage[]): string {
  const message = messages.findLast(({ role }) => role === 'user');
  return (message?.parts ?? [])
    .filter((part) => part.type !== 'text' || !arePassages(part.text))
    .map((part) => (part.type === 'text' ? part.text : ''))
    .join('\n')
    .slice(0, readLimit);
}

function shownPassages(messages: readonly ModelMessage[]): ShownPassage[] {
  const message = messages.findLast(({ role }) => role === 'user');
  return (message?.parts ?? []).flatMap((part) => (part.type === 'text' ? readPassages(part.text) : []));
}

function resultsSincePrompt(messages: readonly ModelMessage[]): ToolResult[] {
  const start = messages.findLastIndex(({ role }) => role === 'user');
  const parts = messages.slice(start + 1).flatMap((message) => message.parts);
  return parts.filter((part) => part.type === 'tool_result');
}
