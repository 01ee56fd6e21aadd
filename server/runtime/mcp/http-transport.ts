/** Streamable HTTP whose requests end once their answers can no longer come: the library leaves them waiting. */
import {
  ProtocolError,
  ProtocolErrorCode,
  StreamableHTTPClientTransport,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';

/** In the place of what a server says in an answer; no server's can be the same. */
const brokenOff = Object.freeze({ brokenOff: true });

/** Whether the stream of the answer ended before the answer had come, and cannot be gone on with. */
export function isBrokenOff(error: unknown): boolean {
  return error instanceof ProtocolError && error.data === brokenOff;
}

/** What belongs to an answer may come after it, for so long. */
const restMs = 5000;

const cancelled = 'notifications/cancelled';

type Sending = Parameters<StreamableHTTPClientTransport['send']>;

/** A transport of the library, with that end. */
export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #unanswered = new Map<string | number, AbortController>();

  constructor(url: URL, options: StreamableHTTPClientTransportOptions) {
    super(url, options);
    // The client takes each message after whoever listened before it.
    this.onmessage = (message) => {
      if (!('method' in message) && message.id !== undefined) this.#letGo(message.id);
    };
  }

  override async send(...[message, options]: Sending): Promise<void> {
    if (!Array.isArray(message) && 'method' in message && message.method === cancelled) {
      const told = super.send(message, options);
      this.#giveUp(message.params?.requestId);
      return await told;
    }
    const isRequest = !Array.isArray(message) && 'method' in message && 'id' in message;
    // Whoever listens for the end knows what to do then.
    if (!isRequest || options?.onRequestStreamEnd) return await super.send(message, options);
    const { id } = message;
    const given = new AbortController();
    this.#unanswered.set(id, given);
    const lose = (): void => {
      if (!this.#unanswered.has(id)) return;
      const error = {
        code: ProtocolErrorCode.InternalError,
        message: 'its answer broke off',
        data: brokenOff,
      };
      this.onmessage?.({ jsonrpc: '2.0', id, error });
    };
    try {
      const { requestSignal: asked } = options ?? {};
      const requestSignal = asked ? AbortSignal.any([asked, given.signal]) : given.signal;
      await super.send(message, { ...options, requestSignal, onRequestStreamEnd: lose });
    } catch (error) {
      this.#unanswered.delete(id);
      throw error;
    }
  }

  /** Once the answer is there. Some servers leave its stream open: each would hold a connection for good. */
  #letGo(id: string | number): void {
    const given = this.#unanswered.get(id);
    this.#unanswered.delete(id);
    if (given) setTimeout(() => given.abort(), restMs).unref();
  }

  /** Nobody waits for the answer: its connection is not kept for it, and not opened again. */
  #giveUp(id: unknown): void {
    if (typeof id !== 'string' && typeof id !== 'number') return;
    const given = this.#unanswered.get(id);
    this.#unanswered.delete(id);
    given?.abort();
  }
}
