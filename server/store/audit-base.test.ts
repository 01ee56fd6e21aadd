/** What the audit log forgets: what is old enough alone, with an entry that says so, and a chain that still holds. */
import type { Knex } from 'knex';
import { expect, it } from 'vitest';
import { createLog } from '../log.ts';
import type { WrittenAnchor } from './audit-anchors.ts';
import { differingAnchor } from './audit-verification.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import type { Store } from './store.ts';
import { waiting } from './test-locks.ts';
import { describeStore, describeStores, reachOfNobody, type TestEngine } from './test-stores.ts';

const dayMs = 24 * 3_600_000;

describeStores('What the audit log forgets', (store, engine) => {
  const verify = () => store().auditLogs.verify('installation', []);
  const daysAgo = (days: number) => new Date(engine.clock.now().getTime() - days * dayMs);
  const sequences = async (): Promise<number[]> =>
    (await engine.sql()('audit_entries').orderBy('sequence').pluck('sequence')).map(Number);

  it('is old, whole days of it; what is left is a chain that holds, and says where it begins', async () => {
    // The database has a clock of its own, and lets nothing go that is young by it.
    engine.clock.advance(Date.now() - 500 * dayMs - engine.clock.now().getTime());
    const first = await recordSome(store(), 'old', 3);
    engine.clock.advance(450 * dayMs);
    const second = await recordSome(store(), 'younger', 2);
    engine.clock.advance(50 * dayMs);
    const before = await store().auditLogs.head();

    expect(await store().auditLogs.prune(daysAgo(400))).toBe(first.sequence);
    expect(await sequences()).toEqual([first.sequence + 1, first.sequence + 2, before.sequence + 1]);
    expect(await verify()).toMatchObject({ valid: true, entries: 3, pruned_through: first.sequence });
    const everything = { ...reachOfNobody(), operator: true };
    const [told] = (await store().auditLogs.list(everything, { action: 'audit.prune' })).data;
    expect(told).toMatchObject({
      sequence: before.sequence + 1,
      actor: { type: 'system' },
      after: { through: `${first.sequence}:${first.hash}` },
    });
    // Heads that were written down hold as long as their entries are kept, and the last one that is not.
    for (const anchor of [first, second, before]) {
      expect(await store().auditLogs.differs(anchor)).toBeNull();
      expect((await store().auditLogs.verify('installation', [anchor])).valid).toBe(true);
    }
    // A restore whose entry is gone by now: the heads of what it had lost are as old.
    const lost = { ...before, hash: 'e'.repeat(64) };
    const over = { sequence: first.sequence - 1, hash: 'd'.repeat(64), restored: true as const };
    const withAnchors = async (...anchors: WrittenAnchor[]) =>
      (await store().auditLogs.verify('installation', anchors)).valid;
    expect(await withAnchors(lost, over)).toBe(true);
    expect(await withAnchors(lost, { ...over, sequence: first.sequence })).toBe(false);
    expect(await withAnchors(over, lost)).toBe(false);
    const forged = { ...first, hash: 'f'.repeat(64) };
    expect(await store().auditLogs.differs(forged)).toBe('rewritten');
    expect((await store().auditLogs.verify('installation', [forged])).first_broken).toMatchObject({
      sequence: first.sequence,
      fault: 'rewritten',
    });
  });

  it('is nothing more where there is nothing older, and no entry says so', async () => {
    const head = await store().auditLogs.head();
    expect(await store().auditLogs.prune(daysAgo(400))).toBe(0);
    expect(await store().auditLogs.head()).toEqual(head);
  });

  it('is not what happened within thirty days, however the service asks', async () => {
    const young = await recordSome(store(), 'young', 2);
    const kept = await sequences();
    await expect(store().auditLogs.prune(new Date(Date.now() + 10 * dayMs))).rejects.toThrow(/append-only/);
    const attempts: readonly ((sql: Knex) => Promise<unknown>)[] = [
      (sql) => sql('audit_base').update({ sequence: young.sequence, hash: young.hash }),
      (sql) => sql('audit_base').update({ sequence: 1 }),
      (sql) => sql('audit_base').delete(),
      (sql) => sql('audit_entries').where({ sequence: young.sequence }).delete(),
      (sql) => sql('audit_entries').delete(),
    ];
    const database = openedAsService(engine);
    try {
      for (const attempt of attempts)
        await expect(database.write('installation', attempt)).rejects.toThrow(
          /append-only|permission denied/,
        );
    } finally {
      await database.close();
    }
    expect(await sequences()).toEqual(kept);
  });

  it('is missed where somebody has cut off the beginning, and no entry says that', async () => {
    const sql = engine.sql();
    const { base, next } = { base: await sql('audit_base').first(), next: (await sequences())[0] ?? 0 };
    const entry = await sql('audit_entries').where({ sequence: next }).first();
    await withoutTriggers(engine, async () => {
      await sql('audit_base').update({ sequence: next, hash: entry.hash });
    });
    expect((await verify()).first_broken).toEqual({ sequence: next, entry_id: null, fault: 'missing' });
    await withoutTriggers(engine, async () => {
      await sql('audit_base').update(base);
    });
    expect((await verify()).valid).toBe(true);
  });

  it('goes the next time, where a crash has left it behind the base that had moved', async () => {
    const sql = engine.sql();
    const [oldest = 0] = await sequences();
    const { sequence, hash } = await sql('audit_entries').where({ sequence: oldest }).first();
    const through = { sequence: Number(sequence), hash };
    await store().auditLogs.record(
      { userId: null },
      {
        action: 'audit.prune',
        target: { type: 'audit_log', id: null },
        organizationId: null,
        after: { through: `${through.sequence}:${through.hash}` },
      },
    );
    await withoutTriggers(engine, async () => {
      await sql('audit_base').update(through);
    });
    expect(await verify()).toMatchObject({ valid: true, pruned_through: oldest });
    expect(await store().auditLogs.prune(new Date(0))).toBe(1);
    expect((await sequences())[0]).toBe(oldest + 1);
    expect((await verify()).valid).toBe(true);
  });
});

