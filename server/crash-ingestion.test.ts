/** Servers that are killed while they take documents in: each of them is taken in once in the end, and never shown by half. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knex, { type Knex } from 'knex';
import { expect, inject, test } from 'vitest';
import { systemClock } from './clock.ts';
import type { Chunk, Corpus, Document, DocumentPage, IngestionJob } from './contract/api.ts';
import { ask, expectSound, randomFrom, seed, startCrashing } from './crash-checks.ts';
import { createLog } from './log.ts';
import { type ServerProcess, temporaryFolder } from './server-process.ts';
import { openSqlite } from './store/sqlite.ts';
import { openStore } from './store/store.ts';
import { type Client, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { modelsDirectory } from './test-embedder.ts';
import { writeInto } from './test-passages.ts';

const stages = ['fetch', 'parse', 'chunk', 'embed', 'publish'] as const;
/** Kills at any moment, besides one at each stage; with two processes only where many are asked for. */
const randomKills = Number(process.env.CRASH_KILLS ?? 2);
const randomKillsOfTwo = Number(process.env.CRASH_KILLS ?? 0);
/** Documents of one job. */
const atOnce = 2;
/** In words, so that each is cut into several passages. */
const length = 900;

/** Each has a word that no other has, so that it is seen which one was found. */
function textOf(number: number): string {
  const sentences = Array.from({ length: length / 10 }, (_, at) => {
    return `Paragraph ${at} of this handbook speaks about number ${number * 1000 + at}.\n\n`;
  });
  return `# Handbook onlyin${number}\n\n${sentences.join('')}`;
}

/** What was read before is only cut anew: so the round of that stage has the texts of the one before it. */
function textsOf(round: number): { title: string; text: string }[] {
  const same = stages[round] === 'chunk' ? round - 1 : round;
  return Array.from({ length: atOnce }, (_, at) => {
    const number = same * atOnce + at;
    return { title: `Handbook ${number}`, text: textOf(number) };
  });
}

interface Nodes {
  /** One that runs, and another one after each kill. */
  client(): Client;
  /** Kills the process that is at work on a document of the job, or any where none is. */
  kill(jobId: string): Promise<void>;
  ask<T>(question: (sql: Knex) => PromiseLike<T>): Promise<T>;
  stop(): Promise<void>;
}

const timeout = 240_000 + randomKills * 20_000;

test('documents whose server is killed at each stage are taken in once, and no search ever sees a half of one', {
  timeout,
}, async () => {
  const folder = await temporaryFolder();
  let server = await startCrashing(folder);
  const { key } = server;
  await expectOnceEach(randomKills, {
    client: () => clientOf(server, key),
    ask: (question) => ask(folder, question),
    async kill() {
      await server.kill9();
      await expectSound(join(folder, 'data/service.db'));
      server = await startCrashing(folder);
    },
    stop: async () => void (await server.stop()),
  });
});

test('documents whose server is killed at each stage are taken in once by it and another one, on one database', {
  timeout,
  skip: inject('postgresUrl') === null,
}, async () => {
  const folder = await temporaryFolder();
  const url = await newDatabase();
  const shared = { DATABASE_URL: url, SERVICE_MASTER_KEY_FILE: await newMasterKey(folder) };
  const first = await startCrashing(folder, shared);
  const nodes = [first, await startCrashing(folder, shared)];
  const sql = knex({ client: 'pg', connection: url, pool: { min: 0, max: 1 } });
  await expectOnceEach(randomKillsOfTwo, {
    client: () => clientOf(nodes[0] ?? first, first.key),
    ask: async (question) => question(sql),
    async kill(job_id) {
      const [owner] = await sql('ingestion_items').where({ job_id }).whereNotNull('worker').pluck('worker');
      const at = Math.max(
        0,
        nodes.findIndex((node) => isOf(node, owner)),
      );
      await nodes.splice(at, 1)[0]?.kill9();
      // What it was at is taken up by the one that is left.
      await expectEnd(clientOf(nodes[0] ?? first, first.key), await pathOf(sql, job_id));
      nodes.push(await startCrashing(folder, shared));
    },
    async stop() {
      for (const node of nodes) expect(node.log()).not.toMatch(/"level":[56]0/);
      for (const node of nodes) await node.stop();
      await sql.destroy();
    },
  });
});

/** The name of a worker has the number of its process in it. */
function isOf({ pid }: ServerProcess, owner: string | undefined): boolean {
  return owner?.split('/')[1] === String(pid);
}

async function pathOf(sql: Knex, id: string): Promise<string> {
  const { corpus_id } = await sql('ingestion_jobs').where({ id }).first('corpus_id');
  return `/api/v1/corpora/${corpus_id}/ingestion-jobs/${id}`;
}

