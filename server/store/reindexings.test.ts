/** Corpora on their way from one embedder to another: the same on both engines, with the worker that embeds them. */
import { beforeAll, beforeEach, expect, it } from 'vitest';
import type { Embedder, EmbedderAtHand } from '../knowledge/embedder.ts';
import { type Reindexing, startReindexing } from '../knowledge/reindexing.ts';
import { createLog } from '../log.ts';
import { Problem } from '../problem.ts';
import type { EmbedderChange } from './embedder-settings.ts';
import type { Store } from './store.ts';
import { describeStores, newAccount } from './test-stores.ts';

let made = 0;

const payerOf = () => ({
  begin: async () => ({ spent: async () => undefined, end: async () => undefined }),
});

/** Numbers of the text itself, so that a test sees whose vector it is; it can be held back, and counts what it was asked. */
function embedderOf(identity: string, sign: number) {
  const asked: string[] = [];
  const hold: { until: Promise<void> | null } = { until: null };
  const embedder: Embedder = {
    identity,
    dimensions: 3,
    async embed(texts) {
      await hold.until;
      asked.push(...texts);
      return texts.map((text) => Float32Array.from([sign, text.length / 1000, 0]));
    },
  };
  return { embedder, asked, hold };
}

describeStores('Re-indexing', (store, engine) => {
  const chosen = (identity: string) => ({
    ...{
      identity,
      providerSettingId: null,
      provider: 'local',
      model: 'm',
      dimensions: 3,
      asksDimensions: true,
    },
  });
  let operator: Awaited<ReturnType<typeof newAccount>>;

  beforeAll(async () => {
    operator = await newAccount(store(), 'Olga');
  });

  // Those of the tests before would have to be embedded again each time.
  beforeEach(async () => {
    await engine.sql()('corpora').delete();
  });

  const change = (identity: string, more: Partial<EmbedderChange> = {}) =>
    store().embedderSettings.change(operator, {
      ...{ chosen: chosen(identity), batchSize: 8, identity, ifMatch: '*', reindex: true },
      ...more,
    });

  /** A corpus of so many passages, embedded by one whose identity is given, or by nobody. */
  async function newCorpus(count: number, identity: string | null): Promise<string> {
    made += 1;
    const [corpusId, documentId] = [`cor_${made}`, `doc_${made}`];
    const [{ organizationId, id: workspaceId } = { organizationId: '', id: '' }] = operator.workspaces;
    const sql = engine.sql();
    const place = { organization_id: organizationId, workspace_id: workspaceId, user_id: operator.userId };
    const common = { ...place, name_key: 'x', metadata: '{}', bytes: 1, chunks: 0, revision: 1 };
    const times = { created_at: 1, updated_at: 1 };
    await sql('corpora').insert({
      ...{ ...common, ...times, id: corpusId, name: 'Library', description: '', visibility: 'workspace' },
      ...{ chunking: '{}', vector_set: 1, documents: 0, grants_revision: 1, embedder_identity: identity },
    });
    await sql('documents').insert({
      ...{ ...common, ...times, id: documentId, corpus_id: corpusId, title: 'Notes', source: 'text' },
      ...{ status: 'ready', enabled: true, characters: 1, generation: 1, newest_generation: 1 },
    });
    const owner = { organizationId, workspaceId };
    const document = { corpusId, documentId, generation: 1 };
    const chunks = Array.from({ length: count }, (_, ordinal) => ({
      ...{ ordinal, text: `passage ${ordinal}`, start: 0, end: 1, page: null, line: 1, headings: ['Wings'] },
    }));
    const vectors = identity && { embedder: identity, vectors: chunks.map(() => Float32Array.of(1, 0, 0)) };
    await store().chunks.stage(owner, document, chunks, vectors || null);
    await sql.transaction((transaction) => store().chunks.publish(owner, document, transaction));
    return corpusId;
  }

  const identityOf = async (id: string) =>
    (await engine.sql()('corpora').where({ id }).first('embedder_identity')).embedder_identity;

  const foundBy = async (corpusId: string, embedder: string) =>
    store().passages.byVector(
      operator,
      { corpusIds: [corpusId] },
      { embedder, vector: Float32Array.of(1, 0, 0) },
      100,
    );

  function work(
    named: (identity: string) => Promise<EmbedderAtHand>,
    on: Store = store(),
    ready: () => Promise<string | null> = async () => null,
  ): Reindexing {
    const log = createLog('silent');
    return startReindexing({ queue: on.reindexings, named, payerOf, ready, log, pollMs: 20, lookMs: 20 });
  }

  it('a change is refused while corpora have vectors of another, unless they are to be embedded anew', async () => {
    await change('first', { reindex: false });
    await newCorpus(3, 'first');
    await expect(change('second', { reindex: false })).rejects.toMatchObject({ code: 'corpora_stale' });
    expect((await store().embedderSettings.chosen()).chosen?.identity).toBe('first');
    const { etag } = await store().embedderSettings.read('first');
    await expect(change('second', { ifMatch: '"another"' })).rejects.toBeInstanceOf(Problem);
    expect((await change('second', { ifMatch: etag })).corpora).toEqual({ stale: 1, error: null });
    // Of the one before it is still known how to ask it.
    expect((await store().embedderSettings.known('first')).chosen).toMatchObject({ provider: 'local' });
  });

  it('the old vectors answer until all new ones are there, then the new ones alone', async () => {
    const corpus = await newCorpus(70, 'first');
    const { embedder, asked, hold } = embedderOf('third', 1);
    const gate = Promise.withResolvers<void>();
    await change('third');
    hold.until = gate.promise;
    const worker = work(async () => ({ embedder }));
    await expect.poll(async () => (await engine.sql()('reindexings').first('worker'))?.worker).toBeTruthy();
    expect([await identityOf(corpus), (await foundBy(corpus, 'first')).length]).toEqual(['first', 70]);
    gate.resolve();
    await expect.poll(() => identityOf(corpus)).toBe('third');
    await worker.close();
    expect(asked).toHaveLength(70);
    expect(asked[0]).toBe('Wings\npassage 0');
    expect((await foundBy(corpus, 'third')).length).toBe(70);
    expect((await foundBy(corpus, 'first')).length).toBe(0);
    expect((await store().embedderSettings.read('third')).corpora).toEqual({ stale: 0, error: null });
  });

  it('two processes share the corpora, and what a dead one has done is not done again', async () => {
    const [one, two] = [await newCorpus(5, 'third'), await newCorpus(70, 'third')];
    await change('fourth');
    // It dies after its first part.
    const dead = await store().reindexings.take('dead');
    const part = await store().reindexings.bare(dead ?? fail(), 0, 2);
    const vector = Float32Array.of(1, 0, 0);
    expect(
      await store().reindexings.write(
        dead ?? fail(),
        part.map(({ number }) => ({ number, vector })),
      ),
    ).toBe(true);
    const { embedder, asked } = embedderOf('fourth', 1);
    const other = await engine.open();
    const workers = [work(async () => ({ embedder })), work(async () => ({ embedder }), other)];
    const done = async () =>
      [await identityOf(one), await identityOf(two)].filter((it) => it === 'fourth').length;
    await expect.poll(done).toBe(1);
    engine.clock.advance(16_000);
    await expect.poll(done).toBe(2);
    await Promise.all(workers.map((worker) => worker.close()));
    expect(asked).toHaveLength(75 - 2);
    expect(await store().reindexings.renew(dead ?? fail())).toBe(false);
  });

  it('a worker is alive as long as it renews its lease, whatever the clock of its node says', async () => {
    const corpus = await newCorpus(2, 'fourth');
    await change('renewed');
    const held = (await store().reindexings.take('behind')) ?? fail();
    const row = () => engine.sql()('reindexings').where({ corpus_id: corpus });
    const other = (await engine.open()).reindexings;
    for (const leased_until of [1, 2, 3]) {
      await row().update({ leased_until });
      expect(await other.take('ahead')).toBeNull();
      engine.clock.advance(14_000);
    }
    // A clock that is far ahead keeps nobody waiting who has seen it stand still.
    expect(await store().reindexings.renew(held)).toBe(true);
    await row().update({ leased_until: 9_000_000_000_000 });
    expect(await other.take('ahead')).toBeNull();
    engine.clock.advance(15_000);
    expect(await other.take('ahead')).toMatchObject({ corpusId: corpus, worker: 'ahead' });
    expect(await store().reindexings.renew(held)).toBe(false);
  });

  it('a worker whose embedder was replaced writes nothing more, and the newest one counts', async () => {
    const corpus = await newCorpus(3, 'fourth');
    await change('fifth');
    const late = (await store().reindexings.take('late')) ?? fail();
    const passages = await store().reindexings.bare(late, 0, 10);
    await change('sixth');
    const vector = Float32Array.of(1, 0, 0);
    expect(
      await store().reindexings.write(
        late,
        passages.map(({ number }) => ({ number, vector })),
      ),
    ).toBe(false);
    expect(await store().reindexings.finish(late)).toBe(false);
    const worker = work(async (identity) => ({ embedder: embedderOf(identity, 1).embedder }));
    await expect.poll(() => identityOf(corpus)).toBe('sixth');
    await worker.close();
  });

  it('a process that lacks the embedder takes nothing away from one that has it', async () => {
    const corpora = [await newCorpus(2, 'sixth'), await newCorpus(2, 'sixth')];
    await change('elsewhere');
    const reason = 'The embedding model is not on this machine.';
    let asked = 0;
    const bare = work(async () => {
      asked += 1;
      return { embedder: null, reason };
    });
    await expect.poll(() => asked).toBeGreaterThan(1);
    const rows = await engine.sql()('reindexings').select('failures', 'not_before');
    expect(rows.map((row) => [row.failures, Number(row.not_before)])).toEqual([
      [0, 0],
      [0, 0],
    ]);
    expect((await store().embedderSettings.read('elsewhere')).corpora.error).toBe(reason);
    const able = work(async () => ({ embedder: embedderOf('elsewhere', 1).embedder }), await engine.open());
    for (const id of corpora) await expect.poll(() => identityOf(id)).toBe('elsewhere');
    await Promise.all([bare.close(), able.close()]);
  });

  it('what fails is told and tried again later; the old vectors stay', async () => {
    const corpus = await newCorpus(2, 'sixth');
    await change('seventh');
    const worker = work(() => Promise.reject(new Error('The provider is gone.')));
    const told = async () => (await store().embedderSettings.read('seventh')).corpora.error;
    await expect.poll(told).toBe('The provider is gone.');
    await worker.close();
    expect(await identityOf(corpus)).toBe('sixth');
    expect(await store().reindexings.take('early')).toBeNull();
    engine.clock.advance(600_000);
    const next = work(async (identity) => ({ embedder: embedderOf(identity, 1).embedder }));
    await expect.poll(() => identityOf(corpus)).toBe('seventh');
    await next.close();
    expect(await told()).toBeNull();
  });

  it('the pauses after failures grow only as long as nothing is embedded between them', async () => {
    await newCorpus(70, 'sixth');
    await change('shaky');
    const waits = async () => {
      const { failures, not_before } = await engine.sql()('reindexings').first('failures', 'not_before');
      return [failures, Number(not_before) - engine.clock.now().getTime()];
    };
    /** It embeds so many parts, and then it is gone. */
    const attempt = async (parts: number) => {
      let left = parts;
      const { embedder } = embedderOf('shaky', 1);
      const worker = work(async () => ({
        embedder: {
          ...embedder,
          async embed(texts, signal) {
            left -= 1;
            if (left < 0) throw new Error('The provider is gone.');
            return await embedder.embed(texts, signal);
          },
        },
      }));
      await expect.poll(async () => (await waits())[1]).toBeGreaterThan(0);
      await worker.close();
      const waiting = await waits();
      engine.clock.advance(waiting[1] ?? 0);
      return waiting;
    };
    expect([await attempt(0), await attempt(0), await attempt(0)]).toEqual([
      [1, 5000],
      [2, 10_000],
      [3, 20_000],
    ]);
    expect([await attempt(1), await attempt(0)]).toEqual([
      [1, 5000],
      [2, 10_000],
    ]);
  });

  it('a passage that the embedder refuses is found by its words alone, and keeps no other from being embedded', async () => {
    const corpus = await newCorpus(70, 'sixth');
    await change('picky');
    const { embedder, asked } = embedderOf('picky', 1);
    const refusals = { refused: /passage (3|69)$/ };
    const picky: Embedder = {
      ...embedder,
      embed: (texts, signal) =>
        texts.some((text) => refusals.refused.test(text))
          ? Promise.reject(new Problem('provider_request_refused', 'It says nothing of this.'))
          : embedder.embed(texts, signal),
    };
    const worker = work(async () => ({ embedder: picky }));
    await expect.poll(() => identityOf(corpus)).toBe('picky');
    expect((await foundBy(corpus, 'picky')).length).toBe(68);
    expect(asked.filter((text) => text.startsWith('Wings'))).toHaveLength(68);
    expect((await store().reindexings.ask(operator, corpus, 'picky')).corpus.stale).toBe(false);
    await worker.close();

    // One that refuses whatever it is asked is out of order, and no passage is to blame.
    await change('sulky');
    refusals.refused = /./;
    const sulky = work(async () => ({ embedder: { ...picky, identity: 'sulky' } }));
    const told = async () => (await store().embedderSettings.read('sulky')).corpora.error;
    await expect.poll(told).toBe('It says nothing of this.');
    await sulky.close();
    expect(await identityOf(corpus)).toBe('picky');
    refusals.refused = /never/;
    engine.clock.advance(600_000);
    const next = work(async () => ({ embedder: { ...picky, identity: 'sulky' } }));
    await expect.poll(() => identityOf(corpus)).toBe('sulky');
    await next.close();
    expect((await foundBy(corpus, 'sulky')).length).toBe(70);
  });

  it('vectors that cannot be deleted are no failure of the corpus that has new ones', async () => {
    const corpus = await newCorpus(2, 'sixth');
    await change('tidy');
    const queue = { ...store().reindexings, sweep: () => Promise.reject(new Error('The disk is full.')) };
    const worker = work(async () => ({ embedder: embedderOf('tidy', 1).embedder }), {
      ...store(),
      reindexings: queue,
    });
    await expect.poll(() => identityOf(corpus)).toBe('tidy');
    await worker.close();
    expect((await store().embedderSettings.read('tidy')).corpora).toEqual({ stale: 0, error: null });
  });

  // SQLite always keeps them.
  it.each(engine.dialect === 'postgresql' ? ['extension'] : [])(
    'without its %s a database has nothing embedded anew, and once it is there, all',
    async () => {
      const corpus = await newCorpus(2, 'lost');
      await change('kept');
      const waiting = () => engine.sql()('reindexings').pluck('corpus_id');
      await engine.sql().schema.dropTable('chunk_vectors').dropTable('embedding_spaces');
      expect(await store().reindexings.take('worker')).toBeNull();
      await engine.sql()('reindexings').delete();
      await store().reindexings.queue('kept');
      expect(await waiting()).toEqual([]);
      // A process that starts finds the extension.
      await engine.open();
      expect(await identityOf(corpus)).toBeNull();
      await store().reindexings.queue('kept');
      expect(await waiting()).toEqual([corpus]);
    },
  );

  it('what was taken in before there was an embedder is embedded once one is installed', async () => {
    const corpus = await newCorpus(3, null);
    const { embedder } = embedderOf('installed', 1);
    let looks = 0;
    const ready = async () => {
      looks += 1;
      return looks > 3 ? 'installed' : null;
    };
    const worker = work(async () => ({ embedder }), store(), ready);
    await expect.poll(() => looks).toBeGreaterThan(1);
    await expect.poll(() => identityOf(corpus)).toBe('installed');
    await worker.close();
    expect(looks).toBeGreaterThan(3);
    expect((await foundBy(corpus, 'installed')).length).toBe(3);
  });

  it('a corpus is indexed anew where somebody asks, who may, and only as far as it needs it', async () => {
    const [bareOne, whole] = [await newCorpus(2, null), await newCorpus(2, 'asked')];
    const waiting = () => engine.sql()('reindexings').pluck('corpus_id');
    const { corpus } = await store().reindexings.ask(operator, bareOne, 'asked');
    expect(corpus).toMatchObject({ id: bareOne, stale: true });
    expect((await store().reindexings.ask(operator, whole, 'asked')).corpus.stale).toBe(false);
    expect(await waiting()).toEqual([bareOne]);
    const stranger = await newAccount(store(), 'Mallory');
    await expect(store().reindexings.ask(stranger, bareOne, 'asked')).rejects.toMatchObject({
      code: 'not_found',
    });
    // A document that came without vectors into a corpus that has them.
    const [{ number } = { number: 0 }] = await foundBy(whole, 'asked');
    await engine.sql()('chunk_vectors').where({ number }).delete();
    expect((await store().reindexings.ask(operator, whole, 'asked')).corpus.stale).toBe(true);
    const { embedder, asked } = embedderOf('asked', 1);
    const worker = work(async () => ({ embedder }));
    await expect.poll(waiting).toEqual([]);
    await worker.close();
    expect([await identityOf(bareOne), asked.length]).toEqual(['asked', 3]);
    expect((await foundBy(bareOne, 'asked')).length).toBe(2);
    expect((await foundBy(whole, 'asked')).length).toBe(2);
  });

  it('a process that stops in order leaves its corpus to the next one at once', async () => {
    const corpus = await newCorpus(2, 'seventh');
    await change('eighth');
    const waiting = work(async () => ({
      embedder: {
        ...embedderOf('eighth', 1).embedder,
        embed: (_texts, signal) =>
          new Promise((_, reject) => {
            if (signal.aborted) reject(signal.reason);
            signal.addEventListener('abort', () => reject(signal.reason));
          }),
      },
    }));
    await expect.poll(async () => (await engine.sql()('reindexings').first('worker'))?.worker).toBeTruthy();
    await waiting.close();
    const worker = work(async (identity) => ({ embedder: embedderOf(identity, 1).embedder }));
    await expect.poll(() => identityOf(corpus)).toBe('eighth');
    await worker.close();
  });
});

function fail(): never {
  throw new Error('There was nothing to take.');
}
