/** Git repositories of skills: where they are, what a sync has found, and the skills of them that are used. */
import type { Knex } from 'knex';
import { forServerAlone, guard } from './0006-tenancy.ts';

export const skillRepositories = {
  name: 'skill-repositories',
  async up(sql: Knex.Transaction): Promise<void> {
    await createRepositories(sql);
    await createSkills(sql);
    if (sql.client.config.client !== 'pg') return;
    for (const table of ['skill_repositories', 'repository_skills', 'repository_skill_files'])
      await guard(sql, table, forServerAlone);
  },
};

async function createRepositories(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('skill_repositories', (table) => {
    table.text('id').primary();
    table.text('name').notNullable();
    table.text('url').notNullable();
    table.text('ref');
    table.text('subfolder');
    table.text('pinned_commit');
    table.text('username');
    table.text('sealed_token');
    table.text('state').notNullable();
    table.text('error');
    table.text('proposed_commit');
    // JSON: what the last sync has found; the files lie in their own table.
    table.text('proposal');
    table.text('applied_commit');
    table.bigInteger('synced_at');
    table.bigInteger('applied_at');
    // Whose workspaces are told how a sync goes; no reference, as the repository outlives them.
    table.text('asked_by').notNullable();
    // The process that fetches it, how long others leave it alone, and how many have begun.
    table.text('claim');
    table.text('claimed_by');
    table.bigInteger('claimed_until');
    table.integer('claims').notNullable();
    table.integer('revision').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.index(['created_at', 'id']);
    table.index(['state']);
    table.check("state in ('idle', 'syncing', 'proposed', 'failed')");
    table.check("(state = 'proposed') = (proposed_commit is not null)");
    table.check("(state = 'proposed') = (proposal is not null)");
    table.check("(state = 'failed') = (error is not null)");
  });
}

async function createSkills(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('repository_skills', (table) => {
    table.text('id').primary();
    table.text('repository_id').notNullable().references('skill_repositories.id').onDelete('cascade');
    table.text('name').notNullable();
    table.text('path').notNullable();
    table.text('description').notNullable();
    table.text('digest').notNullable();
    table.integer('files').notNullable();
    table.bigInteger('size').notNullable();
    table.bigInteger('created_at').notNullable();
    table.bigInteger('updated_at').notNullable();
    table.unique(['repository_id', 'name']);
    table.index(['digest']);
  });
  // Of what is proposed and of what is used: most of a new commit is what was there before.
  await sql.schema.createTable('repository_skill_files', (table) => {
    table.text('repository_id').notNullable().references('skill_repositories.id').onDelete('cascade');
    table.text('digest').notNullable();
    table.text('path').notNullable();
    table.integer('size').notNullable();
    table.text('sha256').notNullable();
    table.boolean('executable').notNullable();
    table.binary('content').notNullable();
    table.primary(['repository_id', 'digest', 'path']);
  });
}
