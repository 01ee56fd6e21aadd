/** Language servers that misbehave: an edit is never held up for long, nothing stale is told, nothing is left behind. */
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { collectGarbage } from '../../test-garbage.ts';
import { sandboxHere } from '../processes/test-sandbox.ts';
import { unreachableFile } from '../tools/test-workspace.ts';
import { isAlive, lspBench, pidsOf, ready, smallBench, smallServer, until, untilTold } from './test-lsp.ts';

const sandbox = await sandboxHere();
const has = !('unavailable' in sandbox);

function heldBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test('one that takes long to start holds an edit up for a bounded time, and the model is told once', async () => {
  const bench = smallBench('hang', { times: { startWaitMs: 200 } });
  const started = performance.now();
  expect(await bench.note('a.x', 'wrong\n')).toContain('The language server small is still starting');
  expect(performance.now() - started).toBeLessThan(15_000);
  expect(await bench.note('a.x', 'wrong again\n')).toBe('');
});

test.each([
  ['diagnostics', {}],
  ['symbols', { query: 'wrong' }],
  ['diagnostics', { file_path: 'a.x' }],
] as const)(
  'one that takes long to start is not waited for by %s %o once the run is interrupted',
  async (tool, input) => {
    const bench = smallBench('hang', { entry: { timeout: 60 } });
    bench.workspace.file('a.x', 'wrong\n');
    const interrupt = new AbortController();
    const answer = bench.call(tool, input, interrupt.signal);
    await until(() => bench.states()[0] === 'small starting');
    interrupt.abort();
    // Within the time of a test, which is no longer than that of the server.
    expect(await answer).toMatchObject({ content: 'Interrupted before it was done.', is_error: true });
  },
);

test('one that crashes is started anew at its next use, a few times, and then given up for a while', async () => {
  const bench = smallBench('crash', { times: { crashWindowMs: 60_000 } });
  const told: string[] = [];
  for (let round = 0; round < 5; round += 1) {
    told.push(await bench.note('a.x', `wrong ${round}\n`));
    await until(() => bench.states()[0] !== 'small ready' && !pidsOf(bench).some(isAlive));
  }
  expect(pidsOf(bench)).toHaveLength(3);
  expect(told.at(-2)).toContain('it has ended 3 times by itself: boom');
  expect(told.at(-1)).toBe('');
  expect(bench.states()).toEqual(['small failed']);
});

test('one that ends while the project is still being looked at has failed, and finds nothing in order', async () => {
  const bench = smallBench('crash at start');
  // So many that the look usually takes longer than the server lives; else it crashes as others do.
  for (let number = 0; number < 1000; number += 1) bench.workspace.file(`folder-${number}/b.x`, 'wrong\n');
  expect(await bench.note('a.x', 'wrong\n')).toContain('small is of no use now: it has ended: boom');
  for (let round = 0; round < 2 && bench.states()[0] !== 'small failed'; round += 1)
    await bench.note('a.x', `wrong ${round}\n`);
  await until(() => bench.states()[0] === 'small failed');
  // Its last end may come after the note that it belongs to: then the next one tells of it.
  await bench.note('a.x', 'wrong again\n');
  expect(await bench.note('a.x', 'wrong once more\n')).toBe('');
  expect(await bench.call('diagnostics', {})).toMatchObject({
    is_error: true,
    content: expect.stringMatching(
      /^The language server small cannot be used: it has ended( 3 times by itself)?: boom\.$/,
    ),
  });
});

test('one that takes no messages any more has ended by what it said, not by what could not be sent', async () => {
  const bench = smallBench('closes its input');
  const told = [await bench.note('a.x', 'wrong\n'), await bench.note('a.x', 'wrong again\n')];
  expect(told.join('\n')).toContain('small is of no use now: it has ended: boom');
});

test('one that closes its output and lives on is ended, and another one is started for the next file', async () => {
  const bench = smallBench('closes its output');
  await bench.note('a.x', 'right\n');
  await until(() => pidsOf(bench).length > 0 && !pidsOf(bench).some(isAlive));
  await bench.note('b.x', 'right\n');
  expect(pidsOf(bench)).toHaveLength(2);
});

test('what it said of a file that is gone is told no more', async () => {
  const bench = smallBench('elsewhere');
  bench.workspace.file('other.x', 'wrong\n');
  await bench.note('a.x', 'wrong\n');
  expect((await bench.call('diagnostics', {})).content).toMatch(
    /a\.x has 1 error[\s\S]*other\.x has 1 error/,
  );
  for (const name of ['a.x', 'other.x']) rmSync(join(bench.workspace.path, name));
  expect((await bench.call('diagnostics', {})).content).toBe(
    'small finds nothing wrong in the 0 files that it has looked at.',
  );
});

