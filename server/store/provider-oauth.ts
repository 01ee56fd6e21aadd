/** OAuth connections of provider settings: their sealed tokens, who renews them, and attempts to connect. */
import { randomInt } from 'node:crypto';
import type { Knex } from 'knex';
import { recordAudit } from './audit.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';

/** What is known of a connection. */
export interface OauthConnection {
  /** Sealed for the row `provider_oauth/<setting id>`. */
  readonly tokens: string;
  readonly expiresAt: number | null;
  readonly scopes: readonly string[];
  /** Why it has to be connected again; null where it has not. */
  readonly fault: string | null;
  /** Whether somebody has claimed a renewal, and has never said what became of it. */
  readonly answerLost: boolean;
  readonly revision: number;
}

export type OauthTokens = Pick<OauthConnection, 'tokens' | 'expiresAt' | 'scopes'>;

export interface OauthAttempt {
  readonly stateHash: string;
  /** Sealed for the row `provider_oauth_attempts/<setting id>`. */
  readonly sealed: string;
  readonly nextPollAt: number;
  readonly expiresAt: number;
}

/** That the setting is within reach, and may be changed, has been checked where `reach` is asked for. */
export interface ProviderOauth {
  /** In the place of another attempt of the same setting. */
  begin(reach: Reach, settingId: string, attempt: OauthAttempt): Promise<void>;
  /** Null where there is none with this state, or none any more. */
  attempt(reach: Reach, settingId: string, stateHash: string): Promise<OauthAttempt | null>;
  /** True for the one who ends it: a code is traded once. */
  endAttempt(reach: Reach, settingId: string, stateHash: string): Promise<boolean>;
  postpone(reach: Reach, settingId: string, nextPollAt: number): Promise<void>;
  connect(reach: Reach, settingId: string, tokens: OauthTokens): Promise<void>;
  disconnect(reach: Reach, settingId: string): Promise<void>;
  /** For the server's own work too: the right to the setting has been checked. */
  find(settingId: string): Promise<OauthConnection | null>;
  /** True for the one who may renew the token that was read, until then. */
  claim(settingId: string, revision: number, until: number): Promise<boolean>;
  /** Keeps what a renewal has brought, unless the setting was connected anew meanwhile. */
  renewed(settingId: string, revision: number, tokens: OauthTokens): Promise<void>;
  /** The claim ends, and the next one may try; with a fault nobody need try any more. */
  notRenewed(
    settingId: string,
    revision: number,
    why: Pick<OauthConnection, 'fault' | 'answerLost'>,
  ): Promise<void>;
}

interface ConnectionRow {
  setting_id: string;
  sealed_tokens: string;
  expires_at: number | null;
  scopes: string;
  fault: string | null;
  /** One that is over, and was never taken away, is a renewal whose answer was lost. */
  lease_until: number | null;
  revision: number;
}

interface AttemptRow {
  setting_id: string;
  state_hash: string;
  sealed_attempt: string;
  next_poll_at: number;
  expires_at: number;
}

