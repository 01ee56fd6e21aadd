/** Whether the audit log is what was recorded: every hash anew, every link, and the heads that were written down. */
import type { Knex } from 'knex';
import type { WrittenAnchor } from './audit-anchors.ts';
import { namesBase, readBase, whileBaseStands } from './audit-base.ts';
import { type Anchor, type AuditRow, hashOfEntry } from './audit-chain.ts';
import { countingAnchors } from './audit-restore.ts';
import type { Database } from './database.ts';

export interface ChainState {
  /** How many entries hold. */
  readonly entries: number;
  /** The last entry that is no longer kept; its number is 0 where all are. */
  readonly base: Anchor;
  readonly head: Anchor;
  /** The first place where the chain does not hold. */
  readonly broken: BrokenPlace | null;
}

interface BrokenPlace {
  readonly sequence: number;
  /** Null where there is none. */
  readonly row: AuditRow | null;
  readonly fault: 'changed' | 'missing' | 'unlinked' | 'truncated' | 'rewritten';
}

const chunk = 1000;
const start: Anchor = { sequence: 0, hash: '0'.repeat(64) };

/** One reading of the whole chain goes on at a time: whoever asks meanwhile gets its result too. */
export function createVerification(database: Database): {
  verify(anchors: readonly WrittenAnchor[]): Promise<ChainState>;
} {
  let underWay: Promise<ChainState> | null = null;
  return {
    async verify(anchors) {
      underWay ??= walk(database).finally(() => {
        underWay = null;
      });
      const state = await underWay;
      const differing = await database.read('installation', (sql) =>
        differingAnchor(sql, anchors, state.head),
      );
      // What a walk finds comes first: an anchor says no more than that something before it is wrong.
      return state.broken || !differing ? state : { ...state, broken: differing };
    },
  };
}

export async function readHead(sql: Knex): Promise<Anchor> {
  const row = await sql<Anchor>('audit_head').first('sequence', 'hash');
  return row ? { sequence: row.sequence, hash: row.hash } : start;
}

interface Walk {
  readonly base: Anchor;
  readonly head: Anchor;
  last: Anchor;
  /** Whether an entry says that the log begins here, and nowhere else. */
  baseIsNamed: boolean;
}

async function walk(database: Database): Promise<ChainState> {
  // What is recorded from now on is not looked at.
  const { base, head } = await database.read('installation', async (sql) => ({
    base: await readBase(sql),
    head: await readHead(sql),
  }));
  const under: Walk = { base, head, last: base, baseIsNamed: base.sequence === 0 };
  const broken = (await faultOfEntries(database, under)) ?? (await faultOfEnds(database, under));
  // What another process has forgotten meanwhile is not missing.
  const now = broken && (await database.read('installation', readBase));
  if (now && now.sequence > base.sequence) return walk(database);
  return { entries: under.last.sequence - base.sequence, base, head, broken };
}

async function faultOfEntries(database: Database, under: Walk): Promise<BrokenPlace | null> {
  for (;;) {
    const after = under.last.sequence;
    const rows = await database.read('installation', (sql) =>
      sql<AuditRow>('audit_entries')
        .where('sequence', '>', after)
        .where('sequence', '<=', under.head.sequence)
        .orderBy('sequence')
        .limit(chunk),
    );
    for (const row of rows) {
      const fault = faultOf(row, under.last);
      if (fault) return fault;
      under.baseIsNamed ||= namesBase(row, under.base);
      under.last = { sequence: row.sequence, hash: row.hash };
    }
    if (rows.length < chunk) return null;
  }
}

function faultOf(row: AuditRow, last: Anchor): BrokenPlace | null {
  const sequence = last.sequence + 1;
  if (row.sequence !== sequence) return { sequence, row: null, fault: 'missing' };
  if (hashOfEntry(row.prev_hash, row) !== row.hash) return { sequence, row, fault: 'changed' };
  return row.prev_hash === last.hash ? null : { sequence, row, fault: 'unlinked' };
}

async function faultOfEnds(
  database: Database,
  { base, head, last, baseIsNamed }: Walk,
): Promise<BrokenPlace | null> {
  if (last.sequence < head.sequence) return { sequence: last.sequence + 1, row: null, fault: 'truncated' };
  if (last.hash !== head.hash) return { sequence: last.sequence, row: null, fault: 'rewritten' };
  if (!baseIsNamed) return { sequence: base.sequence, row: null, fault: 'missing' };
  return database.read('installation', strayBeyondHead);
}

/** Entries that no head knows of: in one query, so that nothing is recorded in between. */
async function strayBeyondHead(sql: Knex): Promise<BrokenPlace | null> {
  const head = sql('audit_head').select('sequence').where({ id: 1 });
  const row = await sql<AuditRow>('audit_entries').where('sequence', '>', head).orderBy('sequence').first();
  return row ? { sequence: row.sequence, row, fault: 'unlinked' } : null;
}

/** What is wrong where the chain does not hold this entry. */
export async function anchorFault(sql: Knex, anchor: Anchor): Promise<'truncated' | 'rewritten' | null> {
  return whileBaseStands(sql, async (base) => {
    if (anchor.sequence <= base.sequence) return contradicts(base, anchor) ? 'rewritten' : null;
    const row = await sql<AuditRow>('audit_entries').where({ sequence: anchor.sequence }).first('hash');
    if (row?.hash === anchor.hash) return null;
    return row ? 'rewritten' : 'truncated';
  });
}

/** Whether a head that was written down is the last entry that is no longer kept, and another. Older ones say nothing. */
function contradicts(base: Anchor, { sequence, hash }: Anchor): boolean {
  return sequence === base.sequence && hash !== base.hash;
}

/** The first of the heads that count which is another than the entry of its number. */
export async function differingAnchor(
  sql: Knex,
  written: readonly WrittenAnchor[],
  head: Anchor,
): Promise<BrokenPlace | null> {
  const anchors = await countingAnchors(sql, written);
  return whileBaseStands(sql, (base) => differingFrom(sql, anchors, { base, head }));
}

async function differingFrom(
  sql: Knex,
  anchors: readonly Anchor[],
  { base, head }: { readonly base: Anchor; readonly head: Anchor },
): Promise<BrokenPlace | null> {
  if (anchors.some((anchor) => contradicts(base, anchor)))
    return { sequence: base.sequence, row: null, fault: 'rewritten' };
  const sorted = anchors
    .filter(({ sequence }) => sequence > base.sequence)
    .toSorted((a, b) => a.sequence - b.sequence);
  for (let first = 0; first < sorted.length; first += chunk) {
    const part = sorted.slice(first, first + chunk);
    const rows = await sql<AuditRow>('audit_entries').whereIn(
      'sequence',
      part.map(({ sequence }) => sequence),
    );
    for (const { sequence, hash } of part) {
      const row = rows.find((one) => one.sequence === sequence) ?? null;
      if (row?.hash === hash) continue;
      if (row) return { sequence, row, fault: 'rewritten' };
      return { sequence: Math.min(head.sequence + 1, sequence), row: null, fault: 'truncated' };
    }
  }
  return null;
}
