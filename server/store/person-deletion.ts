/** Deletes somebody's account: what nobody else shares goes with it, or becomes another's. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { actingRole, managerOf, membershipsOf, type Person, requirePerson } from './person-reach.ts';
import { lastOwner } from './person-role.ts';
import type { Reach } from './reach.ts';
import { stopRunsOf } from './stop-runs.ts';

/** The caller may manage the account. Answers with the runs that were stopped. */
export async function deletePerson(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  transferTo: string | undefined,
  now: number,
): Promise<string[]> {
  const { id } = person.row;
  const heir = transferTo === undefined ? null : await requireHeir(sql, reach, id, transferTo);
  for (const { organization_id, role } of person.memberships)
    await leaveOrganization(sql, reach, { organization_id, id, owner: role === 'owner', heir, now });
  if (heir) await bequeath(sql, id, heir);
  const stopped = await stopRunsOf(sql, id);
  recordAudit(sql, reach, {
    action: 'user.delete',
    target: { type: 'user', id },
    organizationId: managerOf(person.row, person.memberships),
    before: { email: person.row.email, name: person.row.name, transfer_to: transferTo ?? null },
  });
  await sql('users').where({ id }).delete();
  return stopped;
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
  readonly owner: boolean;
  readonly heir: string | null;
  readonly now: number;
}

async function leaveOrganization(sql: Knex.Transaction, reach: Reach, leaving: Leaving): Promise<void> {
  const { organization_id, id, owner, heir, now } = leaving;
  const others: { user_id: string; role: string }[] = await sql('memberships')
    .where({ organization_id })
    .whereNot({ user_id: id })
    .orderBy('user_id')
    .forUpdate()
    .select('user_id', 'role');
  if (others.length === 0 && heir === null) return deleteOrganization(sql, organization_id);
  if (!owner || others.some(({ role }) => role === 'owner')) return;
  // To hand on what others share is for who owns it.
  if (heir === null || (others.length > 0 && actingRole(reach, organization_id) !== 'owner'))
    throw lastOwner();
  await sql('memberships')
    .insert({ organization_id, user_id: heir, role: 'owner', created_at: now })
    .onConflict(['organization_id', 'user_id'])
    .merge(['role']);
}

/** What is at work in it would lose the ground under its feet. */
async function deleteOrganization(sql: Knex.Transaction, organization_id: string): Promise<void> {
  const atWork = await sql('runs').where({ organization_id, ended_at: null }).first('id');
  if (atWork)
    throw new Problem(
      'runs_active',
      'Runs of the person are at work; suspend the account, which stops them, and delete it then.',
    );
  await sql('organizations').where({ id: organization_id }).delete();
}

/** Who began a session or wrote a profile, where the heir is at home too. */
async function bequeath(sql: Knex.Transaction, id: string, heir: string): Promise<void> {
  const homes = ((await membershipsOf(sql, [heir])).get(heir) ?? []).map(
    ({ organization_id }) => organization_id,
  );
  await sql('sessions').whereIn('organization_id', homes).where({ user_id: id }).update({ user_id: heir });
  await sql('agents')
    .whereIn('organization_id', homes)
    .where({ created_by: id })
    .update({ created_by: heir });
}
