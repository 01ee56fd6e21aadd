/** Who can be said to be dead: only a process of this very machine, that is not there any more. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { fateOf, hasDied, nameOwner } from './process-name.ts';

const face = new URL('process-name.ts', import.meta.url).pathname;

/** A process that says its name and lives until it is told otherwise. */
async function another(through: readonly string[] = []) {
  const program = `import { nameOwner } from ${JSON.stringify(face)}; console.log(nameOwner()); setInterval(() => {}, 1000);`;
  const [command = '', ...words] = [
    ...through,
    process.execPath,
    '--input-type=module-typescript',
    '-e',
    program,
  ];
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer]; // streams of processes give buffers
  return { child, owner: String(chunk).trim() };
}

/** The owner with some of its parts exchanged: machine, process id, start, random. */
function like(owner: string, changes: Readonly<Record<number, string>>): string {
  return owner
    .split('/')
    .map((part, index) => changes[index] ?? part)
    .join('/');
}

test('a process that lives is not dead, this one included; no two names are alike', () => {
  const mine = nameOwner();
  expect(fateOf(mine)).toBe('lives');
  expect(nameOwner()).not.toBe(mine);
});

test('a process that was killed is dead at once, and alive until then', async () => {
  const { child, owner } = await another();
  expect(hasDied(owner)).toBe(false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(hasDied(owner)).toBe(true);
});

test('a process whose number another one has by now is dead', () => {
  expect(hasDied(like(nameOwner(), { 2: '1' }))).toBe(true);
});

test.each([
  [
    'of another machine, boot or container',
    (owner: string) => like(owner, { 0: 'another.1.2', 1: '999999' }),
  ],
  ['of a machine without a name', (owner: string) => like(owner, { 0: '-', 1: '999999' })],
  ['whose start is not known', (owner: string) => like(owner, { 1: '999999', 2: '-' })],
  ['that is named in another way', () => 'a dead process'],
])('nobody can say that a process is dead %s', (_, change) => {
  expect(fateOf(change(nameOwner()))).toBe('unknown');
});

test('a process of this machine that is not there is dead', () => {
  expect(hasDied(like(nameOwner(), { 1: '4194305' }))).toBe(true);
});
