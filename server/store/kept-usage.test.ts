/** What was used outlives where it was used, on both databases: quotas that bind somebody still count it, and reports tell it. */
import type { Knex } from 'knex';
import { expect, it } from 'vitest';
import { keptUsage } from './migrations/0040-kept-usage.ts';
import { homeOf, organizationTools } from './test-organizations.ts';
import { beginRun, endRun, message } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const usage = { input_tokens: 100, output_tokens: 20, cached_input_tokens: 0 };

describeStores('What was used', (store, engine) => {
  const { reachOf } = organizationTools(store, engine);
  const work = async (
    reach: Parameters<typeof beginRun>[1],
    at: { readonly sessionId?: string; readonly apiKeyId?: string } = {},
  ) => {
    const run = await beginRun(store(), reach, at);
    await store().transcript.commitStep({
      ...{ ...run, usage, cost: 0.5, steps: 1, events: [] },
      messages: [message('assistant', 'x')],
    });
    await endRun(store(), run);
  };
  const operator = async () => ({
    ...{ ...(await newAccount(store())), operator: true, needs: 'admin' as const },
  });

  // First, as what is used below refers to organizations that are gone.
  it('before the tables were made anew is there after it, and found by the same indexes', async () => {
    const ada = await newAccount(store());
    await work(ada);
    const sql = engine.sql();
    const rows = async (from: Knex) => [
      await from('usage_days').orderBy(['day', 'user_id', 'model', 'slot']),
      await from('usage_counters').orderBy(['subject_id', 'day', 'slot']),
    ];
    const [before, shape] = [await rows(sql), await shapeOf(sql)];
    for (const table of ['usage_days', 'usage_counters']) await refer(sql, table);
    expect(await shapeOf(sql)).not.toEqual(shape);
    await sql.transaction((within) => keptUsage.up(within));
    expect(await rows(sql)).toEqual(before);
    expect(await shapeOf(sql)).toEqual(shape);
    expect(shape.length).toBeGreaterThan(6);
  });

  it('in an organization that is deleted counts on for the quota that its member cannot lift', async () => {
    const ada = await newAccount(store());
    const chief = await operator();
    await store().quotas.put(
      chief,
      { type: 'user', id: ada.userId },
      { requests: { month: { hard: 1 } }, tokens: { month: { hard: 120 } } },
    );
    const { organization } = await store().organizations.create(ada, { name: 'Throwaway' });
    const whole = await reachOf(ada);
    const there = whole.workspaces.find(({ organizationId }) => organizationId === organization.id);
    const { session } = await store().sessions.create(whole, { workspace_id: there?.id ?? '' });
    await work(whole, { sessionId: session.id });
    const owner = await reachOf(ada, 'owner');
    const found = await store().organizations.find(owner, organization.id);
    await store().organizations.delete(owner, organization.id, found?.etag);
    const left = await store().quotas.effective(await reachOf(ada), null);
    expect(left.map(({ resource, used }) => [resource, used])).toEqual([
      ['requests', 1],
      ['tokens', 120],
    ]);
    await expect(beginRun(store(), await reachOf(ada))).rejects.toMatchObject({ code: 'quota_exceeded' });
    const told = await store().usage.sum(chief, {
      ...{ group_by: 'user' as const, organization_id: organization.id },
    });
    expect(told.data).toMatchObject([{ user_id: ada.userId, requests: 1, usage, cost: 0.5 }]);
    // It is nobody else's, and no member's who is at home elsewhere.
    const own = await store().usage.sum({ ...(await reachOf(ada)), operator: false }, { group_by: 'user' });
    expect(own.data).toEqual([]);
  });

  it('with an API key is told of it, also where its person is no more', async () => {
    const ada = await newAccount(store());
    const secret = { hash: `key-${ada.userId}`, prefix: 'sk_usage' };
    const { apiKey } = await store().apiKeys.create(ada, {
      ...secret,
      name: 'Usage',
      scopes: ['agents:read'],
    });
    await work(ada, { apiKeyId: apiKey.id });
    const { organization } = await store().organizations.create(ada, { name: 'Throwaway' });
    const whole = await reachOf(ada);
    const there = whole.workspaces.find(({ organizationId }) => organizationId === organization.id);
    const { session } = await store().sessions.create(whole, { workspace_id: there?.id ?? '' });
    await work(whole, { sessionId: session.id, apiKeyId: apiKey.id });
    const owner = await reachOf(ada, 'owner');
    const found = await store().organizations.find(owner, organization.id);
    await store().organizations.delete(owner, organization.id, found?.etag);
    const used = { usage: { tokens: 240, cost: 1 } };
    const left = await reachOf(ada);
    expect((await store().apiKeys.find(left, apiKey.id))?.apiKey).toMatchObject(used);
    expect((await store().apiKeys.list(left, {})).data).toMatchObject([used]);
    const renamed = await store().apiKeys.update(left, apiKey.id, { name: 'Used' });
    expect(renamed.apiKey).toMatchObject(used);
  });

  it('by somebody whose account is deleted is told to the operator all the same', async () => {
    const [ada, chief] = [await newAccount(store()), await operator()];
    await work(ada);
    await store().people.delete({ ...chief, needs: 'owner' }, ada.userId, {});
    const told = await store().usage.sum(chief, {
      ...{ group_by: 'user' as const, organization_id: homeOf(ada) },
    });
    expect(told.data).toMatchObject([{ user_id: ada.userId, requests: 1, usage, cost: 0.5 }]);
  });

  /** Indexes and references of the two tables, as the database tells them. */
  const shapeOf = async (sql: Knex): Promise<string[]> => {
    const tables = ['usage_days', 'usage_counters'];
    if (engine.dialect === 'sqlite')
      return sql('sqlite_schema').whereIn('tbl_name', tables).orderBy('name').pluck('sql');
    const indexes = await sql('pg_indexes')
      .whereIn('tablename', tables)
      .orderBy('indexname')
      .pluck('indexdef');
    const { rows } = await sql.raw(
      `select conname from pg_constraint where conrelid in ('usage_days'::regclass, 'usage_counters'::regclass)
       and contype <> 'n' order by 1`,
    );
    return [...indexes, ...rows.map(({ conname }: { conname: string }) => conname)];
  };

  /** As the table was at first. */
  const refer = async (sql: Knex, table: string): Promise<void> => {
    const reference = 'foreign key(`organization_id`) references `organizations`(`id`) on delete CASCADE';
    if (engine.dialect === 'postgresql')
      await sql.raw(
        `alter table ${table} add constraint ${table}_organization_id_foreign ${reference.replaceAll('`', '')}`,
      );
    else {
      await sql.raw('pragma writable_schema = on');
      const known = sql('sqlite_schema').where({ type: 'table', name: table });
      await known.update({ sql: sql.raw(`substr(sql, 1, length(sql) - 1) || ', ${reference})'`) });
      await sql.raw('pragma writable_schema = reset');
    }
  };
});
