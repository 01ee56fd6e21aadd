/** Reads the frames of a Messages answer no further than it must: nearly all of them go on as they came. */

import { parseHeld } from '../json-crowd.ts';
import type { RelayedPiece } from '../models/model.ts';
import { SseEventEnds } from '../sse-event-ends.ts';
import { mostHeldBytes } from './answer-bounds.ts';
import { errorWithin } from './error-within.ts';

/** What was read: frames that may go on, and why the answer cannot where it failed behind them. */
export interface ReadFrames {
  readonly piece: RelayedPiece | null;
  readonly failure: unknown;
}

type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

const frameEnd = Buffer.from('\n\n');
/** How a frame begins that holds a piece of what the model writes. All others are few, and are read. */
const deltaBegin = Buffer.from('event: content_block_delta\ndata: {');
const closingBrace = 0x7d;
const carriageReturn = 0x0d;
/** What stands around the words of a piece. */
const wrapping =
  'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}\n\n'
    .length;

/** Frames come in whatever pieces the network cuts them into. */
export class FrameReader {
  readonly #model: string;
  readonly #ends = new SseEventEnds();
  /** What came behind the last whole frame. */
  #rest: Buffer[] = [];
  #restBytes = 0;

  /** `model` is the name that the answer says in the place of its provider's. */
  constructor(model: string) {
    this.#model = model;
  }

  read(chunk: Uint8Array): ReadFrames {
    const more = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    // A frame that comes in many pieces is not put together again with each of them.
    if (this.#ends.lastIn(more) < 0) return this.#wait(more);
    const bytes = withPlainBreaks(this.#rest.length === 0 ? more : Buffer.concat([...this.#rest, more]));
    const going = new GoingFrames(bytes);
    let start = 0;
    try {
      for (let end = bytes.indexOf(frameEnd); end >= 0; end = bytes.indexOf(frameEnd, start)) {
        const from = start;
        start = end + frameEnd.length;
        if (isDelta(bytes, from, end)) going.keep(start, start - from - wrapping);
        else this.#readFrame(going, bytes.toString('utf8', from, end), from, start);
        if (going.last) break;
      }
      this.#rest = start < bytes.length ? [bytes.subarray(start)] : [];
      this.#restBytes = bytes.length - start;
    } catch (failure) {
      return { piece: going.piece(), failure };
    }
    return { piece: going.piece(), failure: null };
  }

  #wait(more: Buffer): ReadFrames {
    this.#rest.push(more);
    this.#restBytes += more.length;
    const failure = this.#restBytes > mostHeldBytes ? new Error('A frame has no end') : null;
    return { piece: null, failure };
  }

  #readFrame(going: GoingFrames, frame: string, from: number, end: number): void {
    const data = dataOf(frame);
    const event: unknown = data === null ? null : parseHeld(data);
    if (!isEvent(event)) going.drop(from, end);
    else if (event.type === 'error') throw errorWithin(event.error);
    else if (event.type === 'message_start') {
      const message = objectOf(event.message);
      const renamed = { ...event, message: { ...message, model: this.#model } };
      going.replace(from, end, `event: message_start\ndata: ${JSON.stringify(renamed)}\n\n`);
      going.use(objectOf(message.usage));
    } else {
      if (event.type === 'message_delta') {
        going.use(objectOf(event.usage));
        going.counted = true;
      }
      if (event.type === 'message_stop') going.last = true;
      // A client knows an event by its name, which some servers leave out.
      if (frame.startsWith('event:')) going.keep(end, 0);
      else going.replace(from, end, `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
  }
}

/** The frames of one read that go on: in runs as they came, with others in between. */
class GoingFrames {
  usage: Readonly<Record<string, unknown>> | null = null;
  counted = false;
  last = false;
  readonly #bytes: Buffer;
  readonly #parts: Buffer[] = [];
  #from = 0;
  #to = 0;
  #heard = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  keep(end: number, heard: number): void {
    this.#to = end;
    this.#heard += Math.max(heard, 0);
  }

  drop(from: number, end: number): void {
    if (from > this.#from) this.#parts.push(this.#bytes.subarray(this.#from, from));
    this.#from = end;
    this.#to = end;
  }

  replace(from: number, end: number, frame: string): void {
    this.drop(from, end);
    this.#parts.push(Buffer.from(frame));
  }

  /** It is said anew with the end of the answer; a count that is null there stays as it was. */
  use(usage: Readonly<Record<string, unknown>>): void {
    const said = Object.entries(usage).filter(([, count]) => count !== null);
    this.usage = { ...this.usage, ...Object.fromEntries(said) };
  }

  piece(): RelayedPiece | null {
    if (this.#to > this.#from) this.#parts.push(this.#bytes.subarray(this.#from, this.#to));
    const [first, ...more] = this.#parts;
    if (!first) return null;
    const { usage, counted, last } = this;
    const written = more.length === 0 ? first : Buffer.concat(this.#parts);
    return { written, heard: this.#heard, usage, counted, last };
  }
}

/** Those that nearly every server sends, since no JSON holds the others. */
function withPlainBreaks(bytes: Buffer): Buffer {
  if (!bytes.includes(carriageReturn)) return bytes;
  return Buffer.from(bytes.toString('latin1').replaceAll('\r\n', '\n'), 'latin1');
}

function isDelta(bytes: Buffer, from: number, end: number): boolean {
  return bytes[end - 1] === closingBrace && deltaBegin.equals(bytes.subarray(from, from + deltaBegin.length));
}

/** The data of a frame; null where it has none, as a comment. */
function dataOf(frame: string): string | null {
  const lines = frame.split('\n').filter((line) => line.startsWith('data:'));
  return lines.length === 0 ? null : lines.map((line) => line.slice(5).trimStart()).join('\n');
}

function isEvent(value: unknown): value is Event {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
