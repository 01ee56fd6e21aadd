/** The stream by which a remote server says that its lists have changed: opened anew as often as it is lost. */
import type { FetchLike, StreamableHTTPClientTransportOptions } from '@modelcontextprotocol/client';

interface EventStreamParts {
  /** It is open again: what was said in between was said to nobody. */
  readonly onReopened: () => void;
  /** The server knows no more what the stream was part of. */
  readonly onSessionGone: () => void;
}

/** A server may ask to be asked again at once, each time that it ends the stream. */
const shortestWaitMs = 1000;
/** The library gives up after two tries, which is less than the restart of a server takes. */
const longestWaitMs = 30_000;

type StreamOptions = Pick<
  StreamableHTTPClientTransportOptions,
  'fetch' | 'reconnectionOptions' | 'reconnectionScheduler'
>;

/** What makes it so. One that could not be opened at first, since the server offers none, is not asked for again. */
export function eventStream(fetch: FetchLike, parts: EventStreamParts): StreamOptions {
  const hear = listener(parts);
  return {
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (init?.method === 'GET' && new Headers(init.headers).get('accept')?.includes('text/event-stream'))
        hear(response.status);
      return response;
    },
    reconnectionOptions: {
      initialReconnectionDelay: shortestWaitMs,
      maxReconnectionDelay: longestWaitMs,
      reconnectionDelayGrowFactor: 1.5,
      maxRetries: Number.POSITIVE_INFINITY,
    },
    reconnectionScheduler(reconnect, delayMs) {
      const waitMs = Math.min(Math.max(delayMs, shortestWaitMs), longestWaitMs);
      const timer = setTimeout(reconnect, waitMs).unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Told how each request for the stream was answered. */
function listener({ onReopened, onSessionGone }: EventStreamParts): (status: number) => void {
  let wasOpen = false;
  return (status) => {
    if (status === 200 && wasOpen) onReopened();
    // Some say 400 to a session that they do not know.
    if ((status === 404 || status === 400) && wasOpen) onSessionGone();
    wasOpen ||= status === 200;
  };
}