test('one that failed is tried again after a while', async () => {
  const bench = smallBench('refuses', { times: { retryMs: 50 } });
  expect(await bench.note('a.x', 'wrong\n')).toContain('this licence has run out');
  await until(() => bench.states()[0] === 'small failed');
  await delay(60);
  await bench.note('a.x', 'wrong again\n');
  expect(pidsOf(bench)).toHaveLength(2);
});

test.each([
  ['garbage', 'what it writes is no message'],
  ['huge', 'a message of 99999999999 bytes is too large'],
  ['crowded', 'it holds more values than can be held'],
])('one that writes %s is ended, and said to', async (mode, said) => {
  const bench = smallBench(mode);
  expect(await bench.note('a.x', 'wrong\n')).toContain(said);
  await until(() => pidsOf(bench).every((pid) => !isAlive(pid)));
});

test('a file of the project that can be listed but not reached is passed over, and edits are judged', async () => {
  const bench = smallBench('good');
  unreachableFile(bench.workspace.path, 'b.x', 'wrong\n');
  expect(await bench.note('a.x', 'wrong\n')).toContain('a.x has 1 error');
});

test('a line that is no message does no harm', async () => {
  expect(await smallBench('chatty').note('a.x', 'wrong\n')).toContain('a.x has 1 error');
});

test('one that floods is read no faster than it is understood, in bounded memory', async () => {
  // It never falls silent, so that its judgement is taken when the time is over.
  const bench = smallBench('flood', { times: { judgeMs: 8000, startWaitMs: 8000 } });
  await ready(bench);
  const before = process.memoryUsage().rss;
  const started = performance.now();
  const note = await bench.note('a.x', 'wrong\n');
  expect(performance.now() - started).toBeLessThan(30_000);
  expect(note).toContain('a.x has 5000 errors');
  expect(note.split('\n')).toHaveLength(22);
  expect(process.memoryUsage().rss - before).toBeLessThan(400 * 1024 ** 2);
  await bench.close();
  await expect.poll(() => pidsOf(bench).filter(isAlive)).toEqual([]);
});

test('what one has answered is not held for as long as it runs', async () => {
  const bench = smallBench('vast', { times: { requestMs: 30_000 } });
  bench.workspace.file('a.x', 'name\n');
  const ask = () => bench.call('references', { file_path: 'a.x', symbol: 'name' });
  expect(await ask()).toMatchObject({ is_error: false });
  const before = heldBytes();
  for (let round = 0; round < 30; round += 1) await ask();
  expect(heldBytes() - before).toBeLessThan(20 * 1024 ** 2);
});

test('of what one says of files no more is held than is shown', async () => {
  const bench = smallBench('wordy');
  for (let number = 0; number < 30; number += 1) bench.workspace.file(`a.x-${number}`, '');
  const before = heldBytes();
  await bench.note('a.x', 'right\n');
  await untilTold(bench, {}, 'a.x-29 has 1 error');
  expect(heldBytes() - before).toBeLessThan(20 * 1024 ** 2);
});

test('what one names is no longer than a path, whatever it is called there', async () => {
  const bench = smallBench('long', { times: { requestMs: 30_000, judgeMs: 8000, startWaitMs: 8000 } });
  await bench.note('a.x', 'right\n');
  const note = await bench.note('a.x', 'a name that is wrong\n');
  expect(note).toContain('a.x has 1 error');
  expect(note.length).toBeLessThan(1000);
  const { content } = await bench.call('references', { file_path: 'a.x', symbol: 'name' });
  expect(content).toMatch(/^5 references:\na\.x:1:1: a name that is wrong\n/);
  expect(content.length).toBeLessThan(10_000);
});

test('one that never says anything is told of once, and soon waited for no more', async () => {
  const bench = smallBench('silent', { times: { judgeMs: 5000, startWaitMs: 5000 } });
  await ready(bench);
  expect(await bench.note('a.x', 'wrong 0\n')).toContain('small has not said yet what it thinks of a.x');
  for (let round = 1; round < 4; round += 1) expect(await bench.note('a.x', `wrong ${round}\n`)).toBe('');
  const started = performance.now();
  await bench.note('a.x', 'wrong at last\n');
  expect(performance.now() - started).toBeLessThan(4500);
});

test('what is said of an earlier version is not told of the new one', async () => {
  const bench = smallBench('stale', { times: { judgeMs: 1500 } });
  expect(await bench.note('a.x', 'right\n')).toBe('');
  expect(await bench.note('a.x', 'still right\n')).toContain('has not said yet');
  const late = smallBench('late');
  expect(await late.note('a.x', 'right\n')).toBe('');
  expect(await late.note('a.x', 'wrong\n')).toContain('a.x has 1 error');
  expect(await late.note('a.x', 'right again\n')).toBe('');
});

