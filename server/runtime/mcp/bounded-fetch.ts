/** Bounds what of an answer of a remote server has to be held at once: one message. */
import type { FetchLike } from '@modelcontextprotocol/client';
import { JsonCrowd } from '../json-crowd.ts';
import { SseEventEnds } from '../sse-event-ends.ts';

const largestMessageBytes = 10 * 1024 ** 2;

/** The same fetch, whose answers break off where they become too large to be held. */
export function boundedFetch(fetch: FetchLike): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
    const stream = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '');
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(limit(stream)), { status, statusText, headers });
  };
}

/** In a stream of events an empty line ends what has to be held; elsewhere only the end does. */
function limit(events: boolean): TransformStream<Uint8Array, Uint8Array> {
  const ends = events ? new SseEventEnds() : null;
  const values = new JsonCrowd();
  let held = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const crowded = values.isIn(chunk);
      const end = ends?.lastIn(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)) ?? -1;
      if (end >= 0) {
        values.restart();
        values.isIn(chunk.subarray(end));
      }
      held = end < 0 ? held + chunk.length : chunk.length - end;
      if (crowded || held > largestMessageBytes)
        return controller.error(new Error('An MCP server sent more than can be held.'));
      controller.enqueue(chunk);
    },
  });
}
