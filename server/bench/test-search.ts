/** Measures searches in a corpus that grows: how long they take, what they find beside comparing everything, and what they need. */
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { systemClock } from '../clock.ts';
import type { SearchMode } from '../contract/api.ts';
import { createEmbedders } from '../knowledge/knowledge.ts';
import { createPassageSearch } from '../knowledge/search.ts';
import { createLog } from '../log.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import type { Database } from '../store/database.ts';
import { openPostgres } from '../store/postgres.ts';
import { openSqlite } from '../store/sqlite.ts';
import { openStore, type Reach, type Store } from '../store/store.ts';
import { startPostgres } from '../store/test-postgres.ts';
import { type WrittenDocument, writeInto } from '../test-passages.ts';
import { newReach } from './test-reach.ts';

const sizes = (process.argv[2] ?? '1000,10000').split(',').map(Number);
const wanted = process.argv[3]?.split(',') ?? ['sqlite', 'postgresql'];
const questions = 100;
/** Of the questions, those whose answers are held against comparing everything. */
const compared = 40;
const passagesOfDocument = 100;
const wordsOfPassage = 120;
const modes: readonly SearchMode[] = ['keyword', 'vector', 'hybrid'];
const identity = 'bench';
/** About a quarter of the memory, as PostgreSQL's manual has it for a machine of its own: the graph has to fit. */
const postgresSettings = { shared_buffers: '4GB', max_wal_size: '8GB' };
/** How much is added to a real vector: the cosine to it is .9 then, as of two passages about the same. */
const noise = 0.48;

const root = join(import.meta.dirname, '../..');
const log = createLog('silent');

/** What everything is made from: paragraphs that people wrote, with the vectors that the real model gives them. */
interface Originals {
  readonly vectors: readonly Float32Array[];
  /** All of their words, each as often as it stands there. */
  readonly words: readonly string[];
}

interface Engine {
  readonly name: 'sqlite' | 'postgresql';
  readonly url: string;
}

await measure();

async function measure(): Promise<void> {
  const originals = await readOriginals();
  const postgres = wanted.includes('postgresql') ? await startPostgres(postgresSettings) : null;
  const temporary = mkdtempSync(join(tmpdir(), 'service-search-'));
  try {
    if (wanted.includes('sqlite'))
      await measureOn({ name: 'sqlite', url: `sqlite:${join(temporary, 'service.db')}` }, originals);
    if (postgres) await measureOn({ name: 'postgresql', url: postgres.url }, originals);
    else if (wanted.includes('postgresql'))
      console.log('postgresql: not measured, since it is not installed (make python).');
  } finally {
    await postgres?.stop();
    rmSync(temporary, { recursive: true });
  }
}

/** Four hundred paragraphs of our own documentation: few enough to be embedded in half a minute. */
async function readOriginals(): Promise<Originals> {
  const texts = globSync(['docs/*.md', 'docs/decisions/*.md'], { cwd: root })
    .toSorted()
    .flatMap((file) => readFileSync(join(root, file), 'utf8').split(/\n\s*\n/))
    .filter((text) => text.length > 200 && text.length < 1500);
  const every = Math.max(1, Math.floor(texts.length / 400));
  const chosen = texts.filter((_, index) => index % every === 0).slice(0, 400);
  const none = async () => ({ chosen: null, batchSize: 1 });
  const embedders = createEmbedders({
    modelsDirectory: readServerSettings([], process.env).settings.modelsDirectory,
    ...{ chosen: none, known: none },
    open: () => Promise.reject(new Error('no provider is measured here')),
  });
  try {
    const atHand = await embedders.current();
    if (!atHand.embedder) throw new Error(atHand.reason);
    const vectors = await atHand.embedder.embed(chosen, new AbortController().signal);
    return { vectors, words: texts.join(' ').match(/\p{L}{2,}/gu) ?? [] };
  } finally {
    await embedders.close();
  }
}

