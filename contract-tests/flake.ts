/** What `make flake` runs: all tests, or a part of them, again and again; a line for each round, and the log of each that failed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { readRound, tally } from './test-report.ts';

const root = join(import.meta.dirname, '..');
const logs = join(root, 'reports');
const [times = '', ...parts] = process.argv.slice(2);
const only = parts.join(' ');
const rounds = Number(times);
if (!Number.isInteger(rounds) || rounds < 1)
  throw new Error(`TIMES=${times} is no number of rounds: make flake [ONLY=server/store] [TIMES=20]`);

await mkdir(logs, { recursive: true });
const failures: string[][] = [];
for (let round = 1; round <= rounds; round += 1) failures.push(await run(round));
console.log(`\n${tally(failures)}`);
process.exitCode = failures.some((titles) => titles.length > 0) ? 1 : 0;

/** What failed in this round. */
async function run(round: number): Promise<string[]> {
  const file = join(logs, `flake-${round}.log`);
  const log = await open(file, 'w');
  const started = performance.now();
  const child = spawn('make', ['--no-print-directory', 'test', ...(only === '' ? [] : [`ONLY=${only}`])], {
    cwd: root,
    // Colours would stand between the words that are read.
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined },
    stdio: ['ignore', log.fd, log.fd],
  });
  await once(child, 'exit');
  await log.close();
  const { counts, failed } = readRound(await readFile(file, 'utf8'), child.exitCode);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  const more = failed.length === 0 ? '' : `, see ${relative(root, file)}`;
  console.log(`round ${round} of ${rounds}: ${counts}, ${seconds} s${more}`);
  if (failed.length === 0) await rm(file);
  return failed;
}
