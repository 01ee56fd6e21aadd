/** `service login` and `service logout`: whom remote servers take this person for. */

import { createServiceClient, type ServiceClient } from '@service/client';
import type { LoginRequest } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { askLine } from '../ask.ts';
import { connectTo } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { assertKey, loginOf } from '../logins/credentials.ts';
import { logInByCode } from '../logins/device-login.ts';
import { sayWhatIsLeft } from '../logins/left-in-keyring.ts';
import { type Login, type Logins, openLogins } from '../logins/logins.ts';
import { serverOrigin } from '../logins/server-address.ts';
import { displayPath, notice, print, printable } from '../output.ts';
import { currentPlaces } from '../places.ts';
import { isTyped, secretsOf } from '../secrets.ts';
import { failureOf } from '../service-failures.ts';

/** How to log in. */
export interface LoginWishes {
  readonly email?: string;
  /** Takes e-mail address and password instead of a code; so does an e-mail address. */
  readonly password?: boolean;
  /** Takes an API key instead. */
  readonly apiKey?: boolean;
}

/** Proves to the server who it is, and keeps what the server gives for it. Secrets come from the terminal or standard input. */
export async function login(
  given: string | undefined,
  wishes: LoginWishes & { readonly server?: string },
): Promise<void> {
  const origin = serverOrigin(theServer(given, wishes.server));
  const logins = openLogins((await currentPlaces()).dataHome);
  // What could not be kept must not be asked for.
  await logins.prepare();
  const { login, name } = await proofOf(origin, wishes).catch((error: unknown) => {
    throw failureOf(error);
  });
  const kept = await logins.locked(() => logins.keep(origin, login));
  print(`Logged in to ${origin} as ${printable(name)}`);
  notice(
    kept === 'keyring'
      ? 'The login is kept in the keyring of the system.'
      : `The login is kept in ${displayPath(logins.file, process.stderr)}, which only you can read: there is no keyring here.`,
  );
}

/** Ends the login at the server, and removes it here whatever the server and the keyring say. */
export async function logout(given: string | undefined, wishes: { readonly server?: string }): Promise<void> {
  const logins = openLogins((await currentPlaces()).dataHome);
  const server = theOneNamed(given, wishes.server);
  const origin = server === undefined ? await theOnly(logins) : serverOrigin(server);
  if (!(await logins.origins()).includes(origin)) throw new CommandFailure(`There is no login to ${origin}.`);
  await endAt(origin, logins);
  const removed = await logins.locked(() => logins.remove(origin));
  print(`Logged out from ${origin}`);
  if (removed === 'left_in_keyring') sayWhatIsLeft(origin, origin);
}

interface Proved {
  readonly login: Login;
  /** Whom the server takes us for. */
  readonly name: string;
}

function theServer(given: string | undefined, option: string | undefined): string {
  const server = theOneNamed(given, option);
  if (server !== undefined) return server;
  throw new CommandFailure('Name the server: service login https://service.example.com', exitCodes.usage);
}

/** It may be named either way, or both ways where both are the same. */
function theOneNamed(given: string | undefined, option: string | undefined): string | undefined {
  if (given === undefined || option === undefined || serverOrigin(given) === serverOrigin(option))
    return given ?? option;
  throw new CommandFailure(
    `Two servers are named, ${serverOrigin(given)} and with --server ${serverOrigin(option)}. Name one.`,
    exitCodes.usage,
  );
}

async function proofOf(origin: string, { apiKey, email, password }: LoginWishes): Promise<Proved> {
  if (apiKey) return await withKey(origin);
  if (email !== undefined || password) return await withPassword(origin, email);
  const pair = await logInByCode(clientOf(origin), origin);
  return { login: loginOf(pair), name: pair.user.email };
}

async function withPassword(origin: string, given: string | undefined): Promise<Proved> {
  const email = given ?? (isTyped() ? await askLine('E-mail address: ') : null);
  if (!email) throw new CommandFailure('Name your account with --email.', exitCodes.usage);
  const secrets = secretsOf();
  const account = { email: email.trim(), password: await secrets('Password: ', 'password') };
  const send = (body: LoginRequest) => clientOf(origin).POST('/api/v1/auth/login', { body });
  const { data } = await send(account).catch(async (error: unknown) => {
    if (!(error instanceof ServiceError) || error.code !== 'otp_required') throw error;
    const otp = await secrets('Code of the second factor: ', 'one-time code, which goes on the second line,');
    return await send({ ...account, otp: otp.trim() });
  });
  return { login: loginOf(data), name: data.user.email };
}

async function withKey(origin: string): Promise<Proved> {
  const key = (await secretsOf()('API key: ', 'API key')).trim();
  assertKey(key, 'What was read');
  const client = clientOf(origin, key);
  const name = await client.GET('/api/v1/users/me').then(
    ({ data }) => data.email,
    (error: unknown) => {
      // The key is good, though not for this.
      if (error instanceof ServiceError && error.code === 'scope_required')
        return 'the holder of the API key';
      throw error;
    },
  );
  return { login: { kind: 'api_key', key }, name };
}

function clientOf(baseUrl: string, token?: string): ServiceClient {
  return createServiceClient({ baseUrl, ...(token !== undefined && { token }) });
}

async function endAt(origin: string, logins: Logins): Promise<void> {
  const login = await logins.find(origin).catch((error: unknown) => {
    // It is away, or what it has is damaged.
    if (!(error instanceof CommandFailure)) throw error;
    notice(
      'The server was not asked to end the login: what proves it is in the keyring, and cannot be read.',
    );
    return null;
  });
  if (login === null) return;
  if (login.kind === 'api_key')
    return notice('The API key is forgotten here, and works on: revoke it at the server if nobody uses it.');
  try {
    const { client } = await connectTo(origin, { environment: {} });
    await client.POST('/api/v1/auth/logout', { body: {} });
  } catch (error) {
    const failure = failureOf(error);
    const reason = failure instanceof Error ? failure.message : String(failure);
    notice(`The server did not confirm it: ${reason}`);
  }
}

async function theOnly(logins: Logins): Promise<string> {
  const origins = await logins.origins();
  const [only] = origins;
  if (only && origins.length === 1) return only;
  if (!only) throw new CommandFailure('There is no login.');
  throw new CommandFailure(
    `There are several logins. Name the server:\n${origins.map((one) => `  ${one}`).join('\n')}`,
    exitCodes.usage,
  );
}
