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

type Sending = Parameters<StreamableHTTPClientTransport['send']>;

/** A transport of the library, with that end. */
export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #unanswered = new Set<string | number>();

  constructor(url: URL, options: StreamableHTTPClientTransportOptions) {
    super(url, options);
    // The client takes each message after whoever listened before it.
    this.onmessage = (message) => {
      if (!('method' in message) && message.id !== undefined) this.#unanswered.delete(message.id);
    };
  }

  override async send(...[message, options]: Sending): Promise<void> {
    const isRequest = !Array.isArray(message) && 'method' in message && 'id' in message;
    // Whoever listens for the end knows what to do then.
    if (!isRequest || options?.onRequestStreamEnd) return await super.send(message, options);
    const { id } = message;
    this.#unanswered.add(id);
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
      await super.send(message, { ...options, onRequestStreamEnd: lose });
    } catch (error) {
      this.#unanswered.delete(id);
      throw error;
    }
  }
}
