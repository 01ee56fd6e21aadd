/** Reads a stream of server-sent events as it stands on the wire, strictly: what the format does not know is an error. */

import { createHash } from 'node:crypto';
import type { ResponseChunk } from '@service/client/api';

/** One event, with the name that a reader gives to one without. */
export interface WireEvent {
  readonly id?: string;
  readonly event: string;
  readonly data: string;
}

/** What came next: an event, or a comment that keeps the connection alive. */
export type WireFrame = { readonly comment: string } | WireEvent;

export async function* readFrames(response: Response): AsyncGenerator<WireFrame> {
  let rest = '';
  // A cut in the middle of a character or of a frame is made whole here, and bytes that are no text throw.
  for await (const text of (response.body ?? new ReadableStream()).pipeThrough(
    new TextDecoderStream('utf-8', { fatal: true }),
  )) {
    const blocks = (rest + text).split('\n\n');
    rest = blocks.pop() ?? '';
    yield* blocks.map(parseFrame);
  }
  if (rest !== '') throw new Error(`The stream ends in the middle of ${JSON.stringify(rest)}`);
}

function parseFrame(block: string): WireFrame {
  if (block.startsWith(':')) return { comment: block.slice(1).trim() };
  const event: { id?: string; event: string; data?: string } = { event: 'message' };
  for (const line of block.split('\n')) {
    const field = /^(?<name>id|event|data): (?<value>.*)$/su.exec(line)?.groups;
    if (!field) throw new Error(`No line of a stream: ${JSON.stringify(line)}`);
    if (field.name === 'data' && event.data !== undefined) throw new Error('An event of two data lines');
    event[field.name as 'id' | 'event' | 'data'] = field.value ?? ''; // as the expression has it
  }
  if (event.data === undefined) throw new Error(`An event without data: ${JSON.stringify(block)}`);
  return { ...event, data: event.data };
}

export function isEvent(frame: WireFrame): frame is WireEvent {
  return 'event' in frame;
}

/** The events of a whole stream, comments left out. */
export async function readEvents(response: Response): Promise<WireEvent[]> {
  return (await Array.fromAsync(readFrames(response))).filter(isEvent);
}

/** What the model wrote, as the chunks of a stream tell it. */
export function textOf(events: readonly WireEvent[]): string {
  return events
    .filter(({ event }) => event === 'message')
    .map(({ data }) => JSON.parse(data) as ResponseChunk) // as the contract has it
    .map((chunk) => (chunk.type === 'text_delta' ? chunk.text : ''))
    .join('');
}

/** Tells two texts apart whose difference nobody would find by eye. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
