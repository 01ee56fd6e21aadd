/** A request that can be sent again, and holds no files for that: the caller has them anyway. It follows no redirect. */
import { multipartOf } from './multipart.ts';

/**
 * A redirect comes back as an answer, which is no success. Followed, a POST would become a GET, whose list passes for
 * what was made, and `x-api-key` would go to whatever host it names.
 */
const atOneAddress = { redirect: 'manual' } as const;
/**
 * Whoever may be sent elsewhere keeps all that is sent for the case: Node does, and with 'manual' too. Cloudflare Workers
 * have no 'error'.
 */
const withoutKeeping = mayRefuseRedirects() ? ({ redirect: 'error' } as const) : atOneAddress;

function mayRefuseRedirects(): boolean {
  try {
    return new Request('http://localhost', { redirect: 'error' }).redirect === 'error';
  } catch {
    return false;
  }
}

export class RepeatableRequest extends Request {
  /** What may be gigabytes, and is made the body of each request that is sent. Null where this one has its body itself. */
  readonly #source: Blob | null;
  /** Whether it can be sent only once: the body is a stream, all of which would have to be held. */
  readonly isOnce: boolean;
  /** Whether whoever asked reads the answer himself, as it comes; any other is read whole, and is none where it is cut. */
  isStreamed = false;

  constructor(input: string | URL | Request, init: RequestInit = {}) {
    const { body = null, ...rest } = init;
    const bytes = body instanceof FormData ? multipartOf(body) : body;
    const source = bytes instanceof Blob ? bytes : null;
    const isOnce = body instanceof ReadableStream;
    const isLarge = isOnce || source !== null;
    super(input, {
      ...rest,
      ...(source === null && { body }),
      ...(isLarge ? withoutKeeping : atOneAddress),
    });
    this.#source = source;
    this.isOnce = isOnce;
  }

  /** What to send now; where it is not the last time, this request stays unread for the next one. */
  toSend(isLast: boolean): Request {
    if (this.#source !== null) return new Request(this, { body: this.#source });
    // What is cloned alone is deaf in Node after its next garbage collection.
    return isLast ? this : new Request(this.clone(), { signal: this.signal });
  }
}