async function measureOn(engine: Engine, originals: Originals): Promise<void> {
  const store = await openStore(engine.url, { clock: systemClock, log });
  const database =
    engine.name === 'sqlite'
      ? openSqlite(engine.url.slice('sqlite:'.length), log)
      : openPostgres(engine.url, log);
  try {
    const reach = await newReach(store);
    const { id } = (await store.corpora.create(reach, { name: 'Bench' })).corpus;
    console.log(
      `${engine.name}: p50/p95 of ${questions} questions in ms, without embedding them; CPU of this process`,
    );
    console.log(
      '  passages   keyword             vector              hybrid              recall@10  memory   on disk   written',
    );
    let before: readonly number[] | null = null;
    for (const [index, size] of sizes.entries()) {
      const began = performance.now();
      await grow(engine, database, id, { from: sizes[index - 1] ?? 0, to: size }, originals);
      const seconds = (performance.now() - began) / 1000;
      const medians = await measureSize(engine, { store, database, reach, id }, size, originals, seconds);
      if (before) tellGrowth(before, medians, size / (sizes[index - 1] ?? size));
      before = medians;
    }
  } finally {
    await database.close();
    await store.close();
  }
}

async function grow(
  engine: Engine,
  database: Database,
  corpusId: string,
  { from, to }: { readonly from: number; readonly to: number },
  originals: Originals,
): Promise<void> {
  for (let at = from; at < to; at += passagesOfDocument) {
    const numbers = Array.from({ length: Math.min(passagesOfDocument, to - at) }, (_, index) => at + index);
    const document: WrittenDocument = {
      id: `doc_bench_${at}`,
      title: `Document ${at}`,
      passages: numbers.map((number) => ({
        text: textOf(number, originals),
        vector: vectorOf(number, originals),
      })),
    };
    await writeInto(database, systemClock, corpusId, [document], identity);
  }
  // As the servers of PostgreSQL do by themselves, a minute later; SQLite is never told to.
  if (engine.name === 'postgresql') await vacuum(engine.url);
}

async function vacuum(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('vacuum (analyze)');
  } finally {
    await client.end();
  }
}

interface Opened {
  readonly store: Store;
  readonly database: Database;
  readonly reach: Reach;
  readonly id: string;
}

/** Prints a line; answers with the median of each mode. */
async function measureSize(
  engine: Engine,
  { store, database, reach, id }: Opened,
  size: number,
  originals: Originals,
  seconds: number,
): Promise<readonly number[]> {
  const { signal } = new AbortController();
  const ask = (number: number, mode: SearchMode) =>
    createPassageSearch<Reach>({
      index: store.passages,
      embedders: async (_caller, { corpusIds }) => {
        const vector = vectorOf(-number, originals);
        const embedder = { identity, dimensions: vector.length, embed: async () => [vector] };
        return [{ corpusIds, atHand: { embedder } }];
      },
      embeddingFailed(error) {
        throw error;
      },
    }).search(reach, { corpusIds: [id], query: questionOf(number, originals), mode, topK: 10 }, signal);
  const times: { readonly p50: number; readonly p95: number; readonly cpu: number }[] = [];
  for (const mode of modes) {
    for (let number = 1; number <= 5; number += 1) await ask(number, mode);
    const taken: number[] = [];
    // What others do on the machine meanwhile is in the times, and not in this.
    const before = process.cpuUsage();
    for (let number = 1; number <= questions; number += 1) {
      const began = performance.now();
      await ask(number, mode);
      taken.push(performance.now() - began);
    }
    const sorted = taken.toSorted((one, other) => one - other);
    const { user, system } = process.cpuUsage(before);
    const cpu = (user + system) / 1000 / questions;
    times.push({ p50: sorted[questions >> 1] ?? 0, p95: sorted[Math.floor(questions * 0.95)] ?? 0, cpu });
  }
  const best = nearestExactly(size, originals);
  let met = 0;
  for (const [index, numbers] of best.entries()) {
    const { data } = await ask(index + 1, 'vector');
    met += data.filter(({ text }) => numbers.has(numberIn(text))).length;
  }
  const recall = met / (10 * best.length);
  const cells = times.map(({ p50, p95, cpu }) =>
    `${p50.toFixed(1)}/${p95.toFixed(1)}; ${cpu.toFixed(1)}`.padEnd(19),
  );
  const memory = `${Math.round(process.memoryUsage().rss / 2 ** 20)} MB`.padEnd(8);
  const disk = `${Math.round((await bytesOnDisk(engine, database)) / 2 ** 20)} MB`.padEnd(9);
  const rate = `${Math.round(seconds)} s`;
  console.log(
    `  ${String(size).padEnd(10)} ${cells.join(' ')} ${recall.toFixed(3).padEnd(10)} ${memory} ${disk} ${rate}`,
  );
  return times.map(({ p50 }) => p50);
}

