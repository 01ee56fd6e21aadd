/** Much that is deleted at once: nothing of it stays, and no statement has all of it to do. */
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
    await store().chunks.stage({ organizationId, workspaceId: workspace.id }, document, passages, null);
    for (let at = 0; at < 51; at += 1) await store().sessions.create(owner, { workspace_id: workspace.id });
    const { session } = await store().sessions.create(owner, { workspace_id: workspace.id });
    await endRun(store(), await beginRun(store(), owner, { sessionId: session.id }));
    return { corpusId: corpus.id, workspaceId: workspace.id, etag };
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
});