test('one that names no versions is believed only after the change', async () => {
  const bench = smallBench('unversioned');
  expect(await bench.note('a.x', 'wrong\n')).toContain('a.x has 1 error');
  expect(await bench.note('a.x', 'right\n')).toBe('');
  expect(await bench.note('a.x', 'wrong and odd\n')).toContain('a.x has 1 error, 1 warning');
});

test('errors that a change makes in other files are new, also where one was published there that is none any more', async () => {
  const bench = smallBench('tsserver');
  await bench.note('a.x', 'right\n');
  expect(await bench.note('b.x', 'right\n')).toBe('');
  const told = async () => (await bench.call('diagnostics', {})).content;
  await expect.poll(told, { timeout: 20_000 }).toContain('a.x has 1 error');
  expect(await bench.note('b.x', 'breaks all\n')).toMatch(
    /^b\.x has 1 error \(small\):\n.*broken.*\nElsewhere: 1 new error in a\.x \(1\)\.$/,
  );
});

test('errors that a change makes in other files are counted', async () => {
  const bench = smallBench('elsewhere');
  await bench.note('a.x', 'right\n');
  expect(await bench.note('a.x', 'wrong\nwrong\n')).toMatch(/Elsewhere: 2 new errors in other\.x \(2\)\.$/);
  expect(await bench.note('a.x', 'wrong\nwrong \n')).not.toContain('Elsewhere');
});

test('what one publishes of its own stands beside what it answers, and each is told once', async () => {
  const bench = smallBench('asked');
  expect(await bench.note('a.x', 'this is wrong\n')).toContain('a.x has 1 error');
  await bench.note('a.x', 'this is wrong\nodd\n');
  const both = 'a.x has 1 error, 1 warning';
  await untilTold(bench, { file_path: 'a.x' }, both);
  expect((await bench.call('diagnostics', {})).content).toContain(both);
  // What it published of the text before says nothing of this one.
  expect(await bench.note('a.x', 'right\nwrong\n')).toContain('a.x has 1 error (small)');
  await untilTold(bench, {}, 'a.x has 1 error:');
});

test('one that gives a question up for a change is asked again; what it gives up of others costs nothing', async () => {
  const bench = smallBench('asked while busy', { times: { judgeMs: 2000 } });
  expect(await bench.note('a.x', 'wrong\n')).toContain('a.x has 1 error');
  expect(await bench.note('b.x', 'wrong\nwrong\n')).toContain('b.x has 2 errors');
  expect(await bench.note('b.x', 'wrong\n')).toContain('b.x has 1 error');
  expect((await bench.call('diagnostics', { file_path: 'b.x' })).content).toContain('b.x has 1 error');
});

test('one that fails does not take the answers of the others along', async () => {
  const bench = lspBench((notes) => ({
    lsp: { good: smallServer('symbols', notes), bad: smallServer('symbols refused', notes) },
  }));
  bench.workspace.file('a.x', 'wrong\n');
  expect((await bench.call('symbols', { query: 'three' })).content).toBe(
    '/usr/lib/three.x:1:1: constant three\n\n' +
      'The language server bad cannot be used: it answered workspace/symbol with an error: no index.',
  );
  await bench.apply({
    lsp: { good: smallServer('good', bench.notesFile), bad: smallServer('crash', bench.notesFile) },
  });
  const { content } = await bench.call('diagnostics', { file_path: 'a.x' });
  expect(content).toContain('a.x has 1 error (good)');
  expect(content).toContain('The language server bad cannot be used: it has ended: boom.');
});

test('one that has answered very many questions is read as before', async () => {
  const bench = smallBench('good');
  await bench.note('a.x', 'right\n');
  const ask = () => bench.call('references', { file_path: 'a.x', line: 1, column: 1 });
  // Some at a time: more than any number of messages that may wait to be worked on.
  for (let round = 0; round < 60; round += 1) await Promise.all(Array.from({ length: 20 }, ask));
  expect(await ask()).toMatchObject({ is_error: false });
  // One that is not read any more is ended, and another one answers.
  expect(pidsOf(bench)).toHaveLength(1);
});

test('one that takes back very many of its own questions is read as before', async () => {
  const bench = smallBench('takes back');
  expect(await bench.note('a.x', 'this wrong\n')).toContain('a.x has 1 error');
});

test('one that reads nothing more is ended before what it is to be sent fills the memory', async () => {
  const bench = smallBench('stops reading', { times: { judgeMs: 100 } });
  await bench.note('0.x', 'right\n');
  const isGone = () => !pidsOf(bench).some(isAlive);
  // Of two megabytes each, of which thirty-two may wait.
  for (let file = 1; file < 40 && !isGone(); file += 1) await bench.note(`${file}.x`, 'x'.repeat(2_000_000));
  await until(isGone);
});

