/** Remembers what a look at many files gave, for as long as none of them has changed. */
import { realpathSync } from 'node:fs';
import { stampOf } from './presence.ts';

/** Some file systems count time in steps as long as this: a file may change twice with one time to show for it. */
const coarseMs = 50;
/** Paths that remembered looks depend on; the look that was not asked for the longest is forgotten first. */
const mostPaths = 100_000;

interface Remembered<Found> {
  readonly found: Found;
  readonly realTop: string;
  readonly stamps: ReadonlyMap<string, string>;
}

/**
 * `look` names every path that its outcome depends on, those that were not there among them. A folder counts with its
 * list of names; what lies in it only if it is named itself.
 */
export function rememberLooks<Found>(
  most: number = mostPaths,
): (key: string, top: string, look: (dependsOn: (path: string) => void) => Promise<Found>) => Promise<Found> {
  const known = new Map<string, Remembered<Found>>();
  let paths = 0;
  const forget = (key: string) => {
    paths -= known.get(key)?.stamps.size ?? 0;
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
    known.set(key, { found, realTop, stamps });
    paths += stamps.size;
    for (const oldest of known.keys()) {
      if (paths <= most) break;
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
