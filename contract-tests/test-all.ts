/** What `make test` runs: the checks and every test of the repository, part after part, whatever fails on the way. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
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
  const { cost, exitCode } = await run('check', 'make', '--no-print-directory', 'check');
  return readWholePart('check', cost, exitCode);
}

async function tests(workspace: string): Promise<PartResult> {
  const file = join(reports, `${workspace.replaceAll('/', '-')}.json`);
  const { cost, exitCode } = await run(
    workspace,
    process.execPath,
    vitest,
    ...['run', '--root', workspace, '--reporter=default', '--reporter=json', `--outputFile.json=${file}`],
  );
  return readVitestPart(workspace, cost, await readReport(file), exitCode);
}

async function run(name: string, command: string, ...args: string[]) {
  console.log(`\n── ${name}`);
  const started = performance.now();
  const usedBefore = cpuSecondsOfChildren();
  const child = spawn(command, args, { cwd: root, stdio: 'inherit' });
  await once(child, 'exit');
  const used = cpuSecondsOfChildren();
  const cost = {
    seconds: (performance.now() - started) / 1000,
    cpuSeconds: used === null || usedBefore === null ? null : used - usedBefore,
  };
  return { cost, exitCode: child.exitCode };
}

/** Of those that have ended, and of theirs: the 16th and the 17th field (proc_pid_stat(5)), in hundredths. */
function cpuSecondsOfChildren(): number | null {
  if (process.platform !== 'linux') return null;
  const stat = readFileSync('/proc/self/stat', 'utf8');
  // The second field, a name in parentheses, may hold spaces.
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(13, 15);
  return (Number(user) + Number(system)) / 100;
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
