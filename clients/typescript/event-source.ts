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

/**
 * The events of one connection until it ends; comments are swallowed, and so is an event that was cut off. A lost or
 * silent connection is a `ConnectionError`. Breaking out of the loop, or the signal, closes the connection.
 */
export async function* readServerSentEvents(
  body: ReadableStream<Uint8Array>,
  watch: Watch,
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const complete: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => complete.push(event) });
  try {
    for (;;) {
      const bytes = await readBytes(reader, watch);
      if (bytes === null) return;
      watch.heard();
      parser.feed(decoder.decode(bytes, { stream: true }));
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
