/** Behind which run an answer of a thread began: where its client never had it, all that came of it is taken back. */
import type { Knex } from 'knex';

export const vainAnswers = {
  name: 'vain-answers',
  async up(sql: Knex.Transaction): Promise<void> {
    await sql.schema.alterTable('message_threads', (table) => {
      // The number of a run of the session; null once its client has the newest answer.
      table.integer('answered_behind');
    });
  },
};
