/** Much that is deleted at once: nothing of it stays, and no statement has all of it to do. */
import type { Knex } from 'knex';
import { beforeAll, expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { organizationTools } from './test-organizations.ts';
import { beginRun, endRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Much that is deleted at once', (store, engine) => {
  const { reachOf } = organizationTools(store, engine);
  const tables = ['corpora', 'searched_corpora', 'documents', 'chunks', 'ingestion_items', 'sessions'];

  beforeAll(async () => {
    if (engine.dialect === 'sqlite') return;
    // Also of what goes by reference: that is a statement of its own.
    await engine.sql().raw(
      `create function refuse_many() returns trigger language plpgsql as $$ begin
         if (select count(*) from gone) > tg_argv[0]::int then raise exception 'too many at once'; end if;
         return null;
       end $$`,
    );
    for (const [table, most] of [['chunks', 2000] as const, ['documents', 200], ['sessions', 50]])
      await engine.sql().raw(
        `create trigger refuse_many after delete on ${table} referencing old table as gone
         for each statement execute function refuse_many(${most})`,
      );
  });

  /** A workspace with many passages, documents and sessions. */
  async function filled(reach: Reach, organizationId: string) {
    const input = { organization_id: organizationId, name: 'Archive' };
    const { workspace, etag } = await store().workspaces.create(reach, input);
    const owner = await reachOf(reach);
    const { corpus } = await store().corpora.create(owner, { name: 'Library', workspace_id: workspace.id });
    const texts = Array.from({ length: 201 }, (_, at) => ({ title: `Text ${at}`, text: `It is ${at}.` }));
    const { job } = await store().ingestionJobs.add(owner, corpus.id, { texts }, null);
    const documentId = job.items[0]?.document_id ?? '';
    const passages = Array.from({ length: 2001 }, (_, ordinal) => ({
      ...{ ordinal, text: 'An owl', start: 0, end: 6, page: null, line: 1, headings: [] },
    }));
    const document = { corpusId: corpus.id, documentId, generation: 1 };
    const place = { organizationId, workspaceId: workspace.id };
    await store().chunks.stage(place, document, passages, null);
    for (let at = 0; at < 51; at += 1) await store().sessions.create(owner, { workspace_id: workspace.id });
    const { session } = await store().sessions.create(owner, { workspace_id: workspace.id });
    await endRun(store(), await beginRun(store(), owner, { sessionId: session.id }));
    return { corpusId: corpus.id, workspaceId: workspace.id, etag, place, document, passages };
  }

  it.each(['corpus', 'workspace', 'organization'] as const)('of a deleted %s nothing stays', async (what) => {
    const ada = await newAccount(store(), 'Ada');
    const { organization } = await store().organizations.create(ada, { name: 'Archives' });
    const made = await filled(await reachOf(ada, 'admin'), organization.id);
    const owner = await reachOf(ada, 'owner');
    if (what === 'corpus') await store().corpora.delete(owner, made.corpusId);
    if (what === 'workspace') await store().workspaces.delete(owner, made.workspaceId, made.etag);
    if (what === 'organization') {
      const found = await store().organizations.find(owner, organization.id);
      await store().organizations.delete(owner, organization.id, found?.etag);
    }
    for (const table of tables.slice(0, what === 'corpus' ? -1 : undefined)) {
      const rows = await engine.sql()(table).where({ organization_id: organization.id });
      expect(rows, table).toEqual([]);
    }
    expect(await engine.sql()('corpus_terms').where({ organization_id: organization.id })).toEqual([]);
  });

  it('of a document that is read anew nothing of before stays, and of a deleted one nothing at all', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { organization } = await store().organizations.create(ada, { name: 'Archives' });
    const { place, document, passages } = await filled(await reachOf(ada, 'admin'), organization.id);
    const { chunks } = store();
    const inDatabase = (work: (sql: Knex.Transaction) => Promise<void>) => engine.sql().transaction(work);
    const stored = () => engine.sql()('chunks').where({ document_id: document.documentId });
    await inDatabase((sql) => chunks.publish(place, document, sql));
    const anew = { ...document, generation: 2 };
    await chunks.stage(place, anew, passages, null);
    await inDatabase((sql) => chunks.publish(place, anew, sql));
    expect(new Set((await stored()).map(({ generation }) => generation))).toEqual(new Set([2]));
    const [counted] = await engine.sql()('searched_corpora').where({ corpus_id: document.corpusId });
    expect(Number(counted.chunks)).toBe(passages.length);
    await inDatabase((sql) => chunks.remove(place, document.corpusId, document.documentId, sql));
    expect(await stored()).toEqual([]);
    const terms = await engine.sql()('corpus_terms').where({ organization_id: organization.id });
    expect(terms).toEqual([]);
  });
});
