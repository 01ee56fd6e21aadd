/** People as those manage them who administer their organizations: made, found, given a role, suspended, deleted. */
import type { Knex } from 'knex';
import type { Account, AccountUpdate, Role } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import { etagOfContent, requireTag } from './etag.ts';
import { endLoginsOf } from './logins.ts';
import { changeRole, holdActingRole, requireCovers } from './organization-roles.ts';
import { allowsAddress, domainRefused, organizationSettings } from './organization-settings.ts';
import type { Page } from './page.ts';
import type { StoreParts } from './parts.ts';
import { type DeletedPerson, deletePerson, holdToDelete } from './person-deletion.ts';
import { listPeople, type PersonQuery } from './person-list.ts';
import {
  managerOf,
  membershipsOf,
  type Person,
  requireManager,
  requirePerson,
  roleRequired,
  toAccount,
} from './person-reach.ts';
import { holdRoleOf } from './person-role.ts';
import { notFound, type Reach, wholeOrganizations } from './reach.ts';
import { withdrawLinksOf } from './shown-links.ts';
import { type Stopped, stopRunsOf } from './stop-runs.ts';
import { insertUser, type UserRow, userRow } from './user-row.ts';

/** An account that somebody makes for somebody else; nobody knows its password. */
export interface NewPerson {
  readonly email: string;
  readonly name: string;
  readonly passwordHash: string;
  readonly role: Role;
  /** May be absent for who administers one organization only. */
  readonly organizationId?: string | undefined;
}

export interface TaggedAccount {
  readonly account: Account;
  readonly etag: string;
}

/** All throw `not_found` for who is out of reach, and `role_required` where the caller may not. */
export interface People {
  list(reach: Reach, query: PersonQuery): Promise<Page<Account>>;
  find(reach: Reach, id: string): Promise<TaggedAccount>;
  /** Throws `email_taken` or `email_domain_refused`. */
  create(reach: Reach, person: NewPerson): Promise<TaggedAccount>;
  /** Throws `precondition_failed`, `own_account` or `last_owner`. */
  update(
    reach: Reach,
    id: string,
    patch: AccountUpdate,
    ifMatch?: string | undefined,
  ): Promise<TaggedAccount & Stopped>;
  /** Throws `precondition_failed`, `own_account`, `last_owner` or `runs_active`. */
  delete(
    reach: Reach,
    id: string,
    options: { readonly transferTo?: string | undefined; readonly ifMatch?: string | undefined },
  ): Promise<DeletedPerson>;
  revokeLogins(reach: Reach, id: string): Promise<void>;
}

export function peopleRepository({ database, clock, cursors }: StoreParts): People {
  const now = (): number => clock.now().getTime();
  // Their logins, keys and runs are guarded as their own: who manages them is asked of each query instead.
  const change = <T>(work: (sql: Knex.Transaction) => Promise<T>) => database.write('installation', work);
  return {
    list: (reach, query) =>
      database.read(reach.operator ? 'installation' : reach, (sql) => listPeople(sql, cursors, reach, query)),
    find: (reach, id) =>
      database.read(reach.operator ? 'installation' : reach, async (sql) =>
        tagged(await requirePerson(sql, reach, id)),
      ),
    create: (reach, person) => change((sql) => insertPerson(sql, reach, person, now())),
    update: (reach, id, patch, ifMatch) =>
      change(async (sql) => {
        const held = await requirePerson(sql, reach, id, true);
        const { role, status, organization_id } = patch;
        const roles = role === undefined ? null : await holdRoleOf(sql, reach, held, organization_id);
        // Somebody else may have given the role that this one is to take the place of, before it was held.
        const person = roles ? await requirePerson(sql, reach, id) : held;
        requireTag(ifMatch, tagged(person).etag);
        const stoppedRuns = [
          ...(roles && role !== undefined ? await changeRole(sql, reach, roles, role) : []),
          ...(status === undefined ? [] : await changeStatus(sql, reach, person, status, now())),
        ];
        const touched = { status: status ?? person.row.status, revision: person.row.revision + 1 };
        await sql<UserRow>('users')
          .where({ id })
          .update({ ...touched, updated_at: now() });
        return { ...tagged(await requirePerson(sql, reach, id)), stoppedRuns };
      }),
    delete: (reach, id, { transferTo, ifMatch }) =>
      despiteDeadlocks(() =>
        change(async (sql) => {
          const person = await holdToDelete(sql, reach, id);
          requireTag(ifMatch, tagged(person).etag);
          if (id === reach.userId) throw ownAccount();
          requireManager(reach, person);
          return deletePerson(sql, reach, person, transferTo, now());
        }),
      ),
    revokeLogins: (reach, id) =>
      change(async (sql) => {
        const person = await requirePerson(sql, reach, id, true);
        requireManager(reach, person);
        await endLoginsOf(sql, id, { by: reach, at: now() });
        recordAudit(sql, reach, { action: 'user.revoke_logins', ...targetOf(person) });
      }),
  };
}

