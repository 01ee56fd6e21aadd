/** A restore takes the audit log back: an entry says so, and heads that were written down before it are over. */
import type { Knex } from 'knex';
import { entryBehind } from './audit.ts';
import type { WrittenAnchor } from './audit-anchors.ts';
import { whileBaseStands } from './audit-base.ts';
import type { Anchor, AuditHead, AuditRow } from './audit-chain.ts';

const restored = 'audit.restore';

/** The entry behind the last one of a copy. Each head is told as `service audit verify --anchor` takes it. */
export function entryOfRestore(copied: AuditHead, replaced: Anchor | null, now: number): AuditRow {
  const record = {
    action: restored,
    target: { type: 'audit_log', id: null },
    organizationId: null,
    before: replaced === null ? undefined : valuesOf(replaced),
    after: valuesOf(copied),
  } as const;
  return entryBehind(copied, { actor: { userId: null }, record }, now);
}

function valuesOf({ sequence, hash }: Anchor) {
  return { head: `${sequence}:${hash}` };
}

/**
 * The heads that a log is held against: those from the last restore on which the log tells of itself. The hash of that
 * entry binds all that was restored, and whoever cuts it off has the heads before it count again. Neither the entry is
 * enough by itself, which whoever has the database can add, nor the line of the file.
 */
export async function countingAnchors(sql: Knex, anchors: readonly WrittenAnchor[]): Promise<Anchor[]> {
  const isHead = ({ restored }: WrittenAnchor) => !restored;
  for (const [index, anchor] of [...anchors.entries()].reverse())
    if (anchor.restored && (await tellsRestore(sql, anchor)))
      return [anchor, ...anchors.slice(index + 1).filter(isHead)];
  return anchors.filter(isHead);
}

/** Of an entry that is no longer kept the log says nothing: heads before it are as old. */
async function tellsRestore(sql: Knex, { sequence, hash }: Anchor): Promise<boolean> {
  return whileBaseStands(sql, async (base) => {
    if (sequence <= base.sequence) return sequence < base.sequence || hash === base.hash;
    const row = await sql<AuditRow>('audit_entries').where({ sequence }).first('hash', 'action');
    return row?.hash === hash && row.action === restored;
  });
}
