/** What `make test` runs: the checks and every test of the repository, part after part, whatever fails on the way. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import {
  type PartResult,
  readVitestPart,
  readWholePart,
  summarise,
  type VitestReport,
} from './test-report.ts';

const root = join(import.meta.dirname, '..');
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
const workspaces = ['codegen', 'server', 'clients/typescript', 'clients/terminal', 'contract-tests'];

const reports = await mkdtemp(join(tmpdir(), 'service-test-reports-'));
const parts: PartResult[] = [await check()];
for (const workspace of workspaces) parts.push(await tests(workspace));
await rm(reports, { recursive: true });
console.log(`\n${summarise(parts)}`);
process.exitCode = parts.some(({ failed }) => failed.length > 0) ? 1 : 0;

async function check(): Promise<PartResult> {
  const { seconds, exitCode } = await run('check', 'make', '--no-print-directory', 'check');
  return readWholePart('check', seconds, exitCode);
}

async function tests(workspace: string): Promise<PartResult> {
  const file = join(reports, `${workspace.replaceAll('/', '-')}.json`);
  const { seconds, exitCode } = await run(
    workspace,
    process.execPath,
    vitest,
    ...['run', '--root', workspace, '--reporter=default', '--reporter=json', `--outputFile.json=${file}`],
  );
  return readVitestPart(workspace, seconds, await readReport(file), exitCode);
}

async function run(name: string, command: string, ...args: string[]) {
  console.log(`\n── ${name}`);
  const started = performance.now();
  const child = spawn(command, args, { cwd: root, stdio: 'inherit' });
  await once(child, 'exit');
  return { seconds: (performance.now() - started) / 1000, exitCode: child.exitCode };
}

/** A run that broke leaves no report, or none that can be read. */
async function readReport(file: string): Promise<VitestReport | null> {
  try {
    const report = JSON.parse(await readFile(file, 'utf8')) as VitestReport; // The documented form of vitest's reporter.
    return { testResults: report.testResults.map((one) => ({ ...one, name: relative(root, one.name) })) };
  } catch (error) {
    console.error(`${file} cannot be read: ${error}`);
    return null;
  }
}
