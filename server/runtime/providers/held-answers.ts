/** Bounds what the vendors' own clients hold of an answer: they read events, and answers in one piece, however long they are. */
import { createParser } from 'eventsource-parser';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { JsonCrowd } from '../json-crowd.ts';
import { SseEventEnds } from '../sse-event-ends.ts';
import { lineBytes, mostCalls, mostHeldBytes } from './answer-bounds.ts';
import { tooLong } from './provider-failures.ts';
import { mostRefusalBytes } from './refusal.ts';

const lineFeed = 0x0a;

/**
 * The same fetch, whose answers break off where they become too large to be held. Each piece is heard here: of comments and
 * events that only say that the provider is at work its client tells nothing.
 */
export function heldFetch(fetch: OutboundFetch, heard: () => void): OutboundFetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body) return response;
    const { status, statusText, headers, url, ok } = response;
    const bound = ok ? boundOf(headers.get('content-type') ?? '', heard) : beginning();
    const held = new Response(response.body.pipeThrough(bound), { status, statusText, headers });
    // Clients compare where an answer came from with where they asked.
    return Object.defineProperty(held, 'url', { value: url });
  };
}

type Bound = TransformStream<Uint8Array, Uint8Array>;

/** In a stream of events an empty line ends what has to be held; elsewhere only the end does. */
function boundOf(contentType: string, heard: () => void): Bound {
  // An answer that says what it is in no known way is read as whatever was asked for, and may be either.
  const ends = /^application\/json\b/i.test(contentType) ? null : new SseEventEnds();
  const calls = new CrowdedEvents();
  const values = new JsonCrowd();
  // Of frames that are no text only their size can be told.
  const isText = !/^application\/vnd\.amazon\.eventstream\b/i.test(contentType);
  let held = 0;
  return new TransformStream({
    transform(chunk, controller) {
      heard();
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
      if (isText && values.isIn(bytes)) return controller.error(tooLong());
      if (ends && calls.areIn(chunk)) return controller.error(tooLong());
      const end = ends?.lastIn(bytes) ?? -1;
      const open = end < 0 ? bytes : bytes.subarray(end);
      if (end >= 0) {
        values.restart();
        values.isIn(open);
      }
      held = (end < 0 ? held : 0) + open.length + (ends ? linesIn(open) * lineBytes : 0);
      if (held > mostHeldBytes) controller.error(new Error('The answer is too large to be held.'));
      else controller.enqueue(chunk);
    },
  });
}

/**
 * Finds events that hold more calls than any model makes: the clients compare each piece of a call that has neither index
 * nor id with all calls that there are, in one go.
 */
class CrowdedEvents {
  readonly #decoder = new TextDecoder();
  readonly #parser = createParser({
    onEvent: ({ data }) => {
      this.#found ||= data.length > callsFitIn && isCrowded(data);
    },
  });
  #found = false;

  areIn(chunk: Uint8Array): boolean {
    this.#parser.feed(this.#decoder.decode(chunk, { stream: true }));
    return this.#found;
  }
}

/** Shorter events are not worth a look. */
const callsFitIn = 4096;

function isCrowded(data: string): boolean {
  try {
    const { choices } = JSON.parse(data) as { choices?: { delta?: { tool_calls?: unknown[] } }[] };
    return (choices ?? []).some(({ delta }) => (delta?.tool_calls?.length ?? 0) > mostCalls);
  } catch {
    // Whoever reads it says what is wrong with it.
    return false;
  }
}

function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) lines += 1;
  return lines;
}

/** Of a refusal as much is read as its words may stand in. */
export function beginning(): Bound {
  let left = mostRefusalBytes;
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk.subarray(0, left));
      left -= chunk.length;
      if (left <= 0) controller.terminate();
    },
  });
}
