/** PostgreSQL holds every query to the organizations it asks for, whatever the query says. */
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { searchedByWords } from './migrations/0035-word-searches.ts';
import { openPostgres } from './postgres.ts';
import { beginRun } from './test-runs.ts';
import { describeStore, newAccount, reachOfNobody } from './test-stores.ts';

/** Belong to no tenant: the installation's own, and credentials that are looked for before anybody is known. */
const common = [
  ...['audit_base', 'audit_head', 'embedding_spaces', 'installation', 'schema_versions', 'signing_keys'],
];

describeStore('postgresql', 'Row-level security', (store, engine) => {
  const tables = async (): Promise<string[]> =>
    (
      await engine.sql()('pg_tables').where({ schemaname: 'public' }).orderBy('tablename').pluck('tablename')
    ).filter((name) => !common.includes(name));

  it('guards every table that belongs to somebody, its owner included', async () => {
    const rows: { relname: string; relforcerowsecurity: boolean }[] = await engine
      .sql()('pg_class')
      .join('pg_policy', 'pg_policy.polrelid', 'pg_class.oid')
      .where({ relrowsecurity: true })
      .distinct('relname', 'relforcerowsecurity');
    expect(rows.map(({ relname }) => relname).sort()).toEqual(await tables());
    const free = rows.filter((row) => !row.relforcerowsecurity).map(({ relname }) => relname);
    expect(free.sort()).toEqual([...searchedByWords].sort());
  });

  it('finds by words what the one who asks may see, and lets no other role ask', async () => {
    const [ada, mallory] = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Mallory')];
    await store().sessions.create(ada, { title: 'Narwhals' });
    const database = openPostgres(engine.url(), createLog('silent'));
    const found = async (scope: Parameters<typeof database.read>[0]) => {
      const { rows } = await database.read(scope, (sql) =>
        sql.raw(`select organization_id from search_documents_with('narwhals', null)`),
      );
      return rows.map((row: { organization_id: string }) => row.organization_id);
    };
    try {
      expect(await found(ada)).toEqual(ada.organizationIds);
      expect(await found('installation')).toEqual(ada.organizationIds);
      for (const other of [mallory, reachOfNobody()]) expect(await found(other)).toEqual([]);
    } finally {
      await database.close();
    }
    await engine.sql().transaction(async (sql) => {
      await sql.raw('create role anybody');
      await sql.raw('set local role anybody');
      for (const table of searchedByWords)
        await expect(sql.transaction((inner) => inner.raw(`select ${table}_with('x', 1)`))).rejects.toThrow(
          /permission denied for function/,
        );
      await sql.raw('reset role');
      await sql.raw('drop role anybody');
    });
  });

  it('shows no row where nobody is named, none of another, and lets nothing be written for them', async () => {
    const [ada, mallory] = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Mallory')];
    const { sessionId } = await beginRun(store(), ada);
    const database = openPostgres(engine.url(), createLog('silent'));
    const seen = async (scope: Parameters<typeof database.read>[0]) => {
      const counts: Record<string, number> = {};
      for (const table of await tables()) {
        const [row] = await database.read(scope, (sql) => sql(table).count({ count: '*' }));
        if (row && Number(row.count) > 0) counts[table] = Number(row.count);
      }
      return counts;
    };
    try {
      expect(await seen(reachOfNobody())).toEqual({});
      const own = await seen(ada);
      expect(own).toMatchObject({ sessions: 1, runs: 1, messages: 1, run_events: 1, users: 1, logins: 1 });
      expect(await seen(mallory)).toEqual({
        audit_entries: 2,
        ...{ users: 1, organizations: 1, memberships: 1, workspaces: 1, logins: 1, refresh_tokens: 1 },
      });
      const trail = await database.read(mallory, (sql) =>
        sql('audit_entries').distinct().pluck('organization_id'),
      );
      expect(trail).toEqual(mallory.organizationIds);
      const taken = database.write(mallory, (sql) =>
        sql('sessions').where({ id: sessionId }).update({ title: 'Mine' }),
      );
      expect(await taken).toBe(0);
      const planted = database.write(mallory, async (sql) => {
        const [organization_id = ''] = ada.organizationIds;
        await sql('groups').insert({
          id: newId('group'),
          organization_id,
          name: 'x',
          revision: 1,
          created_at: 1,
          updated_at: 1,
        });
      });
      await expect(planted).rejects.toThrow(/row-level security/);
    } finally {
      await database.close();
    }
  });

  it('works as a role that is neither owner of the tables nor superuser', async () => {
    const database = openPostgres(engine.url(), createLog('silent'));
    try {
      for (const scope of [reachOfNobody(), 'installation' as const]) {
        const { rows } = await database.read(scope, (sql) =>
          sql.raw(
            'select rolsuper, rolbypassrls, current_user as name from pg_roles where rolname = current_user',
          ),
        );
        expect(rows).toEqual([{ rolsuper: false, rolbypassrls: false, name: 'service_app' }]);
        await expect(
          database.read(scope, (sql) => sql.raw('alter table sessions disable row level security')),
        ).rejects.toThrow(/owner/);
      }
    } finally {
      await database.close();
    }
  });
});
