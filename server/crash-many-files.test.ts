/** Files of every format, taken in unattended while the server is killed in the middle: `make ingest` has thousands of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, inject, test } from 'vitest';
import { type TreeUsage, usageOf } from './bench/process-tree.ts';
import type { Corpus, Document, DocumentPage, IngestionJobPage, StoredFile } from './contract/api.ts';
import { type ServerProcess, startServer, temporaryFolder } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { modelsDirectory } from './test-embedder.ts';
import { realFiles, type SampleFile, sampleFile } from './test-sample-files.ts';

/** Few in every run of the tests, without vectors. */
const asked = process.env.INGEST_FILES;
const generated = Number(asked ?? 36);
const onPostgres = process.env.INGEST_ON === 'postgres';
/** Of one job. */
const together = Math.min(500, Math.ceil(generated / 4));

test('of files in every format, real and broken ones among them, each is ready once or says why not, though the server is killed', {
  timeout: 120_000 + generated * 3000,
  skip: onPostgres && inject('postgresUrl') === null,
}, async () => {
  const folder = await temporaryFolder();
  const variables = {
    ...(onPostgres && {
      DATABASE_URL: await newDatabase(),
      SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
    }),
    ...(asked !== undefined && { SERVICE_MODELS_DIR: modelsDirectory }),
  };
  const start = () => startServer({ folder, variables });
  let server = await start();
  const { key } = server;
  const meter = meterOf(() => server);
  const { body: corpus } = await clientOf(server, key).post<Corpus>('/api/v1/corpora', {
    name: 'Everything',
  });
  const path = `/api/v1/corpora/${corpus.id}`;
  const names = new Map<string, SampleFile['word']>();
  let killed = false;
  const killAfterHalf = async (): Promise<void> => {
    if (killed || (await done(clientOf(server, key), path)) < (generated + realFiles().length) / 2) return;
    killed = true;
    await server.kill9();
    server = await start();
  };
  for (const files of batches()) {
    const file_ids: string[] = [];
    for (const file of files) {
      names.set(file.name, file.word);
      file_ids.push(await upload(server, key, file));
    }
    const { status } = await clientOf(server, key).post(`${path}/documents`, { file_ids });
    expect(status).toBe(202);
    await killAfterHalf();
  }
  // Where this process was kept from looking, all may be done by then: it is killed all the same.
  while (!killed || (await done(clientOf(server, key), path)) < names.size) {
    await killAfterHalf();
    await sleep(50);
  }
  const spent = meter.stop();
  const documents = await documentsOf(clientOf(server, key), path);
  expect(documents.map(({ title }) => title).toSorted()).toEqual([...names.keys()].toSorted());
  for (const { title, status, chunks, error } of documents) {
    const isReadable = names.get(title) !== null;
    expect([title, status, error?.code ?? null]).toEqual(
      isReadable ? [title, 'ready', null] : [title, 'failed', 'malformed'],
    );
    expect(chunks > 0).toBe(isReadable);
  }
  const ready = documents.filter(({ status }) => status === 'ready');
  const passages = ready.reduce((sum, { chunks }) => sum + chunks, 0);
  const { body } = await clientOf(server, key).get<Corpus>(path);
  expect(body.stats).toMatchObject({ documents: ready.length, chunks: passages });
  await expectFound(clientOf(server, key), path, ready, names);
  report(documents, passages, spent);
  await server.stop();
});

function* batches(): Generator<SampleFile[]> {
  yield realFiles();
  for (let from = 0; from < generated; from += together)
    yield Array.from({ length: Math.min(together, generated - from) }, (_, at) => sampleFile(from + at));
}

async function upload({ url }: ServerProcess, key: string, { name, bytes }: SampleFile): Promise<string> {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(bytes)]), name);
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${url}/api/v1/files`, { method: 'POST', headers, body: form });
  expect(answer.status).toBe(201);
  const { id } = (await answer.json()) as StoredFile; // as the contract has it
  return id;
}

/** How many documents have ended in one way or the other. */
async function done(client: Client, path: string): Promise<number> {
  const { body } = await client.get<IngestionJobPage>(`${path}/ingestion-jobs?limit=100`);
  return body.data.reduce((sum, { progress }) => sum + progress.completed + progress.failed, 0);
}

async function documentsOf(client: Client, path: string): Promise<Document[]> {
  const documents: Document[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
    const { body } = await client.get<DocumentPage>(`${path}/documents?limit=100${more}`);
    documents.push(...body.data);
    cursor = body.next_cursor;
  }
  return documents;
}

/** Each by its own word alone; of thousands, some of each part. */
async function expectFound(
  client: Client,
  path: string,
  ready: readonly Document[],
  names: ReadonlyMap<string, SampleFile['word']>,
): Promise<void> {
  const step = Math.ceil(ready.length / 100);
  for (const { id, title } of ready.filter((_, index) => index % step === 0)) {
    const body = { query: names.get(title) ?? '', mode: 'keyword', top_k: 100 };
    const found = await client.post<{ data: { document_id: string }[] }>(`${path}/search`, body);
    expect([title, ...new Set(found.body.data.map(({ document_id }) => document_id))]).toEqual([title, id]);
  }
}

/** Time, processor and memory of the server and the processes that it starts, over its death. */
function meterOf(server: () => ServerProcess) {
  const startedAt = performance.now();
  const used = new Map<number, TreeUsage>();
  let mostBytes = 0;
  const look = (): void => {
    const { pid } = server();
    const usage = usageOf(pid);
    if (usage.cpuMs > 0) used.set(pid, usage);
    mostBytes = Math.max(mostBytes, usage.residentBytes);
  };
  const timer = setInterval(look, 200);
  return {
    stop() {
      look();
      clearInterval(timer);
      const cpuMs = [...used.values()].reduce((sum, usage) => sum + usage.cpuMs, 0);
      return { seconds: (performance.now() - startedAt) / 1000, cpuMs, mostBytes };
    },
  };
}

type Spent = ReturnType<ReturnType<typeof meterOf>['stop']>;

function report(
  documents: readonly Document[],
  passages: number,
  { seconds, cpuMs, mostBytes }: Spent,
): void {
  const failed = documents.filter(({ status }) => status === 'failed').length;
  console.info(
    [
      `${documents.length} files with a kill in the middle: ${documents.length - failed} ready, ${failed} failed with their reason`,
      `${passages} passages in ${seconds.toFixed(1)} s: ${(documents.length / seconds).toFixed(1)} files/s, ${(passages / seconds).toFixed(1)} passages/s`,
      `CPU ${(cpuMs / documents.length).toFixed(1)} ms a file with all processes; at most ${Math.round(mostBytes / 1e6)} MB of memory`,
    ].join('\n'),
  );
}
