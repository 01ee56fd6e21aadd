/** Which errors are news, by when a server says what; and what finding that out costs everybody whom this process serves. */
import { rmSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { testWorkspace } from '../tools/test-workspace.ts';
import { type FileReport, Reports, reportOf, together, uriOf } from './diagnostics.ts';
import { createDocuments } from './documents.ts';
import { KnownErrors } from './known-errors.ts';

/** A server that says what the test has it say. */
function knownBench() {
  const [workspace, reports, known] = [testWorkspace(), new Reports(), new KnownErrors()];
  const documents = createDocuments(() => undefined, { wanted: false, withText: false }, reports);
  const client = { documents, reports };
  const begin = (path: string) => {
    const begun = known.begin(client, path);
    documents.syncAll();
    documents.sync(path);
    return (report: FileReport | null = null) => {
      const found = known.take(client, { ...begun, report, answers: new Map() });
      known.end(path);
      return found.map(({ path: other, late, count }) => `${basename(other)}: ${count}, ${late}`);
    };
  };
  let written = 0;
  const write = (name: string) => workspace.file(name, `text ${written++}\n`);
  const publish = (path: string, messages: readonly string[], version?: number) =>
    reports.publish({ uri: uriOf(path), diagnostics: messages.map((message) => ({ message })), version });
  /** What is told after a change of the file. */
  const change = (name: string, meanwhile: () => void = () => undefined) => {
    const take = begin(write(name));
    meanwhile();
    return take();
  };
  return { reports, known, documents, begin, write, publish, change };
}

/** One that has had its first look. */
function acquaintedBench() {
  const bench = knownBench();
  bench.change('a.x');
  bench.publish(bench.write('a.x'), []);
  bench.change('a.x');
  return bench;
}

test('what changes break in a document that was read long before is news, though nothing was said of it so far', () => {
  const { documents, write, publish, change } = acquaintedBench();
  const read = write('read.x');
  documents.sync(read);
  expect([change('a.x'), change('a.x')]).toEqual([[], []]);
  publish(read, ['broken']);
  expect(change('a.x')).toEqual(['read.x: 1, null']);
});

test('what one that publishes errors of any file says of a document is not due to its opening, unless it was asked', () => {
  const { documents, reports, write, publish, change } = acquaintedBench();
  publish(write('other.x'), ['broken']);
  const read = write('read.x');
  documents.sync(read);
  publish(read, ['broken', 'broken too']);
  reports.answer(read, reportOf([{ message: 'asked' }], null));
  expect(change('a.x')).toEqual(['other.x: 1, null', 'read.x: 2, null']);
});

test('what is taken back at each change is told with the next one all the same, and once', () => {
  const { write, publish, change } = acquaintedBench();
  const path = write('a.x');
  for (const [name, told] of [
    ['b.x', ['a.x: 1, in the text before']],
    ['b.x', []],
    ['a.x', []],
    ['a.x', ['a.x: 1, in the text before']],
  ] as const) {
    publish(path, ['wrong']);
    expect(change(name, () => publish(path, []))).toEqual(told);
  }
});

test('what is said of the text before while a note is made is told in it', () => {
  const { documents, write, publish, change } = acquaintedBench();
  const path = write('a.x');
  change('a.x');
  const { version } = documents.get(path) ?? {};
  expect(change('a.x', () => publish(path, ['wrong'], version))).toEqual(['a.x: 1, in the text before']);
});

test('what a command breaks in an open file is not of old at the first change of the file', () => {
  const { documents, write, publish, change } = acquaintedBench();
  const path = write('b.x');
  documents.sync(path);
  write('b.x');
  documents.syncAll();
  publish(path, ['wrong']);
  expect(change('b.x')).toEqual(['b.x: 1, in the text before']);
});

test('the first look lasts until changes that are made at once are over', () => {
  const { begin, write, publish } = knownBench();
  const [one, other] = [write('a.x'), write('b.x')];
  const take = begin(one);
  publish(one, []);
  const takeOther = begin(other);
  publish(write('old.x'), ['wrong']);
  expect([take(), takeOther()]).toEqual([[], []]);
});

test('a file counts as changed as soon as its note is made', () => {
  const { begin, write, publish } = knownBench();
  const [one, other] = [write('a.x'), write('b.x')];
  const [take, takeOther] = [begin(one), begin(other)];
  take();
  publish(one, ['wrong']);
  expect(takeOther()).toEqual(['a.x: 1, null']);
});

test('what one of two notes of the same text has told is not told again after the other, which knew nothing', () => {
  const { begin, reports, write, publish, change } = acquaintedBench();
  const path = write('a.x');
  const [take, takeOther] = [begin(path), begin(path)];
  publish(path, ['wrong']);
  expect([take(reports.published(path)), takeOther()]).toEqual([[], []]);
  expect(change('b.x')).toEqual([]);
});

test('nothing that was told is forgotten because other things were told since', () => {
  const { known, write, publish, change } = acquaintedBench();
  const path = write('b.x');
  const messages = Array.from({ length: 9 }, (_, number) => `number ${number} is wrong`);
  for (const message of messages) known.tell(path, reportOf([{ message }], null));
  publish(path, messages);
  expect(change('a.x')).toEqual([]);
});

test('what stands in a file twice is news where it was published and answered of it once each, at different places', () => {
  const { known, write, publish, change } = acquaintedBench();
  const path = write('b.x');
  const at = (line: number) => reportOf([{ message: 'wrong', range: { start: { line } } }], null);
  known.tell(path, together(at(1), at(2)));
  publish(path, ['wrong', 'wrong']);
  expect(change('a.x')).toEqual(['b.x: 1, null']);
});

test('what was told of a file that is gone since is news when the file is there again', () => {
  const { reports, write, publish, change } = acquaintedBench();
  const path = write('b.x');
  publish(path, ['wrong']);
  expect(change('a.x')).toEqual(['b.x: 1, null']);
  rmSync(path);
  reports.delete(path);
  expect([change('a.x'), change('a.x')]).toEqual([[], []]);
  publish(write('b.x'), ['wrong']);
  expect(change('a.x')).toEqual(['b.x: 1, null']);
});

test('an edit costs little, however many errors were found in however many files, and whether they are new or not', async () => {
  const { reports, write, change } = knownBench();
  const path = write('a.x');
  const edit = () => change('a.x');
  const find = (what: string) => {
    for (let file = 0; file < 1000; file += 1) {
      reports.publish({ uri: uriOf(`${path}-${file}`), diagnostics: errors(`${what} published`) });
      reports.answer(`${path}-${file}`, reportOf(errors(`${what} answered`), null));
    }
  };
  find('of old');
  edit();
  find('of old');
  edit();
  expect(await cpuMsOf(edit)).toBeLessThan(60);
  find('of new');
  expect(await cpuMsOf(edit)).toBeLessThan(400);
  expect(await cpuMsOf(edit)).toBeLessThan(60);
});

/** As many as are held of a file. */
function errors(what: string): readonly object[] {
  return Array.from({ length: 200 }, (_, number) => ({ message: `number ${number} is ${what}` }));
}
