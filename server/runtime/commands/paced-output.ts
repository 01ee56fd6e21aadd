/**
 * Reads what programs write, so much at a time that one without an end (`yes`) takes the one thread from nobody. A pipe that
 * is not read stops its program, which loses nothing by that.
 */
import type { Readable } from 'node:stream';

/** What all programs together are read of in one go; to decode and cut it takes some milliseconds. */
const together = 4 * 1024 ** 2;
const everyMs = 50;
/** Each is given a piece at least, as large as Node reads them. */
const mostAtOnce = together / (64 * 1024);

/** In the order in which they stopped. */
const waiting = new Set<Readable>();
/** What each may be read of in one go. */
let share = together;
let going = -1;
let readOfAll = 0;

/** Hands on each piece as it comes. */
export function readPaced(stream: Readable, onChunk: (chunk: Buffer) => void): void {
  let lately = -1;
  let read = 0;
  stream.on('data', (chunk: Buffer) => {
    const now = Math.floor(performance.now() / everyMs);
    if (now !== going) readOfAll = 0;
    if (now !== lately) read = 0;
    going = now;
    lately = now;
    readOfAll += chunk.length;
    read += chunk.length;
    onChunk(chunk);
    if ((read < share && readOfAll < together) || stream.destroyed) return;
    stream.pause();
    if (waiting.size === 0) setTimeout(goOn, everyMs);
    waiting.add(stream);
  });
}

function goOn(): void {
  const next = [...waiting].slice(0, mostAtOnce);
  share = together / next.length;
  for (const stream of next) {
    waiting.delete(stream);
    stream.resume();
  }
  if (waiting.size > 0) setTimeout(goOn, everyMs);
}
