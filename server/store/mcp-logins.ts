/** Logins of people to MCP servers: their sealed tokens, who renews them, and attempts to log in. */
import { randomInt } from 'node:crypto';
import type { Knex } from 'knex';
import { recordAudit } from './audit.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';

export interface StoredMcpLogin {
  /** Sealed for the row `mcp_logins/<server id>/<user id>`. */
  readonly sealed: string;
  readonly fault: string | null;
  readonly revision: number;
}

/** Whose login is kept, and the attempt that it comes from. */
type TakenAttempt = Pick<McpLoginAttempt, 'serverId' | 'userId'> & { readonly stateHash: string };

export interface McpLoginAttempt {
  readonly serverId: string;
  readonly userId: string;
  /** Sealed for the row `mcp_login_attempts/<hash of the state>`. */
  readonly sealed: string;
}

/** That the server is within reach has been checked where `reach` is asked for; a login is its person's alone. */
export interface McpLogins {
  /** In the place of another attempt of the same person at the same server. */
  begin(
    reach: Reach,
    attempt: McpLoginAttempt & { readonly stateHash: string; readonly expiresAt: number },
  ): Promise<void>;
  /** Once; null where there is none with this state, or none any more. */
  take(stateHash: string): Promise<McpLoginAttempt | null>;
  /** Ends one that was taken and comes to nothing. */
  end(stateHash: string): Promise<void>;
  /** Ends the attempt, too. False where that has ended since it was taken: then nothing is kept. */
  connect(attempt: TakenAttempt, sealed: string): Promise<boolean>;
  /** Ends what is under way, too. */
  disconnect(reach: Reach, serverId: string): Promise<void>;
  find(serverId: string, userId: string): Promise<StoredMcpLogin | null>;
  /** True for the one who may renew the login, until then. */
  claim(serverId: string, userId: string, until: number): Promise<boolean>;
  /** Keeps what a renewal has brought, unless the person has logged in anew meanwhile. */
  renewed(serverId: string, userId: string, revision: number, sealed: string): Promise<void>;
  /** The claim ends, and the next one may try; with a fault nobody need try any more. */
  release(serverId: string, userId: string, revision: number, fault: string | null): Promise<void>;
}

interface LoginRow {
  server_id: string;
  user_id: string;
  sealed_login: string;
  fault: string | null;
  lease_until: number | null;
  connected_at: number;
  revision: number;
}

interface AttemptRow {
  state_hash: string;
  server_id: string;
  user_id: string;
  sealed_attempt: string;
  expires_at: number;
  taken: boolean;
}

export function mcpLoginRepository({ database, clock }: StoreParts): McpLogins {
  const now = (): number => clock.now().getTime();
  return {
    begin: (reach, { serverId, userId, sealed, stateHash, expiresAt }) =>
      database.write(reach, async (sql) => {
        const row: AttemptRow = {
          state_hash: stateHash,
          server_id: serverId,
          user_id: userId,
          sealed_attempt: sealed,
          expires_at: expiresAt,
          taken: false,
        };
        await sql('mcp_login_attempts').insert(row).onConflict(['server_id', 'user_id']).merge();
      }),
    take: (stateHash) =>
      database.write('installation', async (sql) => {
        const [row]: AttemptRow[] = await attemptOf(sql, stateHash)
          .where({ taken: false })
          .where('expires_at', '>', now())
          .update({ taken: true })
          .returning('*');
        return row ? { serverId: row.server_id, userId: row.user_id, sealed: row.sealed_attempt } : null;
      }),
    end: (stateHash) =>
      database.write('installation', async (sql) => {
        await attemptOf(sql, stateHash).delete();
      }),
    connect: ({ stateHash, serverId, userId }, sealed) =>
      database.write('installation', async (sql) => {
        if ((await attemptOf(sql, stateHash).where({ taken: true }).delete()) === 0) return false;
        const before = await loginOf(sql, serverId, userId).forUpdate().first();
        const row: LoginRow = {
          ...{ server_id: serverId, user_id: userId, sealed_login: sealed, fault: null, lease_until: null },
          connected_at: now(),
          // Where it was disconnected, what renews the login of before may still be at work, and must not fit this one.
          revision: before ? before.revision + 1 : randomInt(2 ** 30),
        };
        await sql('mcp_logins').insert(row).onConflict(['server_id', 'user_id']).merge();
        await record(sql, { userId, organizationIds: [] }, serverId, 'connect');
        return true;
      }),
    disconnect: (reach, serverId) =>
      database.write(reach, async (sql) => {
        const whose = { server_id: serverId, user_id: reach.userId };
        await sql('mcp_login_attempts').where(whose).delete();
        if ((await sql('mcp_logins').where(whose).delete()) > 0)
          await record(sql, reach, serverId, 'disconnect');
      }),
    find: (serverId, userId) =>
      database.read('installation', async (sql) => {
        const row = await loginOf(sql, serverId, userId).first();
        return row ? { sealed: row.sealed_login, fault: row.fault, revision: row.revision } : null;
      }),
    claim: (serverId, userId, until) =>
      database.write('installation', async (sql) => {
        const free = loginOf(sql, serverId, userId).where((lease) =>
          lease.whereNull('lease_until').orWhere('lease_until', '<=', now()),
        );
        return (await free.update({ lease_until: until })) === 1;
      }),
    renewed: (serverId, userId, revision, sealed) =>
      database.write('installation', async (sql) => {
        const changed = { sealed_login: sealed, fault: null, lease_until: null, revision: revision + 1 };
        await loginOf(sql, serverId, userId).where({ revision }).update(changed);
      }),
    release: (serverId, userId, revision, fault) =>
      database.write('installation', async (sql) => {
        await loginOf(sql, serverId, userId)
          .where({ revision })
          .update({ lease_until: null, ...(fault !== null && { fault, revision: revision + 1 }) });
      }),
  };
}

function attemptOf(sql: Knex, state_hash: string) {
  return sql<AttemptRow>('mcp_login_attempts').where({ state_hash });
}

function loginOf(sql: Knex, serverId: string, userId: string) {
  return sql<LoginRow>('mcp_logins').where({ server_id: serverId, user_id: userId });
}

async function record(
  sql: Knex.Transaction,
  who: Pick<Reach, 'userId' | 'organizationIds'> & Partial<Reach>,
  serverId: string,
  verb: 'connect' | 'disconnect',
): Promise<void> {
  const server = await sql('mcp_servers').where({ id: serverId }).first('organization_id');
  const home = await sql('memberships').where({ user_id: who.userId }).first('organization_id');
  recordAudit(
    sql,
    { memberships: [], workspaces: [], ...who },
    {
      action: `mcp_login.${verb}`,
      target: { type: 'mcp_server', id: serverId },
      // At a server of nobody's organization it is shown where the person is at home.
      organizationId: server?.organization_id ?? home?.organization_id ?? null,
    },
  );
}
