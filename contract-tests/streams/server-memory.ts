/** What a server holds in memory, by its own metrics, once it has collected what it does not hold. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Live } from '../live.ts';

/** Variables of a server whose memory is to be measured. */
export const collectingWhenTold = {
  NODE_OPTIONS: `--expose-gc --import=${new URL('collect-when-told.ts', import.meta.url).href}`,
};

/** In bytes: the least of some readings, each behind a collection. */
export async function memoryOf(live: Live): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < 5; reading += 1) {
    process.kill(live.server.pid, 'SIGUSR2');
    const { gauge } = await metricsOf(live);
    least = Math.min(least, gauge('nodejs_heap_size_used_bytes') + gauge('nodejs_external_memory_bytes'));
    await sleep(100);
  }
  return least;
}

export async function metricsOf({ server }: Live) {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  return { gauge: (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]) };
}
