/** Has what nobody holds any more taken away at once, for tests of what is held. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

export const collectGarbage = runInNewContext('gc') as () => void; // exposed in the line before

/** To be asked again until it is not: an answer of yes holds nothing itself, as what is looked at would. */
export function isHeld(held: WeakRef<object>): boolean {
  collectGarbage();
  return held.deref() !== undefined;
}
