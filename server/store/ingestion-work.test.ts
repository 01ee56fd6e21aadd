/** Jobs that take documents in, as processes work on them: the same on both engines, with the loop that does the work. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Embedder } from '../knowledge/embedder.ts';
import { createParsers, type Ingestion, startIngestion, startReindexing } from '../knowledge/knowledge.ts';
import { createLog } from '../log.ts';
import type { OutboundFetch } from '../outbound/outbound.ts';
import { Problem } from '../problem.ts';
import type { Reach, Store } from './store.ts';
import { waiting } from './test-locks.ts';
import { describeStores, newAccount } from './test-stores.ts';

const log = createLog('silent');
/** The machine may be busy with other tests. */
const patience = { timeout: 60_000, interval: 20 };
const faults = vi.spyOn(log, 'error');
const parsers = createParsers({ processes: 2, log });
afterAll(() => parsers.close());

/** It can be held back, and remembers what it was asked. */
function embedderOf(identity: string) {
  const asked: string[] = [];
  const hold: { until: Promise<unknown> | null } = { until: null };
  const embedder: Embedder = {
    identity,
    dimensions: 3,
    async embed(texts) {
      asked.push(...texts);
      await hold.until;
      return texts.map((text) => Float32Array.from([1, text.length / 1000, 0]));
    },
  };
  return { embedder, asked, hold };
}

const nothing: OutboundFetch = () => Promise.reject(new Error('Nothing is fetched here.'));

