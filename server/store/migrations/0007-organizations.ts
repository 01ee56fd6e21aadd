/** Organizations that people make and change, and invitations that lead into them. */
import type { Knex } from 'knex';
import { guard, inScope } from './0006-tenancy.ts';

export const organizations = {
  name: 'organizations',
  async up(sql: Knex.Transaction): Promise<void> {
    await extendOrganizations(sql);
    await extendMemberships(sql);
    await createInvitations(sql);
    // Invitations of nobody's organization, bootstrap tokens among them, are seen by the server alone.
    if (sql.client.config.client === 'pg') await guard(sql, 'invitations', inScope('organization_id'));
  },
};

async function extendOrganizations(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('organizations', (table) => {
    table.text('slug').notNullable().defaultTo('');
    // JSON: what differs from the defaults.
    table.text('settings').notNullable().defaultTo('{}');
    table.integer('revision').notNullable().defaultTo(1);
  });
  // An id is unique and, but for one character, a slug.
  await sql('organizations').update({ slug: sql.raw(`replace(id, '_', '-')`) });
  await sql.raw('create unique index organizations_by_slug on organizations (slug)');
}

async function extendMemberships(sql: Knex.Transaction): Promise<void> {
  await sql.schema.alterTable('memberships', (table) => {
    table.integer('revision').notNullable().defaultTo(1);
    table.dropIndex(['user_id', 'created_at']);
    table.index(['user_id', 'created_at', 'organization_id']);
    table.index(['organization_id', 'created_at', 'user_id']);
    table.index(['organization_id', 'role', 'created_at', 'user_id']);
  });
}

async function createInvitations(sql: Knex.Transaction): Promise<void> {
  await sql.schema.dropTable('invitations');
  await sql.schema.createTable('invitations', (table) => {
    table.text('id').primary();
    table.text('hash').notNullable().unique();
    table.text('kind').notNullable();
    // Absent where it lets somebody register and leads into no organization.
    table.text('organization_id').references('organizations.id').onDelete('cascade');
    table.text('email');
    // The address in lower case: one person, however they spell it.
    table.text('email_key');
    table.text('role');
    // No foreign keys: who invited and who came stays known after the accounts are gone.
    table.text('invited_by');
    table.bigInteger('created_at').notNullable();
    table.bigInteger('expires_at').notNullable();
    table.bigInteger('used_at');
    table.text('used_by');
    table.index(['kind', 'used_at', 'expires_at']);
    table.index(['expires_at']);
    table.index(['organization_id', 'created_at', 'id']);
    table.check("kind in ('bootstrap', 'invitation')");
    table.check("role in ('owner', 'admin', 'member', 'viewer')");
    table.check('(organization_id is null) = (email_key is null)');
    table.check('(organization_id is null) = (role is null)');
  });
  await sql.raw(
    'create unique index invitations_one_open on invitations (organization_id, email_key) where used_at is null',
  );
}
