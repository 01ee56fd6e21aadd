/** Remembers what a look at many files gave, for as long as none of them has changed. */
import { realpathSync } from 'node:fs';
import { stampOf } from './presence.ts';

/** Some file systems count time in steps as long as this: a file may change twice with one time to show for it. */
const coarseMs = 50;
/** How much is remembered in all; the look that was not asked for the longest is forgotten first. */
interface Bounds {
  /** Paths that looks depend on. */
  readonly paths: number;
  /** Characters that they have found. */
  readonly characters: number;
}

const usual: Bounds = { paths: 100_000, characters: 64 * 1024 * 1024 };

interface Remembered<Found> {
  readonly found: Found;
  readonly characters: number;
  readonly realTop: string;
  readonly stamps: ReadonlyMap<string, string>;
}

/**
 * `look` names every path that its outcome depends on, those that were not there among them. A folder counts with its
 * list of names; what lies in it only if it is named itself. `lengthOf` tells how many characters an outcome holds.
 */
export function rememberLooks<Found>(
  lengthOf: (found: Found) => number,
  bounds: Partial<Bounds> = {},
): (key: string, top: string, look: (dependsOn: (path: string) => void) => Promise<Found>) => Promise<Found> {
  const known = new Map<string, Remembered<Found>>();
  const most = { ...usual, ...bounds };
  let paths = 0;
  let characters = 0;
  const forget = (key: string) => {
    const former = known.get(key);
    paths -= former?.stamps.size ?? 0;
    characters -= former?.characters ?? 0;
    known.delete(key);
  };
  return async (key, top, look) => {
    const before = known.get(key);
    if (before && isUnchanged(before, top)) {
      known.delete(key);
      known.set(key, before);
      return before.found;
    }
    const startedAt = Date.now();
    const realTop = realOrNothing(top);
    const stamps = new Map<string, string>();
    let latest = 0;
    // Taken before the path is read: what changes meanwhile is noticed the next time.
    const found = await look((path) => {
      const { text, changedAtMs } = stampOf(path);
      stamps.set(path, text);
      latest = Math.max(latest, changedAtMs);
    });
    forget(key);
    if (latest >= startedAt - coarseMs) return found;
    const length = lengthOf(found);
    known.set(key, { found, characters: length, realTop, stamps });
    paths += stamps.size;
    characters += length;
    for (const oldest of known.keys()) {
      if (paths <= most.paths && characters <= most.characters) break;
      forget(oldest);
    }
    return found;
  };
}

/** Of the top the way to it counts too; below it, a folder that gets another name changes the one above. */
function isUnchanged({ realTop, stamps }: Remembered<unknown>, top: string): boolean {
  if (realOrNothing(top) !== realTop) return false;
  for (const [path, stamp] of stamps) if (stampOf(path).text !== stamp) return false;
  return true;
}

function realOrNothing(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return '';
  }
}
