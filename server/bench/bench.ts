/** Measures what contract and rate limits cost: CPU and throughput of getSession, beside a bare Express, in turns on the same data. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import autocannon from 'autocannon';

/** The least of the baseline's throughput that we promise. */
const promisedRatio = 0.6;
/**
 * What the server may cost at most where it counts who calls how often, as a ratio of CPU: throughput tells nothing so
 * fine on a busy machine. Quotas cost reads nothing.
 */
const promisedLimitedRatio = 0.85;
/** More than anybody sends in a minute, but counted. */
const neverReached = ['--rate-limits', 'read=999999999/60'];
const rounds = 3;
const secondsPerRound = 4;
const connections = 16;
/** Linux counts process time in hundredths of a second. */
const ticksPerSecond = 100;

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
  const subject = await start('contract', 'main.ts');
  const { token, path } = await prepare(subject);
  const baseline = await start('baseline', 'bench/baseline-server.ts');
  const limited = await start('limited', 'main.ts', neverReached);
  const subjects = [baseline, subject, limited];
  await warmUp(subjects, path, token);
  const measured = new Map<string, Measure[]>([
    ['contract', []],
    ['baseline', []],
    ['limited', []],
  ]);
  for (let round = 0; round < rounds; round += 1)
    for (const one of subjects) measured.get(one.name)?.push(await measure(one, path, token));
  const of = (name: string) => median(measured.get(name) ?? []);
  process.exitCode = report(of('contract'), of('baseline'), of('limited'));
} finally {
  for (const child of children) child.kill('SIGTERM');
  await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  await rm(folder, { recursive: true });
}

async function start(
  name: string,
  program: string,
  more: readonly string[] = [],
): Promise<Subject & { readonly output: string[] }> {
  const child = spawn(
    process.execPath,
    [
      join(import.meta.dirname, '..', program),
      '--port',
      '0',
      '--data-dir',
      folder,
      '--mode',
      'multi',
      ...more,
    ],
    { stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env.PATH, HOME: folder } },
  );
  children.push(child);
  const output: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    output.push(line);
    const url = /listening on (http:\S+)/.exec(output[0] ?? '')?.[1];
    if (url && (name !== 'contract' || /sk-[\w-]{43,}/.test(line)))
      return { name, url, process: child, output };
  }
  throw new Error(`${name} did not start:\n${output.join('\n')}`);
}

/** A real row, read by a real account. */
async function prepare({ url, output }: Subject & { readonly output: string[] }) {
  const token = /sk-[\w-]{43,}/.exec(output.join('\n'))?.[0] ?? '';
  const response = await fetch(`${url}/api/v1/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'Benchmark', tags: ['bench'], metadata: { ticket: 'B-1' } }),
  });
  if (response.status !== 201) throw new Error(`no session could be made: ${await response.text()}`);
  return { token, path: response.headers.get('location') ?? '' };
}

async function warmUp(subjects: readonly Subject[], path: string, token: string): Promise<void> {
  for (const { url } of subjects) await load(url + path, token, 2);
}

async function load(url: string, token: string, duration: number) {
  const result = await autocannon({
    url,
    connections,
    duration,
    headers: { authorization: `Bearer ${token}` },
  });
  if (result.non2xx + result.errors > 0) throw new Error(`${result.non2xx + result.errors} requests failed`);
  return result;
}

async function measure({ url, process: { pid } }: Subject, path: string, token: string): Promise<Measure> {
  const before = cpuSeconds(pid);
  const result = await load(url + path, token, secondsPerRound);
  const requests = result.requests.total;
  return {
    requestsPerSecond: requests / result.duration,
    cpuMsPerRequest: ((cpuSeconds(pid) - before) * 1000) / requests,
  };
}

/** User and system time of the process and of its children that have ended. */
function cpuSeconds(pid: number | undefined): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / ticksPerSecond;
}

function median(measures: readonly Measure[]): Measure {
  const sorted = measures.toSorted((a, b) => a.cpuMsPerRequest - b.cpuMsPerRequest);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (!middle) throw new Error('nothing was measured');
  return middle;
}

function report(contract: Measure, baseline: Measure, limited: Measure): number {
  const cpuRatio = baseline.cpuMsPerRequest / contract.cpuMsPerRequest;
  const throughputRatio = contract.requestsPerSecond / baseline.requestsPerSecond;
  const limitedRatio = contract.cpuMsPerRequest / limited.cpuMsPerRequest;
  const row = (name: string, { cpuMsPerRequest, requestsPerSecond }: Measure) =>
    `  ${name.padEnd(34)} ${cpuMsPerRequest.toFixed(3)} ms CPU a request   ${Math.round(requestsPerSecond)} requests/s\n`;
  process.stdout.write(
    [
      `getSession of a real row, ${connections} connections, median of ${rounds} rounds\n`,
      row('Express without a contract', baseline),
      row('the server', contract),
      row('the server with rate limits', limited),
      `  CPU ratio ${cpuRatio.toFixed(2)}, throughput ratio ${throughputRatio.toFixed(2)}; promised ${promisedRatio}\n`,
      `  with rate limits CPU ratio to the server without ${limitedRatio.toFixed(2)}; promised ${promisedLimitedRatio}\n`,
    ].join(''),
  );
  return throughputRatio >= promisedRatio && limitedRatio >= promisedLimitedRatio ? 0 : 1;
}
