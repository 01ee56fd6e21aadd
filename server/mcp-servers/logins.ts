/** Logging in to MCP servers, each person by themselves: begun by whoever is called, finished where their browser comes back. */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { McpOauthStart, McpOauthStarted } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { openLogin, type StoredLogin, sealLogin, type TakeBack, takenBack } from './login-keeper.ts';
import type { OpenedServer } from './opened.ts';
import type { Sealing } from './stored.ts';

/** An attempt as the store has it. */
export interface LoginAttempt {
  readonly serverId: string;
  readonly userId: string;
  readonly sealed: string;
}

export interface AttemptRecords<Who> {
  begin(
    who: Who,
    attempt: LoginAttempt & { readonly stateHash: string; readonly expiresAt: number },
  ): Promise<void>;
  /** Of two who come back with one state, one is let through. */
  take(stateHash: string): Promise<LoginAttempt | null>;
  /** Ends one that was taken and comes to nothing. */
  end(stateHash: string): Promise<void>;
  /** False where the attempt has ended since it was taken: then nothing is kept. */
  connect(
    attempt: Pick<LoginAttempt, 'serverId' | 'userId'> & { readonly stateHash: string },
    sealed: string,
  ): Promise<boolean>;
  disconnect(who: Who, serverId: string): Promise<void>;
  find(serverId: string, userId: string): Promise<StoredLogin | null>;
}

/** The runtime's own fits. */
interface Flows {
  begin(
    url: URL,
    client: {
      readonly clientId?: string | undefined;
      readonly clientSecret?: string | undefined;
      readonly scope?: string | undefined;
    },
    back: { readonly redirectUrl: string; readonly state: string },
  ): Promise<{ readonly authorizeUrl: string; readonly attempt: string }>;
  finish(
    url: URL,
    attempt: string,
    answer: { readonly code: string; readonly iss?: string | undefined },
  ): Promise<string>;
  readonly takeBack: TakeBack;
}

export interface LoginParts<Who> {
  readonly records: AttemptRecords<Who>;
  readonly flows: Flows;
  readonly sealing: Sealing;
  readonly baseUrl: () => string;
  readonly clock: Clock;
  readonly log: Log;
}

/** What a browser comes back with. */
export interface BroughtBack {
  readonly state: string;
  readonly code?: string | undefined;
  readonly iss?: string | undefined;
  readonly error?: string | undefined;
}

export interface McpLogins<Who> {
  /** Throws `mcp_server_failed`, or `invalid_request` where nobody can log in to the server. */
  start(who: Who, server: OpenedServer, userId: string, body: McpOauthStart): Promise<McpOauthStarted>;
  /** Where the browser goes on to, and whose connections begin anew. Throws `oauth_invalid`. */
  complete(
    brought: BroughtBack,
  ): Promise<{ readonly location: string; readonly serverId: string; readonly userId: string }>;
  /** Forgets the login, once the authorization server was asked to take it back. */
  revoke(who: Who, serverId: string, userId: string): Promise<void>;
}

const attemptMs = 15 * 60_000;
const callback = '/api/v1/mcp/oauth/callback';
const usualReturn = '/mcp/connected';

interface SealedAttempt {
  readonly url: string;
  readonly name: string;
  readonly returnTo: string;
  readonly attempt: string;
}

export function createMcpLogins<Who>(parts: LoginParts<Who>): McpLogins<Who> {
  const { records, flows, sealing, baseUrl, clock, log } = parts;
  return {
    async start(who, { id, name, entry, fault, userId: own }, userId, body) {
      if (entry.url === undefined || own === null) throw noLogin(name);
      if (fault !== null) throw failed(name, fault);
      const state = randomBytes(32).toString('base64url');
      const back = { redirectUrl: `${baseUrl()}${callback}`, state };
      const { client_id, client_secret, scopes, return_to: returnTo = usualReturn } = body;
      const client = { clientId: client_id, clientSecret: client_secret, scope: scopes?.join(' ') };
      const begun = await flows
        .begin(new URL(entry.url), client, back)
        .catch((error: unknown) => Promise.reject(failed(name, reasonIn(error), error)));
      const kept: SealedAttempt = { url: entry.url, name, returnTo, attempt: begun.attempt };
      const stateHash = hashOf(state);
      const sealed = sealing.seal(Buffer.from(JSON.stringify(kept)), attemptRow(stateHash));
      const expiresAt = clock.now().getTime() + attemptMs;
      await records.begin(who, { serverId: id, userId, sealed, stateHash, expiresAt });
      return { authorize_url: begun.authorizeUrl, expires_at: new Date(expiresAt).toISOString() };
    },
    async complete({ state, code, iss, error }) {
      const stateHash = hashOf(state);
      // Taken before the code is traded: of two who bring it, one is let through.
      const taken = await records.take(stateHash);
      if (!taken) throw unknownAttempt();
      const { serverId, userId } = taken;
      const { url, name, returnTo, attempt } = JSON.parse(
        sealing.open(taken.sealed, attemptRow(stateHash)).toString(),
      ) as SealedAttempt; // sealed here
      const to = (said: Record<string, string>) => ({
        location: `${returnTo}#${new URLSearchParams({ mcp_server: name, ...said })}`,
        ...{ serverId, userId },
      });
      if (error !== undefined || code === undefined) {
        await records.end(stateHash);
        return to({ mcp_error: 'access_denied' });
      }
      try {
        const login = await flows.finish(new URL(url), attempt, { code, iss });
        const sealed = sealLogin(sealing, serverId, userId, { url, login });
        if (await records.connect({ serverId, userId, stateHash }, sealed)) return to({});
        // Whoever has logged out while the code was traded is not logged in by that.
        await takenBack({ takeBack: flows.takeBack, log }, serverId, () => login);
        throw unknownAttempt();
      } catch (failure) {
        // It expires by itself: that it could not be ended must not hide why it came to nothing.
        await records.end(stateHash).catch((error: unknown) => {
          log.error({ err: error, mcp_server_id: serverId }, 'a login that came to nothing was not ended');
        });
        if (failure instanceof Problem) throw failure;
        log.warn({ err: failure, mcp_server_id: serverId }, 'a login to an MCP server was not finished');
        return to({ mcp_error: 'mcp_server_failed' });
      }
    },
    async revoke(who, serverId, userId) {
      const stored = await records.find(serverId, userId);
      if (stored)
        await takenBack(
          { takeBack: flows.takeBack, log },
          serverId,
          () => openLogin(sealing, serverId, userId, stored.sealed).login,
        );
      await records.disconnect(who, serverId);
    },
  };
}

function noLogin(name: string): Problem {
  const message = `nobody logs in to ${name}: it is a process, or the setting has a credential of its own`;
  return new Problem('invalid_request', message, {
    errors: [{ in: 'path', name: 'server_id', message, code: 'mcp_server' }],
  });
}

function unknownAttempt(): Problem {
  return new Problem(
    'oauth_invalid',
    'The login is unknown, used or expired, or was ended; begin again with startMcpOauth.',
  );
}

function failed(name: string, why: string, cause?: unknown): Problem {
  return new Problem('mcp_server_failed', `Nobody can log in to the MCP server ${name}: ${why}.`, { cause });
}

/** The messages of the runtime's failures may be shown; no others are. */
function reasonIn(error: unknown): string {
  return error instanceof Error && error.name === 'McpFailure' ? error.message : 'the login failed';
}

function attemptRow(stateHash: string): string {
  return `mcp_login_attempts/${stateHash}`;
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
