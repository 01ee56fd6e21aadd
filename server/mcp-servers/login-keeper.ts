/** One person's login to one MCP server, sealed in the database: used by every node, renewed by one of them at a time. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { KeptLogins, Sealing } from './stored.ts';

/** A login as the store has it. */
export interface StoredLogin {
  readonly sealed: string;
  /** Why the person has to log in again; null where they need not. */
  readonly fault: string | null;
  readonly revision: number;
}

export interface LoginRecords {
  find(serverId: string, userId: string): Promise<StoredLogin | null>;
  /** True for the one who may renew it, until then. */
  claim(serverId: string, userId: string, until: number): Promise<boolean>;
  /** Keeps what a renewal has brought, unless the person has logged in anew meanwhile. */
  renewed(serverId: string, userId: string, revision: number, sealed: string): Promise<void>;
  /** The claim ends; with a fault nobody need try any more. */
  release(serverId: string, userId: string, revision: number, fault: string | null): Promise<void>;
}

export interface KeeperParts {
  readonly logins: LoginRecords;
  readonly sealing: Sealing;
  /**
   * Does it in no transaction of whoever asks: a refresh token may be good once, and is lost where what it was traded for
   * is taken back.
   */
  readonly apart: <T>(work: () => Promise<T>) => Promise<T>;
  readonly clock: Clock;
  readonly log: Log;
  /** The renewals at work in this process. */
  readonly renewing: Set<Promise<unknown>>;
  readonly takeBack: TakeBack;
}

/** Asks the authorization server to forget a login. */
export type TakeBack = (login: string) => Promise<boolean>;

/** A token belongs to the address that it was given for. */
interface SealedLogin {
  readonly url: string;
  readonly login: string;
}

/** A node that renews has this long; after that another one may, with the same refresh token. */
const claimMs = 120_000;
/** What it asks for is given up so much sooner that no other node can be at it already. */
const holdsMs = 90_000;
const lookAgainMs = 150;
const saveAgainMs = 500;

export function sealLogin(sealing: Sealing, serverId: string, userId: string, login: SealedLogin): string {
  return sealing.seal(Buffer.from(JSON.stringify(login)), rowId(serverId, userId));
}

/** Throws where it cannot be opened with the master key of this server. */
export function openLogin(sealing: Sealing, serverId: string, userId: string, sealed: string): SealedLogin {
  return JSON.parse(sealing.open(sealed, rowId(serverId, userId)).toString()) as SealedLogin; // sealed here
}

/** Whoever wants to be logged out is, whatever becomes of that elsewhere. */
export async function takenBack(
  { takeBack, log }: Pick<KeeperParts, 'takeBack' | 'log'>,
  serverId: string,
  login: () => string,
): Promise<void> {
  try {
    await takeBack(login());
  } catch (error) {
    log.warn({ err: error, mcp_server_id: serverId }, 'a login to an MCP server was not taken back');
  }
}

export function keptLogins(parts: KeeperParts, serverId: string, userId: string): KeptLogins {
  const { logins, sealing, clock, log, renewing } = parts;
  let held: { readonly revision: number; readonly text: string } | null = null;

  async function found(url: string) {
    const stored = await logins.find(serverId, userId);
    if (!stored || stored.fault !== null) return null;
    try {
      const opened = openLogin(sealing, serverId, userId, stored.sealed);
      return opened.url === url ? { revision: stored.revision, text: opened.login } : null;
    } catch (error) {
      log.warn({ err: error, mcp_server_id: serverId }, 'a login to an MCP server cannot be opened');
      return null;
    }
  }

  /** Nobody else will ever be told what a renewal brings: a database that is away for a moment must not lose it. */
  async function untilSaved(save: () => Promise<void>): Promise<void> {
    const giveUp = performance.now() + claimMs;
    for (;;) {
      try {
        return await save();
      } catch (error) {
        if (performance.now() > giveUp) throw error;
        await sleep(saveAgainMs);
      }
    }
  }

  async function alone<Result>(url: string, action: () => Promise<Result>): Promise<Result> {
    const giveUp = performance.now() + claimMs;
    for (let known = await found(url); known; known = await found(url)) {
      if (await logins.claim(serverId, userId, clock.now().getTime() + claimMs)) {
        // What cannot be read now must not be kept from others for as long as a renewal may take.
        held = known;
        try {
          // What was renewed while we waited is read anew by the action.
          held = await found(url);
          return await action();
        } finally {
          if (held) await logins.release(serverId, userId, held.revision, null);
          held = null;
        }
      }
      if (performance.now() > giveUp) throw new Error('Another node has been renewing a login for too long.');
      await sleep(lookAgainMs);
    }
    return await action();
  }

  return {
    holdsMs,
    read: async (url) => (await found(url))?.text ?? null,
    async write(url, text) {
      const before = held;
      if (!before || before.text === text) return;
      held = null;
      const sealed = sealLogin(sealing, serverId, userId, { url, login: text });
      await untilSaved(async () => {
        await logins.renewed(serverId, userId, before.revision, sealed);
        // Logged out meanwhile: what was taken back then was the login of before.
        if ((await logins.find(serverId, userId)) === null) await takenBack(parts, serverId, () => text);
      });
    },
    async remove() {
      const before = held;
      if (!before) return;
      held = null;
      const fault = 'the authorization server renews the login no more';
      await untilSaved(() => logins.release(serverId, userId, before.revision, fault));
    },
    locked(url, action) {
      const work = parts.apart(() => alone(url, action));
      renewing.add(work);
      return work.finally(() => renewing.delete(work));
    },
  };
}

function rowId(serverId: string, userId: string): string {
  return `mcp_logins/${serverId}/${userId}`;
}
