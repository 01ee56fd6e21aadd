/** Seeds who there is: people, organizations, workspaces, logins, invitations and groups. */
import type { Knex } from 'knex';
import type { Account, AuditEntry, Invitation, Workspace, WorkspaceMember } from '../contract/api.ts';
import { hashOfEntry } from './audit-chain.ts';
import type { Database } from './database.ts';
import { at, type ExampleSeed, later } from './example-seed.ts';
import { nameKey } from './user-row.ts';

export async function seedAccount(
  sql: Knex.Transaction,
  { me, passwordHash, logins, loginCode, apiKey, organization, preferences }: ExampleSeed,
) {
  const times = { created_at: at, updated_at: at };
  await sql('users').insert({
    ...times,
    id: me.id,
    email: me.email,
    email_key: me.email.toLowerCase(),
    name: me.name,
    name_key: nameKey(me.name),
    avatar: me.avatar,
    status: me.status,
    password_hash: passwordHash,
    operator: me.operator,
    revision: 1,
  });
  for (const { organization_id, organization_name, role, default_workspace_id } of me.memberships) {
    const { slug } = organization;
    await sql('organizations').insert({ ...times, id: organization_id, name: organization_name, slug });
    await sql('memberships').insert({ organization_id, user_id: me.id, role, created_at: at });
    await sql('workspaces').insert({
      ...times,
      id: default_workspace_id,
      organization_id,
      name: 'Default',
      is_default: true,
    });
  }
  for (const login of logins) await seedLogin(sql, me.id, login);
  await sql('login_codes').insert({
    code_hash: loginCode.codeHash,
    browser_hash: loginCode.browserHash,
    user_id: me.id,
    expires_at: later,
  });
  await sql('user_preferences').insert({
    ...preferences,
    user_id: me.id,
    notifications: JSON.stringify(preferences.notifications),
    revision: 1,
    updated_at: at,
  });
  await sql('api_keys').insert({
    ...times,
    id: apiKey.id,
    user_id: me.id,
    name: apiKey.name,
    hash: 'of a key that nobody has',
    prefix: apiKey.prefix,
    scopes: JSON.stringify(apiKey.scopes),
    disabled: apiKey.disabled,
    revision: 1,
  });
}

async function seedLogin(
  sql: Knex.Transaction,
  user_id: string,
  { current: _current, refreshTokenHash: hash, ...login }: ExampleSeed['logins'][number],
): Promise<void> {
  const created_at = Date.parse(login.created_at);
  // Its use is not noted anew, which would tell another address.
  await sql('logins').insert({ ...login, user_id, created_at, last_seen_at: later, expires_at: later });
  await sql('refresh_tokens').insert({ hash, login_id: login.id, created_at });
}

/** As the first of the chain. */
export async function seedAuditEntry(sql: Knex.Transaction, entry: AuditEntry): Promise<void> {
  const { actor, target, before, after, ...rest } = entry;
  const content = {
    ...rest,
    sequence: 1,
    created_at: at,
    actor_type: actor.type,
    actor_id: actor.id,
    credential_type: actor.credential_type,
    credential_id: actor.credential_id,
    target_type: target.type,
    target_id: target.id,
    before: before && JSON.stringify(before),
    after: after && JSON.stringify(after),
  };
  const prev_hash = '0'.repeat(64);
  const hash = hashOfEntry(prev_hash, content);
  await sql('audit_entries').insert({ ...content, prev_hash, hash });
  await sql('audit_head').update({ sequence: 1, created_at: at, hash });
}

export async function seedOrganization(sql: Knex.Transaction, seed: ExampleSeed) {
  const { organization, members, invitations, group, groupMembers, waiting } = seed;
  const organization_id = organization.id;
  for (const { user_id, email, name, role } of members) {
    await sql('users').insert({
      id: user_id,
      email,
      email_key: email,
      name,
      password_hash: '',
      operator: false,
      revision: 1,
      created_at: at,
      updated_at: at,
    });
    await sql('memberships').insert({ organization_id, user_id, role, created_at: at });
  }
  for (const { status: _status, ...invitation } of invitations)
    await sql('invitations').insert(invitationRow(invitation, `of ${invitation.id}`));
  await sql('groups').insert({ ...group, revision: 1, created_at: at, updated_at: at });
  for (const { user_id } of groupMembers)
    await sql('group_members').insert({ organization_id, group_id: group.id, user_id, created_at: at });
  await seedWaiting(sql, seed, waiting);
}

export function seedWorkspace(sql: Knex.Transaction, workspace: Workspace) {
  return sql('workspaces').insert({
    ...workspace,
    permission_rules: JSON.stringify(workspace.permission_rules),
    revision: 1,
    created_at: at,
    updated_at: at,
  });
}

async function seedWaiting(
  sql: Knex.Transaction,
  { me, members }: ExampleSeed,
  { organization: { id, name, default_workspace_id }, tokenHash }: ExampleSeed['waiting'],
) {
  const times = { created_at: at, updated_at: at };
  const user_id = members.at(-1)?.user_id ?? '';
  await sql('organizations').insert({ ...times, id, name, slug: 'another' });
  await sql('memberships').insert({ organization_id: id, user_id, role: 'owner', created_at: at });
  const workspace = { id: default_workspace_id, organization_id: id, name: 'Default', is_default: true };
  await sql('workspaces').insert({ ...times, ...workspace });
  const invitation = { organization_id: id, email: me.email, role: 'member', invited_by: user_id } as const;
  await sql('invitations').insert(invitationRow({ ...invitation, id: 'ivt_waiting' }, tokenHash));
}

function invitationRow(
  { id, organization_id, email, role, invited_by }: Omit<Invitation, 'status' | 'created_at' | 'expires_at'>,
  hash: string,
) {
  const row = { id, organization_id, email, email_key: email, role, invited_by, hash };
  return { ...row, kind: 'invitation', created_at: at, expires_at: later };
}

/**
 * A person of organizations that are there, who can log in where there is a hash. A second account turns a server that
 * starts into one for many.
 */
export function seedPerson(database: Database, person: Account, passwordHash: string | null): Promise<void> {
  return database.write('installation', (sql) => insertPerson(sql, person, passwordHash));
}

/** People and groups that are there, in this order. */
export function seedWorkspaceMembers(
  database: Database,
  { id: workspace_id, organization_id }: Workspace,
  members: readonly WorkspaceMember[],
): Promise<void> {
  return database.write('installation', async (sql) => {
    for (const [index, { principal_id, type, role }] of members.entries())
      await sql('workspace_members').insert({
        ...{ organization_id, workspace_id, principal_id, role, created_at: at + index },
        [type === 'user' ? 'user_id' : 'group_id']: principal_id,
      });
  });
}

async function insertPerson(sql: Knex.Transaction, person: Account, passwordHash: string | null) {
  const { memberships, created_at: _created, updated_at: _updated, ...row } = person;
  const times = { created_at: at, updated_at: at };
  const keys = { email_key: person.email.toLowerCase(), name_key: nameKey(person.name) };
  await sql('users').insert({
    ...{ ...row, ...keys, ...times },
    password_hash: passwordHash ?? 'nobody’s',
    revision: 1,
  });
  for (const { organization_id, role } of memberships)
    await sql('memberships').insert({ organization_id, user_id: person.id, role, created_at: at + 1 });
}