async function expectOnceEach(atAnyMoment: number, nodes: Nodes): Promise<void> {
  console.info(`crash test of ingestion: CRASH_SEED=${seed}`);
  const random = randomFrom(seed);
  const path = await newCorpus(nodes.client());
  const rounds = [...stages, ...Array<null>(atAnyMoment).fill(null)];
  const texts = rounds.map((_, round) => textsOf(round));
  const jobs: string[] = [];
  const reached = new Set<string>();
  const seen = new Set<string>();
  for (const [round, stage] of rounds.entries()) {
    const { body } = await nodes.client().post<IngestionJob>(`${path}/documents`, { texts: texts[round] });
    jobs.push(`${path}/ingestion-jobs/${body.id}`);
    if (stage === null) await sleep(random() * 1500);
    else if (await comesTo(nodes, body.id, stage)) reached.add(stage);
    await nodes.kill(body.id);
    await expectWhole(nodes.client(), path, seen);
    // A document that was at work at several kills would be given up: it may be what kills.
    if (stage === null) await expectEnd(nodes.client(), `${path}/ingestion-jobs/${body.id}`);
  }
  // A stage may be too short to be met; that none was met would mean that nothing was killed at work.
  expect(reached.size).toBeGreaterThan(0);
  for (const job of jobs)
    expect(await expectEnd(nodes.client(), job)).toMatchObject({
      status: 'completed',
      progress: { completed: atOnce },
    });
  expect(await expectWhole(nodes.client(), path)).toBe(jobs.length * atOnce);
  await expectOnce(nodes);
  // As another time without any kill.
  const calm = await newCorpus(nodes.client());
  // Each round by itself: a job takes no more than a hundred texts.
  for (const again of texts) {
    const { body } = await nodes.client().post<IngestionJob>(`${calm}/documents`, { texts: again });
    await expectEnd(nodes.client(), `${calm}/ingestion-jobs/${body.id}`);
  }
  const stats = async (corpus: string) => (await nodes.client().get<Corpus>(corpus)).body.stats;
  expect(await stats(path)).toEqual(await stats(calm));
  console.info(`killed at: ${[...reached].join(', ')}`);
  await nodes.stop();
}

test('a corpus whose server is killed while it is indexed anew is indexed once in the end', {
  timeout: 180_000,
}, async () => {
  const folder = await temporaryFolder();
  const without = await startCrashing(folder, { SERVICE_MODELS_DIR: join(folder, 'none') });
  const { key } = without;
  const calm = clientOf(without, key);
  const path = await newCorpus(calm);
  // Of so many passages that they are embedded in several parts.
  const shelf = Array.from({ length: 15 }, (_, at) => textOf(at)).join('\n');
  const texts = ['One', 'Two'].map((title) => ({ title, text: `${title}\n\n${shelf}` }));
  const { body: job } = await calm.post<IngestionJob>(`${path}/documents`, { texts });
  await expectEnd(calm, `${path}/ingestion-jobs/${job.id}`);
  const { body: bare } = await calm.get<Corpus>(path);
  expect(bare).toMatchObject({ embedder: null, stats: { documents: texts.length } });
  await without.stop();
  const variables = { SERVICE_MODELS_DIR: modelsDirectory };
  const killed = await startCrashing(folder, variables);
  expect((await clientOf(killed, key).send('POST', `${path}/reindex`)).status).toBe(202);
  const vectors = () => ask(folder, (sql) => sql('chunk_vectors').pluck('number'));
  await expect.poll(async () => (await vectors()).length, { interval: 20 }).toBeGreaterThan(0);
  await killed.kill9();
  const before = await vectors();
  expect(before.length).toBeLessThan(bare.stats.chunks);
  // Without a word of anybody, once the lease of the dead one is over.
  const next = await startCrashing(folder, variables);
  const corpus = async () => (await clientOf(next, key).get<Corpus>(path)).body;
  await expect.poll(async () => (await corpus()).stale, { timeout: 90_000, interval: 200 }).toBe(false);
  const after = await vectors();
  expect(after).toHaveLength(bare.stats.chunks);
  expect(after).toEqual(expect.arrayContaining(before));
  await next.stop();
});

