/** The stream by which a remote server says that its lists have changed: opened anew as often as it is lost. */
import { setTimeout as sleep } from 'node:timers/promises';
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
const growth = 1.5;
/** As a gateway says it: the connection did not come about, or broke off. */
const lost = 502;
/** For some minutes. Some servers fail with 500 since they know no streams, and need not be asked for ever. */
const mostFirstTries = 15;

type StreamOptions = Pick<
  StreamableHTTPClientTransportOptions,
  'fetch' | 'reconnectionOptions' | 'reconnectionScheduler'
>;

/**
 * What makes it so. One that could not be opened at first, since the server offers none, is not asked for again; where the
 * server has failed at it, it is for a while: the library tries only those again that were open before.
 */
export function eventStream(fetch: FetchLike, parts: EventStreamParts): StreamOptions {
  const hear = listener(parts);
  return {
    async fetch(url, init) {
      if (!asksForStream(init)) return await fetch(url, init);
      for (let tries = 1; ; tries += 1) {
        const response = await fetch(url, init).catch((error: unknown) => {
          const isLast = init?.signal?.aborted || isResumption(init) || tries === mostFirstTries;
          if (isLast || !hear(lost)) throw error;
          return null;
        });
        if (response) {
          const failed = hear(response.status);
          if (isResumption(init)) return await resumed(response);
          if (!failed || tries === mostFirstTries) return response;
          await response.body?.cancel();
        }
        const waitMs = Math.min(shortestWaitMs * growth ** (tries - 1), longestWaitMs);
        await sleep(waitMs, undefined, { ref: false, ...(init?.signal && { signal: init.signal }) });
      }
    },
    reconnectionOptions: {
      initialReconnectionDelay: shortestWaitMs,
      maxReconnectionDelay: longestWaitMs,
      reconnectionDelayGrowFactor: growth,
      maxRetries: Number.POSITIVE_INFINITY,
    },
    reconnectionScheduler(reconnect, delayMs) {
      const waitMs = Math.min(Math.max(delayMs, shortestWaitMs), longestWaitMs);
      const timer = setTimeout(reconnect, waitMs).unref();
      return () => clearTimeout(timer);
    },
  };
}

function asksForStream(init: RequestInit | undefined): boolean {
  const accept = new Headers(init?.headers).get('accept');
  return init?.method === 'GET' && accept?.includes('text/event-stream') === true;
}

/** Of an answer whose connection was lost, which the library asks for again by itself. */
function isResumption(init: RequestInit | undefined): boolean {
  return new Headers(init?.headers).has('last-event-id');
}

/** Where the server does not know the stream any more, the library would ask for ever; this status it takes for an end. */
async function resumed(response: Response): Promise<Response> {
  if (response.status !== 404 && response.status !== 400) return response;
  await response.body?.cancel();
  return new Response(null, { status: 405 });
}

/** Told how each request for the stream was answered; true where the server has failed, and it was never open. */
function listener({ onReopened, onSessionGone }: EventStreamParts): (status: number) => boolean {
  let wasOpen = false;
  let hasFailed = false;
  return (status) => {
    if (status === 200 && (wasOpen || hasFailed)) onReopened();
    // Some say 400 to a session that they do not know.
    if ((status === 404 || status === 400) && wasOpen) onSessionGone();
    wasOpen ||= status === 200;
    // 501 is said by servers that have no streams.
    hasFailed = !wasOpen && status >= 500 && status !== 501;
    return hasFailed;
  };
}
