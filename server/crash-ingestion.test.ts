/** A server that is killed while it takes documents in: each of them is taken in once in the end, and never shown by half. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Chunk, Corpus, DocumentPage, IngestionJob } from './contract/api.ts';
import { ask, expectSound, randomFrom, seed, startCrashing } from './crash-checks.ts';
import { temporaryFolder } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';

const stages = ['fetch', 'parse', 'chunk', 'embed', 'publish'] as const;
/** Kills at any moment, besides one at each stage. */
const randomKills = Number(process.env.CRASH_KILLS ?? 2);
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

function textsOf(round: number): { title: string; text: string }[] {
  return Array.from({ length: atOnce }, (_, at) => {
    const number = round * atOnce + at;
    return { title: `Handbook ${number}`, text: textOf(number) };
  });
}

const title =
  'documents whose server is killed at each stage are taken in once, and no search ever sees a half of one';

test(title, { timeout: 240_000 + randomKills * 20_000 }, async () => {
  console.info(`crash test of ingestion: CRASH_SEED=${seed}`);
  const random = randomFrom(seed);
  const folder = await temporaryFolder();
  let server = await startCrashing(folder);
  const { key } = server;
  let client = clientOf(server, key);
  const path = await newCorpus(client);
  const rounds = [...stages, ...Array<null>(randomKills).fill(null)];
  const texts = rounds.map((_, round) => textsOf(round));
  const jobs: string[] = [];
  const reached = new Set<string>();
  for (const [round, stage] of rounds.entries()) {
    const { body } = await client.post<IngestionJob>(`${path}/documents`, { texts: texts[round] });
    jobs.push(`${path}/ingestion-jobs/${body.id}`);
    if (stage === null) await sleep(random() * 1500);
    else if (await comesTo(folder, body.id, stage)) reached.add(stage);
    await server.kill9();
    await expectSound(join(folder, 'data/service.db'));
    server = await startCrashing(folder);
    client = clientOf(server, key);
    await expectWhole(client, path);
  }
  // A stage may be too short to be met; that none was met would mean that nothing was killed at work.
  expect([...reached]).toContain('parse');
  for (const job of jobs)
    expect(await endOf(client, job)).toMatchObject({ status: 'completed', progress: { completed: atOnce } });
  expect(await expectWhole(client, path)).toBe(jobs.length * atOnce);
  await expectOnce(folder);
  // As another time without any kill.
  const calm = await newCorpus(client);
  const { body: again } = await client.post<IngestionJob>(`${calm}/documents`, { texts: texts.flat() });
  await endOf(client, `${calm}/ingestion-jobs/${again.id}`);
  const stats = async (corpus: string) => (await client.get<Corpus>(corpus)).body.stats;
  expect(await stats(path)).toEqual(await stats(calm));
  console.info(`killed at: ${[...reached].join(', ')}`);
  await server.stop();
});

async function newCorpus(client: Client): Promise<string> {
  const { body } = await client.post<Corpus>('/api/v1/corpora', { name: 'Handbooks' });
  return `/api/v1/corpora/${body.id}`;
}

/** Whether one of the job's documents was seen at this stage before all were taken in. */
async function comesTo(folder: string, job_id: string, stage: string): Promise<boolean> {
  return ask(folder, async (sql) => {
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

/** What is ready is there from its first word to its last, and is found by its own word alone. */
async function expectWhole(client: Client, path: string): Promise<number> {
  const { body } = await client.get<DocumentPage>(`${path}/documents?status=ready&limit=100`);
  for (const document of body.data) {
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
    });
    expect([...new Set(found.body.data.map(({ document_id }) => document_id))]).toEqual([document.id]);
  }
  return body.data.length;
}

/** Behind the API: nothing is there twice, and of what was given up no more than the sweep takes away. */
async function expectOnce(folder: string): Promise<void> {
  const doubled = await ask(folder, (sql) =>
    sql('chunks')
      .whereNotNull('published_at')
      .groupBy('document_id', 'ordinal')
      .havingRaw('count(*) > 1')
      .select('document_id'),
  );
  expect(doubled).toEqual([]);
}

async function endOf(client: Client, path: string): Promise<IngestionJob> {
  await expect
    .poll(async () => (await client.get<IngestionJob>(path)).body.ended_at, { timeout: 120_000 })
    .not.toBeNull();
  return (await client.get<IngestionJob>(path)).body;
}
