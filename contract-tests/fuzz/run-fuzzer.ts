/** Runs the fuzzer over a live server and reads what it found. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServiceClient } from '@service/client';

/** A part of the work. */
export interface FuzzShare {
  readonly phases: readonly Phase[];
  readonly operationIds: readonly string[];
}

export type Phase = 'examples' | 'coverage' | 'fuzzing' | 'stateful';

export interface FuzzResult {
  readonly exitCode: number | null;
  /** All that the fuzzer printed: how to repeat each failure stands there. */
  readonly output: string;
  readonly report: FuzzReport;
  /** How often each operation answered with each status. */
  readonly statuses: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** The members that we read of the fuzzer's JSON report. */
interface FuzzReport {
  readonly phases: Readonly<Record<string, { readonly status: string }>>;
  readonly operations: { readonly total: number; readonly tested: number };
  readonly failures: readonly {
    readonly title: string;
    readonly code: string;
    readonly operations: readonly string[];
  }[];
  readonly errors: readonly { readonly title: string; readonly count: number }[];
}

const root = join(import.meta.dirname, '../..');
/** The account of the contract's examples, so that the fuzzer's first login succeeds. */
const account = { email: 'ada@example.com', password: 'correct-horse-battery' };

export async function runFuzzer(
  { url, operatorKey }: { readonly url: string; readonly operatorKey: string },
  gitUrl: string,
  { phases, operationIds }: FuzzShare,
): Promise<FuzzResult> {
  const folder = await mkdtemp(join(tmpdir(), 'service-fuzz-'));
  const [report, statuses] = [join(folder, 'report.json'), join(folder, 'statuses.json')];
  // Read from a file, because of the address that it loads the contract from the fuzzer would test nothing.
  const contract = join(folder, 'openapi.json');
  await writeFile(contract, await (await fetch(`${url}/openapi.json`)).text());
  const child = spawn(
    join(root, '.venv/bin/schemathesis'),
    [
      ...['--config-file', join(import.meta.dirname, 'schemathesis.toml'), '--no-color'],
      ...['run', contract, '--url', url, '--report', 'json', '--report-json-path', report],
      ...['--phases', phases.join(','), ...operationIds.flatMap((id) => ['--include-operation-id', id])],
    ],
    // The fuzzer leaves caches where it runs.
    {
      cwd: folder,
      env: {
        ...process.env,
        ...(await credentials(url)),
        FUZZ_OPERATOR_KEY: operatorKey,
        FUZZ_GIT_URL: gitUrl,
        FUZZ_STATUSES_FILE: statuses,
      },
    },
  );
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const [exitCode] = (await once(child, 'close')) as [number | null]; // as Node documents the event
  // Its thread breaks, all that was left for it remains untested, and the fuzzer reports a success.
  const broken = /^Exception in thread .*(?:\n.*){0,200}/m.exec(output)?.[0];
  if (broken !== undefined) throw new Error(`The fuzzer itself broke:\n${broken}`);
  try {
    return { exitCode, output, report: await readJson(report), statuses: await readJson(statuses) };
  } catch (cause) {
    throw new Error(`The fuzzer left no report:\n${output}`, { cause });
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function credentials(url: string): Promise<Record<string, string>> {
  const visitor = createServiceClient({ baseUrl: url });
  const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: account });
  const client = createServiceClient({ baseUrl: url, token: pair.access_token });
  const { data: created } = await client.POST('/api/v1/auth/api-keys', { body: { name: 'The fuzzer' } });
  return {
    FUZZ_URL: url,
    FUZZ_KEY: created.key,
    FUZZ_KEY_ID: created.api_key.id,
    FUZZ_EMAIL: account.email,
    FUZZ_PASSWORD: account.password,
    FUZZ_MODEL: 'scripted:scripted-1',
    SCHEMATHESIS_HOOKS: join(import.meta.dirname, 'hooks.py'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
}

async function readJson<Content>(file: string): Promise<Content> {
  return JSON.parse(await readFile(file, 'utf8')) as Content; // written by the fuzzer, or by our hooks
}
