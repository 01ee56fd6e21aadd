/** Logging in by a code that the person confirms in a browser, here or elsewhere (RFC 8628). */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceClient } from '@service/client';
import type { DeviceLoginStarted, TokenPair } from '@service/client/api';
import { ConnectionError, ServiceError } from '@service/client/errors';
import { openBrowser } from '../browser.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { notice } from '../output.ts';

/** Shows the code, and waits until it is confirmed. */
export async function logInByCode(client: ServiceClient, origin: string): Promise<TokenPair> {
  const body = { client_name: `service on ${hostname()}`.slice(0, 100) };
  const { data: started } = await client
    .POST('/api/v1/auth/device/code', { body })
    .catch((error: unknown) => {
      throw isUnknownThere(error) ? noCodes(origin) : error;
    });
  const page = pageOf(started, origin);
  openBrowser(page);
  notice(`Open this page, log in, and confirm the code ${started.user_code}:\n${page}`);
  return await confirmed(client, started);
}

async function confirmed(client: ServiceClient, started: DeviceLoginStarted): Promise<TokenPair> {
  const body = { device_code: started.device_code };
  const until = performance.now() + started.expires_in * 1000;
  let passing: unknown = null;
  for (let seconds = started.interval, pause = seconds; performance.now() < until; ) {
    await sleep(Math.min(pause * 1000, until - performance.now()));
    try {
      return (await client.POST('/api/v1/auth/device/token', { body })).data;
    } catch (error) {
      passing = passes(error) ? error : null;
      // The person is still in the browser: the longer it lasts, the more rarely it is tried (RFC 8628, 3.5).
      if (passing !== null) {
        pause = Math.min(pause * 2, Math.max(longestPauseSeconds, seconds));
        continue;
      }
      const code = error instanceof ServiceError ? error.code : null;
      if (code === 'access_denied')
        throw new CommandFailure('The login was refused in the browser.', exitCodes.unreachable);
      if (code === 'expired_token') break;
      if (code === 'slow_down') seconds += 5;
      else if (code !== 'authorization_pending') throw error;
      pause = seconds;
    }
  }
  if (passing !== null) throw passing;
  throw new CommandFailure('Nobody confirmed the code in time; begin again.', exitCodes.unreachable);
}

/** Somebody has confirmed meanwhile, and waits for the command. */
const longestPauseSeconds = 30;

/** Whether the next attempt may find the server, or the way to it, well again. */
function passes(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  return error instanceof ServiceError && (error.status === 429 || error.status >= 500);
}

/** A server that nobody told its address calls itself as it listens: the person knows it better. */
function pageOf({ verification_uri_complete }: DeviceLoginStarted, origin: string): string {
  const page = new URL(verification_uri_complete);
  if (isHere(page.hostname) && !isHere(new URL(origin).hostname)) {
    const { pathname, search } = page;
    return new URL(pathname + search, origin).href;
  }
  return page.href;
}

function isHere(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || host.startsWith('127.');
}

function isUnknownThere(error: unknown): boolean {
  return error instanceof ServiceError && error.status === 404;
}

function noCodes(origin: string): CommandFailure {
  return new CommandFailure(
    `${origin} knows no logins by code. Use your password: service login ${origin} --password`,
    exitCodes.failed,
  );
}
