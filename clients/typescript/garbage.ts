/** For tests of what is held, and of what must be: garbage is collected when they say so. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Several times: what one collection finds to be free, another one frees. */
export async function collectGarbage(): Promise<void> {
  for (let time = 0; time < 10; time += 1) {
    collect();
    await sleep(20);
  }
}
