/** How often somebody may call: counted by the class of the operation, as the route table says. */
import { placeOf } from '../address-place.ts';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import { type Exchange, originOf } from './exchange.ts';
import type { Caller, Ports } from './ports.ts';

/**
 * Counts the request for its caller, whichever credential they use, or for its place where nobody needs to say who
 * they are. Every answer tells what is left. Throws `rate_limited`.
 */
export async function limitRate(
  exchange: Exchange,
  route: Route,
  caller: Caller | null,
  { settings, counters }: Pick<Ports, 'settings' | 'counters'>,
): Promise<void> {
  const { rateClass } = route;
  const allowed = rateClass === 'none' ? undefined : settings.rateLimits[rateClass];
  if (!allowed) return;
  const key = caller?.userId ?? placeOf(originOf(exchange).address);
  const { requests: most, seconds: within } = allowed;
  const limit = { name: `class_${rateClass}`, most, seconds: within, relaxed: true } as const;
  const left = await counters.counter(limit).count(key);
  const seconds = Math.ceil(left.resetMs / 1000);
  const { response } = exchange;
  response.setHeader('RateLimit-Policy', `"${rateClass}";q=${allowed.requests};w=${allowed.seconds}`);
  response.setHeader('RateLimit', `"${rateClass}";r=${left.remaining};t=${seconds}`);
  if (left.allowed) return;
  throw new Problem(
    'rate_limited',
    `More than ${allowed.requests} requests of the class ${rateClass} came in ${allowed.seconds} seconds; try again in ${seconds} seconds.`,
    { headers: { 'Retry-After': String(Math.max(1, seconds)) } },
  );
}
