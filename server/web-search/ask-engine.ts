/** Asks an engine over HTTP for JSON, and says in words what went wrong where none came. */
import type { ProblemCode } from '../contract/api.ts';
import { outboundErrorIn, outboundSentence } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';
import type { EnginePlace } from './engine.ts';

export interface EngineRequest {
  /** What the engine is called. */
  readonly title: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** What a refusal means at this engine; null for what it means everywhere. */
  refusal?(status: number, body: unknown): Refusal | null;
}

export interface Refusal {
  readonly code: Extract<ProblemCode, 'web_search_refused' | 'web_search_failed'>;
  readonly detail: string;
}

/** What an engine answers with status 200, still unread. Throws Problem. */
export async function askEngine(
  request: EngineRequest,
  { fetch }: EnginePlace,
  signal: AbortSignal,
): Promise<unknown> {
  const { title, url, headers } = request;
  const failed = (cause: unknown): never => {
    if (signal.aborted) throw signal.reason;
    throw unanswered(title, cause);
  };
  const accept = { accept: 'application/json' };
  const response = await fetch(url, { signal, headers: { ...accept, ...headers } }).catch(failed);
  const body = jsonOf(await response.text().catch(failed));
  if (!response.ok) throw refused(request, response, body);
  if (body === undefined) throw unreadable(title);
  return body;
}

export function unreadable(title: string): Problem {
  return new Problem('web_search_failed', `${title} gave an answer that nobody can read.`);
}

function unanswered(title: string, cause: unknown): Problem {
  const late = outboundErrorIn(cause)?.code === 'answer_too_slow';
  return new Problem(
    late ? 'web_search_timeout' : 'web_search_failed',
    `${title} could not be asked. ${outboundSentence(cause)}`,
    { cause },
  );
}

function refused({ title, refusal }: EngineRequest, response: Response, body: unknown): Problem {
  const { status, headers } = response;
  if (status === 429) return tooOften(title, headers);
  const own = refusal?.(status, body);
  if (own) return new Problem(own.code, own.detail);
  if (status === 401 || status === 403)
    return new Problem('web_search_refused', `${title} refuses to answer us (status ${status}).`);
  if (status >= 400 && status < 500)
    return new Problem(
      'web_search_refused',
      `${title} refuses what was asked (status ${status}); ask in other words, and fewer.`,
    );
  return new Problem('web_search_failed', `${title} failed with status ${status}; try again later.`);
}

function tooOften(title: string, headers: Headers): Problem {
  const seconds = secondsToWait(headers);
  if (seconds === null)
    return new Problem('web_search_rate_limited', `${title} was asked too often; try again later.`);
  const when = seconds === 1 ? '1 second' : `${seconds} seconds`;
  return new Problem('web_search_rate_limited', `${title} was asked too often; try again in ${when}.`, {
    headers: { 'Retry-After': String(seconds) },
  });
}

/** As long as the longest of its limits that is used up; null where the engine does not say. */
function secondsToWait(headers: Headers): number | null {
  const said = headers.get('retry-after');
  if (said !== null && /^\d{1,9}$/.test(said.trim())) return Math.max(1, Number(said));
  if (said !== null && !Number.isNaN(Date.parse(said)))
    return Math.max(1, Math.ceil((Date.parse(said) - Date.now()) / 1000));
  const [left, resets] = [
    numbersIn(headers.get('x-ratelimit-remaining')),
    numbersIn(headers.get('x-ratelimit-reset')),
  ];
  const usedUp = resets.filter((_, index) => left[index] === 0);
  return usedUp.length === 0 ? null : Math.max(1, ...usedUp);
}

function numbersIn(list: string | null): readonly number[] {
  return (list ?? '').split(',').flatMap((text) => (/^\s*\d{1,9}\s*$/.test(text) ? [Number(text)] : []));
}

/** Undefined for what is no JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
