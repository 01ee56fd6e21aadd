// The shape of a vendor's dialect, and the few pieces that all dialects are made of.
import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import type { DialectName, Prompt } from './prompt.ts';

export type StopReason = 'end_turn' | 'tool_use' | 'max_tokens' | 'stop_sequence' | 'refusal';

export interface Usage {
  /** All input, what was read from a cache included. */
  input: number;
  cached: number;
  /** All output, reasoning included. */
  output: number;
  reasoning: number;
  /** Of Anthropic's: what of the input went to the cache for an hour, and searches of the web. */
  keptForAnHour: number;
  searches: number;
  /** Of Anthropic's: what it counts beside the rest, and how fast it was. */
  iterations: readonly object[] | null;
  speed: 'standard' | 'fast';
}

/** What the model says, before a dialect puts it into its own words. */
export interface Answer {
  reasoning: string;
  text: string;
  /** `arguments` is the text that goes over the wire, JSON or not. */
  toolCalls: { id?: string; name: string; arguments: string }[];
  stopReason: StopReason;
  stopSequence: string | null;
  /** Of Google's, where the script says it in the vendor's words. */
  finishReason: string | null;
  usage: Usage;
  /** The picture or the sound, where the script brings one. */
  file: Buffer | null;
  /** Characters per streamed fragment. */
  chunkSize: number;
}

/** A request that its dialect accepted. */
export interface Call {
  prompt: Prompt;
  /** The answer as one JSON body. */
  whole(answer: Answer): unknown;
  /** The answer where it is bytes and no JSON. */
  file?: (answer: Answer) => { readonly type: string; readonly bytes: Buffer };
  /** The answer as server-sent frames, each complete with its empty line. */
  frames(answer: Answer): Iterable<string>;
}

/** What the path of a request says of it, where a vendor puts the model there. */
export interface Place {
  model: string;
  stream: boolean;
}

export interface Dialect {
  name: DialectName;
  /** Undefined if the request carries no key in a place where this vendor reads it. */
  apiKey(headers: IncomingHttpHeaders): string | undefined;
  /** Throws a `Refusal` for what the vendor would refuse. `place` is null where the path names no model. */
  read(body: unknown, headers: IncomingHttpHeaders, place: Place | null): Call;
  /** The answer to how many tokens a prompt has; absent where the vendor cannot be asked. */
  count?: (body: unknown, headers: IncomingHttpHeaders, place: Place | null) => unknown;
  /** Whether a request is a form, with files in it. */
  takesForm?: true;
  /** Headers on every response, the request's id among them. */
  headers(requestId: string): Record<string, string>;
  newRequestId(): string;
  errorBody(refusal: Refusal, requestId: string): unknown;
  /** The frame that reports an error after the stream has begun. */
  errorFrame(refusal: Refusal): string;
  /** The frame that says that the answer is still being written; absent where it is a comment. */
  keepAlive?: string;
  /** One page; `next` names the model before the next one, null on the last. */
  modelList(ids: string[], next: string | null): unknown;
  /** Whether also those get pages of the list who have named no size. */
  pagesUnasked?: true;
  model(id: string): unknown;
  noKey(): Refusal;
  /** Whether the vendor says in the body of an error, and not in a header, when to come back. */
  retryInBody?: true;
}

/** An error that the vendor would answer with. */
export class Refusal extends Error {
  readonly status: number;
  /** The vendor's own type or code where the status does not settle it. */
  readonly type: string | undefined;
  readonly code: string | null | undefined;
  readonly param: string | null;
  /** Seconds, where the vendor says them in the body. */
  readonly retryAfter: string | undefined;

  constructor(
    status: number,
    message: string,
    more: {
      type?: string | undefined;
      code?: string | null | undefined;
      param?: string | undefined;
      retry_after?: string | undefined;
    } = {},
  ) {
    super(message);
    this.status = status;
    this.type = more.type;
    this.code = more.code;
    this.param = more.param ?? null;
    this.retryAfter = more.retry_after;
  }
}

export function sse(data: unknown, event?: string): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** Splits into pieces of `size` characters, one longer where it would part a surrogate pair. */
export function fragments(text: string, size: number): string[] {
  const parts: string[] = [];
  for (let at = 0, end = size; at < text.length; at = end, end += size) {
    if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end += 1;
    parts.push(text.slice(at, end));
  }
  return parts;
}

const letters = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789';

/** An id such as vendors make. Random, so that ids stay unique over restarts of the program. */
export function newId(prefix: string, length: number, alphabet = letters): string {
  return prefix + Array.from(randomBytes(length), (byte) => alphabet.charAt(byte % alphabet.length)).join('');
}

export function bearer(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
}

/** The problem that lies deepest: in a union, that of the branch which came furthest. */
export function deepestIssue(issues: readonly z.core.$ZodIssue[]): { path: PropertyKey[]; message: string } {
  const found = issues.map((issue) => {
    if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue;
    const branches = issue.errors.filter((branch) => branch.length > 0).map(deepestIssue);
    const deepest = branches.reduce((best, next) => (next.path.length > best.path.length ? next : best));
    return { message: deepest.message, path: [...issue.path, ...deepest.path] };
  });
  const first = found[0];
  if (first === undefined) throw new Error('a failed check without an issue');
  return { path: first.path, message: first.message };
}

/** A field that this program passes over: its shape is the vendor's business. */
export const ignored = z.unknown().optional();