describeStores('Taking documents in', (store, engine) => {
  let ada: Reach;
  const started: Ingestion[] = [];

  beforeAll(async () => {
    ada = await newAccount(store(), 'Ada');
  });
  afterAll(() => Promise.all(started.map((one) => one.stop())));

  /** As a process does that has this store open. */
  function takeIn(
    embedder: Embedder,
    {
      by = store(),
      owner = 'first',
      fetch = nothing,
      faulty = {},
    }: { by?: Store; owner?: string; fetch?: OutboundFetch; faulty?: Partial<Store['ingestionWork']> } = {},
  ): Ingestion {
    const ingestion = startIngestion({
      records: { ...by.ingestionWork, ...faulty },
      texts: by.extractedTexts,
      chunks: by.chunks,
      parsers,
      currentEmbedder: async () => ({ embedder }),
      file: async () => null,
      fetch,
      ...{ owner, hasDied: () => false, lanes: 2, lease: { leaseMs: 10_000, renewMs: 3000 } },
      now: () => engine.clock.now(),
      log,
      // What is told is acted upon at once: nobody looks by himself here.
      pollMs: 600_000,
    });
    started.push(ingestion);
    return ingestion;
  }

  async function newJob(count: number) {
    const { corpus } = await store().corpora.create(ada, { name: 'Library' });
    const texts = Array.from({ length: count }, (_, at) => ({
      title: `Text ${at}`,
      text: `It is text ${at}.`,
    }));
    const { job } = await store().ingestionJobs.add(ada, corpus.id, { texts }, null);
    const place = { corpusId: corpus.id, ingestionId: job.id };
    const ended = () =>
      vi.waitFor(async () => {
        const found = await store().ingestionJobs.find(ada, place);
        expect(found?.ended_at ?? null).not.toBeNull();
        return found;
      }, patience);
    return { ...place, documents: job.items.map(({ document_id }) => document_id), ended };
  }

  const passages = (documentId: string) =>
    engine.sql()('chunks').where({ document_id: documentId }).pluck('ordinal');

  it.each(['document', 'corpus'] as const)('a %s that is deleted meanwhile is no fault', async (what) => {
    faults.mockClear();
    const { embedder, asked, hold } = embedderOf('one');
    const released = Promise.withResolvers<void>();
    hold.until = released.promise;
    const { corpusId, documents, ended } = await newJob(3);
    const [documentId = ''] = documents;
    const ingestion = takeIn(embedder);
    await vi.waitFor(() => expect(asked).toHaveLength(2), patience);
    if (what === 'corpus') await store().corpora.delete(ada, corpusId);
    else await store().documents.delete(ada, { corpusId, documentId });
    released.resolve();
    if (what === 'document')
      expect(await ended()).toMatchObject({ status: 'cancelled', progress: { completed: 2, cancelled: 1 } });
    await ingestion.stop();
    expect(await passages(documentId)).toEqual([]);
    expect(faults.mock.calls).toEqual([]);
  });

  it.each(['claim', 'fail'] as const)(
    'a document is taken in anew where the answer to its %s was lost, while others are at work',
    async (lost) => {
      const { embedder, asked, hold } = embedderOf('one');
      const { corpusId, ingestionId, ended } = await newJob(2);
      const released = Promise.withResolvers<void>();
      const away = new Error('The database has gone away.');
      const { claim, fail } = store().ingestionWork;
      let claims = 0;
      const faulty = {
        claim: async (worker: string) => {
          const item = await claim(worker);
          claims += 1;
          if (claims === 2 && lost === 'claim') throw away;
          return item;
        },
        fail: vi.fn(fail).mockRejectedValueOnce(away),
      };
      // The first document stays at work, so that the process is never idle.
      hold.until = released.promise;
      const embed = embedder.embed.bind(embedder);
      const failsOnce = vi.fn(async (texts: readonly string[], ...more: unknown[]) => {
        if (asked.length === 0) return Reflect.apply(embed, embedder, [texts, ...more]);
        if (lost === 'fail' && failsOnce.mock.calls.length === 2) throw new Error('No vectors today.');
        hold.until = null;
        return Reflect.apply(embed, embedder, [texts, ...more]);
      });
      const ingestion = takeIn({ ...embedder, embed: failsOnce }, { owner: `loses a ${lost}`, faulty });
      await vi.waitFor(async () => {
        ingestion.wake();
        const found = await store().ingestionJobs.find(ada, { corpusId, ingestionId });
        expect(found?.progress).toMatchObject({ completed: 1 });
      }, patience);
      released.resolve();
      expect(await ended()).toMatchObject({ progress: { completed: 2 } });
      await ingestion.stop();
    },
  );

  /** One of so many passages, of which each is a batch with some others. */
  async function newLongDocument(count: number) {
    const { corpus } = await store().corpora.create(ada, { name: 'Library' });
    const text = Array.from({ length: count }, (_, at) => `# Heading ${at}\nThis is of ${corpus.id}.\n`).join(
      '',
    );
    const { job } = await store().ingestionJobs.add(
      ada,
      corpus.id,
      { texts: [{ title: 'Long', text }] },
      null,
    );
    const ended = async () => {
      const found = await store().ingestionJobs.find(ada, { corpusId: corpus.id, ingestionId: job.id });
      expect(found?.ended_at ?? null).not.toBeNull();
      return found;
    };
    return { corpusId: corpus.id, ended: () => vi.waitFor(ended, patience) };
  }

  it('what a provider allows in a minute is used up, and the document is gone on with after it', async () => {
    const { embedder, asked } = embedderOf('limited');
    let calls = 0;
    const limited: Embedder = {
      ...embedder,
      async embed(texts, signal) {
        calls += 1;
        if (calls === 3 || calls === 4)
          throw new Problem('provider_rate_limited', 'Too much.', { headers: { 'Retry-After': '1' } });
        return embedder.embed(texts, signal);
      },
    };
    const { corpusId, ended } = await newLongDocument(200);
    const ingestion = takeIn(limited);
    expect(await ended()).toMatchObject({ status: 'completed', items: [{ attempts: 1 }] });
    await ingestion.stop();
    expect(asked).toHaveLength(200);
    expect(new Set(asked).size).toBe(200);
    expect((await store().corpora.find(ada, corpusId))?.corpus.embedder).toBe('limited');
  });

  it('what was embedded before its process stopped is taken over by whoever goes on with the document', async () => {
    const { embedder, asked } = embedderOf('one');
    const stalled = Promise.withResolvers<void>();
    const slow: Embedder = {
      ...embedder,
      async embed(texts, signal) {
        if (asked.length < 64) return await embedder.embed(texts, signal);
        stalled.resolve();
        return await new Promise((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        );
      },
    };
    const { corpusId, ended } = await newLongDocument(100);
    const first = takeIn(slow);
    await stalled.promise;
    await first.stop();
    const second = takeIn(embedder, { owner: 'second' });
    expect(await ended()).toMatchObject({ status: 'completed' });
    await second.stop();
    expect([asked.length, new Set(asked).size]).toEqual([100, 100]);
    const question = { embedder: 'one', vector: Float32Array.of(1, 0, 0) };
    expect(await store().passages.byVector(ada, { corpusIds: [corpusId] }, question, 200)).toHaveLength(100);
  });

  it.each([
    ['fails', new Problem('provider_failed', 'It is down.')],
    [
      'wants to be asked tomorrow',
      new Problem('provider_rate_limited', 'Enough.', { headers: { 'Retry-After': '86400' } }),
    ],
  ])(
    'a document whose provider %s is shown, and the background embeds what has no vectors',
    async (_, away) => {
      const { embedder, asked } = embedderOf('away');
      const limited: Embedder = {
        ...embedder,
        embed: (texts, signal) => (asked.length < 64 ? embedder.embed(texts, signal) : Promise.reject(away)),
      };
      const { corpusId, ended } = await newLongDocument(100);
      const ingestion = takeIn(limited);
      expect(await ended()).toMatchObject({ status: 'completed', items: [{ attempts: 1 }] });
      await ingestion.stop();
      const reindexing = startReindexing({
        queue: store().reindexings,
        named: async (identity) =>
          identity === 'away' ? { embedder } : { embedder: null, reason: 'Another.' },
        payerOf: () => ({ begin: () => Promise.reject(new Error('Nobody pays here.')) }),
        ready: async () => 'away',
        ...{ log, pollMs: 20, lookMs: 20 },
      });
      await vi.waitFor(
        async () => expect((await store().corpora.find(ada, corpusId))?.corpus.embedder).toBe('away'),
        patience,
      );
      await reindexing.close();
      // The background has those of other tests, too.
      const own = asked.filter((text) => text.includes(corpusId));
      expect([own.length, new Set(own).size]).toEqual([100, 100]);
    },
  );

  // SQLite has one writer at a time: there nobody holds a row while another waits for it.
  it.each(engine.dialect === 'postgresql' ? (['document', 'corpus'] as const) : [])(
    'a %s that is deleted waits for who is at work before it holds what they need',
    async (what) => {
      const { corpusId, documents } = await newJob(1);
      const [documentId = ''] = documents;
      const sql = engine.sql();
      await store().ingestionWork.claim('first');
      const deleted = await sql.transaction(async (working) => {
        await working('ingestion_items').where({ document_id: documentId }).forUpdate().first('id');
        const deleting =
          what === 'corpus'
            ? store().corpora.delete(ada, corpusId)
            : store().documents.delete(ada, { corpusId, documentId });
        await vi.waitFor(async () => expect(await waiting(sql)).toBeGreaterThan(0), patience);
        // What a publication goes on with: it would fail here at once.
        await working('documents').where({ id: documentId }).forUpdate().noWait().first('id');
        await working('corpora').where({ id: corpusId }).forUpdate().noWait().first('id');
        return { deleting };
      });
      await deleted.deleting;
      expect(await sql('ingestion_items').where({ document_id: documentId })).toEqual([]);
    },
  );

  // SQLite has one writer at a time here, too.
  it.each(engine.dialect === 'postgresql' ? ['corpus'] : [])(
    'a %s is deleted also where somebody who waits for it holds one of its documents',
    async () => {
      const sql = engine.sql();
      /** Answers with whether it was the deletion that was ended for the sake of the other. */
      const meet = async () => {
        const { corpusId, documents } = await newJob(1);
        const working = await sql.transaction();
        const [id = ''] = documents;
        await working('documents').where({ id }).forUpdate().first('id');
        const deleting = store().corpora.delete(ada, corpusId);
        await vi.waitFor(async () => expect(await waiting(sql)).toBeGreaterThan(0), patience);
        const wins = await working('corpora')
          .where({ id: corpusId })
          .forUpdate()
          .first('id')
          .then(
            () => true,
            (error: unknown) => {
              if ((error as { readonly code?: string }).code === '40P01') return false;
              throw error;
            },
          );
        await working.rollback();
        await deleting;
        expect(await sql('corpora').where({ id: corpusId })).toEqual([]);
        return wins;
      };
      // Whoever looks first is ended, and each looks once: after a second of waiting, which on a busy machine may be over
      // before the other waits, too.
      let wins = false;
      for (let tries = 0; tries < 10 && !wins; tries += 1) wins = await meet();
      expect(wins).toBe(true);
    },
  );

  it('what is cancelled is let go of at once, and what is retried begins at once and is done once', async () => {
    const { embedder, asked, hold } = embedderOf('one');
    hold.until = new Promise(() => undefined);
    const ingestion = takeIn({
      ...embedder,
      // As every embedder does: it is not waited for that is not wanted any more.
      embed: (texts, signal) =>
        Promise.race([
          embedder.embed(texts, signal),
          new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        ]),
    });
    const { ended, documents, ...place } = await newJob(2);
    ingestion.wake();
    await vi.waitFor(() => expect(asked).toHaveLength(2), patience);
    await store().ingestionJobs.cancel(ada, place);
    ingestion.dropLost();
    await vi.waitFor(() => expect(ingestion.atWork()).toBe(0), patience);
    hold.until = null;
    await store().ingestionJobs.retry(ada, place);
    ingestion.wake();
    expect(await ended()).toMatchObject({ status: 'completed', attempts: 2, items: [{ attempts: 1 }, {}] });
    for (const id of documents) expect(await passages(id)).toEqual([0]);
    await ingestion.stop();
  });

  it('what a process does for an item that it has taken a second time in the meantime does not count', async () => {
    const { ingestionWork } = store();
    const { corpusId, ingestionId, documents } = await newJob(1);
    const first = await ingestionWork.claim('first');
    await store().ingestionJobs.cancel(ada, { corpusId, ingestionId });
    await store().ingestionJobs.retry(ada, { corpusId, ingestionId });
    const second = await ingestionWork.claim('first');
    if (!first || !second) throw new Error('The item could not be claimed.');
    expect([first, second].map(({ documentId }) => documentId)).toEqual([documents[0], documents[0]]);
    await expect(ingestionWork.reach(first, 'publish')).rejects.toMatchObject({ name: 'LeaseLost' });
    expect(await ingestionWork.lost([first, second])).toEqual([first]);
    await ingestionWork.fail(second, { code: 'malformed', message: 'It is broken.' }, null);
    expect(await ingestionWork.lost([second])).toEqual([second]);
  });

  // SQLite always keeps them.
  it.each(engine.dialect === 'postgresql' ? ['extension'] : [])(
    'of documents no embedder is asked where the database keeps no vectors for want of its %s',
    async () => {
      const { embedder, asked } = embedderOf('one');
      const { corpusId, ended } = await newJob(2);
      await engine.sql().schema.dropTable('chunk_vectors').dropTable('embedding_spaces');
      const ingestion = takeIn(embedder);
      expect(await ended()).toMatchObject({ status: 'completed' });
      await ingestion.stop();
      expect(asked).toEqual([]);
      const corpus = await engine.sql()('corpora').where({ id: corpusId }).first('embedder_identity');
      expect(corpus).toEqual({ embedder_identity: null });
      await engine.open();
    },
  );

  it('of a corpus whose documents are all disabled no other embedder makes vectors', async () => {
    const [one, other] = [embedderOf('one'), embedderOf('other')];
    const { corpusId, documents, ended } = await newJob(1);
    const first = takeIn(one.embedder);
    await ended();
    await first.stop();
    const place = { corpusId, documentId: documents[0] ?? '' };
    await store().documents.update(ada, place, { enabled: false });
    const texts = [{ title: 'Later', text: 'It came later.' }];
    const { job } = await store().ingestionJobs.add(ada, corpusId, { texts }, null);
    const second = takeIn(other.embedder);
    await vi.waitFor(async () => {
      const found = await store().ingestionJobs.find(ada, { corpusId, ingestionId: job.id });
      expect(found?.status).toBe('completed');
    }, patience);
    await second.stop();
    expect(other.asked).toEqual([]);
    expect((await store().corpora.find(ada, corpusId))?.corpus.embedder).toBe('one');
  });

  // SQLite has one writer at a time.
  if (engine.dialect === 'postgresql')
    it('two processes that take one document at the same time do not do so under one number', async () => {
      const { corpus } = await store().corpora.create(ada, { name: 'Library' });
      const url = 'https://example.com/page';
      const add = () => store().ingestionJobs.add(ada, corpus.id, { urls: [url] }, null);
      const ids = [await add(), await add()].map(({ job }) => job.items[0]?.document_id);
      expect(new Set(ids).size).toBe(1);
      const other = await engine.open();
      const claiming = await engine.sql().transaction(async (holder) => {
        await holder('documents').where({ id: ids[0] }).forUpdate().first('id');
        const both = [store().ingestionWork.claim('first'), other.ingestionWork.claim('second')];
        await vi.waitFor(async () => expect(await waiting(engine.sql())).toBe(2), patience);
        return { both };
      });
      const claimed = await Promise.all(claiming.both);
      expect(claimed.map((item) => item?.documentId)).toEqual([ids[0], ids[0]]);
      expect(claimed.map((item) => item?.generation).toSorted()).toEqual([1, 2]);
      await engine.sql()('ingestion_jobs').whereNull('ended_at').update({ ended_at: 1 });
    });

  it('whoever asks what vectors a corpus has while its first document is shown hears of those', async () => {
    const { claim, vectorsOf } = store().ingestionWork;
    type Item = Parameters<typeof vectorsOf>[0];
    const firstHeard = async (item: Item) => {
      for (;;) {
        const heard = await vectorsOf(item);
        if (!heard.empty) return heard;
      }
    };
    const asked: ReturnType<typeof vectorsOf>[] = [];
    const faulty = {
      claim: async (worker: string) => {
        const item = await claim(worker);
        if (item) asked.push(firstHeard(item));
        return item;
      },
    };
    const jobs = await Promise.all(Array.from({ length: 8 }, () => newJob(1)));
    const ingestion = takeIn(embedderOf('one').embedder, { faulty });
    await Promise.all(jobs.map(({ ended }) => ended()));
    expect(await Promise.all(asked)).toEqual(jobs.map(() => ({ embedder: 'one', empty: false })));
    await ingestion.stop();
  });

  it('a process that takes work while it is buried for its silence is missed as well when it dies', async () => {
    const { corpusId, ingestionId } = await newJob(2);
    const { ingestionWork: work } = store();
    await work.claim('quiet');
    const [seen] = (await work.workers()).filter(({ owner }) => owner === 'quiet');
    if (!seen) throw new Error('a process at work is not known');
    const sql = engine.sql();
    // The claim has all that it changes but the row of the job, which comes last, when the burial begins.
    const { claiming, burying } =
      engine.dialect === 'sqlite'
        ? { claiming: work.claim('quiet'), burying: work.bury(seen) }
        : await sql.transaction(async (working) => {
            await working('ingestion_jobs').where({ id: ingestionId }).forUpdate().first('id');
            const claiming = work.claim('quiet');
            await vi.waitFor(async () => expect(await waiting(sql)).toBe(1), patience);
            const burying = work.bury(seen);
            await Promise.race([
              burying,
              vi.waitFor(async () => expect(await waiting(sql)).toBe(2), patience),
            ]);
            return { claiming, burying };
          });
    await Promise.all([claiming, burying]);
    expect(await sql('ingestion_items').where({ worker: 'quiet' })).not.toEqual([]);
    const known = (await work.workers()).filter(({ owner }) => owner === 'quiet');
    expect(known).toHaveLength(1);
    await store().corpora.delete(ada, corpusId);
  });

  it('what an address has grown to is shown only where a quota has room for it', async () => {
    const reach = await newAccount(store(), 'Grace');
    const { corpus } = await store().corpora.create(reach, { name: 'Library' });
    const operator = { ...reach, operator: true, needs: 'admin' as const };
    await store().quotas.put(operator, { type: 'user', id: reach.userId }, { storage: { hard: 20 } });
    let page = 'It is short.';
    const fetch: OutboundFetch = async () =>
      new Response(page, { headers: { 'content-type': 'text/plain' } });
    const ingestion = takeIn(embedderOf('one').embedder, { fetch });
    const read = async () => {
      const input = { urls: ['https://pages.example/one'] };
      const { job } = await store().ingestionJobs.add(reach, corpus.id, input, null);
      ingestion.wake();
      await vi.waitFor(async () => {
        const ended = await engine.sql()('ingestion_jobs').where({ id: job.id }).first();
        expect(ended.ended_at).not.toBeNull();
      }, patience);
      const place = { corpusId: corpus.id, ingestionId: job.id };
      return (await store().ingestionJobs.find(reach, place))?.items[0];
    };
    expect(await read()).toMatchObject({ status: 'completed' });
    page = 'It has grown beyond the quota.';
    const refused = { status: 'failed', stage: 'publish', attempts: 1, error: { code: 'quota_exceeded' } };
    const item = await read();
    expect(item).toMatchObject(refused);
    const rows = await engine.sql()('documents').where({ corpus_id: corpus.id });
    expect(rows).toMatchObject([{ status: 'ready', generation: 1, error_code: 'quota_exceeded' }]);
    expect(Number(rows[0].bytes)).toBe(12);
    expect(
      await engine.sql()('chunks').whereNotNull('published_at').where({ document_id: rows[0].id }),
    ).toMatchObject([{ text: 'It is short.' }]);
    await ingestion.stop();
  });

  it('an organization with many jobs of one document each holds up nobody else', async () => {
    const { ingestionWork, ingestionJobs, corpora } = store();
    const sql = engine.sql();
    await sql('ingestion_jobs').whereNull('ended_at').update({ ended_at: 1 });
    const add = async (reach: Reach) => {
      const { corpus } = await corpora.create(reach, { name: 'Library' });
      const texts = [{ title: 'Text', text: 'It is a text.' }];
      await ingestionJobs.add(reach, corpus.id, { texts }, null);
    };
    const copy = async (table: string, row: object, ids: (at: number) => object) => {
      const copies = Array.from({ length: 500 }, (_, at) => ({ ...row, ...ids(at) }));
      for (let at = 0; at < 500; at += 20) await sql(table).insert(copies.slice(at, at + 20));
    };
    const [many, one] = [await newAccount(store(), 'Many'), await newAccount(store(), 'One')];
    const [organization_id, other] = [many, one].map(({ organizationIds: [id] }) => id);
    await add(many);
    const [document] = await sql('documents').where({ organization_id });
    await copy('documents', document, (at) => ({ id: `doc_copy${at}` }));
    const [job] = await sql('ingestion_jobs').where({ organization_id });
    await copy('ingestion_jobs', job, (at) => ({ id: `job_copy${at}` }));
    const [item] = await sql('ingestion_items').where({ organization_id });
    const itemOf = (at: number) => ({
      ...{ id: `item_copy${at}`, job_id: `job_copy${at}`, document_id: `doc_copy${at}` },
    });
    await copy('ingestion_items', item, itemOf);
    engine.clock.advance(1000);
    await add(one);
    const claimed = [await ingestionWork.claim('first'), await ingestionWork.claim('first')];
    expect(claimed.map((found) => found?.organizationId)).toEqual([organization_id, other]);
    await sql('ingestion_jobs').whereNull('ended_at').update({ ended_at: 1 });
  });

  it('processes that look for work at the same time never find the same document', async () => {
    const { documents } = await newJob(24);
    const processes: Store[] = [store(), engine.dialect === 'sqlite' ? store() : await engine.open()];
    const claims = documents.map((_, at) => processes[at % 2]?.ingestionWork.claim(`process ${at % 2}`));
    const found = (await Promise.all(claims)).map((item) => item?.documentId);
    expect(found.toSorted()).toEqual(documents.toSorted());
  });
});
