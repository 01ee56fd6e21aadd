/** The credential for a remote server: from the environment, or from the login that is kept here. */
import { createServiceClient } from '@service/client';
import type { TokenPair } from '@service/client/api';
import { ConnectionError, ServiceError } from '@service/client/errors';
import { CommandFailure, exitCodes } from '../failures.ts';
import { holdInterrupts } from '../interrupts.ts';
import { isTerminal, notice } from '../output.ts';
import { currentPlaces } from '../places.ts';
import { type Login, type Logins, openLogins } from './logins.ts';
import { serverOrigin } from './server-address.ts';

/** Where requests go, and what is asked for the credential of each. */
export interface Credentials {
  readonly origin: string;
  readonly token: () => Promise<string>;
  /** The credential in place of a token that the server calls expired; null where there is no other one. */
  readonly tokenInsteadOf: (expired: string) => Promise<string | null>;
  /** Whether the login is over and another one not there yet, for a reason other than that nobody reaches the server. */
  readonly awaitsLogin: () => boolean;
}

/** An access token is renewed so long before its end that no request meets it. */
const marginMs = 30_000;
/** Less than others wait for the lock. */
const refreshLimitMs = 8000;

/**
 * SERVICE_API_KEY goes before the login: whoever sets it for a command means it. Beside a SERVICE_SERVER it is for that
 * one, and goes to no other that a command names.
 */
export async function credentialsFor(address: string, environment: NodeJS.ProcessEnv): Promise<Credentials> {
  const origin = serverOrigin(address);
  const key = environment.SERVICE_API_KEY?.trim();
  const { SERVICE_SERVER: ofKey } = environment;
  const isForAnother = Boolean(key && ofKey && serverOrigin(ofKey) !== origin);
  if (key && !isForAnother) {
    assertKey(key, 'SERVICE_API_KEY');
    return { origin, token: async () => key, tokenInsteadOf: async () => null, awaitsLogin: () => false };
  }
  const logins = openLogins((await currentPlaces()).dataHome);
  const kept = await logins.find(origin);
  if (!kept) throw isForAnother ? keyForAnother(origin) : notLoggedIn(origin);
  let login = kept;
  let awaitsLogin = false;
  const renewed = async (isGood: (login: Login) => boolean): Promise<string> => {
    awaitsLogin = true;
    try {
      login = await renew(logins, origin, isGood);
      awaitsLogin = false;
      return tokenOf(login);
    } catch (error) {
      awaitsLogin = error instanceof NotRenewed || !(error instanceof ConnectionError);
      throw error;
    }
  };
  return {
    origin,
    token: async () => (isFresh(login) ? tokenOf(login) : await renewed(isFresh)),
    async tokenInsteadOf(expired) {
      if (login.kind === 'api_key') return null;
      try {
        // This clock was another one when the login was kept, or the server's was.
        return await renewed((one) => isFresh(one) && tokenOf(one) !== expired);
      } catch (error) {
        if (error instanceof NoLogin) return null;
        throw error;
      }
    },
    awaitsLogin: () => awaitsLogin,
  };
}

/** The login of an answer of the service. */
export function loginOf({ user, access_token, refresh_token, expires_in }: TokenPair): Login {
  return {
    kind: 'login',
    email: user.email,
    access_token,
    refresh_token,
    expires_at: new Date(Date.now() + expires_in * 1000).toISOString(),
  };
}

/** Throws for what cannot be an API key, before it is sent anywhere. The message never shows it. */
export function assertKey(key: string, from: string): void {
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new CommandFailure(
      `${from} holds no API key: those are one word and begin with sk-.`,
      exitCodes.usage,
    );
}

/** A refresh token is good for one use: of several processes one renews the login, and the others take what it got. */
async function renew(logins: Logins, origin: string, isGood: (login: Login) => boolean): Promise<Login> {
  return await logins
    .locked(() => renewAlone(logins, origin, isGood))
    .catch((error: unknown) => {
      // It is known by its name: its class stays within the settings.
      if (!(error instanceof Error) || error.name !== 'LockError') throw error;
      throw new NotRenewed(
        `The login to ${origin} could not be renewed. ${error.message}. If no other service command is at work, remove that file.`,
        error,
      );
    });
}

async function renewAlone(logins: Logins, origin: string, isGood: (login: Login) => boolean): Promise<Login> {
  const kept = await logins.find(origin);
  if (!kept) throw notLoggedIn(origin);
  if (kept.kind === 'api_key' || isGood(kept)) return kept;
  const { refresh_token: spent } = kept;
  // Whoever is cut off in between has a login that the server takes for stolen.
  return await holdInterrupts(
    async (came) => {
      const next = loginOf(await refresh(origin, spent));
      await logins.keep(origin, next, came);
      return next;
    },
    () => sayThatItWaits(origin),
  );
}

function sayThatItWaits(origin: string): void {
  // What is typed stands on the line, and perhaps what was going on.
  if (isTerminal(process.stderr)) process.stderr.write('\n');
  notice(`The login to ${origin} is being renewed: the command ends as soon as that is done.`);
}

async function refresh(baseUrl: string, refresh_token: string): Promise<TokenPair> {
  const client = createServiceClient({ baseUrl });
  const signal = AbortSignal.timeout(refreshLimitMs);
  try {
    return (await client.POST('/api/v1/auth/refresh', { body: { refresh_token }, signal })).data;
  } catch (error) {
    if (signal.aborted)
      throw new NotRenewed(
        `${baseUrl} did not renew the login within ${refreshLimitMs / 1000} s. Is the server well there? Try again.`,
        error,
      );
    if (!(error instanceof ServiceError) || error.status !== 401) throw error;
    throw new NoLogin(`The login to ${baseUrl} has ended. Log in again: service login ${baseUrl}`);
  }
}

function isFresh(login: Login): boolean {
  return login.kind === 'api_key' || Date.parse(login.expires_at) - Date.now() > marginMs;
}

function tokenOf(login: Login): string {
  return login.kind === 'api_key' ? login.key : login.access_token;
}

function keyForAnother(origin: string): CommandFailure {
  return new CommandFailure(
    `There is no login to ${origin}, and SERVICE_API_KEY is for the server of SERVICE_SERVER. Log in: service login ${origin}, or set both for ${origin}.`,
    exitCodes.unreachable,
  );
}

function notLoggedIn(origin: string): NoLogin {
  return new NoLogin(
    `There is no login to ${origin}. Log in: service login ${origin}, or set SERVICE_API_KEY.`,
  );
}

/** What may go better at the next attempt, and is not the way to the server. */
class NotRenewed extends ConnectionError {}

/** Only a person can make another one: no further attempt finds it. */
class NoLogin extends CommandFailure {
  constructor(message: string) {
    super(message, exitCodes.unreachable);
  }
}