function tellGrowth(before: readonly number[], after: readonly number[], factor: number): void {
  const told = modes.map(
    (mode, index) => `${mode} ${((after[index] ?? 0) / (before[index] || 1)).toFixed(1)}`,
  );
  console.log(`             with ${factor} times as many passages the median is, times: ${told.join(', ')}`);
}

async function bytesOnDisk({ name, url }: Engine, database: Database): Promise<number> {
  if (name === 'sqlite') return statSync(url.slice('sqlite:'.length)).size;
  const { rows } = await database.read('installation', (sql) =>
    sql.raw('select pg_database_size(current_database()) as bytes'),
  );
  return Number(rows[0].bytes);
}

/** The ten nearest of each question that is compared, among all that there are. */
function nearestExactly(size: number, originals: Originals): Set<number>[] {
  const asked = Array.from({ length: compared }, (_, index) => vectorOf(-index - 1, originals));
  const best = asked.map((): { number: number; score: number }[] => []);
  for (let number = 0; number < size; number += 1) {
    const vector = vectorOf(number, originals);
    for (const [index, question] of asked.entries()) {
      const top = best[index] ?? [];
      const score = dot(question, vector);
      if (top.length === 10 && score <= (top[9]?.score ?? 0)) continue;
      top.push({ number, score });
      top.sort((one, other) => other.score - one.score);
      if (top.length > 10) top.pop();
    }
  }
  return best.map((top) => new Set(top.map(({ number }) => number)));
}

function dot(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < one.length; index += 1) sum += (one[index] ?? 0) * (other[index] ?? 0);
  return sum;
}

/** A real vector that was moved by chance; those of questions have negative numbers. */
function vectorOf(number: number, { vectors }: Originals): Float32Array {
  const random = randomNumbers(number);
  const original = vectors[Math.floor(random() * vectors.length)] ?? new Float32Array();
  // Of numbers between -1 and 1 the square is a third on average.
  const width = noise * Math.sqrt(3 / original.length);
  const moved = original.map((value) => value + width * (2 * random() - 1));
  const length = Math.sqrt(dot(moved, moved));
  return moved.map((value) => value / length);
}

/** Words as often as people use them, two that few passages have, and the number by which it is known again. */
function textOf(number: number, { words }: Originals): string {
  const random = randomNumbers(number + 0.5);
  const one = () => words[Math.floor(random() * words.length)] ?? '';
  const rare = () => `item${Math.floor(random() * 5000)}`;
  return [`passage${number}`, ...Array.from({ length: wordsOfPassage }, one), rare(), rare()].join(' ');
}

function questionOf(number: number, { words }: Originals): string {
  const random = randomNumbers(-number - 0.5);
  const one = () => words[Math.floor(random() * words.length)] ?? '';
  return [...Array.from({ length: 7 }, one), `item${Math.floor(random() * 5000)}`].join(' ');
}

function numberIn(text: string): number {
  return Number(/^passage(\d+)/.exec(text)?.[1] ?? -1);
}

/** The same numbers for the same seed each time (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = Math.imul(Math.trunc(seed * 2), 0x9e3779b1) | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
