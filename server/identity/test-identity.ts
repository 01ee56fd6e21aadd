/** A real store in a temporary folder with an identity over it, and a clock that the test turns. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { createLog } from '../log.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { openStore, type Store } from '../store/store.ts';
import { createIdentity, type Identity, type IdentityOptions } from './identity.ts';

export interface TestIdentity {
  readonly identity: Identity;
  readonly store: Store;
  readonly clock: { now(): Date; turn(milliseconds: number): void };
  readonly masterKey: Buffer;
  /** The folder of the database. */
  readonly folder: string;
  /** Another server process over the same database. */
  another(options?: Partial<IdentityOptions>): Promise<Identity>;
}

/** Gone when the test ends. */
export async function testIdentity(options: Partial<IdentityOptions> = {}): Promise<TestIdentity> {
  const folder = await mkdtemp(join(tmpdir(), 'service-identity-'));
  const clock = turnableClock();
  const log = createLog('silent');
  const masterKey = randomBytes(32);
  const store = await openStore(`sqlite:${join(folder, 'service.db')}`, { clock, log });
  const another = (others: Partial<IdentityOptions> = {}) =>
    createIdentity({
      ...{ records: store, masterKey, registration: 'open', clock, elapsed: () => 0, log },
      ...{ baseUrl: () => 'http://127.0.0.1:8090', outbound: createOutbound({ shared: () => false }) },
      ...options,
      ...others,
    });
  const identity = await another();
  onTestFinished(async () => {
    await identity.settled();
    await store.close();
    await rm(folder, { recursive: true });
  });
  return { identity, store, clock, masterKey, folder, another };
}

export const ada = { email: 'ada@example.com', password: 'correct-horse-battery', name: 'Ada' };
export const grace = { email: 'grace@example.com', password: 'another-horse-battery', name: 'Grace' };

/**
 * It stands still until then: else a second, or a step of thirty, may be over between two looks that mean the same one. So
 * no time may pass beside it either: the identity keeps whichever has gone further.
 */
function turnableClock() {
  let now = Date.now();
  return {
    now: () => new Date(now),
    turn(milliseconds: number) {
      now += milliseconds;
    },
  };
}
