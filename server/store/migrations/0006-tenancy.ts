/** Who may reach what in an organization: workspaces are given to people and groups, and PostgreSQL guards the rows. */
import type { Knex } from 'knex';

export const tenancy = {
  name: 'tenancy',
  async up(sql: Knex.Transaction): Promise<void> {
    await createGroups(sql);
    await createWorkspaceRoles(sql);
    if (sql.client.config.client === 'pg') await guardRows(sql);
  },
};

async function createGroups(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('groups', (table) => {
    table.text('id').primary();
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('name').notNullable();
    // What a directory outside calls it.
    table.text('external_id');
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.unique(['organization_id', 'name']);
    table.unique(['organization_id', 'external_id']);
    table.index(['organization_id', 'created_at', 'id']);
  });
  await sql.schema.createTable('group_members', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('group_id').notNullable().references('groups.id').onDelete('cascade');
    table.text('user_id').notNullable().references('users.id').onDelete('cascade');
    table.bigInteger('created_at').notNullable();
    table.primary(['group_id', 'user_id']);
    table.index(['user_id']);
    table.index(['group_id', 'created_at', 'user_id']);
  });
}

/** The role of a person or of a group in a workspace: exactly one of the two is named. */
async function createWorkspaceRoles(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('workspace_members', (table) => {
    table.text('organization_id').notNullable().references('organizations.id').onDelete('cascade');
    table.text('workspace_id').notNullable().references('workspaces.id').onDelete('cascade');
    // The id of a user or of a group.
    table.text('principal_id').notNullable();
    table.text('user_id').references('users.id').onDelete('cascade');
    table.text('group_id').references('groups.id').onDelete('cascade');
    table.text('role').notNullable();
    table.bigInteger('created_at').notNullable();
    table.primary(['workspace_id', 'principal_id']);
    table.index(['workspace_id', 'created_at', 'principal_id']);
    table.index(['user_id']);
    table.index(['group_id']);
    table.check("role in ('viewer', 'member', 'admin')");
    table.check('(user_id is null) <> (group_id is null)');
  });
}

/** The tables whose rows belong to one organization each. */
const organizationTables = [
  ...['memberships', 'workspaces', 'groups', 'group_members', 'workspace_members', 'agents', 'sessions'],
  ...['session_tags', 'runs', 'messages', 'run_events', 'permission_requests', 'permission_grants'],
  ...['prompt_requests', 'seen_files', 'file_contents', 'file_changes', 'search_documents', 'plans'],
  ...['plan_versions', 'workspace_streams', 'workspace_events'],
];

async function guardRows(sql: Knex.Transaction): Promise<void> {
  for (const table of organizationTables) await guard(sql, table, inScope('organization_id'));
  await guard(sql, 'organizations', inScope('id'));
  for (const table of ['logins', 'api_keys']) await guard(sql, table, ofUser('user_id'));
  await guard(sql, 'refresh_tokens', `exists (select from logins where logins.id = refresh_tokens.login_id)`);
  // Others are seen where one shares an organization with them; the policy of memberships says where.
  await guard(
    sql,
    'users',
    `${ofUser('id')} or exists (select from memberships where memberships.user_id = users.id)`,
  );
}

/** Holds also for the owner of a table, and for whatever is written. */
export async function guard(sql: Knex.Transaction, table: string, condition: string): Promise<void> {
  await sql.raw(`alter table ${table} enable row level security`);
  await sql.raw(`alter table ${table} force row level security`);
  await sql.raw(`create policy scope on ${table} using (${condition}) with check (${condition})`);
}

// Read once for each query, not once for each row: a query within brackets is no function call.
const organizations = `(select current_setting('service.organizations', true))`;

/** The condition of a policy: rows of the organizations that the connection asks for, or the server's own work. */
export function inScope(column: string): string {
  return `${column} = any (string_to_array(${organizations}, ',')) or ${organizations} = '*'`;
}

/** The condition of a policy for what nobody asks for but the server itself. */
export const forServerAlone = `${organizations} = '*'`;

/** The condition of a policy: rows of the person that the connection asks for, or the server's own work. */
export function ofUser(column: string): string {
  return `${column} = (select current_setting('service.user_id', true)) or ${organizations} = '*'`;
}
