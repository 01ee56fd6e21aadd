/**
 * Lists of words are written anew once half of them is deleted, as those of passages are, and no longer at a tenth: most of the
 * time that a workspace took to go, with its sessions and memories, went into that.
 */
import type { Knex } from 'knex';

export const rewrittenLists = {
  name: 'rewritten-lists',
  async up(sql: Knex.Transaction): Promise<void> {
    if (sql.client.config.client === 'pg') return;
    for (const words of ['search_words', 'memory_words'])
      await sql.raw(`insert into ${words} (${words}, rank) values ('deletemerge', 50)`);
  },
};
