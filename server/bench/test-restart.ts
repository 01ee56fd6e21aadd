/** Measures how soon a server that was killed at work is ready again: on a new database, and on one of a gigabyte. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { openStore } from '../store/store.ts';
import { beginRun, endRun } from '../store/test-runs.ts';
import { startMeasured } from './measured-process.ts';
import { post } from './stream-reader.ts';
import { newReach } from './test-reach.ts';

const kills = 5;
const atWork = 10;
const gigabyte = 1_000_000_000;
/** From the start of the process until /ready answers 200, in the middle of the kills. */
const promisedMs = { new: 2000, large: 5000 };
const deadlineMs = 60_000;

const folder = await mkdtemp(join(tmpdir(), 'service-restart-'));
const database = join(folder, 'data/service.db');
const upstream = await startMeasured('../../contract-tests/upstream/upstream.ts', [], /"url"/);
const servers: ChildProcess[] = [];
let keyOfFirstStart = '';
try {
  await scriptUpstream();
  process.stdout.write(`ready again after kill -9 with ${atWork} runs at work, the median of ${kills}\n`);
  const soon = await measured('a new database', promisedMs.new);
  await fill();
  const size = (statSync(database).size / gigabyte).toFixed(2);
  const stillSoon = await measured(`a database of ${size} GB`, promisedMs.large);
  process.exitCode = soon && stillSoon ? 0 : 1;
} finally {
  for (const server of servers) await killed(server);
  await upstream.stop();
  rmSync(folder, { recursive: true });
}

async function scriptUpstream(): Promise<void> {
  const rules = [{ reply: { text: 'All of this is told word by word. ', repeat: 2000, chunk_delay_ms: 5 } }];
  await fetch(`${upstream.url}/_script`, { method: 'PUT', body: JSON.stringify({ rules }) });
  mkdirSync(join(folder, 'config'), { recursive: true });
  const provider = { type: 'openai-compat', base_url: `${upstream.url}/v1`, api_key: 'k' };
  const settings = {
    providers: { scripted: { ...provider, models: [{ id: 'scripted-1' }] } },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
  };
  writeFileSync(join(folder, 'config/service.json'), JSON.stringify(settings));
}

/** Answers with whether the promise is kept. */
async function measured(what: string, promised: number): Promise<boolean> {
  let server = await start();
  const times: number[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    await workUnderWay(server);
    await killed(server.process);
    server = await start();
    times.push(server.readyInMs);
  }
  await killed(server.process);
  const median = times.toSorted((a, b) => a - b)[Math.floor(kills / 2)] ?? Number.POSITIVE_INFINITY;
  process.stdout.write(
    `  ${what.padEnd(34)} ${median.toFixed(0)} ms, at most ${Math.max(...times).toFixed(0)} ms; promised ${promised} ms\n`,
  );
  return median <= promised;
}

interface Started {
  readonly url: string;
  readonly key: string;
  readonly process: ChildProcess;
  readonly readyInMs: number;
}

async function start(): Promise<Started> {
  const since = performance.now();
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, '../start.mjs'), '--port', '0', '--data-dir', join(folder, 'data')],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { PATH: process.env.PATH, HOME: folder, SERVICE_GLOBAL_CONFIG: join(folder, 'config') },
    },
  );
  servers.push(child);
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  for (;;) {
    const url = /listening on (http:\S+)/.exec(printed)?.[1]?.replace('0.0.0.0', '127.0.0.1');
    if (url && (await isReady(url))) {
      const readyInMs = performance.now() - since;
      keyOfFirstStart ||= /sk-[\w-]{43,}/.exec(printed)?.[0] ?? '';
      return { url, key: keyOfFirstStart, process: child, readyInMs };
    }
    if (performance.now() - since > deadlineMs || child.exitCode !== null)
      throw new Error(`the server did not get ready:\n${printed}`);
    await sleep(10);
  }
}

async function isReady(url: string): Promise<boolean> {
  const response = await fetch(`${url}/ready`);
  await response.arrayBuffer();
  return response.ok;
}

/** Answers once each run has sent something; the streams break with the server. */
async function workUnderWay({ url, key }: Started): Promise<void> {
  const streams = Array.from({ length: atWork }, () =>
    post(`${url}/api/v1/query/stream`, { prompt: 'Tell me.' }, key),
  );
  await Promise.all(
    streams.map(async (opening) => {
      const stream = await opening;
      stream.on('error', () => stream.destroy());
      await once(stream, 'data');
    }),
  );
  await sleep(500);
}

/** Sessions of long questions, indexed for searches as any other, until the file has its size. */
async function fill(): Promise<void> {
  const store = await openStore(`sqlite:${database}`, { clock: systemClock, log: createLog('silent') });
  try {
    const reach = await newReach(store);
    const prompt = 'What stands in the log of the night, and who was there to read it? '.repeat(1500);
    while (statSync(database).size < gigabyte)
      for (let run = 0; run < 50; run += 1) await endRun(store, await beginRun(store, reach, { prompt }));
  } finally {
    await store.close();
  }
}

async function killed(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const gone = once(server, 'exit');
  server.kill('SIGKILL');
  await gone;
}
