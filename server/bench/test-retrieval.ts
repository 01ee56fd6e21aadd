/** Measures what searches find, on a test collection: by words, by meaning and by both, on either engine alike. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { systemClock } from '../clock.ts';
import type { SearchMode } from '../contract/api.ts';
import type { Embedder } from '../knowledge/embedder.ts';
import { createEmbedders } from '../knowledge/knowledge.ts';
import { createPassageSearch } from '../knowledge/search.ts';
import { createLog } from '../log.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import { openPostgres } from '../store/postgres.ts';
import { openSqlite } from '../store/sqlite.ts';
import { openStore, type Reach, type Store } from '../store/store.ts';
import { startPostgres } from '../store/test-postgres.ts';
import { type WrittenDocument, writeInto } from '../test-passages.ts';
import { newReach } from './test-reach.ts';

/** The aims: nDCG@10 of both together, and by how much that is more than the better half alone. */
const least = { hybrid: 0.39, gain: 0.02 };
const modes: readonly SearchMode[] = ['keyword', 'vector', 'hybrid'];

/** Holds `cranfield/corpus.jsonl`, `queries.jsonl`, `qrels.jsonl`, and their scorer `score.py`. */
const folder = resolve(process.env.RETRIEVAL_DATA ?? 'retrieval');
const collection = join(folder, 'cranfield');
const log = createLog('silent');

interface Question {
  readonly id: string;
  readonly text: string;
}

interface Scores {
  readonly 'ndcg@10': number;
  readonly 'recall@100': number;
}

if (existsSync(collection)) process.exitCode = await measure();
else {
  console.error(`There is no test collection in ${folder}: RETRIEVAL_DATA names the folder of one.`);
  process.exitCode = 2;
}

async function measure(): Promise<number> {
  const none = async () => ({ chosen: null, batchSize: 1 });
  const embedders = createEmbedders({
    modelsDirectory: readServerSettings([], process.env).settings.modelsDirectory,
    ...{ chosen: none, known: none },
    open: () => Promise.reject(new Error('no provider is measured here')),
  });
  const postgres = await startPostgres();
  const temporary = mkdtempSync(join(tmpdir(), 'service-retrieval-'));
  try {
    const { embedder, ...rest } = await embedders.current();
    if (!embedder) throw new Error('reason' in rest ? rest.reason : 'There is no embedder.');
    const documents = await embedded(embedder);
    const engines: readonly (readonly [string, string | null])[] = [
      ['SQLite', `sqlite:${join(temporary, 'service.db')}`],
      ['PostgreSQL', postgres?.url ?? null],
    ];
    let missed = 0;
    for (const [name, url] of engines)
      if (url === null) console.log(`${name}: not measured, since it is not installed (make python).`);
      else missed += await measureOn(name, url, temporary, documents, embedder);
    return missed;
  } finally {
    await embedders.close();
    await postgres?.stop();
    rmSync(temporary, { recursive: true });
  }
}

function lines<Line>(file: string): Line[] {
  const text = readFileSync(join(collection, file), 'utf8');
  // The collection comes with a description of its files.
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

/** One passage of each document, as long as the texts of the collection are: their titles are the headings. */
async function embedded(embedder: Embedder): Promise<WrittenDocument[]> {
  const documents: WrittenDocument[] = [];
  const signal = new AbortController().signal;
  for (const { id, title, text } of lines<Question & { readonly title: string }>('corpus.jsonl')) {
    const [vector] = await embedder.embed([`${title}\n${text}`], signal);
    if (!vector) throw new Error('The embedder answered a text with no vector.');
    documents.push({ id: `doc_${id}`, title, passages: [{ text, headings: [title], vector }] });
  }
  return documents;
}

/** Answers with how many aims were missed. */
async function measureOn(
  name: string,
  url: string,
  temporary: string,
  documents: readonly WrittenDocument[],
  embedder: Embedder,
): Promise<number> {
  const store = await openStore(url, { clock: systemClock, log });
  try {
    const search = await searchOf(store, url, documents, embedder);
    const scores = new Map<SearchMode, Scores>();
    for (const mode of modes) {
      const rankings: string[] = [];
      for (const { id, text } of lines<Question>('queries.jsonl')) {
        const { data } = await search(text, mode);
        const doc_ids = data.map(({ document_id }) => document_id.slice('doc_'.length));
        rankings.push(JSON.stringify({ query_id: id, doc_ids }));
      }
      const file = join(temporary, `${mode}.jsonl`);
      writeFileSync(file, rankings.join('\n'));
      scores.set(mode, scoreOf(file));
    }
    return report(name, scores);
  } finally {
    await store.close();
  }
}

async function searchOf(
  store: Store,
  url: string,
  documents: readonly WrittenDocument[],
  embedder: Embedder,
) {
  const reach = await newReach(store);
  const { id } = (await store.corpora.create(reach, { name: 'Collection' })).corpus;
  const isSqlite = url.startsWith('sqlite:');
  const database = isSqlite ? openSqlite(url.slice('sqlite:'.length), log) : openPostgres(url, log);
  await writeInto(database, systemClock, id, documents, embedder.identity).finally(() => database.close());
  const passages = createPassageSearch<Reach>({
    index: store.passages,
    embedders: async (_caller, { corpusIds }) => [{ corpusIds, atHand: { embedder } }],
    embeddingFailed(error) {
      throw error;
    },
  });
  const { signal } = new AbortController();
  return (query: string, mode: SearchMode) =>
    passages.search(reach, { corpusIds: [id], query, mode, topK: 100 }, signal);
}

/** By the scorer of the collection, not by one of ours. */
function scoreOf(rankings: string): Scores {
  const printed = execFileSync('python3', [join(folder, 'score.py'), collection, rankings, '--json']);
  return JSON.parse(printed.toString());
}

function report(name: string, scores: ReadonlyMap<SearchMode, Scores>): number {
  console.log(`${name.padEnd(12)} nDCG@10  recall@100`);
  for (const [mode, { 'ndcg@10': gain, 'recall@100': recall }] of scores)
    console.log(`  ${mode.padEnd(10)} ${gain.toFixed(4)}   ${recall.toFixed(4)}`);
  const of = (mode: SearchMode): number => scores.get(mode)?.['ndcg@10'] ?? 0;
  const better = Math.max(of('keyword'), of('vector'));
  const aims = [
    [`hybrid at least ${least.hybrid}`, of('hybrid') >= least.hybrid],
    [`hybrid at least ${least.gain} above the better half`, of('hybrid') >= better + least.gain],
  ] as const;
  for (const [aim, met] of aims) console.log(`  ${met ? 'met' : 'MISSED'}: ${aim}`);
  return aims.filter(([, met]) => !met).length;
}
