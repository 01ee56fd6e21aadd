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
  const pairs = placesOf(text, /[\ud800-\udbff][\udc00-\udfff]/g);
  const lines = placesOf(text, /\n/g);
  return {
    codePoint: (at) => at - firstNotBelow(pairs, at),
    place: (codePoints) => {
      const points = pairs.map((at, before) => at - before);
      return codePoints + firstNotBelow(points, codePoints);
    },
    line: (at) => 1 + firstNotBelow(lines, at),
  };
}

function placesOf(text: string, pattern: RegExp): Uint32Array {
  return Uint32Array.from(text.matchAll(pattern), ({ index }) => index);
}
