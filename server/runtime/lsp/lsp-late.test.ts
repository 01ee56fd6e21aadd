/** Language servers that find errors when the note of the change is long made: they are told with the next one, and once. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { LspTimes } from './language-server.ts';
import { type LspBench, pidsOf, ready, smallBench, until, untilTold } from './test-lsp.ts';

/** For servers that are asked: none of these times is waited out, however busy the machine is. */
const long = { startWaitMs: 30_000, requestMs: 30_000 };
/** For those that say nothing in time, whatever time that is. */
const short = { ...long, startWaitMs: 300, judgeMs: 300 };

function lateBench(mode: string, times: Partial<LspTimes> = long): LspBench {
  return smallBench(mode, { times });
}

/** Has a server that finds things late find them now; it is asked about a file that it has open. */
async function found(bench: LspBench, name = 'a.x'): Promise<void> {
  expect(await bench.call('references', { file_path: name, line: 1, column: 1 })).toMatchObject({
    is_error: false,
  });
}

/** How many documents were opened. */
function opened(bench: LspBench): number {
  return bench.notes().filter(({ method }) => method === 'textDocument/didOpen').length;
}

/** How often it was asked what is wrong with the file. */
function asked(bench: LspBench, name: string): number {
  const questions = bench.notes().filter(({ method }) => method === 'textDocument/diagnostic');
  return questions.filter(({ params }) => JSON.stringify(params).includes(`/${name}"`)).length;
}

const oneError = (line: string) => `error 1:1 ${line} is wrong [small 0]`;

test('what one publishes late, having answered with nothing, is told once: after the next change, of whichever file', async () => {
  const bench = lateBench('asked, and found late');
  expect(await bench.note('a.x', 'wrong\n')).toBe('');
  await found(bench);
  const late = `a.x has 1 error (small), found late:\n${oneError('wrong')}`;
  expect(await bench.note('b.x', 'right\n')).toBe(late);
  expect(await bench.note('b.x', 'still right\n')).toBe('');
  expect(await bench.note('a.x', 'wrong still\n')).toBe('');
  await found(bench);
  const former = `a.x had 1 error (small) before this change, found late:\n${oneError('wrong still')}`;
  expect(await bench.note('a.x', 'right\n')).toBe(former);
  expect(await bench.note('b.x', 'right again\n')).toBe('');
  await found(bench);
  expect(await bench.note('b.x', 'right as ever\n')).toBe('');
});

test('an error that is still there after the next change of its file is told of that text as well, and once', async () => {
  const bench = lateBench('asked, and found late');
  for (const text of ['wrong\n', 'wrong\n\n', 'wrong\n\n\n']) {
    await bench.note('a.x', text);
    await found(bench);
    expect(await bench.note('b.x', `right ${text.length}\n`)).toContain(
      'a.x has 1 error (small), found late:',
    );
    await found(bench);
    expect(await bench.note('b.x', `right as ever ${text.length}\n`)).toBe('');
  }
});

test('one that only publishes, and late, is told of with the next change, and its silence once', async () => {
  const bench = lateBench('found late', short);
  await ready(bench);
  expect(await bench.note('a.x', 'wrong 0\n')).toContain('small has not said yet what it thinks of a.x');
  for (let round = 1; round < 5; round += 1) {
    await found(bench);
    expect(await bench.note('a.x', `wrong ${round}\n`)).toBe(
      `a.x had 1 error (small) before this change, found late:\n${oneError(`wrong ${round - 1}`)}`,
    );
  }
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe(
    `a.x has 1 error (small), found late:\n${oneError('wrong 4')}`,
  );
  expect(await bench.note('b.x', 'still right\n')).toBe('');
});

test('what was wrong before the first change is not told later, whenever it is found', async () => {
  const bench = lateBench('found late', short);
  bench.workspace.file('a.x', 'wrong of old\n');
  bench.workspace.file('old.x', 'wrong\n');
  bench.read('a.x');
  await until(() => opened(bench) === 1);
  await found(bench);
  await bench.note('a.x', 'wrong of old\nold.x: wrong\n');
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe('');
  expect(await bench.note('b.x', 'still right\nold.x: wrong, right\n')).toBe('');
  await found(bench);
  expect(await bench.note('b.x', 'right again\n')).toBe('');
});

test('what was wrong in a document that is only read is not told later', async () => {
  const bench = lateBench('found late', short);
  bench.workspace.file('read.x', 'wrong\n');
  await ready(bench);
  await bench.note('a.x', 'still right\n');
  await found(bench);
  await bench.note('a.x', 'right again\n');
  bench.read('read.x');
  await until(() => opened(bench) === 2);
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe('');
});

test('one that is asked is asked about what is read: that was wrong before the next change', async () => {
  const bench = lateBench('asked');
  bench.workspace.file('read.x', 'wrong\n');
  await bench.note('a.x', 'right\n');
  await bench.note('a.x', 'still right\n');
  bench.read('read.x');
  await until(() => asked(bench, 'read.x') === 1);
  await found(bench);
  expect(await bench.note('a.x', 'breaks all\n')).toMatch(/\nElsewhere: 1 new error in read\.x \(1\)\.$/);
  expect(await bench.note('a.x', 'right again\n')).toBe('');
});

