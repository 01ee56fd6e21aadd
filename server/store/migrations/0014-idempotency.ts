/** Requests that came with an Idempotency-Key, and what became of them: so that the same request has one effect. */
import type { Knex } from 'knex';
import { guard } from './0006-tenancy.ts';

export const idempotency = {
  name: 'idempotency',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.createTable('kept_requests', (table) => {
      // An account, or one of its API keys: each has keys of its own.
      table.text('principal_id').notNullable();
      table.text('idempotency_key').notNullable();
      table.text('user_id').notNullable().references('users.id').onDelete('cascade');
      // Of all that the request says.
      table.text('fingerprint').notNullable();
      // The run that it began. No reference: what was answered stands, whatever becomes of the run.
      table.text('run_id');
      // Sealed: it may hold a secret that is shown once.
      table.text('reply');
      table.bigInteger('created_at').notNullable();
      table.primary(['principal_id', 'idempotency_key']);
      table.index(['created_at']);
      table.index(['user_id']);
    });
    if (sql.client.config.client === 'pg') await guard(sql, 'kept_requests', ofUser);
  },
};

const ofUser = `user_id = (select current_setting('service.user_id', true))
  or (select current_setting('service.organizations', true)) = '*'`;
