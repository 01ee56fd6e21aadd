/** Measures what taking documents in costs beside its bare parts: the same parsers and embedder, with neither jobs nor a database. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Corpus, IngestionJob, StoredFile } from '../contract/api.ts';
import { modelFault, modelFolder } from '../knowledge/embedded/pinned-model.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import { readableFiles, type SampleFile, warmUpFiles } from '../test-sample-files.ts';
import { type MeasuredProcess, startMeasured } from './measured-process.ts';
import { usageOf } from './process-tree.ts';

const files = 100;
const rounds = 2;
/** How many times the CPU of its parts ingestion may take. */
const promisedRatio = { 'with vectors': 1.6, 'words alone': 5 };

type Mode = keyof typeof promisedRatio;

interface Measure {
  readonly passages: number;
  readonly seconds: number;
  readonly cpuMs: number;
  readonly residentBytes: number;
}

/** PROFILE=folder: there the CPU profile of the server is written, for the developer tools of Chromium. */
const profileFolder = process.env.PROFILE ?? '';
const { modelsDirectory } = readServerSettings([], process.env).settings;

const hasModel = (await modelFault(modelFolder(modelsDirectory))) === null;
if (!hasModel)
  write('There is no embedding model on this machine: words alone are measured (make embedder).\n');
const kept = [
  ...(hasModel ? [await compare('with vectors', modelsDirectory)] : []),
  await compare('words alone', join(tmpdir(), 'no-models')),
];
process.exitCode = kept.every(Boolean) ? 0 : 1;

/** Answers with whether the promise is kept. */
async function compare(mode: Mode, models: string): Promise<boolean> {
  const measured = { bare: [] as Measure[], server: [] as Measure[] };
  for (let round = 0; round < rounds; round += 1) {
    measured.bare.push(await measureBare(models));
    measured.server.push(await measureServer(models));
  }
  const [bare, server] = [best(measured.bare), best(measured.server)];
  if (bare.passages !== server.passages)
    throw new Error(`The parts made ${bare.passages} passages, the server ${server.passages}.`);
  write(`${files} files of every format, ${bare.passages} passages, ${mode}, best of ${rounds} rounds\n`);
  row('the parsers and the embedder alone', bare);
  row('the server', server);
  const ratio = server.cpuMs / bare.cpuMs;
  write(
    `  ratio ${ratio.toFixed(2)} of CPU, ${(server.seconds / bare.seconds).toFixed(2)} of time; promised at most ${promisedRatio[mode]} of CPU\n`,
  );
  return ratio <= promisedRatio[mode];
}

async function measureBare(models: string): Promise<Measure> {
  const program = join(import.meta.dirname, 'test-bare-ingestion.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [program, String(files), models]);
  return JSON.parse(stdout) as Measure; // what it prints
}

/** What is measured begins when the files are stored: to send them costs either way. */
async function measureServer(models: string): Promise<Measure> {
  const home = await mkdtemp(join(tmpdir(), 'service-bench-'));
  const flags = profileFolder === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`];
  const environment = { HOME: home, SERVICE_MODELS_DIR: models };
  const args = ['--port', '0', '--data-dir', join(home, 'data')];
  const server = await startMeasured('../start.mjs', args, /sk-[\w-]{43,}/, environment, flags);
  try {
    const send = senderTo(server);
    const corpus = await send<Corpus>('/api/v1/corpora', { name: 'Bench' });
    const takeIn = async (some: readonly SampleFile[]): Promise<void> => {
      const file_ids: string[] = [];
      for (const file of some) file_ids.push((await send<StoredFile>('/api/v1/files', formOf(file))).id);
      started = { at: performance.now(), usage: usageOf(server.pid) };
      const { id } = await send<IngestionJob>(`/api/v1/corpora/${corpus.id}/documents`, { file_ids });
      for (;;) {
        const job = await send<IngestionJob>(`/api/v1/corpora/${corpus.id}/ingestion-jobs/${id}`);
        if (job.ended_at !== null) return requireCompleted(job);
        // Each look costs the server some of what is measured.
        await sleep(500);
      }
    };
    let started = { at: 0, usage: usageOf(server.pid) };
    await takeIn(warmUpFiles());
    const { stats: before } = await send<Corpus>(`/api/v1/corpora/${corpus.id}`);
    await takeIn(readableFiles(files));
    const seconds = (performance.now() - started.at) / 1000;
    const { cpuMs, residentBytes } = usageOf(server.pid);
    const { stats } = await send<Corpus>(`/api/v1/corpora/${corpus.id}`);
    return {
      ...{ seconds, residentBytes, cpuMs: cpuMs - started.usage.cpuMs },
      passages: stats.chunks - before.chunks,
    };
  } finally {
    await server.stop();
    await rm(home, { recursive: true });
  }
}

function requireCompleted({ status, progress }: IngestionJob): void {
  if (status !== 'completed') throw new Error(`The job ended as ${status}: ${JSON.stringify(progress)}`);
}

/** A body makes it a POST. */
function senderTo({ url, printed }: MeasuredProcess) {
  const key = /sk-[\w-]{43,}/.exec(printed)?.[0] ?? '';
  return async <Body>(path: string, body?: object): Promise<Body> => {
    const isForm = body instanceof FormData;
    const response = await fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization: `Bearer ${key}`,
        ...(body && !isForm && { 'content-type': 'application/json' }),
      },
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${path} answers ${response.status}: ${await response.text()}`);
    return (await response.json()) as Body; // what the caller asked for decides what comes
  };
}

function formOf({ name, bytes }: SampleFile): FormData {
  const form = new FormData();
  form.append('file', new Blob([Buffer.from(bytes)]), name);
  return form;
}

/** What others do on the machine only adds. */
function best(measures: readonly Measure[]): Measure {
  return measures.reduce((least, one) => (one.cpuMs < least.cpuMs ? one : least));
}

function row(name: string, { passages, seconds, cpuMs, residentBytes }: Measure): void {
  write(
    `  ${name.padEnd(36)} ${(cpuMs / files).toFixed(1)} ms CPU a file, ${(files / seconds).toFixed(1)} files/s, ${(passages / seconds).toFixed(1)} passages/s, ${Math.round(residentBytes / 1e6)} MB\n`,
  );
}

function write(text: string): void {
  process.stdout.write(text);
}
