/** The log where it cannot be written: whoever asks is answered all the same, and the server is stopped as ever. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { createFileLog } from './log.ts';
import { processStat } from './process-stat.ts';
import { type ServerProcess, startServer, temporaryFolder } from './server-process.ts';
import { fillDisk, mountsOfItsOwn, seenBy, smallDisk } from './test-disk.ts';

const patienceMs = 60_000;

/** Standard error goes to this file from the first line on. */
const errorsTo = (file: string) => ['sh', '-c', 'exec "$@" 2>>"$0"', file];

/** More than is gathered before it is written. */
async function ask(server: ServerProcess, times = 100): Promise<void> {
  for (let asked = 0; asked < times; asked += 1) {
    const answer = await fetch(`${server.url}/api/v1/nothing`, { signal: AbortSignal.timeout(30_000) });
    expect(answer.status).toBe(404);
    await answer.arrayBuffer();
  }
}

const cpuMsOf = ({ pid }: ServerProcess): number => processStat(pid)?.cpuMs ?? 0;

test('a server whose log has no room answers, and ends when it is told to', async () => {
  const folder = await temporaryFolder();
  const server = await startServer({ folder, through: errorsTo('/dev/full') });
  await ask(server);
  expect(await server.stop()).toBe(0);
});

test('a server whose log nobody reads any more answers, idles, and ends when it is told to', async () => {
  const folder = await temporaryFolder();
  const leaving = 'mkfifo "$0"; (exec <"$0") & exec "$@" 2>"$0"';
  const server = await startServer({ folder, through: ['sh', '-c', leaving, join(folder, 'pipe')] });
  await ask(server);
  const before = cpuMsOf(server);
  await sleep(1000);
  expect(cpuMsOf(server) - before).toBeLessThan(500);
  expect(await server.stop()).toBe(0);
});

test.skipIf(!mountsOfItsOwn)(
  'once there is room again the log goes on, and says how many lines are missing',
  async () => {
    const folder = await temporaryFolder();
    const disk = join(folder, 'disk');
    const through = [...(await smallDisk(disk, '64k')), ...errorsTo(join(disk, 'log'))];
    const server = await startServer({ folder, through });
    await ask(server, 3);
    const file = seenBy(server.pid, join(disk, 'log'));
    await vi.waitFor(async () => expect((await linesOf(file)).filter(isRequest)).toHaveLength(3), patienceMs);
    const free = await fillDisk(seenBy(server.pid, disk));
    await ask(server);
    await free();
    await ask(server, 1);
    const told = await vi.waitFor(async () => {
      const lines = await linesOf(file);
      const lost = lines.reduce((sum, line) => sum + (line.lost ?? 0), 0);
      const requests = lines.filter(isRequest).length;
      // A line that has waited for room may end the file before that of the last request has come.
      expect(requests + lost).toBeGreaterThanOrEqual(104);
      return { requests, lost };
    }, patienceMs);
    expect(told.lost).toBeGreaterThan(0);
    // Each line is there, or counted, and none of them twice.
    expect(told.requests + told.lost).toBe(104);
    expect(await server.stop()).toBe(0);
  },
);

test.skipIf(!mountsOfItsOwn)('a log file without room throws at nobody', async () => {
  const folder = await temporaryFolder();
  const script = `
    import { createFileLog } from ${JSON.stringify(join(import.meta.dirname, 'log.ts'))};
    import { fillDisk } from ${JSON.stringify(join(import.meta.dirname, 'test-disk.ts'))};
    import { readFileSync } from 'node:fs';
    const [folder] = process.argv.slice(-1);
    const log = createFileLog(folder + '/log');
    log.info('before');
    const free = await fillDisk(folder);
    for (let line = 0; line < 200; line += 1) log.info({ long: 'x'.repeat(100) }, 'between');
    await free();
    log.info('after');
    process.stdout.write(readFileSync(folder + '/log'));`;
  const disk = join(folder, 'disk');
  const [command = '', ...words] = await smallDisk(disk, '64k');
  const node = [process.execPath, '--input-type=module', '--eval', script, '--', disk];
  const lines = parsed(execFileSync(command, [...words, ...node], { encoding: 'utf8' }));
  const lost = lines.find((line) => line.lost)?.lost ?? 0;
  expect(lines.map(({ msg }) => msg)).toEqual([
    'before',
    ...Array(200 - lost).fill('between'),
    expect.stringContaining('lost'),
    'after',
  ]);
});

test("a log file is its owner's, and is gone on with", async () => {
  const file = join(await temporaryFolder(), 'logs/log');
  createFileLog(file).info('one');
  createFileLog(file).info('two');
  expect((await linesOf(file)).map(({ msg }) => msg)).toEqual(['one', 'two']);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

interface Line {
  readonly msg?: string;
  readonly path?: string;
  readonly lost?: number;
}

function isRequest(line: Line | undefined): boolean {
  return JSON.stringify(line ?? null).includes('/api/v1/nothing');
}

async function linesOf(file: string): Promise<Line[]> {
  return parsed(await readFile(file, 'utf8'));
}

/** Without what was cut off. */
function parsed(text: string): Line[] {
  return text.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as Line]; // what the log writes is an object
    } catch {
      return [];
    }
  });
}

test('what Node warns of is told in the log, but for what it spares packages where they are not compiled', () => {
  const program = `import { createLog, takeOverConsole } from './log.ts';
    takeOverConsole(createLog('warn'));
    process.emitWarning('of a package', 'DeprecationWarning', 'DEP0169');
    process.emitWarning('of our own', 'DeprecationWarning', 'DEP0999');`;
  const args = ['--input-type=module', '--eval', program];
  const { stderr } = spawnSync(process.execPath, args, { cwd: import.meta.dirname, encoding: 'utf8' });
  expect(stderr).toMatch(/"message":"of our own".*"msg":"Node warns"/);
  expect(stderr).not.toContain('of a package');
});