test('one that does not end when it is asked to is killed, with all that it started', async () => {
  const bench = smallBench('hang at exit');
  await bench.note('a.x', 'right\n');
  const started = performance.now();
  await bench.close();
  expect(performance.now() - started).toBeLessThan(15_000);
  await expect.poll(() => pidsOf(bench).filter(isAlive)).toEqual([]);
});

test('one that crashes leaves none behind that it started', async () => {
  const bench = smallBench('child');
  await bench.note('a.x', 'right\n');
  const [pid = 0, child = 0] = pidsOf(bench);
  expect(isAlive(child)).toBe(true);
  process.kill(pid, 'SIGKILL');
  await until(() => !isAlive(child));
});

test('one that nobody uses is ended, and started again when it is needed', async () => {
  const bench = smallBench('good', { times: { idleMs: 2000 } });
  await bench.note('a.x', 'wrong\n');
  await until(() => pidsOf(bench).every((pid) => !isAlive(pid)));
  expect(bench.states()).toEqual(['small idle']);
  expect(await bench.note('a.x', 'wrong\n')).toContain('a.x has 1 error');
});

test('one that stops answering is an error of the tool in time, and ended after some of them', async () => {
  const bench = smallBench('deaf', { times: { requestMs: 200 } });
  bench.workspace.file('a.x', 'name\n');
  for (let round = 0; round < 3; round += 1)
    expect(await bench.call('references', { file_path: 'a.x', symbol: 'name' })).toMatchObject({
      is_error: true,
      content: expect.stringContaining('did not answer textDocument/references within 0.2 s'),
    });
  await until(() => pidsOf(bench).every((pid) => !isAlive(pid)));
});

test('a file that is huge, binary or gone is not sent', async () => {
  const bench = smallBench('good');
  await bench.note('a.x', 'wrong\n');
  expect(await bench.note('big.x', 'wrong\n'.repeat(500_000))).not.toContain('has');
  expect(await bench.note('binary.x', 'wrong\0\n')).not.toContain('has');
  rmSync(join(bench.workspace.path, 'a.x'));
  await bench.note('a.x');
  const opened = bench.notes().filter(({ method }) => method === 'textDocument/didOpen');
  expect(opened).toHaveLength(1);
  await until(() => bench.notes().some(({ method }) => method === 'textDocument/didClose'));
});

test('what a command changed on disk is told: open documents anew, others as changed files', async () => {
  const bench = smallBench('good');
  await bench.note('a.x', 'right\n');
  bench.workspace.file('a.x', 'wrong\n');
  bench.workspace.file('new.x', 'right\n');
  expect(await bench.call('diagnostics', { file_path: 'a.x' })).toMatchObject({
    content: expect.stringContaining('error 1:1 wrong is wrong'),
  });
  const watched = bench.notes().find(({ method }) => method === 'workspace/didChangeWatchedFiles');
  const changes = watched?.params?.changes;
  expect(changes).toEqual(
    expect.arrayContaining([
      { uri: `file://${join(bench.workspace.path, 'new.x')}`, type: 1 },
      { uri: `file://${join(bench.workspace.path, 'a.x')}`, type: 2 },
    ]),
  );
});

test('a file that is only read starts its server, so that the first edit need not wait', async () => {
  const bench = smallBench('good');
  bench.workspace.file('a.x', 'right\n');
  bench.read('a.x');
  await until(() => bench.notes().some(({ method }) => method === 'textDocument/didOpen'));
});

test('where many share the runtime and there is no sandbox, none is started and there are no tools', async () => {
  const bench = smallBench('good', { shared: true });
  expect(await bench.note('a.x', 'wrong\n')).toContain('language servers run here only in a sandbox');
  expect(bench.notes()).toEqual([]);
  expect(await bench.offered()).toEqual([]);
});

test.skipIf(!has)(
  'where many share the runtime, they run in the sandbox: only the workspace is there, to be read (needs bubblewrap)',
  async () => {
    const bench = lspBench(
      () => ({
        lsp: { small: { command: process.execPath, args: ['server.ts', 'explore'], filetypes: ['x'] } },
      }),
      { shared: true, parts: { sandbox } },
    );
    copyFileSync(join(import.meta.dirname, 'test-server.ts'), join(bench.workspace.path, 'server.ts'));
    const note = await bench.note('a.x', 'wrong\n');
    expect(note).toBe('a.x has 1 warning (small):\nwarning 1:1 odd, it could look around is odd [small 0]');
  },
);

test('what was started for one person ends when the runtime is shared', async () => {
  const bench = smallBench('good');
  await bench.note('a.x', 'wrong\n');
  await bench.apply({ lsp: { small: smallServer('good', bench.notesFile) } }, true);
  await expect.poll(() => pidsOf(bench).filter(isAlive)).toEqual([]);
  expect(await bench.note('a.x', 'wrong again\n')).toContain('only in a sandbox');
});
