/** What was used stays counted when its organization goes: whoever deletes their own would lift the quotas that bind them. */
import type { Knex } from 'knex';

const tables = ['usage_days', 'usage_counters'] as const;

export const keptUsage = {
  name: 'kept-usage',
  async up(sql: Knex.Transaction): Promise<void> {
    for (const table of tables) {
      if (sql.client.config.client !== 'pg') await makeAnew(sql, table);
      else
        await sql.schema.alterTable(table, (changed) => {
          changed.dropForeign('organization_id');
        });
    }
  },
};

/** SQLite takes no reference from a table. No other table refers to these two, so that each can be made once more without. */
async function makeAnew(sql: Knex.Transaction, table: (typeof tables)[number]): Promise<void> {
  const before = `${table}_before`;
  const parts: { type: string; sql: string }[] = await sql('sqlite_schema')
    .where({ tbl_name: table })
    .whereNotNull('sql')
    .select('type', 'sql');
  const [made = ''] = parts.flatMap(({ type, sql: text }) => (type === 'table' ? [text] : []));
  const indexes = parts.flatMap(({ type, sql: text }) => (type === 'index' ? [text] : []));
  await sql.schema.renameTable(table, before);
  await sql.raw(withoutReference(made));
  await sql.raw(`insert into ${table} select * from ${before}`);
  // Its indexes go with it, and their names are free again.
  await sql.schema.dropTable(before);
  for (const index of indexes) await sql.raw(index);
}

function withoutReference(made: string): string {
  const without = made.replace(
    /, foreign key\(`organization_id`\) references `organizations`\(`id`\) on delete cascade/i,
    '',
  );
  if (without === made) throw new Error(`There is no reference to take away: ${made}`);
  return without;
}
