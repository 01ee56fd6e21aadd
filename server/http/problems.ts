/** Renders every failure: problem+json, or the vendor's shape under /v1. Never a stack, never a foreign message. */
import { Problem } from '../problem.ts';
import type { Exchange } from './exchange.ts';
import { renderMessagesProblem } from './messages-problem.ts';

/** A failure as it stands on the wire. */
export interface RenderedProblem {
  readonly status: number;
  readonly type: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** What a rendered failure says of its request. */
export type Occasion = Pick<Exchange, 'path' | 'requestId' | 'surface'>;

/** Seconds after which trying again may help, where that is so. */
const retryAfter: Partial<Record<Problem['code'], string>> = {
  too_many_streams: '5',
  overloaded: '5',
  queue_full: '5',
  draining: '5',
  database_unavailable: '2',
  provider_rate_limited: '10',
};

/** The failure in the shape of the surface that was called. */
export function renderProblem(problem: Problem, occasion: Occasion): RenderedProblem {
  const rendered =
    occasion.surface === 'messages'
      ? renderMessagesProblem(problem, occasion.requestId)
      : {
          status: problem.status,
          type: 'application/problem+json',
          headers: {},
          body: problemBody(problem, occasion),
        };
  return { ...rendered, headers: { ...rendered.headers, ...headersOf(problem), ...problem.headers } };
}

/** Anything thrown as a Problem: what Express and its middlewares refuse keeps its meaning, the rest is ours. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof URIError || statusOf(error) === 400)
    return new Problem('invalid_encoding', 'The request could not be read; check its percent-encoding.', {
      cause: error,
    });
  const status = statusOf(error);
  if (status === 404) return noSuchOperation(error);
  if (status === 405)
    return new Problem('method_not_allowed', 'This path knows other methods.', { cause: error });
  if (status === 406)
    return new Problem('not_acceptable', 'There is no representation that your Accept header allows.', {
      cause: error,
    });
  if (status === 413) return new Problem('body_too_large', 'The body is too large.', { cause: error });
  if (status === 415)
    return new Problem('unsupported_media_type', 'This content type is not supported.', { cause: error });
  return internalError(error);
}

/** The fixed sentence for what the caller cannot mend; the log has the cause. */
export function internalError(cause: unknown): Problem {
  return new Problem(
    'internal_error',
    'The server failed; its log has the cause under the id of this request.',
    {
      cause,
    },
  );
}

export function noSuchOperation(cause?: unknown): Problem {
  return new Problem('operation_not_found', 'No operation has this path; /docs lists them all.', { cause });
}

function problemBody(problem: Problem, occasion: Occasion): object {
  return {
    type: `/docs#${problem.code}`,
    title: problem.title,
    status: problem.status,
    detail: problem.message,
    instance: uriOf(occasion.path),
    code: problem.code,
    request_id: occasion.requestId,
    ...(problem.errors ? { errors: problem.errors } : {}),
    ...(problem.quota ? { quota: problem.quota } : {}),
  };
}

function headersOf(problem: Problem): Record<string, string> {
  const wait = retryAfter[problem.code];
  return {
    ...(problem.status === 401 ? { 'WWW-Authenticate': challengeOf(problem) } : {}),
    ...(wait === undefined ? {} : { 'Retry-After': wait }),
  };
}

/** RFC 6750, 3: the reason is named only where a credential came. */
function challengeOf(problem: Problem): string {
  const realm = 'Bearer realm="service"';
  if (problem.code === 'credential_conflict') return `${realm}, error="invalid_request"`;
  const bad = problem.code === 'credential_invalid' || problem.code === 'credential_expired';
  return bad ? `${realm}, error="invalid_token"` : realm;
}

/** A path may come with bytes that no URI has. */
function uriOf(path: string): string {
  return path
    .slice(0, 2000)
    .replace(/%(?![0-9A-Fa-f]{2})/g, '%25')
    .replace(/[^A-Za-z0-9\-._~!$&'()*+,;=:@/%]/g, (character) =>
      encodeURIComponent(character.toWellFormed()),
    );
}

/** Multer's errors have no status, but a code for each limit. */
function statusOf(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  if (error.name === 'MulterError') return 'code' in error && error.code === 'LIMIT_FILE_SIZE' ? 413 : 400;
  const status = 'status' in error ? error.status : null;
  return typeof status === 'number' ? status : null;
}
