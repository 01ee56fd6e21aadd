/** Measures what each layer of the server adds to getSession, beside a bare Express with knex, in turns on the same data. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import autocannon from 'autocannon';
import { processStat } from '../process-stat.ts';

/** How much of the server's CPU a bare Express with knex takes: what we promise at least. */
const promisedRatio = 0.12;
/** More than anybody sends in a minute, but counted. */
const neverReached = ['--rate-limits', 'read=999999999/60'];
const rounds = 7;
const secondsPerRound = 2;
const connections = 16;

/**
 * Each has all that the ones before it have; what a request is counted and recorded by is on in the last two. Up to access
 * the session is read through knex, as in the bare one; then as the store reads it, which takes less than that.
 */
const layers: readonly Layer[] = [
  { name: 'bare Express and knex', program: ['bench/layers-server.ts', 'bare'] },
  { name: '+ the contract, log, metrics', program: ['bench/layers-server.ts', 'contract'] },
  { name: '+ authentication', program: ['bench/layers-server.ts', 'authentication'] },
  { name: '+ access, as the store reads', program: ['bench/layers-server.ts', 'access'] },
  { name: '+ quotas and rate limits', program: ['bench/layers-server.ts', 'limits', ...neverReached] },
  { name: '+ audit: the whole server', program: ['start.mjs', ...neverReached] },
];

interface Layer {
  readonly name: string;
  readonly program: readonly string[];
}

interface Subject {
  readonly name: string;
  readonly url: string;
  readonly process: ChildProcess;
}

interface Measure {
  readonly requestsPerSecond: number;
  readonly cpuMsPerRequest: number;
}

const folder = await mkdtemp(join(tmpdir(), 'service-bench-'));
const children: ChildProcess[] = [];
try {
  const whole = await startWhole();
  const subjects: Subject[] = [];
  for (const layer of layers.slice(0, -1)) subjects.push(await start(layer));
  subjects.push(whole);
  await requireSameAnswer(subjects, whole.paths, whole.token);
  for (const { url } of subjects) await load(url, whole.paths, whole.token, 1);
  const measured = subjects.map((): Measure[] => []);
  for (let round = 0; round < rounds; round += 1)
    for (const [index, subject] of subjects.entries())
      measured[index]?.push(await measure(subject, whole.paths, whole.token));
  process.exitCode = report(measured.map(best));
} finally {
  for (const child of children) child.kill('SIGTERM');
  await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  await rm(folder, { recursive: true });
}

/**
 * The server as people start it, with a session for each connection that its first account has made, and a quota on that
 * account. Of one session for all of them most questions would be asked once for several requests.
 */
async function startWhole(): Promise<
  Subject & { readonly token: string; readonly paths: readonly string[] }
> {
  const whole = layers.at(-1);
  if (!whole) throw new Error('there is no server');
  const { output, ...subject } = await start(whole, /sk-[\w-]{43,}/);
  const token = /sk-[\w-]{43,}/.exec(output)?.[0] ?? '';
  const me = await ask(subject.url, token, 'GET', '/api/v1/users/me');
  const { id } = (await me.json()) as { id: string }; // as the contract has it
  const limits = { requests: { day: { hard: 1_000_000_000 } } };
  await ask(subject.url, token, 'PUT', `/api/v1/quotas/user/${id}`, { limits });
  const session = { title: 'Benchmark', tags: ['bench'], metadata: { ticket: 'B-1' } };
  const paths: string[] = [];
  while (paths.length < connections) {
    const made = await ask(subject.url, token, 'POST', '/api/v1/sessions', session);
    paths.push(made.headers.get('location') ?? '');
  }
  return { ...subject, token, paths };
}

async function ask(
  url: string,
  token: string,
  method: string,
  path: string,
  body?: object,
): Promise<Response> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (response.ok) return response;
  throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
}

