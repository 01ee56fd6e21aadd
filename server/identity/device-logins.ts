/** Device logins (RFC 8628): a program shows a code, a person who is logged in confirms it, and the program is let in. */
import { randomInt } from 'node:crypto';
import { placeOf } from '../address-place.ts';
import type { Clock } from '../clock.ts';
import type { DeviceLogin, DeviceLoginStarted, TokenPair } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { Logins } from './logins.ts';
import { hashOf, newDeviceCode } from './opaque-tokens.ts';
import type { Principal } from './principal.ts';
import type { DeviceLoginRecords, OpenDeviceLogin, Origin } from './records.ts';

export interface DeviceLogins {
  start(clientName: string | undefined, origin: Origin): Promise<DeviceLoginStarted>;
  /** Throws `authorization_pending`, `slow_down`, `access_denied` or `expired_token` until a person has confirmed. */
  poll(deviceCode: string, origin: Origin): Promise<TokenPair>;
  /** Throws `not_found`, and `too_many_attempts` for who tries codes. */
  find(principal: Principal, userCode: string): Promise<DeviceLogin>;
  /** Throws as `find`, and `already_answered`. */
  reply(principal: Principal, userCode: string, decision: 'allow' | 'deny'): Promise<void>;
}

const expirySeconds = 600;
const intervalSeconds = 5;
/** So many may wait at one place: whoever begins more than people can confirm wants something else. */
const mostOpen = 20;
/** Codes that collide are rare while few are open. */
const mostTries = 5;

export function createDeviceLogins(
  records: DeviceLoginRecords,
  { logins, clock, baseUrl }: { logins: Logins; clock: Clock; baseUrl: () => string },
): DeviceLogins {
  async function open(device: Omit<OpenDeviceLogin, 'userCode'>): Promise<string> {
    for (let tried = 0; tried < mostTries; tried += 1) {
      const userCode = newUserCode();
      const outcome = await records.open({ ...device, userCode }, mostOpen, clock.now());
      if (outcome === 'opened') return userCode;
      if (outcome === 'too_many')
        throw tooMany(intervalSeconds * 12, 'devices wait for their confirmation here');
    }
    throw new Error('No free user code was found.');
  }

  return {
    async start(clientName, origin) {
      const { secret, hash } = newDeviceCode();
      const userCode = await open({
        deviceHash: hash,
        clientName: clientName ?? null,
        address: origin.address,
        place: placeOf(origin.address),
        intervalSeconds,
        expiresAt: new Date(clock.now().getTime() + expirySeconds * 1000),
      });
      const page = new URL('/device', baseUrl());
      const complete = new URL(page);
      complete.searchParams.set('user_code', userCode);
      return {
        device_code: secret,
        user_code: userCode,
        verification_uri: page.href,
        verification_uri_complete: complete.href,
        expires_in: expirySeconds,
        interval: intervalSeconds,
      };
    },
    async poll(deviceCode, origin) {
      const deviceHash = hashOf(deviceCode);
      const outcome = await records.poll(deviceHash, clock.now());
      if (typeof outcome === 'string') throw notYet(outcome);
      const device = outcome.clientName ?? origin.userAgent ?? null;
      const pair = await logins.startUnchanged(outcome, { method: 'device', device, origin, deviceHash });
      if (!pair) throw notYet('expired_token');
      return pair;
    },
    async find(principal, userCode) {
      const found = await records.find(principal, normalised(userCode), clock.now());
      if (found === null) throw unknownCode();
      if ('waitSeconds' in found) throw tooMany(found.waitSeconds, 'codes were tried that no device has');
      return found;
    },
    async reply(principal, userCode, decision) {
      const outcome = await records.reply(principal, normalised(userCode), decision, clock.now());
      if (outcome === null) throw unknownCode();
      if (outcome === 'answered')
        throw new Problem('already_answered', 'This code was answered before; the first reply stands.');
      if (outcome !== 'replied') throw tooMany(outcome.waitSeconds, 'codes were tried that no device has');
    },
  };
}

/** Letters that are neither vowels, so that no word comes out, nor taken for one another (RFC 8628, 6.1). */
const letters = 'BCDFGHJKLMNPQRSTVWXZ';

function newUserCode(): string {
  const half = () => Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('');
  return `${half()}-${half()}`;
}

/** As people type it. */
function normalised(userCode: string): string {
  const typed = userCode.toUpperCase().replaceAll(/[ -]/g, '');
  return `${typed.slice(0, 4)}-${typed.slice(4)}`;
}

function notYet(code: 'authorization_pending' | 'slow_down' | 'access_denied' | 'expired_token'): Problem {
  const sentences = {
    authorization_pending: 'Nobody has confirmed the code yet; ask again after the interval.',
    slow_down: 'You ask too often; wait five seconds longer from now on.',
    access_denied: 'The person has refused this device.',
    expired_token: 'The device code is unknown, used or expired; begin the login again.',
  };
  return new Problem(code, sentences[code]);
}

function unknownCode(): Problem {
  return new Problem(
    'not_found',
    'No device waits with this code; look at it again, or begin the login anew.',
  );
}

function tooMany(seconds: number, what: string): Problem {
  return new Problem('too_many_attempts', `Too many ${what}; try again in ${seconds} seconds.`, {
    headers: { 'Retry-After': String(seconds) },
  });
}
