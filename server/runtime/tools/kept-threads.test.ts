/** Threads that are kept: used again, bounded in number, ended when they hang, and never a reason for a process to stay. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { createThreads, type ThreadsOptions } from './kept-threads.ts';

/** Answers with the number of its thread, or never. */
const program = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort, threadId } from 'node:worker_threads';
    parentPort.on('message', (job) => {
      if (job === 'hang') for (;;);
      parentPort.postMessage(threadId);
    });`)}`,
);

const never = new AbortController().signal;

function threads(options: Partial<ThreadsOptions> = {}) {
  return createThreads({ program, doing: 'counts', maxHeapMb: 64, ...options });
}

async function ask(thread: Worker) {
  const answered = once(thread, 'message');
  thread.postMessage('answer');
  const [id] = (await answered) as [number]; // what the program posts
  return { result: id, reusable: true };
}

test('one job after the other is done by the same thread', async () => {
  const kept = threads();
  const first = await kept.use(never, ask);
  expect(await kept.use(never, ask)).toBe(first);
  expect(kept.counts()).toEqual({ atWork: 0, idle: 1, waiting: 0 });
});

test('at most so many are at work, the others wait in turn, and beyond that they are refused', async () => {
  const kept = threads({ most: 2, mostWaiting: 3 });
  const jobs = Array.from({ length: 5 }, () => kept.use(never, ask));
  expect(kept.counts()).toEqual({ atWork: 2, idle: 0, waiting: 3 });
  expect(kept.queue()).toEqual({ waiting: 3, limit: 3 });
  await expect(kept.use(never, ask)).rejects.toThrow(
    'This server counts for many others right now. Try again',
  );
  expect(new Set(await Promise.all(jobs)).size).toBe(2);
  expect(kept.counts()).toMatchObject({ atWork: 0, waiting: 0 });
});

test('a thread that hangs is ended, and what waited for it is done by a new one', async () => {
  const kept = threads({ most: 1 });
  const stop = new AbortController();
  const first = await kept.use(never, ask);
  const begun = Promise.withResolvers<void>();
  const hanging = kept.use(stop.signal, async (thread) => {
    thread.postMessage('hang');
    begun.resolve();
    await once(stop.signal, 'abort');
    stop.signal.throwIfAborted();
    return { result: 0, reusable: true };
  });
  const behind = kept.use(never, ask);
  await begun.promise;
  stop.abort(new Error('interrupted'));
  await expect(hanging).rejects.toThrow('interrupted');
  expect(await behind).not.toBe(first);
});

test('who is interrupted while he waits leaves the line, and nobody else does', async () => {
  const kept = threads({ most: 1 });
  const stop = new AbortController();
  const first = kept.use(never, ask);
  const leaves = kept.use(stop.signal, ask);
  const stays = kept.use(never, ask);
  stop.abort(new Error('interrupted'));
  await expect(leaves).rejects.toThrow('interrupted');
  expect(await stays).toBe(await first);
  expect(kept.counts()).toMatchObject({ atWork: 0, waiting: 0 });
});

test('a thread that dies while it is idle is not used again', async () => {
  const kept = threads();
  const died = await kept.use(never, async (thread) => ({ result: thread, reusable: true }));
  await died.terminate();
  expect(kept.counts().idle).toBe(0);
  expect(await kept.use(never, ask)).toBeGreaterThan(0);
});

test('a thread that nobody needs for a while is ended', async () => {
  const kept = threads({ idleMs: 10 });
  await kept.use(never, ask);
  await expect.poll(() => kept.counts().idle).toBe(0);
});

test('a process with nothing else to do ends at once', async () => {
  const code = `
    import { search } from ${JSON.stringify(new URL('search.ts', import.meta.url).href)};
    const scope = { start: process.cwd(), top: process.cwd() };
    const job = { kind: 'glob', scope, pattern: '*.json', maxResults: 1 };
    await search(job, 9000, new AbortController().signal);
    console.log('searched');`;
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    cwd: import.meta.dirname,
    timeout: 8000,
  });
  expect((await run).stdout).toContain('searched');
});
