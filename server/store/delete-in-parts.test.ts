/** Much that is deleted at once: nothing of it is found or stays, nobody waits for all of it, and no statement has all to do. */
import type { Knex } from 'knex';
import { beforeAll, expect, it } from 'vitest';
import type { Reach, Store } from './store.ts';
import { organizationTools } from './test-organizations.ts';
import { beginRun, endRun } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('Much that is deleted at once', (store, engine) => {
  const { reachOf } = organizationTools(store, engine);
  /** What goes with whatever is deleted; sessions with more than a corpus. */
  const tables = ['corpora', 'documents', 'ingestion_items', 'sessions'];
  /** What nobody finds any more from then on, and goes afterwards. */
  const cleared = ['searched_corpora', 'chunks', 'corpus_terms'];

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
    const vectors = passages.map(() => Float32Array.of(1, 0));
    await store().chunks.stage(place, document, passages, { embedder: 'test', vectors });
    await engine.sql().transaction((sql) => store().chunks.publish(place, document, sql));
    for (let at = 0; at < 51; at += 1) await store().sessions.create(owner, { workspace_id: workspace.id });
    const { session } = await store().sessions.create(owner, { workspace_id: workspace.id });
    await endRun(store(), await beginRun(store(), owner, { sessionId: session.id }));
    return { corpusId: corpus.id, workspaceId: workspace.id, etag, place, document, passages };
  }

  const rowsOf = (table: string, organization_id: string) => engine.sql()(table).where({ organization_id });

  /** How many passages a search finds by a word of all of them, and by the vector of all of them. */
  async function found(reach: Reach, corpusId: string): Promise<number[]> {
    const scope = { corpusIds: [corpusId] };
    const question = { embedder: 'test', vector: Float32Array.of(1, 0) };
    const byWords = await store().passages.byWords(reach, scope, 'owls', 10);
    const byVector = await store().passages.byVector(reach, scope, question, 10);
    const numbers = [...byWords, ...byVector].map(({ number }) => number);
    return [byWords.length, byVector.length, (await store().passages.read(reach, numbers)).length];
  }

  /** Answers with how many rows each part had. */
  async function clearAll(by: Store): Promise<number[]> {
    const parts: number[] = [];
    for (let rows = await by.chunks.clear(); rows > 0; rows = await by.chunks.clear()) parts.push(rows);
    return parts;
  }

  it.each(['corpus', 'workspace', 'organization'] as const)(
    'of a deleted %s nothing is found, and nothing stays once that was cleared in parts',
    async (what) => {
      const ada = await newAccount(store(), 'Ada');
      const { organization } = await store().organizations.create(ada, { name: 'Archives' });
      const made = await filled(await reachOf(ada, 'admin'), organization.id);
      const owner = await reachOf(ada, 'owner');
      expect(await found(owner, made.corpusId)).toEqual([10, 10, 10]);
      const [{ number }] = await rowsOf('searched_corpora', organization.id);
      // With the numbers of its passages, as a search has them that was under way.
      const numbers = await rowsOf('chunks', organization.id).limit(10).pluck('number');
      if (what === 'corpus') await store().corpora.delete(owner, made.corpusId);
      if (what === 'workspace') await store().workspaces.delete(owner, made.workspaceId, made.etag);
      if (what === 'organization') {
        const found = await store().organizations.find(owner, organization.id);
        await store().organizations.delete(owner, organization.id, found?.etag);
      }
      for (const table of tables.slice(0, what === 'corpus' ? -1 : undefined))
        expect(await rowsOf(table, organization.id), table).toEqual([]);
      expect(await found(owner, made.corpusId)).toEqual([0, 0, 0]);
      expect(await store().passages.read(owner, numbers)).toEqual([]);
      const parts = await clearAll(store());
      expect(parts.length).toBeGreaterThan(2);
      expect(Math.max(...parts)).toBe(1000);
      for (const table of cleared) expect(await rowsOf(table, organization.id), table).toEqual([]);
      if (engine.dialect === 'postgresql') return;
      for (const table of ['chunk_vectors', 'chunk_cells'])
        expect(await engine.sql()(table).where({ corpus_number: number }), table).toEqual([]);
      for (const table of ['chunk_codes', 'chunk_words_docsize'])
        expect(await engine.sql()(table), table).toEqual([]);
    },
  );

  it('what a process has not cleared when it ends is cleared by another, each part by one alone', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { organization } = await store().organizations.create(ada, { name: 'Archives' });
    const { corpusId } = await filled(await reachOf(ada, 'admin'), organization.id);
    await store().corpora.delete(await reachOf(ada, 'admin'), corpusId);
    expect(await store().chunks.clear()).toBe(1000);
    const others = [await engine.open(), await engine.open()];
    await Promise.all(others.map(clearAll));
    for (const one of others) await clearAll(one);
    for (const table of cleared) expect(await rowsOf(table, organization.id), table).toEqual([]);
  });

  it('a deletion that is refused loses nothing', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { organization } = await store().organizations.create(ada, { name: 'Archives' });
    const made = await filled(await reachOf(ada, 'admin'), organization.id);
    const owner = await reachOf(ada, 'owner');
    const { session } = await store().sessions.create(owner, { workspace_id: made.workspaceId });
    const run = await beginRun(store(), owner, { sessionId: session.id });
    const etag = (await store().organizations.find(owner, organization.id))?.etag;
    const refused = [
      () => store().corpora.delete(owner, made.corpusId, '"another"'),
      () => store().workspaces.delete(owner, made.workspaceId, '"another"'),
      () => store().organizations.delete(owner, organization.id, etag),
      () =>
        store().transaction(async () => {
          await store().corpora.delete(owner, made.corpusId);
          throw new Error('what came after it failed');
        }),
    ];
    for (const deletion of refused) {
      await expect(deletion()).rejects.toThrow();
      expect(await found(owner, made.corpusId)).toEqual([10, 10, 10]);
      expect(await store().chunks.clear()).toBe(0);
    }
    expect(await rowsOf('chunks', organization.id)).toHaveLength(made.passages.length);
    await endRun(store(), run);
  });

  it('a document that is deleted while it is taken in gets no passages any more', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { organization } = await store().organizations.create(ada, { name: 'Archives' });
    const { corpusId, document, place, passages } = await filled(
      await reachOf(ada, 'admin'),
      organization.id,
    );
    await store().documents.delete(await reachOf(ada, 'admin'), document);
    const staged = store().chunks.stage(place, { ...document, generation: 2 }, passages, null);
    await expect(staged).rejects.toThrow(`The document ${document.documentId} is gone.`);
    expect(await rowsOf('chunks', organization.id)).toEqual([]);
    await store().corpora.delete(await reachOf(ada, 'admin'), corpusId);
    await clearAll(store());
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

// PostgreSQL writes several things at once.
describeStore('sqlite', 'Who writes while a large corpus is deleted', (store) => {
  it('waits for no more than a part of it', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { corpus } = await store().corpora.create(ada, { name: 'Library' });
    const { job } = await store().ingestionJobs.add(
      ada,
      corpus.id,
      { texts: [{ title: 'A', text: 'A' }] },
      null,
    );
    const document = { corpusId: corpus.id, documentId: job.items[0]?.document_id ?? '', generation: 1 };
    const [place = { organizationId: '', id: '' }] = ada.workspaces;
    const passages = Array.from({ length: 3000 }, (_, ordinal) => ({
      ...{ ordinal, text: 'An owl', start: 0, end: 6, page: null, line: 1, headings: [] },
    }));
    await store().chunks.stage({ ...place, workspaceId: place.id }, document, passages, null);
    const ended: string[] = [];
    const clearing = async () => {
      await store().corpora.delete(ada, corpus.id);
      while ((await store().chunks.clear()) > 0);
      ended.push('the deletion');
    };
    const writing = async () => {
      await store().corpora.create(ada, { name: 'Meanwhile' });
      ended.push('the write');
    };
    await Promise.all([clearing(), writing()]);
    expect(ended).toEqual(['the write', 'the deletion']);
  });
});

describeStore('sqlite', 'Lists of words', (_store, engine) => {
  it('are written anew once half of them is deleted, each of them', async () => {
    const indexes: string[] = await engine
      .sql()('sqlite_schema')
      .where({ type: 'table' })
      .whereLike('sql', '%fts5(%')
      .pluck('name');
    expect(indexes.sort()).toEqual(['chunk_words', 'memory_words', 'search_words']);
    for (const name of indexes)
      expect(await engine.sql()(`${name}_config`).where({ k: 'deletemerge' }).pluck('v')).toEqual([50]);
  });
});
