/** Runs that outlive their process: what continues one, and leases that need no clock. */
import type { Knex } from 'knex';

export const continuation = {
  name: 'continuation',
  async up(sql: Knex.Transaction): Promise<void> {
    await replaceLeases(sql);
    await sql.schema.alterTable('runs', (table) => {
      // The newest event when a step or its results were last stored: what comes behind it was not finished.
      table.bigInteger('committed_event_id').notNullable().defaultTo(0);
      table.integer('resumptions').notNullable().defaultTo(0);
      // Names the folder that the run works in among those of all nodes.
      table.text('workspace_place');
      table.text('provisional_title');
    });
    await createSeenFiles(sql);
  },
};

/** A lease is alive as long as its number grows; whose clock says what does not matter. */
async function replaceLeases(sql: Knex.Transaction): Promise<void> {
  await sql.raw('drop index runs_active');
  // Not by knex, which would build the table anew on SQLite, and with it delete what refers to it.
  await sql.raw('alter table runs drop column lease_expires_at');
  await sql.schema.alterTable('runs', (table) => {
    table.bigInteger('lease_renewals').notNullable().defaultTo(0);
  });
  await sql.raw('create index runs_active on runs (id) where ended_at is null');
  await sql.raw('create index runs_of_session_active on runs (session_id, turn) where ended_at is null');
}

/** What a session has last seen of a file, so that nothing is overwritten that changed since. */
async function createSeenFiles(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('seen_files', (table) => {
    table.text('session_id').notNullable().references('sessions.id').onDelete('cascade');
    table.text('path').notNullable();
    table.text('sha256').notNullable();
    table.double('modified_at').notNullable();
    table.primary(['session_id', 'path']);
  });
}
