/** Reads how often somebody may call: `read=600/60,run=30/60`, so many requests in so many seconds for each class. */
import { Fault } from './setting-source.ts';

const classes = ['read', 'write', 'run', 'login'] as const;

/** So many requests in so many seconds. */
interface Rate {
  readonly requests: number;
  readonly seconds: number;
}

/** By class of operations, as `x-rate-class` of the contract names them. */
export type RateLimits = { readonly [Class in (typeof classes)[number]]?: Rate };

export function readRateLimits(text: string): RateLimits | Fault {
  const limits: { [Class in (typeof classes)[number]]?: Rate } = {};
  for (const part of text.split(',')) {
    const { name, requests, seconds } =
      /^(?<name>\w+)=(?<requests>[1-9]\d{0,8})\/(?<seconds>[1-9]\d{0,5})$/.exec(part.trim())?.groups ?? {};
    const known = classes.find((one) => one === name);
    if (known === undefined || limits[known])
      return new Fault(
        `must name each of ${classes.join(', ')} at most once, as run=30/60: 30 requests in 60 seconds; ${part.trim() || 'an empty part'} does not.`,
      );
    limits[known] = { requests: Number(requests), seconds: Number(seconds) };
  }
  return limits;
}
