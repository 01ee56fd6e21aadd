/** Where the audit log begins: entries before it were forgotten, as an entry after it says. */
import type { Knex } from 'knex';
import { recordAudit } from './audit.ts';
import type { Anchor, AuditRow } from './audit-chain.ts';
import type { Database } from './database.ts';
import { sweep } from './sweeps.ts';

const dayMs = 24 * 3_600_000;

/**
 * Forgets entries of whole days (in UTC) that end before. First the base of the chain moves on, together with an entry
 * that says so; what lies before it then goes a little at a time. Answers with how many entries went.
 */
export async function pruneAuditLog(database: Database, before: Date): Promise<number> {
  // By days: else each hour would forget one hour, and record that it did.
  const day = Math.floor(before.getTime() / dayMs) * dayMs;
  await sweep(database, (sql) => moveBase(sql, day), 1);
  return sweep(database, deleteBeforeBase);
}

export async function readBase(sql: Knex): Promise<Anchor> {
  const row = await sql<Anchor>('audit_base').first('sequence', 'hash');
  if (!row) throw new Error('the audit log has lost its base');
  return { sequence: row.sequence, hash: row.hash };
}

/** What is seen while the log forgets nothing: an entry that went between the base and the look at it is none that is missing. */
export async function whileBaseStands<Seen>(sql: Knex, look: (base: Anchor) => Promise<Seen>): Promise<Seen> {
  for (;;) {
    const base = await readBase(sql);
    const seen = await look(base);
    if ((await readBase(sql)).sequence === base.sequence) return seen;
  }
}

/** What an entry says of a base that has moved; whether it is this one is what a verification asks. */
export function namesBase({ action, after }: AuditRow, base: Anchor): boolean {
  return action === pruned && after === JSON.stringify(valuesOf(base));
}

const pruned = 'audit.prune';

/** As `service audit verify --anchor` takes it. */
function valuesOf({ sequence, hash }: Anchor) {
  return { through: `${sequence}:${hash}` };
}

/** Always answers with 0: one move is all there is to do. */
async function moveBase(sql: Knex.Transaction, before: number): Promise<number> {
  const last = await sql<AuditRow>('audit_entries')
    .where('created_at', '<', before)
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'sequence', order: 'desc' },
    ])
    .first('sequence', 'hash');
  const base = await sql<Anchor & { id: number }>('audit_base').where({ id: 1 }).forUpdate().first();
  if (!last || !base || last.sequence <= base.sequence) return 0;
  await sql('audit_base').where({ id: 1 }).update({ sequence: last.sequence, hash: last.hash });
  recordAudit(
    sql,
    { userId: null },
    {
      action: pruned,
      target: { type: 'audit_log', id: null },
      organizationId: null,
      after: valuesOf(last),
    },
  );
  return 0;
}

async function deleteBeforeBase(sql: Knex.Transaction, most: number): Promise<number> {
  const { sequence } = await readBase(sql);
  const oldest = sql('audit_entries')
    .where('sequence', '<=', sequence)
    .orderBy('sequence')
    .limit(most)
    .select('sequence');
  return sql('audit_entries').whereIn('sequence', oldest).delete();
}
