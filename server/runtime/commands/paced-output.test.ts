/** Programs that write more than anybody reads. */
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { runCommand } from './command.ts';

async function readOf(command: string, signal: AbortSignal): Promise<{ bytes: number; ended: string }> {
  let bytes = 0;
  const { reason } = await runCommand({
    file: '/bin/sh',
    args: ['-c', command],
    cwd: tmpdir(),
    env: { PATH: process.env.PATH ?? '' },
    timeoutMs: 60_000,
    signal,
    wrapped: false,
    onOutput: (chunk) => {
      bytes += chunk.length;
    },
  });
  return { bytes, ended: reason };
}

test('are read at a pace however many they are, and none of them is forgotten', async () => {
  const enough = new AbortController();
  const began = performance.now();
  const programs = Array.from({ length: 80 }, () => readOf('exec yes', enough.signal));
  setTimeout(() => enough.abort(), 3000);
  const outcomes = await Promise.all(programs);
  const perSecond = outcomes.reduce((sum, { bytes }) => sum + bytes, 0) / (performance.now() - began) / 1000;
  // In millions of bytes; unbridled they write thousands.
  expect(perSecond).toBeLessThan(200);
  expect(outcomes.filter(({ bytes }) => bytes === 0)).toEqual([]);
});

test('lose nothing by it, and end as they do', async () => {
  const { signal } = new AbortController();
  const both = 'head -c 30000000 /dev/zero >&2 & head -c 30000000 /dev/zero; wait';
  expect(await readOf(both, signal)).toEqual({ bytes: 60_000_000, ended: 'exited' });
});
