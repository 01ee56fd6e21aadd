/** The failures of the Messages surface, in the shape and with the statuses that its clients know. */
import type { MessagesError } from '../contract/api.ts';
import type { Problem } from '../problem.ts';

type ErrorType = MessagesError['error']['type'];

/** Where the vendor's status is not ours. */
const statuses: Partial<Record<Problem['code'], number>> = {
  overloaded: 529,
  provider_rate_limited: 529,
  provider_timeout: 504,
  // What the client can mend: it must not come again unchanged, and clients cut a conversation short at this status alone.
  provider_request_refused: 400,
  provider_prompt_too_long: 400,
};

const types: Readonly<Record<number, ErrorType>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

interface MessagesFailure {
  readonly status: number;
  readonly type: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: MessagesError;
}

/** The failure as an answer. */
export function renderMessagesProblem(problem: Problem, requestId: string): MessagesFailure {
  const status = statuses[problem.code] ?? problem.status;
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  const { details } = problem;
  const error = { type, message: messageOf(problem), ...(details && { details: { ...details } }) };
  return {
    status,
    type: 'application/json',
    headers: isFinal(problem, status) ? { 'x-should-retry': 'false' } : {},
    body: { type: 'error', error, request_id: requestId },
  };
}

/** Some clients ask ten times more with a key that is refused, unless they are told that it helps nothing. */
function isFinal({ code }: Problem, status: number): boolean {
  return code === 'provider_refused' || (status < 500 && ![408, 409, 429].includes(status));
}

/** Clients show the message alone, so that it names the places: `messages.0.content: must be string`. */
function messageOf(problem: Problem): string {
  if (problem.code === 'provider_prompt_too_long') return tooLong(problem.message);
  if (!problem.errors || problem.errors.length === 0) return problem.message;
  return problem.errors.map((error) => `${placeOf(error)}: ${error.message}`).join('; ');
}

/** By these words, from the first letter on, clients know that they have to cut the conversation short, and by how much. */
function tooLong(message: string): string {
  return /(?:prompt is too long|input length and `max_tokens`).*/s.exec(message)?.[0] ?? message;
}

function placeOf(error: { readonly pointer?: string; readonly name?: string }): string {
  return error.name ?? (error.pointer?.slice(1).replaceAll('/', '.') || 'body');
}