test('what one takes back with each change is told nonetheless', async () => {
  const bench = lateBench('asked, clearing, found late');
  await bench.note('a.x', 'wrong\n');
  const former = 'a.x had 1 error (small) before this change, found late:';
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe(`${former}\n${oneError('wrong')}`);
  expect(await bench.note('b.x', 'a.x: wrong\n')).toBe('');
  await found(bench);
  expect(await bench.note('b.x', 'right again\n')).toBe('');
  await bench.note('a.x', 'wrong, still\n');
  await found(bench);
  expect(await bench.note('a.x', 'right\n')).toBe(`${former}\n${oneError('wrong, still')}`);
});

test('what was found late is not told to one that is interrupted', async () => {
  const bench = lateBench('asked of the latest, found late', { ...long, judgeMs: 20_000 });
  await bench.note('a.x', 'wrong\n');
  await found(bench);
  const [before, interrupt] = [asked(bench, 'a.x'), new AbortController()];
  const note = bench.note('b.x', 'right\n', interrupt.signal);
  await until(() => asked(bench, 'a.x') > before);
  interrupt.abort();
  expect(await note).toBe('');
  expect(await bench.note('c.x', 'right\n')).toBe(
    `a.x has 1 error (small), found late:\n${oneError('wrong')}`,
  );
});

test('what was wrong in a file before its first change is not told later, although it is found then', async () => {
  const bench = lateBench('one by one, found late', short);
  bench.workspace.file('a.x', 'wrong of old\n');
  bench.read('a.x');
  await until(() => opened(bench) === 1);
  expect(await bench.note('a.x', 'wrong of old\nright\n')).toContain('small has not said yet');
  await found(bench);
  expect(await bench.note('a.x', 'wrong of old\nright again\n')).toBe('');
  for (const text of ['right\n', 'still right\n']) {
    await found(bench);
    expect(await bench.note('b.x', text)).toBe('');
  }
});

test.each([
  ['one by one, found late', short],
  ['asked, one by one, found late', long],
] as const)(
  'what is found late in a text that was changed since is not told of the new one: %s',
  async (mode, times) => {
    const bench = lateBench(mode, times);
    await ready(bench);
    await until(() => opened(bench) === 1);
    await found(bench);
    for (const text of ['wrong\n', 'right once more\n']) await bench.note('a.x', text);
    await found(bench);
    expect(await bench.note('b.x', 'right\n')).toBe('');
    expect(await bench.note('a.x', 'right again\n')).toBe('');
  },
);

test('errors that are found late in files that were not changed are counted, once', async () => {
  const bench = lateBench('asked, and found late');
  for (const name of ['old.x', 'other.x']) bench.workspace.file(name, 'right\n');
  await bench.note('a.x', 'old.x: wrong\n');
  await found(bench);
  expect(await bench.note('a.x', 'old.x: wrong, wrong again\nother.x: wrong, wrong\ngone.x: wrong\n')).toBe(
    '',
  );
  await found(bench);
  const elsewhere = 'Elsewhere: 3 new errors in old.x (1), other.x (2).';
  expect(await bench.note('b.x', 'right\n')).toBe(elsewhere);
  expect(await bench.note('b.x', 'still right\nother.x: right\n')).toBe('');
  await found(bench);
  // Gone when two changes begin: then it is news again.
  for (const text of ['right again\n', 'other.x: wrong\n']) expect(await bench.note('b.x', text)).toBe('');
  await found(bench);
  expect(await bench.note('b.x', 'right once more\n')).toBe('Elsewhere: 1 new error in other.x (1).');
});

test('what a check takes back and finds again is no news: neither what was wrong before, nor what was told', async () => {
  const bench = lateBench('asked, and found late');
  for (const name of ['old.x', 'other.x']) bench.workspace.file(name, 'right\n');
  await bench.note('a.x', 'old.x: wrong, wrong again\n');
  await found(bench);
  expect(await bench.note('a.x', 'other.x: wrong\n')).toBe('');
  await found(bench);
  expect(await bench.note('b.x', 'old.x: right\nother.x: right\n')).toBe(
    'Elsewhere: 1 new error in other.x (1).',
  );
  await found(bench);
  // Changes that are made at once see it gone, and count as one.
  const notes = [
    bench.note('b.x', 'old.x: wrong, wrong again\nother.x: wrong\n'),
    bench.note('c.x', 'right\n'),
  ];
  expect(await Promise.all(notes)).toEqual(['', '']);
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe('');
});

