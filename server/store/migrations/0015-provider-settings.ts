/** Model providers that people and admins keep on the server, with their secrets sealed. */
import type { Knex } from 'knex';
import { guard, inScope, ofUser } from './0006-tenancy.ts';

export const providerSettings = {
  name: 'provider-settings',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('provider_settings', (table) => {
      table.text('id').primary();
      table.text('scope').notNullable();
      // The id of the person, the workspace or the organization.
      table.text('owner_id').notNullable();
      // Null for a person, whose settings go with them into every organization.
      table.text('organization_id').references('organizations.id').onDelete('cascade');
      table.text('workspace_id').references('workspaces.id').onDelete('cascade');
      table.text('user_id').references('users.id').onDelete('cascade');
      table.text('provider_id').notNullable();
      table.text('name').notNullable();
      // As an entry of service.json has it, without secrets.
      table.text('entry').notNullable();
      table.boolean('api_key_set').notNullable();
      table.text('extra_header_names').notNullable();
      // Sealed.
      table.text('secrets');
      table.integer('priority').notNullable();
      table.text('created_by').notNullable();
      table.integer('revision').notNullable();
      table.bigInteger('created_at').notNullable();
      table.bigInteger('updated_at').notNullable();
      table.unique(['owner_id', 'provider_id', 'name']);
      table.index(['owner_id', 'created_at', 'id']);
      table.index(['organization_id', 'created_at', 'id']);
      table.index(['workspace_id']);
      table.index(['user_id']);
      table.check("scope in ('user', 'workspace', 'organization')");
      table.check("(scope = 'user') = (user_id is not null)");
      table.check("(scope = 'user') = (organization_id is null)");
    });
    if (sql.client.config.client === 'pg')
      await guard(sql, 'provider_settings', `${inScope('organization_id')} or ${ofUser('user_id')}`);
  },
};
