/** Passwords: argon2id with the cost that OWASP asks for, and the same work for an account that does not exist. */
import { hash, verify } from '@node-rs/argon2';
import { createLane } from './hashing-lane.ts';

/** OWASP's password storage cheat sheet, the m=19 MiB row; the library's default algorithm is argon2id. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32 };

/** The contract allows no more; it holds here too, so that nobody buys hashing time with a megabyte. */
const longestPassword = 1024;

/**
 * Hashes are made on the four threads that files and names of hosts are looked up on too: one thread always stays free.
 * Anybody may ask for a new account, so they wait apart from those who have one and log in.
 */
const newOnes = createLane({ atOnce: 1, mostWaiting: 500 });
const checks = createLane({ atOnce: 2, mostWaiting: 500 });

/** What waits for a thread, of passwords that are set and of those that are checked. */
export const passwordQueues = { settings: newOnes.queue, checks: checks.queue };

/** The hash of a random secret that nobody kept: what a password is held against when there is no account. */
const hashOfNobody =
  '$argon2id$v=19$m=19456,t=2,p=1$lXDWaWhtl40g78YDnJb8cQ$lbCMyAxWVLb9Z8kcS29fFQPXt9MKzFdttQKRl3YcirE';

/** The hash to store, with its salt and its cost inside. Throws `overloaded`. */
export async function hashPassword(password: string): Promise<string> {
  if (isTooLong(password)) throw new RangeError(`A password may have at most ${longestPassword} characters.`);
  return newOnes.enter(() => hash(normalised(password), cost));
}

/** Whether this is the account's password. Null, for an unknown account, takes as long and is never true. Throws `overloaded`. */
export async function verifyPassword(stored: string | null, password: string): Promise<boolean> {
  if (isTooLong(password)) return false;
  const matches = await checks.enter(() => verify(stored ?? hashOfNobody, normalised(password)));
  return matches && stored !== null;
}

function isTooLong(password: string): boolean {
  return password.length > 2 * longestPassword;
}

/** One person's é is one code point, another keyboard's is two (RFC 8265 §4.2.2). */
function normalised(password: string): string {
  return password.normalize('NFC');
}
