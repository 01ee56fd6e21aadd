/** Deletes somebody's account: what nobody else shares goes with it, or becomes another's. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { askToStop, endOpen, openRuns } from './job-queue.ts';
import type { JobRow } from './job-rows.ts';
import { pauseJob } from './jobs.ts';
import { deleteTokensOf } from './logins.ts';
import { hasOtherOwner, lastOwner, withdrawInvitationsBeyond } from './organization-roles.ts';
import {
  type DeletedOrganization,
  holdContents,
  holdOrganization,
  removeOrganization,
} from './organizations.ts';
import { actingRole, managerOf, membershipsOf, type Person, requirePerson } from './person-reach.ts';
import type { Reach } from './reach.ts';
import { withdrawLinksOf } from './shown-links.ts';
import { type Stopped, stopRunsOf } from './stop-runs.ts';

/** What goes with an account, besides its rows. */
export interface DeletedPerson extends Stopped, DeletedOrganization {}

/**
 * The person, to whom nobody gives a role any more. What they alone have is held before them, sessions before all else as
 * everywhere; what they found in between is held by `deletePerson`.
 */
export async function holdToDelete(sql: Knex.Transaction, reach: Reach, id: string): Promise<Person> {
  const { memberships } = await requirePerson(sql, reach, id);
  const places = memberships.map(({ organization_id }) => organization_id).sort();
  await holdContents(sql, await ownAlone(sql, places));
  return requirePerson(sql, reach, id, 'alone');
}

/** The caller may manage the account. Throws `last_owner` or `runs_active`. */
export async function deletePerson(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  transferTo: string | undefined,
  now: number,
): Promise<DeletedPerson> {
  const { id } = person.row;
  const heir = transferTo === undefined ? null : await requireHeir(sql, reach, id, transferTo);
  const places = person.memberships.map(({ organization_id }) => organization_id).sort();
  if (heir === null) await holdContents(sql, await ownAlone(sql, places));
  const gone: DeletedOrganization[] = [];
  for (const organization_id of places) {
    gone.push(await leaveOrganization(sql, reach, { organization_id, id, heir, now }));
    // Nobody could use them, and they would keep others from inviting the same people.
    await withdrawInvitationsBeyond(sql, { organization_id, user_id: id }, null);
  }
  if (heir) await bequeath(sql, id, heir, now);
  await withdrawLinksOf(sql, id);
  const stoppedRuns = await stopRunsOf(sql, id);
  recordAudit(sql, reach, {
    action: 'user.delete',
    target: { type: 'user', id },
    organizationId: managerOf(person.row, person.memberships),
    before: { email: person.row.email, name: person.row.name, transfer_to: transferTo ?? null },
  });
  await deleteTokensOf(sql, id);
  await sql('users').where({ id }).delete();
  return {
    stoppedRuns,
    workspaceIds: gone.flatMap(({ workspaceIds }) => workspaceIds),
    sessionIds: gone.flatMap(({ sessionIds }) => sessionIds),
  };
}

/** Whoever gets it all has to be there to use it, and within the caller's reach. */
async function requireHeir(sql: Knex.Transaction, reach: Reach, id: string, heir: string): Promise<string> {
  const { row } = await requirePerson(sql, reach, heir, true);
  if (row.id !== id && row.status === 'active') return heir;
  const message = 'must be another person, whose account is active';
  throw new Problem('invalid_request', `query/transfer_to: ${message}`, {
    errors: [{ in: 'query', name: 'transfer_to', message, code: 'heir' }],
  });
}

interface Leaving {
  readonly organization_id: string;
  readonly id: string;
  readonly heir: string | null;
  readonly now: number;
}

/** Answers with what has gone, where nobody else belongs to the organization. */
async function leaveOrganization(
  sql: Knex.Transaction,
  reach: Reach,
  { organization_id, id, heir, now }: Leaving,
): Promise<DeletedOrganization> {
  const nothing = { workspaceIds: [], sessionIds: [] };
  const organization = await holdOrganization(sql, organization_id);
  const place = { organization_id, user_id: id };
  const own = await sql('memberships').where(place).first('role');
  const other = await sql('memberships')
    .where({ organization_id })
    .whereNot({ user_id: id })
    .first('user_id');
  if (!organization || !own) return nothing;
  if (!other && heir === null) return removeOrganization(sql, reach, organization);
  if (own.role !== 'owner' || (await hasOtherOwner(sql, place))) return nothing;
  // To hand on what others share is for who owns it.
  if (heir === null || (other && actingRole(reach, organization_id) !== 'owner')) throw lastOwner();
  await sql('memberships')
    .insert({ organization_id, user_id: heir, role: 'owner', revision: 1, created_at: now })
    .onConflict(['organization_id', 'user_id'])
    .merge({ role: 'owner', revision: sql.raw('memberships.revision + 1') });
  recordAudit(sql, reach, {
    action: 'organization_member.update',
    target: { type: 'user', id: heir },
    organizationId: organization_id,
    after: { role: 'owner' },
  });
  return nothing;
}

/** Of these organizations, those that nobody shares. */
async function ownAlone(sql: Knex.Transaction, organizationIds: readonly string[]): Promise<string[]> {
  return sql('memberships')
    .whereIn('organization_id', [...organizationIds])
    .groupBy('organization_id')
    .havingRaw('count(*) = 1')
    .pluck('organization_id');
}

/** Who began a session, wrote a profile or has a job, where the heir is at home too. */
async function bequeath(sql: Knex.Transaction, id: string, heir: string, now: number): Promise<void> {
  const homes = ((await membershipsOf(sql, [heir])).get(heir) ?? []).map(
    ({ organization_id }) => organization_id,
  );
  await sql('sessions').whereIn('organization_id', homes).where({ user_id: id }).update({ user_id: heir });
  await sql('agents')
    .whereIn('organization_id', homes)
    .where({ created_by: id })
    .update({ created_by: heir });
  await bequeathJobs(sql, id, heir, homes, now);
}

/** Nobody acts with the heir's rights before the heir has looked: what ran at set times waits until they resume it. */
async function bequeathJobs(
  sql: Knex.Transaction,
  id: string,
  heir: string,
  homes: readonly string[],
  now: number,
): Promise<void> {
  const jobs = await sql<JobRow>('scheduled_jobs')
    .whereIn('organization_id', homes)
    .where({ user_id: id })
    .orderBy('id')
    .forUpdate();
  for (const job of jobs) {
    const theirs = { user_id: heir, api_key_id: null };
    await sql<JobRow>('scheduled_jobs').where({ id: job.id }).update(theirs);
    const inherited = { ...job, ...theirs };
    if (job.status !== 'completed') await pauseJob(sql, inherited, 'owner_changed', now);
    // One that has no times left may have runs that wait, and one that is at work may be about to wait once more.
    else await endOpen(sql, inherited, 'job_paused', now);
    for (const run of await openRuns(sql, job.id)) await askToStop(sql, run, 'requested');
  }
}
