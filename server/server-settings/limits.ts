/** How long things may take, and how many there may be. */
import { type RateLimits, readRateLimits } from './rate-limits.ts';
import type { SettingSource } from './setting-source.ts';
import { seconds, wholeNumber } from './value-forms.ts';

export interface LimitSettings {
  readonly leaseSeconds: number;
  readonly keepaliveSeconds: number;
  readonly stallSeconds: number;
  /** How long a person has to answer what a run asks. */
  readonly answerSeconds: number;
  /** How long a model provider may be silent. */
  readonly providerSilenceSeconds: number;
  /** How long runs at work may go on once the server is told to stop. */
  readonly drainSeconds: number;
  /** How often somebody may call; a class that is not named is not limited. */
  readonly rateLimits: RateLimits;
  /** How long the answers to requests with an Idempotency-Key are kept. */
  readonly idempotencyHours: number;
  readonly streamsPerUser: number;
  readonly streamsTotal: number;
}

export function readLimits(source: SettingSource): LimitSettings {
  return {
    leaseSeconds: source.read({
      variable: 'SERVICE_LEASE_SECONDS',
      flag: 'lease-seconds',
      meaning: 'How long a run stays with a process that gives no sign of life.',
      fallback: 10,
      parse: seconds(1, 3600),
    }),
    keepaliveSeconds: source.read({
      variable: 'SERVICE_KEEPALIVE_SECONDS',
      flag: 'keepalive-seconds',
      meaning: 'How often a stream is given a comment while nothing happens.',
      fallback: 15,
      parse: seconds(0.05, 3600),
    }),
    stallSeconds: source.read({
      variable: 'SERVICE_STALL_SECONDS',
      flag: 'stall-seconds',
      meaning: 'How long the reader of a stream may take nothing before it has to connect again.',
      fallback: 60,
      parse: seconds(0.05, 3600),
    }),
    answerSeconds: source.read({
      variable: 'SERVICE_ANSWER_SECONDS',
      flag: 'answer-seconds',
      meaning: 'How long a person has to answer what a run asks.',
      fallback: 900,
      parse: seconds(0.05, 86_400),
    }),
    providerSilenceSeconds: source.read({
      variable: 'SERVICE_PROVIDER_SILENCE_SECONDS',
      flag: 'provider-silence-seconds',
      meaning: 'How long a model provider may be silent before its answer counts as lost.',
      fallback: 120,
      parse: seconds(0.05, 3600),
    }),
    drainSeconds: source.read({
      variable: 'SERVICE_DRAIN_SECONDS',
      flag: 'drain-seconds',
      meaning: 'How long runs at work may go on once the server is told to stop.',
      fallback: 20,
      parse: seconds(0, 25),
    }),
    rateLimits: source.read<RateLimits>({
      variable: 'SERVICE_RATE_LIMITS',
      flag: 'rate-limits',
      meaning:
        'How many requests one account may send in how many seconds, by class, as read=600/60,write=120/60,run=30/60,login=20/60; a class that is not named is not limited.',
      fallback: {},
      parse: readRateLimits,
    }),
    idempotencyHours: source.read({
      variable: 'SERVICE_IDEMPOTENCY_HOURS',
      flag: 'idempotency-hours',
      meaning: 'How long the answer to a request with an Idempotency-Key is kept.',
      fallback: 24,
      parse: wholeNumber(1, 8760, 24),
    }),
    streamsPerUser: source.read({
      variable: 'SERVICE_STREAMS_PER_USER',
      flag: 'streams-per-user',
      meaning: 'How many streams one account may have open here.',
      fallback: 100,
      parse: wholeNumber(1, 1_000_000, 100),
    }),
    streamsTotal: source.read({
      variable: 'SERVICE_STREAMS_TOTAL',
      flag: 'streams-total',
      meaning: 'How many streams may be open here in all.',
      fallback: 1000,
      parse: wholeNumber(1, 1_000_000, 1000),
    }),
  };
}
