/** Looks at files that are seldom there. */
import { lstatSync, realpathSync, statSync } from 'node:fs';

/**
 * Whether there is anything at a path, be it readable or not. At each step of a run some fifty paths are looked at of
 * which few exist: asked asynchronously, each costs a thread, a promise and an error with its stack, forty times the
 * look itself.
 */
export function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Whoever reads it says what is wrong with it.
    return true;
  }
}

/** What changes whenever something else is found at the path, and when it was last changed; an empty text for nothing. */
export interface Stamp {
  readonly text: string;
  readonly changedAtMs: number;
}

/** Of a link both it and what it leads to count, and where that is. */
export function stampOf(path: string): Stamp {
  try {
    const itself = lstatSync(path, { bigint: true });
    const isLink = itself.isSymbolicLink();
    const { dev, ino, size, mtimeNs, ctimeNs } = isLink ? statSync(path, { bigint: true }) : itself;
    const place = isLink ? realpathSync.native(path) : '';
    return {
      text: [place, itself.ino, dev, ino, size, mtimeNs, ctimeNs].join(':'),
      changedAtMs: Number(ctimeNs / 1_000_000n),
    };
  } catch {
    return { text: '', changedAtMs: 0 };
  }
}