async function insertPerson(
  sql: Knex.Transaction,
  reach: Reach,
  person: NewPerson,
  now: number,
): Promise<TaggedAccount> {
  const organizationId = await organizationOf(sql, reach, person.organizationId);
  const acting = await holdActingRole(sql, reach, organizationId);
  requireCovers(acting, 'admin');
  requireCovers(acting, person.role);
  const row = { ...userRow(person, now), managed_by: organizationId };
  await requireDomain(sql, organizationId, row.email_key);
  await insertUser(sql, row);
  await sql('memberships').insert({
    organization_id: organizationId,
    user_id: row.id,
    role: person.role,
    created_at: now,
  });
  recordAudit(sql, reach, {
    action: 'user.create',
    target: { type: 'user', id: row.id },
    organizationId,
    after: { email: row.email, name: row.name, role: person.role },
  });
  const memberships = (await membershipsOf(sql, [row.id])).get(row.id) ?? [];
  return tagged({ row, memberships, seen: memberships });
}

async function requireDomain(sql: Knex.Transaction, id: string, email: string): Promise<void> {
  const settings = organizationSettings(await sql('organizations').where({ id }).first('settings'));
  if (!allowsAddress(settings, email)) throw domainRefused(settings);
}

/** The organization that is named, or the only one that the caller administers. */
async function organizationOf(sql: Knex, reach: Reach, named: string | undefined): Promise<string> {
  const administered = wholeOrganizations(reach);
  const [only, ...others] = administered;
  if (named === undefined && only !== undefined && others.length === 0) return only;
  if (named === undefined && (others.length > 0 || reach.operator)) throw organizationNeeded();
  if (named === undefined) throw roleRequired('Only admins of an organization make accounts in it.');
  if (administered.includes(named)) return named;
  const exists =
    reach.operator && (await sql('organizations').where({ id: named }).first('id')) !== undefined;
  if (exists) return named;
  if (reach.organizationIds.includes(named))
    throw roleRequired('This needs the role admin in the organization.');
  throw notFound('organization');
}

/** A suspended person's logins are over for good; their keys are refused as long as they are suspended. */
async function changeStatus(
  sql: Knex.Transaction,
  reach: Reach,
  person: Person,
  status: Account['status'],
  now: number,
): Promise<string[]> {
  const { row } = person;
  if (row.status === status) return [];
  if (row.id === reach.userId) throw ownAccount();
  requireManager(reach, person);
  const before = { status: row.status };
  recordAudit(sql, reach, {
    action: `user.${status === 'active' ? 'reactivate' : 'suspend'}`,
    ...targetOf(person),
    before,
    after: { status },
  });
  if (status === 'active') return [];
  await endLoginsOf(sql, row.id, { by: reach, at: now, reason: 'suspended' });
  await withdrawLinksOf(sql, row.id);
  return stopRunsOf(sql, row.id);
}

function targetOf({ row, memberships }: Person) {
  return { target: { type: 'user', id: row.id }, organizationId: managerOf(row, memberships) };
}

/** Roles stand in rows of their own, and each caller sees those that they administer. */
function tagged(person: Person): TaggedAccount {
  const account = toAccount(person);
  return { account, etag: etagOfContent([person.row.revision, account.memberships, account.managed_by]) };
}

function ownAccount(): Problem {
  return new Problem(
    'own_account',
    'Nobody suspends or deletes their own account; ask somebody else to do it.',
  );
}

function organizationNeeded(): Problem {
  return new Problem(
    'invalid_request',
    'body/organization_id: say which organization the account belongs to',
    {
      errors: [
        {
          in: 'body',
          pointer: '/organization_id',
          message: 'is needed where there are several',
          code: 'required',
        },
      ],
    },
  );
}
