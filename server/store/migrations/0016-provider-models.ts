/** What providers themselves list, and the models that people, workspaces and organizations have chosen. */
import type { Knex } from 'knex';
import { guard, inScope, ofUser } from './0006-tenancy.ts';

export const providerModels = {
  name: 'provider-models',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('provider_models', (table) => {
      table.text('setting_id').primary().references('provider_settings.id').onDelete('cascade');
      // Where they were found: those of another address are not this setting's.
      table.text('place').notNullable();
      table.text('models').notNullable();
      table.text('mark').notNullable();
      table.bigInteger('discovered_at');
      table.bigInteger('checked_at');
      // Why the last look brought nothing.
      table.text('fault');
      // Until when one node looks.
      table.bigInteger('refreshing_until');
    });
    await sql.schema.createTable('default_models', (table) => {
      // The id of the person, the workspace or the organization.
      table.text('owner_id').primary();
      table.text('scope').notNullable();
      table.text('organization_id').references('organizations.id').onDelete('cascade');
      table.text('workspace_id').references('workspaces.id').onDelete('cascade');
      table.text('user_id').references('users.id').onDelete('cascade');
      table.text('large');
      table.text('small');
      table.text('embed');
      table.integer('revision').notNullable();
      table.bigInteger('updated_at').notNullable();
      table.index(['organization_id']);
      table.index(['workspace_id']);
      table.index(['user_id']);
      table.check("scope in ('user', 'workspace', 'organization')");
      table.check("(scope = 'user') = (user_id is not null)");
      table.check("(scope = 'user') = (organization_id is null)");
    });
    if (sql.client.config.client !== 'pg') return;
    await guard(
      sql,
      'provider_models',
      'exists (select from provider_settings where provider_settings.id = provider_models.setting_id)',
    );
    await guard(sql, 'default_models', `${inScope('organization_id')} or ${ofUser('user_id')}`);
  },
};
