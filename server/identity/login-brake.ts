/** The brake on guessing: for each account and address, for each address, and for each account from places unknown to it. */
import { placeOf } from '../address-place.ts';
import { type Concern, Problem } from '../problem.ts';
import type { Counter, Counters, LoginAddressRecords } from './records.ts';

export interface LoginBrake {
  /** Counts an attempt to log in, or throws `too_many_attempts`. An unknown account is braked like any other. */
  begin(email: string, address: string | null): Promise<LoginAttempt>;
  /** Whoever is in: their address is known from now on, and they begin anew. */
  welcome(user: Account, address: string | null): Promise<void>;
  /** The same for who has set a new password: what others tried with the old one counts no more. */
  restart(user: Account, address: string | null): Promise<void>;
  /** Counts an attempt of another kind; `forget` once it was right. */
  guard(kind: Guess, key: string): Promise<Guarded>;
  /** Whether one more may be, without a word to the caller. */
  quietly(kind: 'forgot_account', key: string): Promise<boolean>;
  /** Whether a person may cause one more letter to an address, which may never have heard of this server. */
  letter(from: Pick<Account, 'id'>, to: string): Promise<boolean>;
}

type Guess = 'password' | 'otp' | 'forgot_address' | 'reset_link' | 'registration_token';

interface Account {
  readonly id: string;
  readonly email: string;
}

/** An attempt that was counted, and counts as a failure until somebody says otherwise. */
export interface LoginAttempt {
  /** The password was right, or nobody said whether it was. */
  takeBack(): Promise<void>;
}

export interface Guarded {
  forget(): Promise<void>;
  takeBack(): Promise<void>;
}

/** The time in which attempts are counted. */
const windowSeconds = 15 * 60;
const dayMs = 86_400_000;
/** How many times as much one address may try on all accounts, and all strangers on one account. */
const manyTimes = 10;
const linksAnHour = 3;
/** To one address, whoever causes them, and by one person. */
const [lettersToOne, lettersOfOne, daySeconds] = [5, 200, 24 * 3600];

const free: Guarded = { takeBack: async () => undefined, forget: async () => undefined };

/**
 * Whoever comes from an address that the account has logged in from is counted apart from everybody else, so that
 * nobody keeps the owner out from elsewhere. `most` is what one address may try on one account; 0 brakes nothing.
 */
export function createLoginBrake(
  counters: Counters,
  addresses: LoginAddressRecords,
  most: number,
): LoginBrake {
  const counter = (name: string, most: number, seconds = windowSeconds) =>
    counters.counter({ name, most: Math.max(most, 1), seconds });
  const known = counter('login_known', most);
  const pair = counter('login_pair', most);
  const perAddress = counter('login_address', most * manyTimes);
  const perAccount = counter('login_account', most * manyTimes);
  const letters = {
    to: counter('letters_to', lettersToOne, daySeconds),
    of: counter('letters_of', lettersOfOne, daySeconds),
  };
  const others = {
    password: counter('password', most),
    otp: counter('otp', most),
    reset_link: counter('reset_link', most * manyTimes),
    registration_token: counter('registration_token', most * manyTimes),
    forgot_address: counter('forgot_address', most * 2, 3600),
    forgot_account: counter('forgot_account', linksAnHour, 3600),
  };

  /** Those that an attempt is counted by: the narrow ones first, so that a closed one spares the wide ones. */
  async function countersOf(email: string, place: string): Promise<[Counter, string][]> {
    const both = `${email}\n${place}`;
    if (await addresses.isKnown(email, place)) return [[known, both]];
    return [
      [pair, both],
      [perAddress, place],
      [perAccount, email],
    ];
  }

  async function welcome({ id, email }: Account, address: string | null): Promise<void> {
    if (most === 0) return;
    const place = placeOf(address);
    // Kept for so long after the last login from there, and noted once a day.
    if (!(await addresses.isKnown(email, place, dayMs))) await addresses.remember(id, place);
    for (const one of [known, pair]) await one.forget(`${email}\n${place}`);
  }

  return {
    welcome,
    async restart(user, address) {
      if (most === 0) return;
      await perAccount.forget(user.email);
      for (const one of [others.otp, others.password]) await one.forget(user.id);
      await welcome(user, address);
    },
    async begin(email, address) {
      if (most === 0) return free;
      const counted = await countersOf(email, placeOf(address));
      // Looked at first: what is refused anyway must not fill the memory with names that somebody made up.
      const aim = { type: 'email', id: email };
      for (const [one, key] of counted) refuse(await one.look(key), aim);
      for (const [one, key] of counted) refuse(await one.count(key), aim);
      return {
        async takeBack() {
          for (const [one, key] of counted) await one.giveBack(key);
        },
      };
    },
    async guard(kind, key) {
      if (most === 0) return free;
      refuse(await others[kind].count(key));
      return { forget: () => others[kind].forget(key), takeBack: () => others[kind].giveBack(key) };
    },
    letter: async (from, to) =>
      most === 0 || ((await letters.of.count(from.id)).allowed && (await letters.to.count(to)).allowed),
    quietly: async (kind, key) => most === 0 || (await others[kind].count(key)).allowed,
  };
}

/**
 * What the server cannot do just now tells nobody whether a guess was right: it is none, and whoever tries again as they
 * are told is not braked for it.
 */
export async function answered<T>(attempt: LoginAttempt, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isAnswer = error instanceof Problem && error.status < 500;
    // Where the database is away, this fails as well: the caller hears of the first failure.
    if (!isAnswer) await attempt.takeBack().catch(() => undefined);
    throw error;
  }
}

function refuse({ allowed, resetMs }: Awaited<ReturnType<Counter['count']>>, concerns?: Concern): void {
  if (allowed) return;
  const seconds = String(Math.max(1, Math.ceil(resetMs / 1000)));
  throw new Problem(
    'too_many_attempts',
    `Too many attempts failed; try again in ${seconds} seconds, or ask for a new password.`,
    { headers: { 'Retry-After': seconds }, concerns },
  );
}
