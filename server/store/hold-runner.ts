/** Whoever begins a run may do so until it is stored: between the request and that lie searches and waits for models. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { covers } from './reach.ts';

/** Who begins a run where, and with which key; null where a login did, or the run that an agent belongs to. */
interface Beginner {
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  readonly apiKeyId: string | null;
}

interface Fact {
  readonly what: 'status' | 'role' | 'given' | 'default' | 'key';
  readonly said: string;
}

/**
 * Until the transaction ends nobody suspends or deletes them, or takes their role: who does waits, and finds the run, to
 * stop it. A key is looked at and not held, since its end stops no runs that it began. One statement, for each query
 * pays for it. Throws `credential_invalid` or `role_required`.
 */
export async function holdRunner(sql: Knex.Transaction, beginner: Beginner, now: number): Promise<void> {
  const facts = await factsOf(sql, beginner, now);
  const said = (what: Fact['what']) => facts.filter((fact) => fact.what === what).map((fact) => fact.said);
  const isKeyGone = isStored(beginner.apiKeyId) && said('key').length === 0;
  if (said('status')[0] !== 'active' || isKeyGone)
    throw new Problem(
      'credential_invalid',
      'The credential was revoked, or its account suspended, before the run began; log in again, or use another key.',
    );
  if (!mayRun(said('role')[0] as Role | undefined, said('given') as Role[], said('default').length > 0))
    throw new Problem(
      'role_required',
      'This needs the role member in the workspace; yours was taken away before the run began.',
    );
}

/** As `runnersIn` has it: a role in the organization counts in its default workspace, and everywhere from admin on. */
function mayRun(role: Role | undefined, given: readonly Role[], isDefault: boolean): boolean {
  if (role === undefined) return false;
  return covers(role, isDefault ? 'member' : 'admin') || given.some((one) => covers(one, 'member'));
}

/** The key of a command that has the server inside is stored nowhere, and ends with its process. */
export function isStored(apiKeyId: string | null): boolean {
  return apiKeyId?.startsWith('key_') ?? false;
}

async function factsOf(
  sql: Knex.Transaction,
  { organizationId, workspaceId, userId, apiKeyId }: Beginner,
  now: number,
): Promise<readonly Fact[]> {
  const isPostgres = sql.client.config.client === 'pg';
  const found = await sql.raw(held(isPostgres ? 'for share' : ''), {
    ...{ organizationId, workspaceId, userId, now },
    apiKeyId: apiKeyId ?? '',
  });
  return isPostgres ? found.rows : found;
}

/** A row that another transaction changes is waited for, and read as it is after that. */
const held = (share: string) => `
  with person as (select status from users where id = :userId ${share}),
    belongs as (
      select role from memberships where organization_id = :organizationId and user_id = :userId ${share}
    ),
    own as (
      select role from workspace_members where workspace_id = :workspaceId and principal_id = :userId ${share}
    ),
    grouped as (
      select m.role from group_members g
      join workspace_members m on m.workspace_id = :workspaceId and m.principal_id = g.group_id
      where g.user_id = :userId ${share}
    )
  select 'status' as what, status as said from person
  union all select 'role', role from belongs
  union all select 'given', role from own
  union all select 'given', role from grouped
  union all select 'default', id from workspaces where id = :workspaceId and is_default = true
  union all select 'key', id from api_keys
    where id = :apiKeyId and user_id = :userId and disabled = false
      and (expires_at is null or expires_at > :now)`;
