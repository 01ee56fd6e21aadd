/** Threads that are kept: used again, bounded in number, ended when they hang, and never a reason for a process to stay. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { createThreads, type ThreadsOptions } from './kept-threads.ts';
import { searchQueue } from './search.ts';
import { callTool, TOOL_OPTIONS, testWorkspace, toolNamed } from './test-workspace.ts';
import { builtInTools } from './tools.ts';

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
const mine = { workspacePath: '/mine', signal: never };
const theirs = { workspacePath: '/theirs', signal: never };

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
  const first = await kept.use(mine, ask);
  expect(await kept.use(mine, ask)).toBe(first);
  expect(kept.counts()).toEqual({ atWork: 0, idle: 1, waiting: 0 });
});

test('at most so many are at work, the others wait in turn, and beyond that they are refused', async () => {
  const kept = threads({ most: 4, mostWaiting: 3 });
  const jobs = [mine, mine, theirs, theirs].map((one) => kept.use(one, ask));
  jobs.push(kept.use(mine, ask), kept.use(theirs, ask), kept.use({ ...mine, workspacePath: '/other' }, ask));
  expect(kept.counts()).toEqual({ atWork: 4, idle: 0, waiting: 3 });
  expect(kept.queue()).toEqual({ waiting: 3, limit: 3 });
  await expect(kept.use({ ...mine, workspacePath: '/more' }, ask)).rejects.toThrow(
    'This server counts for many others right now. Try again',
  );
  expect(new Set(await Promise.all(jobs)).size).toBe(4);
  expect(kept.counts()).toMatchObject({ atWork: 0, waiting: 0 });
});

test('one workspace has half of the threads and of the line at most: what hangs there holds nobody else back', async () => {
  const kept = threads({ most: 4, mostWaiting: 8 });
  const stop = new AbortController();
  const hang = async (thread: Worker) => {
    thread.postMessage('hang');
    if (!stop.signal.aborted) await once(stop.signal, 'abort');
    return { result: 0, reusable: false };
  };
  const hanging = Array.from({ length: 6 }, () => kept.use(mine, hang));
  expect(kept.counts()).toMatchObject({ atWork: 2, waiting: 4 });
  await expect(kept.use(mine, ask)).rejects.toThrow('for many others');
  for (let times = 0; times < 3; times += 1) expect(await kept.use(theirs, ask)).toBeGreaterThan(0);
  stop.abort();
  await Promise.all(hanging);
});

test('workspaces take turns, however many jobs of one are in the line', async () => {
  const kept = threads({ most: 1 });
  const done: string[] = [];
  const noted = async (one: typeof mine) => {
    await kept.use(one, ask);
    done.push(one.workspacePath);
  };
  await Promise.all([mine, mine, mine, mine, theirs, theirs].map(noted));
  expect(done).toEqual(['/mine', '/mine', '/theirs', '/mine', '/theirs', '/mine']);
});

test('searches that hang in one workspace let another one be listed', async () => {
  const [here, elsewhere] = [testWorkspace(), testWorkspace()];
  here.file('a'.repeat(200), '');
  elsewhere.file('hello', '');
  const stop = new AbortController();
  const glob = toolNamed(builtInTools(TOOL_OPTIONS), 'glob');
  const ls = toolNamed(builtInTools(TOOL_OPTIONS), 'ls');
  const input = { pattern: `${'*a'.repeat(60)}b` };
  const hanging = Array.from({ length: 40 }, () =>
    callTool(glob, input, here.context({ signal: stop.signal })),
  );
  await expect.poll(() => searchQueue().waiting).toBeGreaterThan(0);
  const listed = callTool(ls, {}, elsewhere.context());
  // Each of the others takes half a minute, by its time limit.
  const first = await Promise.race([listed, ...hanging]);
  expect(first.content).toContain('hello');
  stop.abort();
  await Promise.all(hanging);
});

test('a thread that hangs is ended, and what waited for it is done by a new one', async () => {
  const kept = threads({ most: 1 });
  const stop = new AbortController();
  const first = await kept.use(mine, ask);
  const begun = Promise.withResolvers<void>();
  const hanging = kept.use({ ...mine, signal: stop.signal }, async (thread) => {
    thread.postMessage('hang');
    begun.resolve();
    await once(stop.signal, 'abort');
    stop.signal.throwIfAborted();
    return { result: 0, reusable: true };
  });
  const behind = kept.use(mine, ask);
  await begun.promise;
  stop.abort(new Error('interrupted'));
  await expect(hanging).rejects.toThrow('interrupted');
  expect(await behind).not.toBe(first);
});

test('who is interrupted while he waits leaves the line, and nobody else does', async () => {
  const kept = threads({ most: 1 });
  const stop = new AbortController();
  const first = kept.use(mine, ask);
  const leaves = kept.use({ ...mine, signal: stop.signal }, ask);
  const stays = kept.use(mine, ask);
  stop.abort(new Error('interrupted'));
  await expect(leaves).rejects.toThrow('interrupted');
  expect(await stays).toBe(await first);
  expect(kept.counts()).toMatchObject({ atWork: 0, waiting: 0 });
});

test('a thread that dies while it is idle is not used again', async () => {
  const kept = threads();
  const died = await kept.use(mine, async (thread) => ({ result: thread, reusable: true }));
  await died.terminate();
  expect(kept.counts().idle).toBe(0);
  expect(await kept.use(mine, ask)).toBeGreaterThan(0);
});

test('a thread that nobody needs for a while is ended', async () => {
  const kept = threads({ idleMs: 10 });
  await kept.use(mine, ask);
  await expect.poll(() => kept.counts().idle).toBe(0);
});

test('a process with nothing else to do ends at once', async () => {
  const code = `
    import { search } from ${JSON.stringify(new URL('search.ts', import.meta.url).href)};
    const here = process.cwd();
    const scope = { start: here, base: here, top: here, workspace: here };
    const job = { kind: 'glob', scope, pattern: '*.json', maxResults: 1 };
    await search(job, 40_000, new AbortController().signal);
    console.log('searched');`;
  const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    cwd: import.meta.dirname,
    timeout: 30_000,
  });
  expect((await run).stdout).toContain('searched');
});
