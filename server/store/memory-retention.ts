/** Deletes memories that were last written longer ago than their organization keeps them. */
import type { Knex } from 'knex';
import { recordAudit } from './audit.ts';
import type { Database } from './database.ts';
import type { MemoryRow } from './memory-rows.ts';
import { organizationSettings } from './organization-settings.ts';
import { sweep } from './sweeps.ts';

const dayMs = 86_400_000;

/** Answers with how many. The audit log of each organization says how many of its own. */
export async function retireMemories(database: Database, now: number): Promise<number> {
  let count = 0;
  for (const { id, days } of await limitedOrganizations(database)) {
    const kept = { organizationId: id, days, before: now - days * dayMs };
    count += await sweep(database, (sql, most) => retireSome(sql, kept, most));
  }
  return count;
}

interface Kept {
  readonly organizationId: string;
  readonly days: number;
  readonly before: number;
}

async function retireSome(sql: Knex.Transaction, kept: Kept, most: number): Promise<number> {
  const { organizationId, days, before } = kept;
  const due = await sql<MemoryRow>('memories')
    .where({ organization_id: organizationId })
    .where('updated_at', '<', before)
    .limit(most)
    .pluck('id');
  if (due.length === 0) return 0;
  // Whoever changes one meanwhile has written it anew.
  const deleted = await sql<MemoryRow>('memories')
    .whereIn('id', due)
    .where('updated_at', '<', before)
    .delete();
  const target = { type: 'memory', id: null };
  const gone = { memories: deleted, memory_retention_days: days };
  recordAudit(sql, { userId: null }, { action: 'memory.expire', target, organizationId, before: gone });
  return due.length;
}

/** Those that have chosen for how long. */
async function limitedOrganizations(database: Database) {
  const rows: { readonly id: string; readonly settings: string }[] = await database.read(
    'installation',
    // Once an hour; what was chosen stands in a column of text.
    (sql) =>
      sql('organizations').where('settings', 'like', '%"memory_retention_days":%').select('id', 'settings'),
  );
  return rows.flatMap(({ id, settings }) => {
    const { memory_retention_days: days } = organizationSettings({ settings });
    return days === null ? [] : [{ id, days }];
  });
}
