/** What stands in uploaded files, as it is read for whoever asks: how many at once, and what is kept of failures. */
import { Readable } from 'node:stream';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../log.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { createFileTexts } from './file-texts.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import type { ParsedDocument } from './parsing/parsed-document.ts';
import { createParsers } from './parsing/parsers.ts';

const wanted = { offset: 0, limit: 100, waitMs: 20_000 };

type Options = Parameters<typeof createFileTexts>[0];

const nothingKept: Options['texts'] = {
  find: async () => null,
  read: async () => null,
  keep: async () => 'text',
};

/** Every file is as long as it is said to be, and has bytes of its own. */
const fileOf = async (id: string) => ({
  ...{ organizationId: organizationOf(id), filename: id, size: 1, sha256: id },
  read: async () => ReadableStream.from<Uint8Array>([]),
});

function textsOf(
  parse: (name: string) => Promise<string>,
  { texts = nothingKept, file = fileOf }: Partial<Options> = {},
) {
  const asked: string[] = [];
  const fileTexts = createFileTexts({
    ...{ texts, file },
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
    texts: nothingKept,
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

test('a long text is unpacked once, however many of its pages are asked for', async () => {
  const lines = Array.from({ length: 200_000 }, (_, at) => `${String(at).padEnd(49, '.')}\n`);
  const blocks = lines.map((_, at) => ({ kind: 'paragraph', start: at * 50, end: at * 50 + 49, page: null }));
  const document = { mediaType: 'text/plain', text: lines.join(''), blocks, pages: null };
  const packed = gzipSync(JSON.stringify(document));
  let unpacked = 0;
  const texts: Options['texts'] = {
    ...{ find: async () => 'long', keep: async () => 'long' },
    async read() {
      unpacked += 1;
      return JSON.parse(gunzipSync(packed).toString());
    },
  };
  const { find } = textsOf(async () => '', { texts });
  const page = (at: number) => find('long.txt', { offset: at * 50_000, limit: 50 });
  const cpuMs = await cpuMsOf(async () => {
    const together = await Promise.all([page(0), page(1), page(2)]);
    expect(together.map((part) => part?.text)).toEqual([lines[0], lines[1000], lines[2000]]);
    for (let at = 3; at < 20; at += 1) expect((await page(at))?.text).toBe(lines[at * 1000]);
  });
  expect(unpacked).toBe(1);
  // Once is about 200, and for each page anew it would be 4000.
  expect(cpuMs).toBeLessThan(1000);
});

test('a text that is open is told no more once its file, or what was kept of it, is gone', async () => {
  const there = { file: true, text: true };
  const kept: ParsedDocument = { mediaType: 'text/plain', text: 'Read this.', blocks: [], pages: null };
  const { find } = textsOf(async () => 'Read anew.', {
    file: async (id) => (there.file ? await fileOf(id) : null),
    texts: {
      find: async ({ sha256 }) => (there.text ? sha256 : null),
      read: async <Content>() => kept as Content,
      keep: async ({ sha256 }) => sha256,
    },
  });
  expect(await find('a.txt')).toMatchObject({ text: 'Read this.' });
  there.text = false;
  expect(await find('a.txt')).toMatchObject({ text: 'Read anew.' });
  there.file = false;
  await expect(find('a.txt')).rejects.toMatchObject({ code: 'not_found' });
});
