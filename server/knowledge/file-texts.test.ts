/** What stands in uploaded files, as it is read for whoever asks: how many at once, and what is kept of failures. */
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../log.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { createFileTexts } from './file-texts.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import { createParsers } from './parsing/parsers.ts';

const wanted = { offset: 0, limit: 100, waitMs: 20_000 };

/** Every file is as long as it is said to be, and has bytes of its own. */
function textsOf(parse: (name: string) => Promise<string>) {
  const asked: string[] = [];
  const fileTexts = createFileTexts({
    file: async (id) => ({
      ...{ organizationId: organizationOf(id), filename: id, size: 1, sha256: id },
      read: async () => ReadableStream.from<Uint8Array>([]),
    }),
    texts: { find: async () => null, keep: async () => 'text' },
    parsers: {
      async parse(_organization, _content, { name }) {
        asked.push(name ?? '');
        const text = await parse(name ?? '');
        return { document: { mediaType: 'text/plain', text, pages: null, blocks: [] }, chunks: [] };
      },
    },
  });
  onTestFinished(() => fileTexts.close());
  return { find: (id: string, more = {}) => fileTexts.find(id, { ...wanted, ...more }), asked };
}

/** Ten files each: more of one are refused. */
const organizationOf = (name: string) => `org-${Math.floor(Number(/\d+/.exec(name)?.[0] ?? 1000) / 10)}`;

const names = (count: number) => Array.from({ length: count }, (_, at) => `file-${at}.pdf`);

test('files that cannot be read hold up nobody who asks for another', async () => {
  const { find, asked } = textsOf(async (name) => {
    if (name === 'good.txt') return 'It is good.';
    throw new ParseFailure('malformed', 'It is broken.');
  });
  const broken = names(100);
  const answers = await Promise.allSettled(broken.map((name) => find(name)));
  const refused = { status: 'rejected', reason: { code: 'file_unreadable', message: 'It is broken.' } };
  for (const answer of answers) expect(answer).toMatchObject(refused);
  expect(await find('good.txt')).toMatchObject({ text: 'It is good.' });
  // Why they cannot be read is told without reading them once more.
  await expect(find('file-7.pdf')).rejects.toMatchObject(refused.reason);
  expect(asked).toEqual([...broken, 'good.txt']);
});

test('of more failures than are kept the oldest are forgotten', async () => {
  const { find, asked } = textsOf(() => Promise.reject(new ParseFailure('malformed', 'It is broken.')));
  for (const name of names(1001)) await expect(find(name)).rejects.toThrow('broken');
  await expect(find('file-1.pdf')).rejects.toThrow('broken');
  expect(asked).toHaveLength(1001);
  await expect(find('file-0.pdf')).rejects.toThrow('broken');
  expect(asked).toHaveLength(1002);
});

test('more than a hundred that are being read at once are refused', async () => {
  const released = Promise.withResolvers<string>();
  const { find } = textsOf(() => released.promise);
  const reading = names(100).map((name) => find(name));
  await expect(find('more.pdf')).rejects.toMatchObject({ code: 'overloaded' });
  released.resolve('Done.');
  await Promise.all(reading);
  expect(await find('more.pdf')).toMatchObject({ text: 'Done.' });
});

test('whoever leaves waits no longer, and the file is read once for all others', async () => {
  const released = Promise.withResolvers<string>();
  const { find, asked } = textsOf(() => released.promise);
  const leaving = new AbortController();
  const left = find('shared.txt', { signal: leaving.signal });
  const other = find('shared.txt');
  await expect.poll(() => asked).toHaveLength(1);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  released.resolve('Done.');
  expect(await other).toMatchObject({ text: 'Done.' });
  expect(asked).toHaveLength(1);
});

test('an organization that has ten being read is refused more, and no other is', async () => {
  const released = Promise.withResolvers<string>();
  const { find } = textsOf(() => released.promise);
  const reading = names(10).map((name) => find(name));
  await expect(find('more-7.pdf')).rejects.toMatchObject({ code: 'overloaded' });
  reading.push(find('file-10.pdf'));
  released.resolve('Done.');
  await Promise.all(reading);
  expect(await find('more-7.pdf')).toMatchObject({ text: 'Done.' });
});

test('a file waits for one of another organization, however many that one has brought', async () => {
  const parsers = createParsers({ processes: 1, log: createLog('silent') });
  const asked = Promise.withResolvers<void>();
  const begun: string[] = [];
  const fileTexts = createFileTexts({
    file: async (id) => ({
      ...{ organizationId: id.slice(0, 1), filename: id, size: 1, sha256: id },
      async read() {
        begun.push(id);
        await asked.promise;
        return Readable.from([Buffer.from(`This is ${id}.`)]);
      },
    }),
    texts: { find: async () => null, keep: async () => 'text' },
    parsers,
  });
  onTestFinished(async () => {
    await fileTexts.close();
    await parsers.close();
  });
  const patient = { ...wanted, waitMs: 100_000 };
  const many = ['a1.txt', 'a2.txt', 'a3.txt', 'a4.txt'].map((id) => fileTexts.find(id, patient));
  await expect.poll(() => begun).toHaveLength(1);
  const short = fileTexts.find('b.txt', patient);
  await expect.poll(() => fileTexts.queue().waiting).toBe(5);
  asked.resolve();
  expect(await short).toMatchObject({ text: 'This is b.txt.' });
  await Promise.all(many);
  expect(begun).toEqual(['a1.txt', 'a2.txt', 'b.txt', 'a3.txt', 'a4.txt']);
});

test('however many lines a text has, a part of it is found without an object for each', async () => {
  const line = 'é😀\n';
  const text = line.repeat(2_000_000);
  const { find } = textsOf(async () => text);
  const cpuMs = await cpuMsOf(async () => {
    expect(await find('lines.txt')).toMatchObject({
      characters: 6_000_000,
      text: `${line.repeat(33)}é`,
    });
  });
  expect(cpuMs).toBeLessThan(500);
});