test('what was wrong before stays old, however long it was gone', async () => {
  const bench = lateBench('asked, and found late');
  bench.workspace.file('old.x', 'right\n');
  await bench.note('a.x', 'old.x: wrong\n');
  await found(bench);
  await bench.note('b.x', 'old.x: right\n');
  await found(bench);
  for (let round = 0; round < 3; round += 1) expect(await bench.note('b.x', `right ${round}\n`)).toBe('');
  await bench.note('b.x', 'old.x: wrong\n');
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toBe('');
});

test('what was published of a text before, without its version, is not told of one that was answered of since', async () => {
  const bench = lateBench('asked, unversioned, found late');
  // So many that the file is not asked about again with the next change of another.
  for (let number = 10; number < 20; number += 1) await bench.note(`${number}.x`, 'right\n');
  await bench.note('a.x', 'wrong\n');
  await found(bench, '10.x');
  expect(await bench.note('b.x', 'right\n')).toBe(
    `a.x has 1 error (small), found late:\n${oneError('wrong')}`,
  );
  expect(await bench.note('a.x', 'right\n')).toBe('');
  expect(await bench.note('b.x', 'still right\n')).toBe('');
});

test('what a change breaks in a file that was changed earlier is new, and not found late', async () => {
  const bench = lateBench('asked');
  await bench.note('b.x', 'odd\n');
  // By then it has published what it finds in this text.
  await untilTold(bench, { file_path: 'b.x' }, 'b.x has 1 warning');
  expect(await bench.note('a.x', 'breaks all\n')).toMatch(
    /^a\.x has 1 error \(small\):\n.*\nElsewhere: 1 new error in b\.x \(1\)\.$/,
  );
});

test('errors of files that the diagnostics tool has no room for are told after the next change', async () => {
  const bench = lateBench('asked, and found late');
  const names = Array.from({ length: 60 }, (_, number) => `${number + 10}.x`);
  for (const name of names) bench.workspace.file(name, 'right\n');
  await bench.note('a.x', 'right\n');
  await bench.note('a.x', names.map((name) => `${name}: wrong\n`).join(''));
  await found(bench);
  expect((await bench.call('diagnostics', {})).content).toMatch(/\n… and 10 more files$/);
  expect(await bench.note('b.x', 'right\n')).toBe(
    'Elsewhere: 10 new errors in 60.x (1), 61.x (1), 62.x (1), 63.x (1), 64.x (1), ….',
  );
});

test('what was found late and is gone by the next change is not told', async () => {
  const bench = lateBench('asked, and found late');
  await bench.note('a.x', 'wrong\n');
  await bench.note('a.x', 'right\n');
  await bench.note('gone.x', 'wrong\n');
  await found(bench);
  rmSync(join(bench.workspace.path, 'gone.x'));
  expect(await bench.note('b.x', 'right\n')).toBe('');
});

test('what was found late is told by one of two notes that are made at once, and not after the diagnostics tool', async () => {
  const bench = lateBench('asked, and found late');
  await bench.note('a.x', 'wrong\n');
  await found(bench);
  const notes = await Promise.all(['b.x', 'c.x'].map((name) => bench.note(name, 'right\n')));
  expect(notes.filter(Boolean)).toEqual([expect.stringContaining('a.x has 1 error (small), found late:')]);
  await bench.note('a.x', 'wrong again\n');
  await found(bench);
  await untilTold(bench, { file_path: 'a.x' }, 'a.x has 1 error');
  expect(await bench.note('b.x', 'still right\n')).toBe('');
});

test('what one finds after it was started anew is told only if its former process had not found it', async () => {
  const bench = lateBench('asked, and found late');
  await bench.note('a.x', 'wrong\n');
  await found(bench);
  expect(await bench.note('b.x', 'right\n')).toContain('a.x has 1 error');
  await bench.note('c.x', 'right\n');
  for (const pid of pidsOf(bench)) process.kill(pid, 'SIGKILL');
  await until(() => bench.states()[0] === 'small idle');
  expect(await bench.note('b.x', 'a.x: wrong\nc.x: wrong\n')).toBe('');
  // It may take its time for its first look.
  for (const text of ['right\n', 'still right\n']) expect(await bench.note('d.x', text)).toBe('');
  await found(bench, 'b.x');
  expect(await bench.note('b.x', 'right\n')).toBe(
    `c.x has 1 error (small), found late:\n${oneError('wrong')}`,
  );
});

test('what was found late takes no more room than a note has', async () => {
  const bench = lateBench('asked, and found late');
  for (let number = 10; number < 20; number += 1) await bench.note(`${number}.x`, 'wrong\n'.repeat(6));
  await found(bench, '10.x');
  const lines = (await bench.note('b.x', 'right\n')).split('\n');
  expect(lines).toHaveLength(11);
  expect(lines.slice(7, 10)).toEqual([
    '11.x has 6 errors (small), found late:',
    oneError('wrong'),
    '… and 5 more',
  ]);
  expect(lines.at(-1)).toBe(
    'Elsewhere: 48 new errors in 12.x (6), 13.x (6), 14.x (6), 15.x (6), 16.x (6), ….',
  );
});
