/** Passages and how they are found: the same on both engines. */
import type { Knex } from 'knex';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLog } from '../log.ts';
import type { NewChunk } from './chunk-index.ts';
import { type Narrow, nearest, type VectorBounds } from './chunk-vectors.ts';
import { rankByWords } from './chunk-words.ts';
import type { Database } from './database.ts';
import { chunkCells } from './migrations/0033-chunk-cells.ts';
import { openPostgres } from './postgres.ts';
import type { Reach } from './reach.ts';
import { openSqlite } from './sqlite.ts';
import { describeStores, newAccount } from './test-stores.ts';

let made = 0;

/** The numbers that are not given are 0. */
const inThree = (given: readonly number[]) =>
  Float32Array.from({ length: 3 }, (_, index) => given[index] ?? 0);

describeStores('Chunks', (store, engine) => {
  let database: Database;
  let ada: Reach;
  let mallory: Reach;

  beforeAll(async () => {
    const log = createLog('silent');
    const open = { sqlite: () => openSqlite(engine.url().slice('sqlite:'.length), log) };
    database = engine.dialect === 'sqlite' ? open.sqlite() : openPostgres(engine.url(), log);
    ada = await newAccount(store(), 'Ada');
    mallory = await newAccount(store(), 'Mallory');
  });
  afterAll(() => database.close());

  const ownerOf = ({ workspaces: [workspace] }: Reach) => {
    if (!workspace) throw new Error('The account has no workspace.');
    return { organizationId: workspace.organizationId, workspaceId: workspace.id };
  };

  /** Past the operations that make them. */
  async function newCorpus(reach: Reach): Promise<string> {
    made += 1;
    const id = `cor_${made}`;
    await insert(reach, 'corpora', {
      ...{ id, name: 'Library', description: '', visibility: 'workspace', chunking: '{}' },
      ...{ vector_set: 1, documents: 0, grants_revision: 1 },
    });
    return id;
  }

  async function newDocument(reach: Reach, corpus_id: string, metadata: object = {}): Promise<string> {
    made += 1;
    const id = `doc_${made}`;
    await insert(reach, 'documents', {
      ...{ id, corpus_id, title: 'Notes', source: 'text', status: 'ready', enabled: true, characters: 1 },
      ...{ generation: 1, newest_generation: 1, metadata: JSON.stringify(metadata) },
    });
    return id;
  }

  async function insert(reach: Reach, table: string, row: object): Promise<void> {
    const { organizationId: organization_id, workspaceId: workspace_id } = ownerOf(reach);
    const common = { name_key: 'x', metadata: '{}', user_id: reach.userId, revision: 1, bytes: 1, chunks: 0 };
    const belongs = { organization_id, workspace_id, created_at: 1, updated_at: 1 };
    await database.write('installation', (sql) => sql(table).insert({ ...common, ...belongs, ...row }));
  }

  const passage = (text: string, ordinal: number): NewChunk => ({
    ...{ ordinal, text, start: 0, end: [...text].length, page: null, line: 1, headings: [] },
  });

  interface Reading {
    readonly corpusId: string;
    readonly documentId: string;
    readonly generation: number;
  }

  async function stage(
    reach: Reach,
    document: Reading,
    texts: string[],
    vectors?: number[][],
  ): Promise<void> {
    const staged = vectors && { embedder: 'test', vectors: vectors.map(inThree) };
    await store().chunks.stage(ownerOf(reach), document, texts.map(passage), staged ?? null);
  }

  const publish = (reach: Reach, document: Reading) =>
    database.write('installation', (sql) => store().chunks.publish(ownerOf(reach), document, sql));

  const remove = (reach: Reach, { corpusId, documentId }: Reading) =>
    database.write('installation', (sql) => store().chunks.remove(ownerOf(reach), corpusId, documentId, sql));

  /** A document of these passages in a corpus, to be found. */
  async function write(reach: Reach, corpusId: string, texts: string[], more: Partial<Written> = {}) {
    const documentId = await newDocument(reach, corpusId, more.metadata);
    const document = { corpusId, documentId, generation: 1 };
    await stage(reach, document, texts, more.vectors);
    await publish(reach, document);
    return document;
  }

  interface Written {
    readonly metadata: Record<string, string>;
    readonly vectors: number[][];
  }

  async function textsOf(reach: Reach, ranked: readonly { readonly number: number }[]): Promise<string[]> {
    const read = await store().passages.read(
      reach,
      ranked.map(({ number }) => number),
    );
    const texts = new Map(read.map(({ number, text }) => [number, text]));
    return ranked.flatMap(({ number }) => texts.get(number) ?? []);
  }

  async function byWords(
    reach: Reach,
    corpusIds: string[],
    question: string,
    filter?: Record<string, string>,
  ) {
    return textsOf(reach, await store().passages.byWords(reach, { corpusIds, filter }, question, 10));
  }

  async function byVector(
    reach: Reach,
    corpusIds: string[],
    vector: number[],
    filter?: Record<string, string>,
  ) {
    const question = { embedder: 'test', vector: inThree(vector) };
    return textsOf(reach, await store().passages.byVector(reach, { corpusIds, filter }, question, 10));
  }

  it('ranks by rare words, in any form, and by how often and how densely they come', async () => {
    const corpus = await newCorpus(ada);
    const texts = [
      'The boundary layer of a flat plate',
      'Layers and layers of boundaries: the layer again',
      'A plate of food, far from any question of flow and of nothing else that would matter here',
      'Heat transfer',
    ];
    await write(ada, corpus, texts);
    const [dense, flat, long, heat] = [texts[1], texts[0], texts[2], texts[3]];
    expect(await byWords(ada, [corpus], 'boundary layers')).toEqual([dense, flat]);
    expect(await byWords(ada, [corpus], 'plates')).toEqual([flat, long]);
    expect(await byWords(ada, [corpus], 'transferring heat?')).toEqual([heat]);
    expect(await byWords(ada, [corpus], 'the of and')).toEqual([]);
    expect(await byWords(ada, [corpus], '')).toEqual([]);
    expect(await byWords(ada, [corpus], `" OR * ' | & ! 12_`)).toEqual([]);
  });

  it('finds names in their parts, and words of scripts that write no spaces', async () => {
    const corpus = await newCorpus(ada);
    await write(ada, corpus, ['function parseConfig(file)', '東京の天気は晴れです', 'Größe und Maß']);
    expect(await byWords(ada, [corpus], 'config')).toEqual(['function parseConfig(file)']);
    expect(await byWords(ada, [corpus], '天気')).toEqual(['東京の天気は晴れです']);
    expect(await byWords(ada, [corpus], 'GRÖSSE')).toEqual([]);
    expect(await byWords(ada, [corpus], 'grösse größe')).toEqual(['Größe und Maß']);
  });

  it('finds the nearest vectors first, and tells how near they are', async () => {
    const corpus = await newCorpus(ada);
    const vectors = [
      [1, 0, 0],
      [0.6, 0.8, 0],
      [0, 0, 1],
    ];
    await write(ada, corpus, ['east', 'between', 'up'], { vectors });
    expect(await byVector(ada, [corpus], [1, 0, 0])).toEqual(['east', 'between', 'up']);
    const question = { embedder: 'test', vector: inThree([1]) };
    const ranked = await store().passages.byVector(ada, { corpusIds: [corpus] }, question, 2);
    expect(ranked.map(({ score }) => Math.round(score * 100))).toEqual([100, 60]);
    const other = { ...question, embedder: 'another' };
    expect(await store().passages.byVector(ada, { corpusIds: [corpus] }, other, 2)).toEqual([]);
  });

  it('shows a document from its publication on, and then the new reading alone', async () => {
    const corpus = await newCorpus(ada);
    const first = await write(ada, corpus, ['an old heron', 'another heron'], { vectors: [[1], [1]] });
    const second = { ...first, generation: 2 };
    await stage(ada, second, ['a draft'], [[1]]);
    await stage(ada, second, ['a young heron'], [[1]]);
    expect(await byWords(ada, [corpus], 'heron')).toEqual(['an old heron', 'another heron']);
    expect(await byVector(ada, [corpus], [1])).toEqual(['an old heron', 'another heron']);
    await publish(ada, second);
    await publish(ada, second);
    expect(await byWords(ada, [corpus], 'heron draft')).toEqual(['a young heron']);
    expect(await byVector(ada, [corpus], [1])).toEqual(['a young heron']);
    await remove(ada, second);
    expect(await byWords(ada, [corpus], 'heron')).toEqual([]);
    expect(await byVector(ada, [corpus], [1])).toEqual([]);
  });

  it('knows the vectors of the same passages of the readings before, and no others', async () => {
    const corpusId = await newCorpus(ada);
    const texts = ['kept as it was', 'changed since', 'under another heading', 'moved'];
    const document = await write(ada, corpusId, texts, { vectors: [[1], [0, 1], [0, 0, 1], [1, 1]] });
    const known = (more: Partial<Reading>, passages: readonly NewChunk[], embedder = 'test') =>
      store().chunks.embedded({ ...document, generation: 3, ...more }, passages, embedder);
    const now = [
      passage('kept as it was', 0),
      passage('changed', 1),
      { ...passage('under another heading', 2), headings: ['Another'] },
      passage('moved', 4),
    ];
    expect(await known({}, now)).toEqual([inThree([1]), null, null, null]);
    expect(await known({ generation: 1 }, now)).toEqual([null, null, null, null]);
    expect(await known({}, now, 'another')).toEqual([null, null, null, null]);
    const documentId = await newDocument(ada, corpusId);
    expect(await known({ documentId }, now)).toEqual([null, null, null, null]);
    // What is staged beside it counts as well, where it has any.
    await stage(ada, { ...document, generation: 2 }, ['kept as it was', 'changed']);
    expect(await known({}, now)).toEqual([inThree([1]), null, null, null]);
    await stage(ada, { ...document, generation: 2 }, ['kept as it was', 'changed'], [[1], [0, 1]]);
    expect(await known({}, now)).toEqual([inThree([1]), inThree([0, 1]), null, null]);
    await publish(ada, { ...document, generation: 2 });
    expect(await known({}, now)).toEqual([inThree([1]), inThree([0, 1]), null, null]);
  });

  it('counts again what was published, replaced and removed, to the last word', async () => {
    const corpus = await newCorpus(ada);
    const counts = async () => {
      const [row] = await engine.sql()('searched_corpora').where({ corpus_id: corpus });
      const terms = await engine.sql()('corpus_terms').where({ corpus_number: row.number }).orderBy('term');
      const { chunks, words } = row;
      return { chunks: Number(chunks), words: Number(words), terms: terms.map(({ term }) => term) };
    };
    const kept = await write(ada, corpus, ['swan swan', 'duck']);
    const gone = await write(ada, corpus, ['duck goose']);
    expect(await counts()).toEqual({ chunks: 3, words: 5, terms: ['duck', 'goos', 'swan'] });
    await stage(ada, { ...kept, generation: 2 }, ['duck']);
    await publish(ada, { ...kept, generation: 2 });
    await remove(ada, gone);
    expect(await counts()).toEqual({ chunks: 1, words: 1, terms: ['duck'] });
    await database.write('installation', (sql) => sql('corpora').where({ id: corpus }).delete());
    expect(await byWords(ada, [corpus], 'duck')).toEqual([]);
    while ((await store().chunks.clear()) > 0);
    expect(await engine.sql()('chunks').where({ document_id: kept.documentId })).toEqual([]);
  });

  it('keeps to the documents that are enabled and whose metadata say what is asked', async () => {
    const corpus = await newCorpus(ada);
    const vectors = [[1]];
    const { documentId } = await write(ada, corpus, ['a red kite'], {
      vectors,
      metadata: { 'the "year"': '1' },
    });
    await write(ada, corpus, ['a black kite'], { vectors, metadata: { 'the "year"': '2', other: '1' } });
    const one = { 'the "year"': '1' };
    expect(await byWords(ada, [corpus], 'kite', one)).toEqual(['a red kite']);
    expect(await byVector(ada, [corpus], [1], one)).toEqual(['a red kite']);
    expect(await byWords(ada, [corpus], 'kite', { ...one, other: '1' })).toEqual([]);
    await database.write('installation', (sql) =>
      sql('documents').where({ id: documentId }).update({ enabled: false }),
    );
    expect(await byWords(ada, [corpus], 'kite')).toEqual(['a black kite']);
    expect(await byVector(ada, [corpus], [1])).toEqual(['a black kite']);
  });

  it('ranks several corpora as if they were one', async () => {
    const [one, two] = [await newCorpus(ada), await newCorpus(ada)];
    await write(ada, one, ['wren', 'wren wren robin'], { vectors: [[0.5], [1]] });
    await write(ada, two, ['robin'], { vectors: [[1]] });
    expect(await byWords(ada, [one, two], 'robin')).toEqual(['robin', 'wren wren robin']);
    expect(await byVector(ada, [one, two], [1])).toHaveLength(3);
  });

  it('finds what holds several common words, where rare ones are not enough', async () => {
    const corpus = await newCorpus(ada);
    const texts = ['owl', ...Array.from({ length: 60 }, (_, at) => ['oak elm', 'oak', 'elm'][at % 3] ?? '')];
    await write(ada, corpus, texts);
    const found = await database.read('installation', async (sql) => {
      const corpora = await sql('searched_corpora').where({ corpus_id: corpus });
      return rankByWords(sql, corpora, { text: 'oak owl elm', limit: 10, budget: 30 }, (query) => query);
    });
    expect(await textsOf(ada, found)).toEqual(['owl', ...Array<string>(9).fill('oak elm')]);
  });

  it('finds what is enabled among many passages of documents that are not', async () => {
    const corpus = await newCorpus(ada);
    const hidden = await write(ada, corpus, Array<string>(300).fill('an oak'));
    await database.write('installation', (sql) =>
      sql('documents').where({ id: hidden.documentId }).update({ enabled: false }),
    );
    const seen = ['a small oak', 'a large oak'];
    await write(ada, corpus, seen, { metadata: { kind: 'tree' } });
    const budget = 20;
    const search = (text: string) =>
      database.read('installation', async (sql) => {
        const corpora = await sql('searched_corpora').where({ corpus_id: corpus });
        return rankByWords(sql, corpora, { text, limit: 10, budget }, (query) =>
          query.join('documents', 'documents.id', 'chunks.document_id').where('documents.enabled', true),
        );
      });
    expect(await textsOf(ada, await search('oak'))).toEqual(seen);
    expect(await textsOf(ada, await search('oak large'))).toEqual(seen.toReversed());
  });

  it('finds nothing of another organization, and scores as if there were none', async () => {
    const [mine, hers] = [await newCorpus(ada), await newCorpus(mallory)];
    await write(ada, mine, ['an osprey', 'something else'], { vectors: [[1], [0.1]] });
    const scores = () => store().passages.byWords(ada, { corpusIds: [mine] }, 'osprey', 10);
    const before = await scores();
    const theirs = await write(mallory, hers, ['an osprey', 'osprey osprey'], { vectors: [[1], [1]] });
    expect(await scores()).toEqual(before);
    expect(await byWords(ada, [mine, hers], 'osprey')).toEqual(['an osprey']);
    expect(await byVector(ada, [mine, hers], [1])).toEqual(['an osprey', 'something else']);
    const numbers = await engine.sql()('chunks').where({ document_id: theirs.documentId }).pluck('number');
    expect(await store().passages.read(ada, numbers.map(Number))).toEqual([]);
    await expect(
      store().chunks.stage(ownerOf(ada), { ...theirs, generation: 2 }, [passage('planted', 0)], null),
    ).rejects.toThrow(/belongs to another organization/);
  });

  it('writes the words of passages as they are staged, so that showing many holds up no writer', async () => {
    const corpus = await newCorpus(ada);
    const document = { corpusId: corpus, documentId: await newDocument(ada, corpus), generation: 1 };
    const key = engine.dialect === 'sqlite' ? 'rowid' : 'number';
    const indexed = async () => {
      const numbers = await engine
        .sql()('chunks')
        .where({ document_id: document.documentId })
        .pluck('number');
      return (await engine.sql()('chunk_words').whereIn(key, numbers).select(key)).length;
    };
    await stage(ada, document, ['a gray owl', 'a brown owl']);
    await stage(ada, document, ['a white owl']);
    expect(await indexed()).toBe(2);
    expect(await byWords(ada, [corpus], 'owl')).toEqual([]);
    await publish(ada, document);
    expect((await byWords(ada, [corpus], 'owl')).sort()).toEqual(['a brown owl', 'a white owl']);
    expect(await byWords(ada, [corpus], 'gray')).toEqual([]);
    await remove(ada, document);
    expect(await indexed()).toBe(0);
  });

  it('forgets what was staged long ago, and nothing that is seen', async () => {
    const corpus = await newCorpus(ada);
    const seen = await write(ada, corpus, ['a visible owl']);
    await stage(ada, { ...seen, generation: 2 }, ['a staged owl']);
    expect(await store().chunks.sweep(engine.clock.now())).toBe(0);
    engine.clock.advance(1);
    expect(await store().chunks.sweep(engine.clock.now())).toBe(1);
    expect(await byWords(ada, [corpus], 'owl')).toEqual(['a visible owl']);
  });

  describe('of more vectors than are compared one by one', () => {
    const bounds = { mostCompared: 400, compared: 150, codes: 500, largeFrom: 10_000 };
    const size = 256;
    let corpus: string;
    let hidden: string;
    let vectors: ReadonlyMap<number, Float32Array>;

    /** Vectors as embedders make them: in groups, and never twice the same. */
    const random = randomNumbers(7);
    const centres = Array.from({ length: 30 }, () => unit(size, () => random() - 0.5));
    const near = (centre: Float32Array) => {
      let at = 0;
      return unit(size, () => (centre[at++] ?? 0) + 0.06 * (random() - 0.5));
    };

    beforeAll(async () => {
      corpus = await newCorpus(ada);
      const written = new Map<number, Float32Array>();
      const documents = [];
      for (let part = 0; part < 3; part += 1) {
        const documentId = await newDocument(ada, corpus);
        const document = { corpusId: corpus, documentId, generation: 1 };
        const made = Array.from({ length: 400 }, (_, index) => near(centres[index % 30] ?? fail()));
        const passages = made.map((_, ordinal) => passage('x', ordinal));
        await store().chunks.stage(ownerOf(ada), document, passages, { embedder: 'wide', vectors: made });
        await publish(ada, document);
        const rows = await engine.sql()('chunks').where({ document_id: documentId }).orderBy('ordinal');
        for (const [index, { number }] of rows.entries()) written.set(Number(number), made[index] ?? fail());
        documents.push(documentId);
      }
      vectors = written;
      hidden = documents[0] ?? '';
      if (engine.dialect === 'postgresql') await engine.sql().raw('analyze chunk_vectors');
    });

    const exact = (question: Float32Array, numbers: Iterable<number>): number[] =>
      [...numbers]
        .map((number) => ({ number, score: dot(question, vectors.get(number) ?? fail()) }))
        .toSorted((one, other) => other.score - one.score)
        .slice(0, 10)
        .map(({ number }) => number);

    const visible: Narrow = (query) =>
      query.join('documents', 'documents.id', 'chunks.document_id').where('documents.enabled', true);

    interface Seen {
      readonly statements: string[];
      readonly found: { readonly number: number; readonly score: number }[];
    }

    /** What a search finds, and how it asked. */
    async function search(
      vector: Float32Array,
      {
        from = corpus,
        within = bounds,
        settings = [],
      }: { from?: string; within?: VectorBounds; settings?: string[] } = {},
    ): Promise<Seen> {
      const statements: string[] = [];
      const found = await database.read(ada, async (sql) => {
        for (const setting of settings) await sql.raw(`set local ${setting}`);
        const corpora = await sql('searched_corpora').where({ corpus_id: from });
        const listen = ({ sql: text }: { sql: string }) => statements.push(text);
        sql.on('query', listen);
        try {
          return await nearest(sql, corpora, { embedder: 'wide', vector, limit: 10 }, visible, within);
        } finally {
          sql.off('query', listen);
        }
      });
      return { statements, found: found.map(({ number, score }) => ({ number: Number(number), score })) };
    }

    async function recallOf(among: Iterable<number>, within: VectorBounds = bounds): Promise<number> {
      const all = [...among];
      let met = 0;
      for (let question = 0; question < 20; question += 1) {
        const asked = near(centres[question] ?? fail());
        const { found } = await search(asked, { within });
        const best = new Set(exact(asked, all));
        met += found.filter(({ number }) => best.has(number)).length;
      }
      return met / 200;
    }

    it('it guesses, and finds nearly all that comparing each one finds, in the same order of scores', async () => {
      const asked = near(centres[3] ?? fail());
      const { statements, found } = await search(asked);
      const guess = engine.dialect === 'sqlite' ? 'vec_distance_hamming' : 'hnsw.ef_search';
      expect(statements.join('\n')).toContain(guess);
      expect(found.map(({ score }) => score)).toEqual(
        found.map(({ score }) => score).toSorted((one, other) => other - one),
      );
      for (const { number, score } of found)
        expect(score).toBeCloseTo(dot(asked, vectors.get(number) ?? fail()), 2);
      expect(await recallOf(vectors.keys())).toBeGreaterThanOrEqual(0.95);
    });

    it('what is not to be found makes room for what is, as far down as that stands', async () => {
      const rows = await engine.sql()('chunks').where({ document_id: hidden }).pluck('number');
      const gone = new Set(rows.map(Number));
      const others = [...vectors.keys()].filter((number) => !gone.has(number));
      await engine.sql()('documents').where({ id: hidden }).update({ enabled: false });
      try {
        expect(await recallOf(others)).toBeGreaterThanOrEqual(0.95);
        // All that is nearest is hidden: then those that may be found are asked alone.
        const last = others.at(-1) ?? 0;
        const alone = await engine.sql()('chunks').where({ number: last }).first('document_id');
        await engine.sql()('documents').where({ corpus_id: corpus }).update({ enabled: false });
        await engine.sql()('documents').where({ id: alone.document_id }).update({ enabled: true });
        const its = (
          await engine.sql()('chunks').where({ document_id: alone.document_id }).pluck('number')
        ).map(Number);
        expect(await recallOf(its)).toBeGreaterThanOrEqual(0.95);
      } finally {
        await engine.sql()('documents').where({ corpus_id: corpus }).update({ enabled: true });
      }
    });

    // What PostgreSQL has an index of its own for.
    if (engine.dialect === 'sqlite') {
      interface CellRow {
        readonly number: number;
        readonly codes: number;
        readonly counted: number;
      }
      const cellsOf = async (corpusId: string): Promise<CellRow[]> =>
        engine
          .sql()('chunk_cells')
          .join('searched_corpora', 'searched_corpora.number', 'chunk_cells.corpus_number')
          .where('searched_corpora.corpus_id', corpusId)
          .select('chunk_cells.number', 'chunk_cells.codes')
          .select(
            engine.sql().raw('(select count(*) from chunk_codes where cell = chunk_cells.number) as counted'),
          );

      it('near ones lie together in cells of a bounded size, of which a search reads a few', async () => {
        const cells = await cellsOf(corpus);
        expect(cells.map(({ codes }) => codes)).toEqual(cells.map(({ counted }) => counted));
        expect(cells.reduce((sum, { codes }) => sum + codes, 0)).toBe(vectors.size);
        expect(cells.length).toBeGreaterThan(2);
        for (const { codes } of cells) expect(codes).toBeLessThanOrEqual(512);
        const { found } = await search(near(centres[7] ?? fail()), { within: { ...bounds, codes: 1 } });
        const numbers = found.map(({ number }) => number);
        expect(numbers).toHaveLength(10);
        const read = await engine
          .sql()('chunk_codes')
          .whereIn('number', numbers)
          .distinct('cell')
          .pluck('cell');
        expect(read).toHaveLength(1);
      });

      it('more of the nearest are looked at in a large corpus, where their codes tell less apart', async () => {
        const few = { ...bounds, compared: 15 };
        const usual = await recallOf(vectors.keys(), few);
        const large = await recallOf(vectors.keys(), { ...few, largeFrom: vectors.size / 25 });
        expect([usual < 0.9, large > 0.95], `${usual} and ${large}`).toEqual([true, true]);
      });

      it('an older database gets its cells when it is opened, and finds the same', async () => {
        const asked = near(centres[9] ?? fail());
        const before = await search(asked, { within: { ...bounds, codes: vectors.size } });
        await database.write('installation', async (sql) => {
          await sql.raw('drop table chunk_codes');
          await sql.raw('drop table chunk_cells');
          await chunkCells.up(sql);
        });
        const after = await search(asked, { within: { ...bounds, codes: vectors.size } });
        expect(after.found).toEqual(before.found);
        expect(await recallOf(vectors.keys())).toBeGreaterThanOrEqual(0.95);
      });

      it('as many of one direction as there may be are parted all the same, and go with their documents', async () => {
        const alike = await newCorpus(ada);
        const document = await write(
          ada,
          alike,
          Array.from({ length: 1200 }, () => 'x'),
          { vectors: Array.from({ length: 1200 }, () => [1, 1, 1]) },
        );
        const cells = await cellsOf(alike);
        expect(cells.length).toBeGreaterThan(2);
        for (const { codes, counted } of cells) {
          expect(codes).toBe(counted);
          expect(codes).toBeLessThanOrEqual(512);
        }
        await remove(ada, document);
        expect((await cellsOf(alike)).map(({ codes }) => codes)).toEqual(cells.map(() => 0));
        await write(ada, alike, ['y'], { vectors: [[0, 1, 0]] });
        expect(await cellsOf(alike)).toMatchObject([{ codes: 1, counted: 1 }]);
      });
    }

    if (engine.dialect === 'postgresql')
      it('the planner walks the graph, in the eyes of one organization and of the server', async () => {
        for (const scope of [ada, 'installation'] as const) {
          const plans = await database.read(scope, async (sql) => {
            const corpora = await sql('searched_corpora').where({ corpus_id: corpus });
            const asked: { sql: string; bindings: readonly Knex.RawBinding[] }[] = [];
            const listen = (query: (typeof asked)[number]) => asked.push(query);
            sql.on('query', listen);
            const question = { embedder: 'wide', vector: near(centres[3] ?? fail()), limit: 10 };
            await nearest(sql, corpora, question, visible, bounds);
            sql.off('query', listen);
            const walk = asked.find(({ sql: text }) => text.includes('order by vector::halfvec')) ?? fail();
            const { rows } = await sql.raw(`explain ${walk.sql.replaceAll(/\$\d+/g, '?')}`, walk.bindings);
            return rows.map((row: Record<string, string>) => row['QUERY PLAN']).join('\n');
          });
          expect(plans).toContain(`Index Scan using chunk_vectors_${size}`);
          expect(plans).not.toContain('Sort');
        }
      });

    if (engine.dialect === 'postgresql')
      it('where the walk ends with passages that may not be found, those that may are looked for', async () => {
        const small = await newCorpus(ada);
        const [many, alone] = [await newDocument(ada, small), await newDocument(ada, small)];
        const around = near(centres[1] ?? fail());
        const all = [
          { documentId: many, made: Array.from({ length: 150 }, () => around) },
          { documentId: alone, made: [near(centres[20] ?? fail())] },
        ];
        for (const { documentId, made } of all) {
          const document = { corpusId: small, documentId, generation: 1 };
          const passages = made.map((_, ordinal) => passage('x', ordinal));
          await store().chunks.stage(ownerOf(ada), document, passages, { embedder: 'wide', vectors: made });
          await publish(ada, document);
        }
        await engine.sql()('documents').where({ id: many }).update({ enabled: false });
        const { found } = await search(around, {
          ...{ from: small, within: { ...bounds, mostCompared: 100, compared: 200 } },
          settings: ['hnsw.max_scan_tuples = 1', 'hnsw.scan_mem_multiplier = 1'],
        });
        expect(found).toHaveLength(1);
      });

    // The graph is for the vectors of everybody: here most of them are another corpus's.
    if (engine.dialect === 'postgresql')
      it('where the walk through the graph ends before it has met enough, each is compared', async () => {
        const small = await newCorpus(ada);
        const document = { corpusId: small, documentId: await newDocument(ada, small), generation: 1 };
        const made = Array.from({ length: 40 }, () => near(centres[1] ?? fail()));
        const staged = { embedder: 'wide', vectors: made };
        await store().chunks.stage(
          ownerOf(ada),
          document,
          made.map((_, ordinal) => passage('x', ordinal)),
          staged,
        );
        await publish(ada, document);
        const asked = near(centres[5] ?? fail());
        const { statements, found } = await search(asked, {
          ...{ from: small, within: { ...bounds, mostCompared: 20, compared: 30 } },
          settings: ['hnsw.max_scan_tuples = 1', 'hnsw.scan_mem_multiplier = 1'],
        });
        expect(statements.join('\n')).toMatch(/hnsw\.ef_search[\s\S]*with "mine" as materialized/);
        const scores = made.map((vector) => dot(asked, vector)).toSorted((one, other) => other - one);
        expect(found).toHaveLength(10);
        for (const [index, { score }] of found.entries()) expect(score).toBeCloseTo(scores[index] ?? 0, 2);
      });
  });
});

/** The same numbers each time. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function unit(size: number, next: () => number): Float32Array {
  const numbers = Float32Array.from({ length: size }, next);
  const length = Math.hypot(...numbers);
  return numbers.map((value) => value / length);
}

function dot(one: Float32Array, other: Float32Array): number {
  return one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
}

function fail(): never {
  throw new Error('There is no such vector.');
}