export function providerOauthRepository({ database, clock }: StoreParts): ProviderOauth {
  const now = (): number => clock.now().getTime();
  return {
    begin: (reach, settingId, { stateHash, sealed, nextPollAt, expiresAt }) =>
      database.write(reach, async (sql) => {
        const row: AttemptRow = {
          setting_id: settingId,
          state_hash: stateHash,
          sealed_attempt: sealed,
          next_poll_at: nextPollAt,
          expires_at: expiresAt,
        };
        await sql('provider_oauth_attempts').insert(row).onConflict('setting_id').merge();
      }),
    attempt: (reach, settingId, stateHash) =>
      database.read(reach, async (sql) => {
        const row = await attemptOf(sql, settingId, stateHash).where('expires_at', '>', now()).first();
        return row ? toAttempt(row) : null;
      }),
    endAttempt: (reach, settingId, stateHash) =>
      database.write(reach, async (sql) => (await attemptOf(sql, settingId, stateHash).delete()) === 1),
    postpone: (reach, settingId, nextPollAt) =>
      database.write(reach, async (sql) => {
        await sql('provider_oauth_attempts')
          .where({ setting_id: settingId })
          .update({ next_poll_at: nextPollAt });
      }),
    connect: (reach, settingId, tokens) =>
      database.write(reach, async (sql) => {
        const before = await connectionOf(sql, settingId).forUpdate().first();
        const row: ConnectionRow = {
          setting_id: settingId,
          ...columnsOf(tokens),
          // Where it was disconnected, what renews the tokens of before may still be at work, and must not fit these.
          revision: before ? before.revision + 1 : randomInt(2 ** 30),
        };
        await sql('provider_oauth').insert(row).onConflict('setting_id').merge();
        await touchSetting(sql, settingId, now());
        await record(sql, reach, settingId, 'connect', { scopes: tokens.scopes });
      }),
    disconnect: (reach, settingId) =>
      database.write(reach, async (sql) => {
        await sql('provider_oauth_attempts').where({ setting_id: settingId }).delete();
        if ((await connectionOf(sql, settingId).delete()) === 0) return;
        await touchSetting(sql, settingId, now());
        await record(sql, reach, settingId, 'disconnect', {});
      }),
    find: (settingId) =>
      database.read('installation', async (sql) => {
        const row = await connectionOf(sql, settingId).first();
        return row ? toConnection(row, now()) : null;
      }),
    claim: (settingId, revision, until) =>
      database.write('installation', async (sql) => {
        const free = connectionOf(sql, settingId)
          .where({ revision })
          .where((lease) => lease.whereNull('lease_until').orWhere('lease_until', '<=', now()));
        return (await free.update({ lease_until: until })) === 1;
      }),
    renewed: (settingId, revision, tokens) =>
      database.write('installation', async (sql) => {
        await connectionOf(sql, settingId)
          .where({ revision })
          .update({ ...columnsOf(tokens), revision: revision + 1 });
      }),
    notRenewed: (settingId, revision, { fault, answerLost }) =>
      database.write('installation', async (sql) => {
        const changed = await connectionOf(sql, settingId)
          .where({ revision })
          .update({
            lease_until: answerLost ? now() : null,
            fault,
            ...(fault !== null && { revision: revision + 1 }),
          });
        // Whoever reads the setting is told of it.
        if (changed === 1 && fault !== null) await touchSetting(sql, settingId, now());
      }),
  };
}

function connectionOf(sql: Knex, settingId: string) {
  return sql<ConnectionRow>('provider_oauth').where({ setting_id: settingId });
}

function attemptOf(sql: Knex, settingId: string, stateHash: string) {
  return sql<AttemptRow>('provider_oauth_attempts').where({ setting_id: settingId, state_hash: stateHash });
}

/** What a setting shows, and what it opens with, changes with its connection. */
async function touchSetting(sql: Knex, id: string, now: number): Promise<void> {
  await sql('provider_settings').where({ id }).increment('revision', 1).update({ updated_at: now });
}

async function record(
  sql: Knex.Transaction,
  reach: Reach,
  settingId: string,
  verb: 'connect' | 'disconnect',
  after: object,
): Promise<void> {
  const setting = await sql('provider_settings').where({ id: settingId }).first('organization_id');
  recordAudit(sql, reach, {
    action: `provider_oauth.${verb}`,
    target: { type: 'provider_setting', id: settingId },
    // One that belongs to a person is shown where that person is at home.
    organizationId: setting?.organization_id ?? reach.organizationIds[0] ?? null,
    after: { ...after },
  });
}

function columnsOf({ tokens, expiresAt, scopes }: OauthTokens) {
  return {
    sealed_tokens: tokens,
    expires_at: expiresAt,
    scopes: JSON.stringify(scopes),
    fault: null,
    lease_until: null,
  };
}

function toConnection(row: ConnectionRow, now: number): OauthConnection {
  const { sealed_tokens: tokens, expires_at: expiresAt, fault, revision, lease_until: until } = row;
  const answerLost = until !== null && until <= now;
  return { tokens, expiresAt, scopes: JSON.parse(row.scopes), fault, answerLost, revision };
}

function toAttempt(row: AttemptRow): OauthAttempt {
  return {
    stateHash: row.state_hash,
    sealed: row.sealed_attempt,
    nextPollAt: row.next_poll_at,
    expiresAt: row.expires_at,
  };
}