async function start(
  { name, program: [file = '', ...more] }: Layer,
  ready = /listening on/,
): Promise<Subject & { readonly output: string }> {
  const child = spawn(
    process.execPath,
    [
      ...[join(import.meta.dirname, '..', file), ...more],
      ...['--port', '0', '--data-dir', folder, '--mode', 'multi'],
    ],
    { stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env.PATH, HOME: folder } },
  );
  children.push(child);
  let output = '';
  for await (const line of createInterface({ input: child.stdout })) {
    output += `${line}\n`;
    const url = /listening on (http:\S+)/.exec(output)?.[1];
    if (url && ready.test(output)) return { name, url, process: child, output };
  }
  throw new Error(`${name} did not start:\n${output}`);
}

/** Otherwise they would be measured at different work. */
async function requireSameAnswer(
  subjects: readonly Subject[],
  [path = '']: readonly string[],
  token: string,
): Promise<void> {
  const answers = await Promise.all(
    subjects.map(async ({ url }) => JSON.stringify(await (await ask(url, token, 'GET', path)).json())),
  );
  if (new Set(answers).size > 1) throw new Error(`the answers differ:\n${answers.join('\n')}`);
}

async function load(url: string, paths: readonly string[], token: string, duration: number) {
  const headers = { authorization: `Bearer ${token}` };
  let clients = 0;
  const result = await autocannon({
    url,
    connections,
    duration,
    setupClient(client) {
      client.setRequests([{ path: paths[clients % paths.length] ?? '', headers }]);
      clients += 1;
    },
  });
  if (result.non2xx + result.errors > 0) throw new Error(`${result.non2xx + result.errors} requests failed`);
  return result;
}

async function measure(
  { url, process: { pid } }: Subject,
  paths: readonly string[],
  token: string,
): Promise<Measure> {
  const before = cpuMsOf(pid);
  const result = await load(url, paths, token, secondsPerRound);
  const requests = result.requests.total;
  return {
    requestsPerSecond: requests / result.duration,
    cpuMsPerRequest: (cpuMsOf(pid) - before) / requests,
  };
}

/** Of the process, and of its children that have ended. */
function cpuMsOf(pid: number | undefined): number {
  const { cpuMs = 0, endedCpuMs = 0 } = processStat(pid ?? 0) ?? {};
  return cpuMs + endedCpuMs;
}

/** What others do on the machine only adds. */
function best(measures: readonly Measure[]): Measure {
  const [least] = measures.toSorted((a, b) => a.cpuMsPerRequest - b.cpuMsPerRequest);
  if (!least) throw new Error('nothing was measured');
  return least;
}

/** CPU first: throughput tells nothing so fine on a busy machine. */
function report(measured: readonly Measure[]): number {
  const bare = measured[0]?.cpuMsPerRequest ?? 0;
  const whole = measured.at(-1)?.cpuMsPerRequest ?? 0;
  const rows = measured.map(({ cpuMsPerRequest, requestsPerSecond }, index) => {
    const added = cpuMsPerRequest - (measured[index - 1]?.cpuMsPerRequest ?? cpuMsPerRequest);
    return [
      `  ${(layers[index]?.name ?? '').padEnd(34)} ${cpuMsPerRequest.toFixed(3)}`,
      index === 0 ? '      ' : added.toFixed(3).padStart(6),
      (bare / cpuMsPerRequest).toFixed(2).padStart(5),
      `${Math.round(requestsPerSecond)}`.padStart(6),
    ].join('   ');
  });
  const ratio = bare / whole;
  process.stdout.write(
    [
      `getSession of a real row, ${connections} connections, best of ${rounds} rounds in turns:`,
      'ms CPU a request, what the layer adds, the ratio to bare Express and knex, requests/s',
      ...rows,
      `  ratio ${ratio.toFixed(2)}; promised at least ${promisedRatio}\n`,
    ].join('\n'),
  );
  return ratio >= promisedRatio ? 0 : 1;
}
