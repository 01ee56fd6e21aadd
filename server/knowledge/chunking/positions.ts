/** Turns places in a JavaScript string into what is cited: code points, and lines. */
import { firstNotBelow } from './tokens.ts';

export interface Positions {
  /** How many code points stand before. */
  codePoint(at: number): number;
  /** Where so many code points end: the other way round. */
  place(codePoints: number): number;
  /** From 1. */
  line(at: number): number;
}

export function positionsIn(text: string): Positions {
  const pairs = placesOf(text, isPair);
  let lines: Uint32Array | null = null;
  return {
    codePoint: (at) => at - firstNotBelow(pairs, at),
    place: (codePoints) => codePoints + pairsBefore(pairs, codePoints),
    line: (at) => {
      lines ??= placesOf(text, isLineEnd);
      return 1 + firstNotBelow(lines, at);
    },
  };
}

/** How many pairs stand before so many code points: each is one of them, and there may be millions. */
function pairsBefore(pairs: Uint32Array, codePoints: number): number {
  let [low, high] = [0, pairs.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pairs[middle] ?? 0) - middle < codePoints) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How long a text is without surrogate pairs counted twice. */
export function codePointsOf(text: string): number {
  return text.length - countOf(text, isPair);
}

type Sign = (text: string, at: number) => boolean;

function isPair(text: string, at: number): boolean {
  const isHigh = (text.charCodeAt(at) & 0xfc00) === 0xd800;
  return isHigh && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
}

function isLineEnd(text: string, at: number): boolean {
  return text.charCodeAt(at) === 0x0a;
}

/** By hand: an expression makes an object of each place, and a text may have millions of them. */
function placesOf(text: string, sign: Sign): Uint32Array {
  const places = new Uint32Array(countOf(text, sign));
  for (let at = 0, found = 0; found < places.length; at += 1) {
    if (!sign(text, at)) continue;
    places[found] = at;
    found += 1;
  }
  return places;
}

function countOf(text: string, sign: Sign): number {
  let count = 0;
  for (let at = 0; at < text.length; at += 1) if (sign(text, at)) count += 1;
  return count;
}