test('what a process that ended has left of a deleted corpus goes when a server starts', async () => {
  const folder = await temporaryFolder();
  const server = await startCrashing(folder);
  const path = await newCorpus(clientOf(server, server.key));
  await server.kill9();
  const filename = join(folder, 'data/service.db');
  const [corpusId = ''] = path.split('/').slice(-1);
  const passages = Array.from({ length: 3000 }, (_, at) => ({ text: `Owl ${at}`, vector: [1, at] }));
  const database = openSqlite(filename, createLog('silent'));
  await writeInto(database, systemClock, corpusId, [{ id: 'doc_owls', title: 'Owls', passages }]);
  await database.close();

  const store = await openStore(`sqlite:${filename}`, { clock: systemClock, log: createLog('silent') });
  const { user_id: userId } = await ask(folder, (sql) => sql('corpora').first('user_id'));
  const { memberships = [], workspaces = [] } = (await store.principals.byUser(userId)) ?? {};
  const organizationIds = memberships.map(({ organizationId }) => organizationId);
  await store.corpora.delete({ userId, memberships, workspaces, organizationIds }, corpusId);
  expect(await store.chunks.clear()).toBeGreaterThan(0);
  await store.close();
  const left = () =>
    Promise.all(
      ['chunks', 'chunk_vectors', 'chunk_codes', 'chunk_cells', 'searched_corpora'].map((table) =>
        ask(folder, async (sql) => (await sql(table)).length),
      ),
    );
  expect(Math.min(...(await left()))).toBeGreaterThan(0);

  const next = await startCrashing(folder);
  await expect.poll(left, { timeout: 60_000, interval: 100 }).toEqual([0, 0, 0, 0, 0]);
  await next.stop();
  await expectSound(filename);
});

async function newCorpus(client: Client): Promise<string> {
  const { body } = await client.post<Corpus>('/api/v1/corpora', { name: 'Handbooks' });
  return `/api/v1/corpora/${body.id}`;
}

/** Whether one of the job's documents was seen at this stage before all were taken in. */
async function comesTo(nodes: Nodes, job_id: string, stage: string): Promise<boolean> {
  return nodes.ask(async (sql) => {
    for (;;) {
      const open = await sql('ingestion_items')
        .where({ job_id })
        .whereNull('ended_at')
        .select('stage', 'status');
      if (open.some((item) => item.stage === stage && item.status === 'running')) return true;
      if (open.length === 0) return false;
    }
  });
}

/**
 * What is ready is there from its first word to its last, and is found by its own word alone. What was seen before is left
 * to the end.
 */
async function expectWhole(client: Client, path: string, seen = new Set<string>()): Promise<number> {
  const ready = await allReady(client, path);
  const sameText = Map.groupBy(ready, ({ title }) => title);
  for (const document of ready.filter(({ id }) => !seen.has(id))) {
    seen.add(document.id);
    const listed = await client.get<{ data: Chunk[] }>(`${path}/documents/${document.id}/chunks?limit=100`);
    const chunks = listed.body.data;
    const text = textOf(Number(document.title.split(' ')[1]));
    expect(chunks.map(({ ordinal }) => ordinal)).toEqual(chunks.map((_, at) => at));
    expect(chunks).toHaveLength(document.chunks);
    for (const { citation, text: cited } of chunks)
      expect(text.slice(citation.start, citation.end)).toBe(cited);
    expect(text.slice(chunks.at(-1)?.citation.end).trim()).toBe('');
    const query = text.slice('# Handbook '.length, text.indexOf('\n'));
    const found = await client.post<{ data: { document_id: string }[] }>(`${path}/search`, {
      query,
      mode: 'keyword',
      top_k: 100,
    });
    const ids = new Set(found.body.data.map(({ document_id }) => document_id));
    const same = sameText.get(document.title) ?? [];
    expect([...ids].toSorted()).toEqual(same.map(({ id }) => id).toSorted());
  }
  return ready.length;
}

async function allReady(client: Client, path: string): Promise<Document[]> {
  const documents: Document[] = [];
  let after: string | null = '';
  while (after !== null) {
    const page: DocumentPage = (
      await client.get<DocumentPage>(`${path}/documents?status=ready&limit=100${after}`)
    ).body;
    documents.push(...page.data);
    after = page.next_cursor && `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
  return documents;
}

/** Behind the API: nothing is there twice, and of what was given up no more than the sweep takes away. */
async function expectOnce(nodes: Nodes): Promise<void> {
  const doubled = await nodes.ask((sql) =>
    sql('chunks')
      .whereNotNull('published_at')
      .groupBy('document_id', 'ordinal')
      .havingRaw('count(*) > 1')
      .select('document_id'),
  );
  expect(doubled).toEqual([]);
  expect(await nodes.ask((sql) => sql('ingestion_items').whereNotNull('worker'))).toEqual([]);
}

async function expectEnd(client: Client, path: string): Promise<IngestionJob> {
  await expect
    .poll(async () => (await client.get<IngestionJob>(path)).body.ended_at, { timeout: 120_000 })
    .toEqual(expect.any(String));
  return (await client.get<IngestionJob>(path)).body;
}
