/** Who reads the audit log, what they find in it, and what is found when somebody has had their hands in it. */
import type { Knex } from 'knex';
import { expect, it } from 'vitest';
import { type AuditRow, hashOfEntry } from './audit-chain.ts';
import type { AuditFilters, AuditReader } from './audit-logs.ts';
import type { Reach, Store } from './store.ts';
import { bothOf, describeStores, newAccount, reachOfNobody, type TestEngine } from './test-stores.ts';

const asAdmin = (reach: Reach): AuditReader => ({ ...reach, operator: false });
const operator: AuditReader = { ...reachOfNobody('usr_operator'), operator: true };
const origin = { requestId: 'req_of_ada', address: '192.0.2.7', credential: null };

describeStores('Reading the audit log', (store, engine) => {
  it('shows an admin what concerns their organization, the newest first, and nothing of another', async () => {
    const [ada, mallory] = await twoPeople(store());
    const page = await store().auditLogs.list(asAdmin(ada), {});
    expect(page.data.length).toBeGreaterThan(1);
    expect(new Set(page.data.map(({ organization_id }) => organization_id))).toEqual(
      new Set(ada.organizationIds),
    );
    const numbers = page.data.map(({ sequence }) => sequence);
    expect(numbers).toEqual(numbers.toSorted((a, b) => b - a));
    const foreign = (await store().auditLogs.list(asAdmin(mallory), {})).data[0];
    if (!foreign) throw new Error('nothing was recorded');
    expect(await store().auditLogs.find(asAdmin(ada), foreign.id)).toBeNull();
    expect(await store().auditLogs.find(asAdmin(mallory), foreign.id)).toEqual(foreign);
    const [organization_id = ''] = mallory.organizationIds;
    const asked = store().auditLogs.list(asAdmin(ada), { organization_id });
    await expect(asked).rejects.toMatchObject({ code: 'not_found' });
  });

  it('shows the operator all of it, what concerns no organization included', async () => {
    const [ada, mallory] = await twoPeople(store());
    await store().auditLogs.record(
      { userId: null },
      { action: 'thing.change', target: { type: 'thing', id: null }, organizationId: null },
    );
    const { data } = await store().auditLogs.list(operator, { limit: 100 });
    const seen = new Set(data.map(({ organization_id }) => organization_id));
    for (const id of [...ada.organizationIds, ...mallory.organizationIds, null]) expect(seen).toContain(id);
    const [common] = data;
    if (!common) throw new Error('nothing was recorded');
    expect(common).toMatchObject({
      actor: { type: 'system', id: null },
      target: { type: 'thing', id: null },
    });
    expect(await store().auditLogs.find(operator, common.id)).toEqual(common);
    expect(await store().auditLogs.find(asAdmin(ada), common.id)).toBeNull();
  });

  it('refuses whoever is admin nowhere, and a member what is of their organization', async () => {
    const ada = await newAccount(store(), 'Ada');
    const asMember: AuditReader = {
      ...ada,
      memberships: ada.memberships.map((membership) => ({ ...membership, role: 'member' })),
      operator: false,
    };
    const entry = (await store().auditLogs.list(asAdmin(ada), {})).data[0];
    if (!entry) throw new Error('nothing was recorded');
    const [organization_id = ''] = ada.organizationIds;
    for (const asked of [
      () => store().auditLogs.list(asMember, {}),
      () => store().auditLogs.list(asMember, { organization_id }),
      () => store().auditLogs.find(asMember, entry.id),
      () => store().auditLogs.export(asMember, {}, 'csv'),
      () => store().auditLogs.verify(asMember, []),
      () => store().auditLogs.list({ ...reachOfNobody(), operator: false }, {}),
    ])
      await expect(asked()).rejects.toMatchObject({ code: 'role_required' });
  });

  it('finds by actor, action, target, outcome, address, request and time, page by page', async () => {
    const [ada, bob] = await twoPeople(store());
    const reader = asAdmin(bothOf(ada, bob));
    engine.clock.advance(60_000);
    const from = engine.clock.now().toISOString();
    const agent = { slug: `a-${ada.userId}`, description: 'x', instructions: 'x' };
    const [organizationId = ''] = ada.organizationIds;
    const made = await store().agents.create(
      { ...ada, origin },
      { organizationId, workspaceId: null },
      agent,
    );
    engine.clock.advance(60_000);
    const to = engine.clock.now().toISOString();
    await store().agents.delete({ ...ada, origin: { ...origin, requestId: 'req_2' } }, made.agent.id ?? '');
    const id = made.agent.id ?? '';
    const found = async (query: AuditFilters) =>
      (await store().auditLogs.list(reader, query)).data.map(({ action }) => action);
    expect(await found({ target: id })).toEqual(['agent.delete', 'agent.create']);
    expect(await found({ target: id, action: 'agent.create' })).toEqual(['agent.create']);
    expect(await found({ target: id, actor: bob.userId })).toEqual([]);
    expect(await found({ actor: ada.userId, from, to })).toEqual(['agent.create']);
    expect(await found({ ip: '192.0.2.7', target: id, from: to })).toEqual(['agent.delete']);
    expect(await found({ request_id: 'req_2' })).toEqual(['agent.delete']);
    expect(await found({ target: id, outcome: 'refused' })).toEqual([]);
    expect(await found({ target: id, outcome: 'success', from: '2026-11-21T08:00:60Z' })).toHaveLength(2);

    const whole = (await store().auditLogs.list(reader, { limit: 100 })).data;
    const paged: unknown[] = [];
    let cursor: string | null = null;
    do {
      const query = { limit: 2, ...(cursor !== null && { cursor }) };
      const page: Awaited<ReturnType<Store['auditLogs']['list']>> = await store().auditLogs.list(
        reader,
        query,
      );
      paged.push(...page.data);
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(paged).toEqual(whole);
  });

  it('exports all of it in order, the export itself as the last, however much is recorded meanwhile', async () => {
    const ada = await newAccount(store(), 'Ada');
    for (let index = 0; index < 120; index += 1)
      await store().users.update({ ...ada, origin }, { name: `Ada ${index}` });
    const pages = await store().auditLogs.export(asAdmin(ada), { action: 'user.update' }, 'csv');
    await store().users.update(ada, { name: 'too late' });
    const names: unknown[] = [];
    for await (const page of pages) for (const { after } of page) names.push(after?.name);
    expect(names).toEqual(Array.from({ length: 120 }, (_, index) => `Ada ${index}`));
    const all = await Array.fromAsync(await store().auditLogs.export(asAdmin(ada), {}, 'ndjson'));
    expect(all.flat().at(-1)).toMatchObject({ action: 'audit.export', after: { format: 'ndjson' } });
  });
});

describeStores('The chain of the audit log', (store, engine) => {
  const verify = (anchors: { sequence: number; hash: string }[] = []) =>
    store().auditLogs.verify('installation', anchors);

  it('holds as it was recorded, and against every head that was written down', async () => {
    const early = await store().auditLogs.head();
    await record(store(), 5);
    const head = await store().auditLogs.head();
    expect(await verify([early, head])).toEqual({
      valid: true,
      entries: head.sequence,
      pruned_through: 0,
      head,
      first_broken: null,
    });
  });

  // What is done to the rows, and where it is found.
  const wrongs: readonly Wrong[] = [
    [
      'an entry that was changed',
      (sql, at) => sql('audit_entries').where({ sequence: at }).update({ actor_id: 'usr_innocent' }),
      { fault: 'changed', offset: 0 },
    ],
    [
      'an entry whose time was changed',
      (sql, at) => sql('audit_entries').where({ sequence: at }).update({ created_at: 1 }),
      { fault: 'changed', offset: 0 },
    ],
    [
      'an entry that was deleted',
      (sql, at) => sql('audit_entries').where({ sequence: at }).delete(),
      { fault: 'missing', offset: 0 },
    ],
    [
      'two entries that changed places',
      async (sql, at) => {
        const place = (from: number, to: number) =>
          sql('audit_entries').where({ sequence: from }).update({ sequence: to });
        await place(at, -1);
        await place(at + 1, at);
        await place(-1, at + 1);
      },
      { fault: 'changed', offset: 0 },
    ],
    [
      'entries that were deleted, and those after them moved up',
      async (sql, at) => {
        await sql('audit_entries').where({ sequence: at }).delete();
        for (let from = at + 1; from <= at + 2; from += 1)
          await sql('audit_entries')
            .where({ sequence: from })
            .update({ sequence: from - 1 });
      },
      { fault: 'changed', offset: 0 },
    ],
    [
      'an entry whose hash was made to fit',
      async (sql, at) => {
        const row = await sql<AuditRow>('audit_entries').where({ sequence: at }).first();
        if (!row) throw new Error('no such entry');
        await sql('audit_entries')
          .where({ sequence: at })
          .update(resealed({ ...row, ip: '203.0.113.1' }));
      },
      { fault: 'unlinked', offset: 1 },
    ],
    [
      'the last entries cut off',
      (sql, at) => sql('audit_entries').where('sequence', '>=', at).delete(),
      { fault: 'truncated', offset: 0 },
    ],
    [
      'an entry that no head knows of',
      async (sql, at) => {
        const row = await sql<AuditRow>('audit_entries')
          .where({ sequence: at + 2 })
          .first();
        if (!row) throw new Error('no such entry');
        const next = { ...row, sequence: at + 3, id: 'aud_forged', prev_hash: row.hash };
        await sql('audit_entries').insert(resealed(next));
      },
      { fault: 'unlinked', offset: 3 },
    ],
  ];

  it.each(wrongs)('does not hold with %s', async (_wrong, change, { fault, offset }) => {
    await record(store(), 5);
    const { sequence } = await store().auditLogs.head();
    const at = sequence - 2;
    await tampering(
      engine,
      (sql) => change(sql, at),
      async () => {
        const found = await verify();
        expect(found).toMatchObject({
          valid: false,
          head: null,
          first_broken: { fault, sequence: at + offset },
        });
        expect(found.entries).toBe(at + offset - 1);
      },
    );
    expect((await verify()).valid).toBe(true);
  });

  it('does not hold with its end cut off and the head turned back, where a head was written down', async () => {
    await record(store(), 5);
    const written = await store().auditLogs.head();
    const cut = async (sql: Knex) => {
      const at = written.sequence - 2;
      await sql('audit_entries').where('sequence', '>', at).delete();
      const row = await sql<AuditRow>('audit_entries').where({ sequence: at }).first();
      await sql('audit_head').update({ sequence: at, hash: row?.hash });
    };
    await tampering(engine, cut, async () => {
      // By itself the shorter chain is whole: this is what anchors are for.
      expect((await verify()).valid).toBe(true);
      expect((await verify([written])).first_broken).toEqual({
        fault: 'truncated',
        sequence: written.sequence - 1,
        entry_id: null,
      });
      expect(await store().auditLogs.differs(written)).toBe('truncated');
    });
    expect(await store().auditLogs.differs(written)).toBeNull();
  });

  it('does not hold where all of it was written anew, against a head that was written down', async () => {
    await record(store(), 3);
    const written = await store().auditLogs.head();
    const rewrite = async (sql: Knex) => {
      let prev_hash = '0'.repeat(64);
      for (const row of await sql<AuditRow>('audit_entries').orderBy('sequence')) {
        const sealed = resealed({ ...numbered(row), actor_id: 'usr_innocent', prev_hash });
        await sql('audit_entries').where({ sequence: row.sequence }).update(sealed);
        prev_hash = sealed.hash;
      }
      await sql('audit_head').update({ hash: prev_hash });
    };
    await tampering(engine, rewrite, async () => {
      expect((await verify()).valid).toBe(true);
      expect((await verify([written])).first_broken).toMatchObject({
        fault: 'rewritten',
        sequence: written.sequence,
      });
    });
  });

  it('names a broken entry to those who may see it alone', async () => {
    const [ada, mallory] = await twoPeople(store());
    const entry = (await store().auditLogs.list(asAdmin(ada), {})).data[0];
    if (!entry) throw new Error('nothing was recorded');
    const change = (sql: Knex) => sql('audit_entries').where({ id: entry.id }).update({ ip: '203.0.113.1' });
    await tampering(engine, change, async () => {
      const place = { sequence: entry.sequence, fault: 'changed' };
      const asked = (reader: AuditReader) => store().auditLogs.verify(reader, []);
      expect((await asked(asAdmin(ada))).first_broken).toEqual({ ...place, entry_id: entry.id });
      expect((await asked(operator)).first_broken).toEqual({ ...place, entry_id: entry.id });
      expect((await asked(asAdmin(mallory))).first_broken).toEqual({ ...place, entry_id: null });
    });
  });
});

type Wrong = readonly [
  string,
  (sql: Knex, at: number) => Promise<unknown>,
  { readonly fault: string; readonly offset: number },
];

async function twoPeople(store: Store): Promise<[Reach, Reach]> {
  return [await newAccount(store, 'Ada'), await newAccount(store, 'Mallory')];
}

async function record(store: Store, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1)
    await store.auditLogs.record(
      { userId: null },
      { action: 'thing.change', target: { type: 'thing', id: `${index}` }, organizationId: null },
    );
}

