/** Bounds what a remote server may send: one message, and one answer as a whole. */
import type { FetchLike } from '@modelcontextprotocol/client';

const largestMessageBytes = 10 * 1024 ** 2;
const largestAnswerBytes = 256 * 1024 ** 2;

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
  let held = 0;
  let whole = 0;
  let before: Buffer = Buffer.alloc(0);
  return new TransformStream({
    transform(chunk, controller) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
      const end = events ? endOfLastEvent(before, bytes) : -1;
      before = lastOf(before, bytes);
      held = end < 0 ? held + chunk.length : chunk.length - end;
      whole += chunk.length;
      if (held > largestMessageBytes || whole > largestAnswerBytes)
        return controller.error(new Error('An MCP server sent more than can be held.'));
      controller.enqueue(chunk);
    },
  });
}

const emptyLines = ['\n\n', '\r\n\r\n'];
const longestEmptyLine = 4;

/** Where in these bytes the last event ends, about; -1 where none does. Many servers send the empty line by itself. */
function endOfLastEvent(before: Buffer, bytes: Buffer): number {
  const end = Math.max(...emptyLines.map((line) => bytes.lastIndexOf(line)));
  if (end >= 0) return end;
  const seam = Buffer.concat([before, bytes.subarray(0, longestEmptyLine - 1)]);
  return emptyLines.some((line) => seam.includes(line)) ? 0 : -1;
}

/** As much of what came last as an empty line may have begun in. */
function lastOf(before: Buffer, bytes: Buffer): Buffer {
  return Buffer.concat([before, bytes.subarray(1 - longestEmptyLine)]).subarray(1 - longestEmptyLine);
}
