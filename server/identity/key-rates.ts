/** Holds API keys to the requests that they may make in a minute, on all nodes together. */
import { Problem } from '../problem.ts';
import type { Counters } from './records.ts';

const seconds = 60;

/** Counts a request. Throws `rate_limited` where the key has made as many as it may. */
export async function countRequest(counters: Counters, keyId: string, limit: number): Promise<void> {
  const left = await counters.counter({ name: 'api_key', most: limit, seconds, relaxed: true }).count(keyId);
  if (left.allowed) return;
  const wait = Math.max(1, Math.ceil(left.resetMs / 1000));
  throw new Problem(
    'rate_limited',
    `This API key may make ${limit} requests a minute; try again in ${wait} seconds.`,
    { headers: { 'Retry-After': String(wait) } },
  );
}
