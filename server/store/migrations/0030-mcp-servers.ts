/** MCP servers that people, admins and the operator keep on the server, with their secrets sealed, and each person's logins to them. */
import type { Knex } from 'knex';
import { guard, inScope, ofUser } from './0006-tenancy.ts';

export const mcpServers = {
  name: 'mcp-servers',
  async up(sql: Knex.Transaction): Promise<void> {
    await createServers(sql);
    await createLogins(sql);
    if (sql.client.config.client !== 'pg') return;
    await guard(sql, 'mcp_servers', `${inScope('organization_id')} or ${ofUser('user_id')}`);
    for (const table of ['mcp_logins', 'mcp_login_attempts']) await guard(sql, table, ofUser('user_id'));
    // What the installation has is used by everybody, and written by the server alone.
    await sql.raw(`create policy of_all on mcp_servers for select using (scope = 'installation')`);
  },
};

async function createServers(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('mcp_servers', (table) => {
    table.text('id').primary();
    table.text('scope').notNullable();
    // The id of the person, the workspace or the organization; `installation` for that.
    table.text('owner_id').notNullable();
    // Null for a person, whose servers go with them into every organization, and for the installation.
    table.text('organization_id').references('organizations.id').onDelete('cascade');
    table.text('workspace_id').references('workspaces.id').onDelete('cascade');
    table.text('user_id').references('users.id').onDelete('cascade');
    table.text('name').notNullable();
    // As an entry of service.json has it, without secrets.
    table.text('entry').notNullable();
    table.text('env_names').notNullable();
    table.text('header_names').notNullable();
    // Sealed.
    table.text('secrets');
    // Raised by whatever ends the connections that there are.
    table.integer('connection').notNullable();
    table.text('created_by').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.unique(['owner_id', 'name']);
    table.index(['owner_id', 'created_at', 'id']);
    table.index(['organization_id', 'created_at', 'id']);
    table.index(['workspace_id']);
    table.index(['user_id']);
    table.check("scope in ('user', 'workspace', 'organization', 'installation')");
    table.check("(scope = 'user') = (user_id is not null)");
    table.check("(scope in ('workspace', 'organization')) = (organization_id is not null)");
  });
}

async function createLogins(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('mcp_logins', (table) => {
    ofPerson(table);
    table.primary(['server_id', 'user_id']);
    // Sealed: the client, its tokens, and the address that they are for.
    table.text('sealed_login').notNullable();
    // Why the person has to log in again.
    table.text('fault');
    // Until when one node renews it; the others wait for it.
    table.bigInteger('lease_until');
    // Connections of before belong to another login.
    table.bigInteger('connected_at').notNullable();
    table.integer('revision').notNullable();
    table.index(['user_id']);
  });
  await sql.schema.createTable('mcp_login_attempts', (table) => {
    table.text('state_hash').primary();
    ofPerson(table);
    table.unique(['server_id', 'user_id']);
    // Sealed: the client, and what proves that whoever comes back is who went.
    table.text('sealed_attempt').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.index(['user_id']);
  });
}

function ofPerson(table: Knex.CreateTableBuilder): void {
  table.text('server_id').notNullable().references('mcp_servers.id').onDelete('cascade');
  table.text('user_id').notNullable().references('users.id').onDelete('cascade');
}