/** As `engine.sql()` reads it, numbers are text on PostgreSQL. */
function numbered(row: AuditRow): AuditRow {
  return { ...row, sequence: Number(row.sequence), created_at: Number(row.created_at) };
}

/** With the hash that belongs to its content, as somebody who knows how would write it. */
function resealed(row: AuditRow): AuditRow {
  return { ...row, hash: hashOfEntry(row.prev_hash, numbered(row)) };
}

/** As somebody does it who owns the database: past the triggers. What was there is put back. */
async function tampering(
  engine: TestEngine,
  change: (sql: Knex) => Promise<unknown>,
  check: () => Promise<void>,
): Promise<void> {
  const sql = engine.sql();
  const kept = { entries: await sql('audit_entries'), head: await sql('audit_head') };
  const triggers = await switchOff(sql, engine);
  try {
    await change(sql);
    await check();
  } finally {
    await sql('audit_entries').delete();
    await sql('audit_head').delete();
    await sql.batchInsert('audit_entries', kept.entries, 30);
    await sql('audit_head').insert(kept.head);
    for (const statement of triggers) await sql.raw(statement);
  }
}

/** Answers with the statements that bring the triggers back. */
async function switchOff(sql: Knex, { dialect }: TestEngine): Promise<string[]> {
  const tables = ['audit_entries', 'audit_head'];
  if (dialect === 'postgresql') {
    for (const table of tables) await sql.raw(`alter table ${table} disable trigger user`);
    return tables.map((table) => `alter table ${table} enable trigger user`);
  }
  const triggers = await sql('sqlite_master').where({ type: 'trigger' }).whereIn('tbl_name', tables);
  for (const { name } of triggers) await sql.raw(`drop trigger ${name}`);
  return triggers.map((trigger) => trigger.sql);
}
