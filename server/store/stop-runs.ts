/** Stops what somebody has begun: whoever may not act any more has nobody act for them either. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { covers } from './reach.ts';
import type { RunRow } from './runs.ts';

/** What a change has stopped: runs, to be woken so that they notice. */
export interface Stopped {
  readonly stoppedRuns: readonly string[];
}

/**
 * Asks all runs of a person that have not ended to stop, those of the agents that they have started included, wherever
 * they are at work. Answers with their ids.
 */
export async function stopRunsOf(sql: Knex.Transaction, user_id: string): Promise<string[]> {
  const open = await sql<RunRow>('runs').where({ user_id }).whereNull('ended_at').pluck('id');
  return stop(sql, open);
}

/** Asks those runs in an organization to stop whose starters have no role any more that runs agents where they are. */
export async function stopRunsWithoutRole(
  sql: Knex.Transaction,
  { organization_id, user_id }: { readonly organization_id: string; readonly user_id?: string },
): Promise<string[]> {
  const open: OpenRun[] = await sql<RunRow>('runs')
    .where({ organization_id, ...(user_id !== undefined && { user_id }) })
    .whereNull('ended_at')
    .select('id', 'user_id', 'workspace_id');
  if (open.length === 0) return [];
  const mayRun = await runnersIn(sql, organization_id, open);
  return stop(
    sql,
    open.filter((run) => !mayRun(run)).map(({ id }) => id),
  );
}

/** Those of the runs, ended or not, that are still there and whose starters may run agents where they are. */
export async function runsInForce(sql: Knex, ids: readonly string[]): Promise<string[]> {
  const there: (OpenRun & { organization_id: string })[] = await sql('runs')
    .join('users', 'users.id', 'runs.user_id')
    .whereIn('runs.id', [...ids])
    .where('users.status', 'active')
    .select('runs.id', 'runs.user_id', 'runs.workspace_id', 'runs.organization_id');
  const inForce: string[] = [];
  for (const [organizationId, runs] of Map.groupBy(there, ({ organization_id }) => organization_id)) {
    const mayRun = await runnersIn(sql, organizationId, runs);
    inForce.push(...runs.filter(mayRun).map(({ id }) => id));
  }
  return inForce;
}

type OpenRun = Pick<RunRow, 'id' | 'user_id' | 'workspace_id'>;

interface GivenRole {
  readonly user_id: string;
  readonly workspace_id: string;
  readonly role: Role;
}

/** As `Reach` has it: a role in the organization counts in its default workspace, and everywhere from admin on. */
async function runnersIn(
  sql: Knex,
  organization_id: string,
  open: readonly OpenRun[],
): Promise<(run: OpenRun) => boolean> {
  const people = [...new Set(open.map(({ user_id }) => user_id))];
  const members: { user_id: string; role: Role }[] = await sql('memberships')
    .where({ organization_id })
    .whereIn('user_id', people)
    .select('user_id', 'role');
  const defaults: string[] = await sql('workspaces').where({ organization_id, is_default: true }).pluck('id');
  const roleOf = new Map(members.map(({ user_id, role }) => [user_id, role]));
  const given = await givenRoles(sql, organization_id, people);
  return ({ user_id, workspace_id }) => {
    const role = roleOf.get(user_id);
    if (role === undefined) return false;
    if (covers(role, defaults.includes(workspace_id) ? 'member' : 'admin')) return true;
    return given.some(
      (one) => one.user_id === user_id && one.workspace_id === workspace_id && covers(one.role, 'member'),
    );
  };
}

async function givenRoles(
  sql: Knex,
  organization_id: string,
  people: readonly string[],
): Promise<GivenRole[]> {
  const own: GivenRole[] = await sql('workspace_members')
    .where({ organization_id })
    .whereIn('user_id', [...people])
    .select('user_id', 'workspace_id', 'role');
  const throughGroups: GivenRole[] = await sql('workspace_members')
    .join('group_members', 'group_members.group_id', 'workspace_members.group_id')
    .where({ 'workspace_members.organization_id': organization_id })
    .whereIn('group_members.user_id', [...people])
    .select('group_members.user_id', 'workspace_members.workspace_id', 'workspace_members.role');
  return [...own, ...throughGroups];
}

async function stop(sql: Knex.Transaction, ids: string[]): Promise<string[]> {
  if (ids.length > 0)
    await sql<RunRow>('runs')
      .whereIn('id', ids)
      .whereNull('interrupt_requested')
      .update({ interrupt_requested: 'requested' });
  return ids;
}
