/** Server-sent events out of bytes, and the end of a connection that nothing comes through any more. */
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { ConnectionError } from './errors.ts';
import { timerMs } from './timers.ts';

/** How a connection is watched. */
export interface Watch {
  /** A connection without any byte for so long counts as lost. */
  readonly idleTimeoutMs: number;
  readonly signal: AbortSignal | undefined;
  /** Told of each sign of life, comments included. */
  heard(): void;
}

/** What an event ends with: two ends of lines, each of which may be of two characters. */
const emptyLine = /(?:\r\n|\r(?!\n)|\n){2}$/;

/**
 * The events of one connection until it ends; comments are swallowed. A lost or silent connection is a `ConnectionError`,
 * and so is one that ends within an event or before anything came: a stream begins with a comment. Breaking out of the
 * loop, or the signal, closes the connection.
 */
export async function* readServerSentEvents(
  body: ReadableStream<Uint8Array>,
  watch: Watch,
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const complete: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => complete.push(event) });
  let last = '';
  try {
    for (;;) {
      const bytes = await readBytes(reader, watch);
      if (bytes === null) {
        if (emptyLine.test(last)) return;
        throw new ConnectionError('The stream ended within an event.');
      }
      watch.heard();
      const text = decoder.decode(bytes, { stream: true });
      last = (last + text).slice(-4);
      parser.feed(text);
      yield* complete.splice(0);
    }
  } finally {
    // Of a connection that is lost already, cancelling says so once more.
    await reader.cancel().catch(() => undefined);
  }
}

/** The next bytes, null at the end. The signal is heard here too: aborting a fetch does not always reach its body. */
function readBytes(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { idleTimeoutMs, signal }: Watch,
): Promise<Uint8Array | null> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const settle = (how: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      how();
    };
    const onAbort = () => settle(() => reject(signal?.reason));
    const silent = () => new ConnectionError(`Nothing came through the stream for ${idleTimeoutMs} ms.`);
    const timer = setTimeout(() => settle(() => reject(silent())), timerMs(idleTimeoutMs));
    signal?.addEventListener('abort', onAbort, { once: true });
    reader.read().then(
      ({ done, value }) => settle(() => resolve(done ? null : value)),
      (cause: unknown) => settle(() => reject(new ConnectionError('The stream was cut off.', cause))),
    );
  });
}