describeStore('postgresql', 'What the audit log forgets while it is read', (store, engine) => {
  type Written = Pick<WrittenAnchor, 'sequence' | 'hash'>;
  it.each<[string, (old: Written, last: Written) => Promise<unknown>, unknown]>([
    ['held against one head', (old) => store().auditLogs.differs(old), null],
    [
      'held against all heads',
      async (old, last) => {
        const database = openedAsService(engine);
        try {
          return await database.read('installation', (sql) => differingAnchor(sql, [old], last));
        } finally {
          await database.close();
        }
      },
      null,
    ],
    [
      'asked for the entry of a restore',
      async (old) => {
        const lost = { sequence: 1_000_000, hash: 'e'.repeat(64) };
        const [first] = await store().auditLogs.counting([lost, { ...old, restored: true }]);
        return first?.hash === old.hash;
      },
      true,
    ],
  ])('is not missing, %s', async (_, look, seen) => {
    engine.clock.advance(Date.now() - 500 * dayMs - engine.clock.now().getTime());
    const old = await recordSome(store(), 'old', 1);
    const last = await recordSome(store(), 'old', 1);
    const looked = await engine.sql().transaction(async (sql) => {
      await sql.raw('lock table audit_entries in access exclusive mode');
      // It has read the base, and waits for the entries.
      const looking = look(old, last);
      await expect.poll(() => waiting(engine.sql())).toBe(1);
      await sql('audit_base').update({ sequence: last.sequence, hash: last.hash });
      await sql('audit_entries').where('sequence', '<=', last.sequence).delete();
      return { looking };
    });
    expect(await looked.looking).toBe(seen);
  });
});

/** Answers with the head behind them. */
async function recordSome(store: Store, id: string, count: number) {
  for (let index = 0; index < count; index += 1)
    await store.auditLogs.record(
      { userId: null },
      { action: 'thing.change', target: { type: 'thing', id }, organizationId: null },
    );
  return store.auditLogs.head();
}

/** With no more rights than the service has. */
function openedAsService(engine: TestEngine) {
  const log = createLog('silent');
  if (engine.dialect === 'postgresql') return openPostgres(engine.url(), log);
  return openSqlite(engine.url().slice('sqlite:'.length), log);
}

/** As somebody does it who owns the database. */
async function withoutTriggers(engine: TestEngine, change: () => Promise<void>): Promise<void> {
  const sql = engine.sql();
  if (engine.dialect === 'postgresql') {
    await sql.raw('alter table audit_base disable trigger user');
    await change();
    await sql.raw('alter table audit_base enable trigger user');
    return;
  }
  const triggers = await sql('sqlite_master').where({ type: 'trigger', tbl_name: 'audit_base' });
  for (const { name } of triggers) await sql.raw(`drop trigger ${name}`);
  await change();
  for (const { sql: statement } of triggers) await sql.raw(statement);
}
