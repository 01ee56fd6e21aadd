/** What is read from each format, and what becomes of files that are broken, locked, or made to do harm. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { unzipSync, zipSync } from 'fflate';
import { afterAll, expect, test } from 'vitest';
import { createLog } from '../../log.ts';
import { processStat } from '../../process-stat.ts';
import { createParsers } from './parsers.ts';
import {
  makeHtml,
  makeMarkdown,
  makePdf,
  makeSlides,
  makeSpreadsheet,
  makeWord,
  type TestSection,
} from './test-documents.ts';

const log = createLog('silent');
const parsers = createParsers({ processes: 1, log });
const hasty = createParsers({ processes: 1, log, limits: { timeMs: 1000 } });
const impatient = createParsers({ processes: 1, log, limits: { clockMs: 20 } });
const narrow = createParsers({ processes: 1, log, limits: { heapMegabytes: 64 } });
const thin = createParsers({ processes: 1, log, limits: { residentMegabytes: 200 } });

afterAll(async () => {
  await Promise.all([parsers, hasty, impatient, narrow, thin].map((each) => each.close()));
});

const chunking = { strategy: 'structure', size: 64, overlap: 8 } as const;
const never = new AbortController().signal;

async function* once(bytes: Uint8Array | string): AsyncGenerator<Uint8Array> {
  yield typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
}

const read = (bytes: Uint8Array | string, name: string, by = parsers, charset: string | null = null) =>
  by.parse('org', once(bytes), { name, charset }, chunking, never);

const sections: TestSection[] = [
  {
    title: 'Travel',
    paragraphs: ['Book trains (never planes) a week before.', 'Keep the receipts & hand them in.'],
  },
  { title: 'Pay day', paragraphs: ['Money comes on the 25th.'] },
];

const formats = {
  'guide.md': { bytes: makeMarkdown(sections), type: 'text/markdown', pages: null },
  'guide.html': { bytes: makeHtml(sections), type: 'text/html', pages: null },
  'guide.docx': { bytes: makeWord(sections), type: /wordprocessingml/, pages: null },
  'guide.pptx': { bytes: makeSlides(sections), type: /presentationml/, pages: 2 },
  'guide.pdf': { bytes: makePdf(sections), type: 'application/pdf', pages: 2 },
};

test.each(Object.entries(formats))(
  '%s is read with its headings, and pages where it has some',
  async (name, one) => {
    // Its name is not believed.
    const { document, chunks } = await read(one.bytes, name.endsWith('.md') ? name : 'unknown.bin');
    expect(document.mediaType).toMatch(one.type);
    expect(document.pages?.length ?? null).toBe(one.pages);
    expect(chunks.map(({ headings, page }) => ({ headings, page }))).toEqual([
      { headings: ['Travel'], page: one.pages && 1 },
      { headings: ['Pay day'], page: one.pages && 2 },
    ]);
    expect(chunks[0]?.text).toMatch(
      /^(# )?Travel\s+Book trains \(never planes\) a week before\.\s+Keep the receipts & hand/,
    );
    for (const { text, start, end } of chunks)
      expect([...document.text].slice(start, end).join('')).toBe(text);
    expect(document.text).not.toMatch(/hidden|menu|\b7\b/);
  },
);

test('a spreadsheet is read sheet by sheet: numbers, dates, text in its column', async () => {
  const { document } = await read(makeSpreadsheet(sections), 'x.xlsx');
  expect(document.text).toBe(
    'Travel\n\n1 | 2025-12-09 |  | Book trains (never planes) a week before.\n2 | 2025-12-10 |  | Keep the receipts & hand them in.\n\nPay day\n\n1 | 2025-12-09 |  | Money comes on the 25th.',
  );
});

test('what a spreadsheet shows as a time that has passed is none of its dates, nor is a width or a filling', async () => {
  const parts = unzipSync(makeSpreadsheet([{ title: 'Work', paragraphs: [] }]));
  const patterns = ['[h]:mm', '[mm]:ss', '#,##0.00\\ _D_M_-*d', '"Day" 0', 'yyyy\\-mm'];
  const formats = patterns.map(
    (one, at) => `<numFmt numFmtId="${170 + at}" formatCode="${one.replaceAll('"', '&quot;')}"/>`,
  );
  const styles = [46, 170, 171, 172, 173, 174].map((id) => `<xf numFmtId="${id}"/>`);
  const cells = [1.75, 38.5 / 24, -0.5, 1234.5, 7, 46_000].map(
    (value, at) => `<c s="${at}"><v>${value}</v></c>`,
  );
  const bytes = zipSync({
    ...parts,
    'xl/styles.xml': Buffer.from(
      `<styleSheet><numFmts>${formats.join('')}</numFmts><cellXfs>${styles.join('')}</cellXfs></styleSheet>`,
    ),
    'xl/worksheets/sheet1.xml': Buffer.from(
      `<worksheet><sheetData><row>${cells.join('')}</row></sheetData></worksheet>`,
    ),
  });
  const { document } = await read(bytes, 'x.xlsx');
  expect(document.text).toBe('Work\n\n42:00:00 | 38:30:00 | -12:00:00 | 1234.5 | 7 | 2025-12-09');
});

test('a spreadsheet that began on a Mac has its dates in their years', async () => {
  const parts = unzipSync(makeSpreadsheet(sections));
  const workbook = Buffer.from(parts['xl/workbook.xml'] ?? '').toString();
  const counted = workbook.replace('<sheets>', '<workbookPr date1904="1"/><sheets>');
  const bytes = zipSync({ ...parts, 'xl/workbook.xml': Buffer.from(counted) });
  expect((await read(bytes, 'x.xlsx')).document.text).toContain('1 | 2029-12-10 |  | Book');
});

test('a slide is read whatever its links are, and whatever its part is called', async () => {
  const { 'ppt/slides/slide1.xml': first = Buffer.alloc(0), ...parts } = unzipSync(makeSlides(sections));
  const renamed = (name: string) => {
    const relations = Buffer.from(parts[name] ?? '').toString();
    return Buffer.from(relations.replace('slides/slide1.xml', 'slides/Folie ä 1.xml'));
  };
  const links = ['http://', 'https://exa mple.com', 'http://[server]/x'].map(
    (target, at) => `<Relationship Id="r${at}" Type="hyperlink" Target="${target}" TargetMode="External"/>`,
  );
  // As some programs write it, and not as the name within the archive is.
  const notes = '<Relationship Id="n" Type="notesSlide" Target="..\\notesSlides\\notes1.xml"/>';
  const deck = zipSync({
    ...parts,
    'ppt/_rels/presentation.xml.rels': renamed('ppt/_rels/presentation.xml.rels'),
    'ppt/slides/Folie ä 1.xml': first,
    'ppt/slides/_rels/slide2.xml.rels': Buffer.from(
      `<Relationships>${links.join('')}${notes}</Relationships>`,
    ),
    'ppt/notesSlides/notes1.xml': first,
  });
  const { document } = await read(deck, 'x.pptx');
  expect(document.text.match(/Book trains/g)).toHaveLength(2);
  expect(document.pages).toHaveLength(2);
});

test('a table of commas or semicolons is read row by row', async () => {
  const { document } = await read('name;town\r\n"Ada; L.";London\r\n', 'people.csv');
  expect(document.text).toBe('name | town\nAda; L. | London');
});

test('tables, lists and deleted words of a DOCX', async () => {
  const cell = (text: string) => `<w:tc><w:p><w:r><w:t>${text}</w:t></w:r></w:p></w:tc>`;
  const table = `<w:tbl><w:tr>${cell('City')}${cell('Fare')}</w:tr><w:tr>${cell('Ulm')}${cell('12')}</w:tr></w:tbl>`;
  const item = '<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>First</w:t></w:r></w:p>';
  const changed = '<w:p><w:del><w:r><w:t>gone</w:t></w:r></w:del><w:r><w:t>here</w:t></w:r></w:p>';
  const { document } = await read(makeWord([], table + item + changed), 'x.docx');
  expect(document.text).toBe('City | Fare\nUlm | 12\n\n- First\n\nhere');
  expect(document.blocks.map(({ kind }) => kind)).toEqual(['table', 'paragraph', 'paragraph']);
});

test('of words that were moved the last place counts, and a text box leaves the paragraph around it whole', async () => {
  const run = (text: string) => `<w:r><w:t>${text}</w:t></w:r>`;
  const moved = `<w:p><w:moveFrom>${run('moved')}</w:moveFrom>${run('stays')}</w:p><w:p><w:moveTo>${run('moved')}</w:moveTo></w:p>`;
  const paper = '<w:p><w:r><w:t>A4</w:t><w:noBreakHyphen/><w:t>page</w:t></w:r></w:p>';
  const box = `<w:r><w:txbxContent><w:p>${run('In a box')}</w:p></w:txbxContent></w:r>`;
  const heading = `<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr>${run('Chapter ')}${box}${run('two')}</w:p>`;
  const { document } = await read(makeWord([], moved + paper + heading), 'x.docx');
  expect(document.text).toBe('stays\n\nmoved\n\nA4-page\n\nIn a box\n\nChapter two');
  expect(document.blocks.at(-1)).toMatchObject({ kind: 'heading', title: 'Chapter two' });
});

test('a text that has a word about PDF at its head is no PDF', async () => {
  const { document } = await read('# Files\n\nA PDF begins with `%PDF-1.7`.\n', 'files.md');
  expect(document.blocks.map(({ kind }) => kind)).toEqual(['heading', 'paragraph']);
  for (const before of [Buffer.from([0xff, 0x0a]), Buffer.from('\ufeff\n')]) {
    const { document } = await read(Buffer.concat([before, makePdf(sections)]), 'x.bin');
    expect(document.pages).toHaveLength(2);
  }
});

test.each([
  ['blanks, as plain text', 'x.txt', `a\n${' '.repeat(1_000_000)}\nb`, 2],
  ['blanks in a line, as Markdown', 'x.md', `# a${' '.repeat(1_000_000)}b`, 1],
  ['blanks before another kind of line end, as Markdown', 'x.md', `#${' '.repeat(1_000_000)}\u2028b`, 1],
  ['blanks that stand as they are, as HTML', 'x.html', `<html><pre>a${' '.repeat(1_000_000)}b</pre>`, 1],
  ['dashes under a line, as Markdown', 'x.md', `a | b\n${'-'.repeat(1_000_000)}x`, 1],
])('a million %s cost no more than their length', async (_, name, text, blocks) => {
  expect((await read(text, name)).document.blocks).toHaveLength(blocks);
});

test.each([
  ['# One', 'One'],
  ['## Two ##', 'Two'],
  ['# C#', 'C#'],
  ['# #', ''],
  ['###', ''],
  ['#\tTabs\t#\t', 'Tabs'],
])('%j is a heading of Markdown, %j', async (line, title) => {
  expect((await read(`${line}\n\nText.`, 'x.md')).document.blocks[0]).toMatchObject({
    kind: 'heading',
    title,
  });
});

test('rows of a table with cells that are empty stay rows, and take no time', async () => {
  const rows = [
    ['North', 'Ulm', '12'],
    ['', 'Bonn', '7'],
    ['', 'Kiel', '9'],
    [...Array<string>(60).fill(''), 'last'],
    Array<string>(60).fill(''),
  ];
  const expected = ['North | Ulm | 12', ' | Bonn | 7', ' | Kiel | 9', `${' | '.repeat(60)}last`].join('\n');
  const tableOf = (space: 'w' | 'a', cell: (text: string) => string) =>
    `<${space}:tbl>${rows.map((row) => `<${space}:tr>${row.map(cell).join('')}</${space}:tr>`).join('')}</${space}:tbl>`;
  const words = tableOf('w', (text) => `<w:tc><w:p><w:r><w:t>${text}</w:t></w:r></w:p></w:tc>`);
  expect((await read(makeWord([], words), 'x.docx')).document.text).toBe(expected);
  const slide = tableOf(
    'a',
    (text) => `<a:tc><a:txBody><a:p><a:r><a:t>${text}</a:t></a:r></a:p></a:txBody></a:tc>`,
  );
  const page = `<html><table>${rows.map((row) => `<tr>${row.map((text) => `<td>${text}`).join('')}`).join('')}</table>`;
  expect((await read(page, 'x.html')).document.text).toBe(expected);
  const parts = unzipSync(makeSlides([{ title: '', paragraphs: [] }]));
  const deck = zipSync({ ...parts, 'ppt/slides/slide1.xml': Buffer.from(`<p:sld>${slide}</p:sld>`) });
  expect((await read(deck, 'x.pptx')).document.text).toBe(expected);
});

test('a table in a cell is words of that cell', async () => {
  const paragraph = (text: string) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`;
  const cell = (inner: string) => `<w:tc>${inner}</w:tc>`;
  const inner = `<w:tbl><w:tr>${cell(paragraph('a'))}${cell(paragraph('b'))}</w:tr></w:tbl>`;
  const table = `<w:tbl><w:tr>${cell(inner)}${cell(paragraph('c'))}</w:tr></w:tbl>`;
  const { document } = await read(makeWord([], table), 'x.docx');
  expect(document.text).toBe('a | b | c');
});

test.skipIf(process.platform !== 'linux').each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'what is being read is read to its end where %s reaches the whole group of the server',
  async (signal) => {
    // One that is being started is not deaf to them yet: the document would be read again.
    await read('# Warm', 'x.md');
    const text = Array.from({ length: 150_000 }, (_, at) => `${at};one;two;three`).join('\n');
    const before = await readers();
    const reading = read(text, 'numbers.csv');
    const busy = async () =>
      [...(await readers())].flatMap(([pid, cpuMs]) => (cpuMs > (before.get(pid) ?? 0) + 200 ? [pid] : []));
    await expect.poll(busy, { timeout: 20_000, interval: 20 }).not.toEqual([]);
    for (const pid of await busy()) process.kill(pid, signal);
    expect((await reading).document.text.startsWith('0 | one | two | three')).toBe(true);
  },
);

test.skipIf(process.platform !== 'linux')(
  'a reader whose server has died without a word in the middle of a long document does not go on without an end',
  async () => {
    const server = execFile(process.execPath, ['--input-type=module', '-e', long]);
    const busy = async () => [...(await readers(server.pid))].find(([, cpuMs]) => cpuMs > 500)?.[0];
    await expect.poll(busy, { timeout: 60_000, interval: 20 }).toBeDefined();
    const reader = (await busy()) ?? 0;
    server.kill('SIGKILL');
    let used = 0;
    const hasEnded = () => {
      const use = processStat(reader);
      used = Math.max(used, use?.cpuMs ?? 0);
      return use?.ended ?? true;
    };
    await expect.poll(hasEnded, { timeout: 100_000, interval: 50 }).toBe(true);
    // The whole of it takes more than twice as long.
    expect(used).toBeLessThan(7000);
  },
);

test.skipIf(process.platform !== 'linux')(
  'a document whose reader a signal has ended while it was started is read again, and not broken for good',
  async () => {
    const endedAtStart = async () => {
      const before = await readers();
      const fresh = createParsers({ processes: 1, log });
      try {
        const reading = read('# Soon', 'x.md', fresh).then(
          () => null,
          (error: unknown) => error,
        );
        const started = async () => [...(await readers()).keys()].find((pid) => !before.has(pid));
        await expect.poll(started, { interval: 1 }).toBeDefined();
        process.kill((await started()) ?? 0, 'SIGTERM');
        const failure = await reading;
        expect((await read('# Soon', 'x.md', fresh)).chunks).toHaveLength(1);
        return failure;
      } finally {
        await fresh.close();
      }
    };
    // On a busy machine it may be past its start by then.
    let failure: unknown = null;
    for (let tries = 0; tries < 10 && failure === null; tries += 1) failure = await endedAtStart();
    expect(failure).toMatchObject({ code: 'overloaded' });
  },
);

test.skipIf(process.platform !== 'linux')(
  'a reader yields to others once it has used much of the processor, and not while it is started',
  async () => {
    const others = await readers();
    const fresh = createParsers({ processes: 1, log });
    /** Of all of its threads. */
    const priorities = async () => {
      const [pid] = [...(await readers()).keys()].filter((one) => !others.has(one));
      return new Set((await readdir(`/proc/${pid}/task`)).map((thread) => getPriority(Number(thread))));
    };
    try {
      await read('# Soon', 'x.md', fresh);
      expect(await priorities()).toEqual(new Set([getPriority()]));
      const rows = `a,b\n${'"x",1\n'.repeat(400_000)}`;
      for (let count = 0; count < 20 && !(await priorities()).has(10); count += 1)
        await read(rows, 'x.csv', fresh);
      expect(await priorities()).toEqual(new Set([10]));
    } finally {
      await fresh.close();
    }
  },
);

test.skipIf(process.platform !== 'linux')(
  'a reader that has used much of its life goes before it could be stopped in the middle of something',
  async () => {
    const young = createParsers({ processes: 1, log, limits: { timeMs: 1500 } });
    const others = await readers();
    const own = new Set<number>();
    try {
      for (let count = 0; count < 300 && own.size < 2; count += 1) {
        await read(`a,b\n${'"x",1\n'.repeat(30_000)}`, 'x.csv', young);
        for (const pid of (await readers()).keys()) if (!others.has(pid)) own.add(pid);
      }
      expect(own.size).toBe(2);
    } finally {
      await young.close();
    }
  },
);

/** The processes of a server, this one if none is named, that read documents, with what they have computed. */
async function readers(server = process.pid): Promise<Map<number, number>> {
  const all = (await readdir('/proc')).map(Number).filter((pid) => pid > 0);
  const found = await Promise.all(
    all.map(async (pid): Promise<[number, number][]> => {
      const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const use = processStat(pid);
      return words.includes('parsing-process') && use?.parent === server ? [[pid, use.cpuMs]] : [];
    }),
  );
  return new Map(found.flat());
}

test('source code is cut at its definitions, and keeps its lines', async () => {
  const body = (name: string) => `function ${name}() {\n${'  work(1, 2, 3);\n'.repeat(5)}}`;
  const { chunks } = await read(`${body('one')}\n\n${body('two')}\n\n${body('three')}\n`, 'work.js');
  expect(chunks.map(({ text, line }) => [text.slice(9, 12), line])).toEqual([
    ['one', 1],
    ['two', 9],
    ['thr', 17],
  ]);
});

test('a text in UTF-8 with a broken byte in it stays in UTF-8', async () => {
  const bytes = Buffer.concat([
    Buffer.from('Привет, Café – naïve\n'),
    Buffer.from([0xe9]),
    Buffer.from(' übrig\n'),
  ]);
  const { document } = await read(bytes, 'broken.txt');
  expect(document.text).toBe('Привет, Café – naïve\n\ufffd übrig\n');
});

test('text of old programs and with other line ends is read as what people see', async () => {
  const { document } = await read(Buffer.from('Caf\xe9\r\nna\xefve\r', 'latin1'), 'old.txt');
  expect(document.text).toBe('Café\nnaïve\n');
  const wide = await read(Buffer.from('\ufeffZwei Wörter', 'utf16le'), 'wide.txt');
  expect(wide.document.text).toBe('Zwei Wörter');
});

/** "Привет", as programs of Windows wrote it. */
const cyrillic = Buffer.from('cff0e8e2e5f2', 'hex');
const page = (head: string, body: Uint8Array | string) =>
  Buffer.concat([Buffer.from(`<html><head>${head}</head><body><p>`), Buffer.from(body)]);

const encoded: [string, string, string | null, Uint8Array, string][] = [
  ['a page that says it itself', 'x.html', null, page('<meta charset="windows-1251">', cyrillic), 'Привет'],
  [
    'a page that says it as old ones do',
    'unknown.bin',
    null,
    page("<META http-equiv='Content-Type' content='text/html; charset=cp1251'>", cyrillic),
    'Привет',
  ],
  [
    'XML that declares it',
    'x.xml',
    null,
    Buffer.concat([Buffer.from("<?xml version='1.0' encoding='windows-1251'?>\n<a>"), cyrillic]),
    "<?xml version='1.0' encoding='windows-1251'?>\n<a>Привет",
  ],
  ['what its server says', 'x.txt', 'windows-1251', cyrillic, 'Привет'],
  ['Japanese', 'x.txt', 'shift_jis', Buffer.from('82b182f182c982bf82cd', 'hex'), 'こんにちは'],
  ['Chinese', 'x.txt', 'gbk', Buffer.from('c4e3bac3', 'hex'), '你好'],
  ['Korean', 'x.txt', 'euc-kr', Buffer.from('bec8b3e7', 'hex'), '안녕'],
  ['UTF-16 without a mark', 'x.txt', 'utf-16le', Buffer.from('Wörter', 'utf16le'), 'Wörter'],
  ['its server before itself', 'x.html', 'windows-1251', page('<meta charset="koi8-r">', cyrillic), 'Привет'],
  ['its mark before its server', 'x.txt', 'windows-1251', Buffer.from('\ufeffПривет'), 'Привет'],
  ['a name that nobody knows', 'x.html', null, page('<meta charset="klingon">', 'Привет'), 'Привет'],
  [
    'such a name for letters of old programs',
    'x.html',
    null,
    page('<meta charset="klingon">', Buffer.from('Caf\xe9', 'latin1')),
    'Café',
  ],
  [
    'a page that still says what it was before, in a comment',
    'x.html',
    null,
    page('<!-- <meta charset="koi8-r"> -->', 'Привет'),
    'Привет',
  ],
  [
    'text that tells of a page',
    'x.md',
    null,
    Buffer.from('`<meta charset="koi8-r">` Привет'),
    '`<meta charset="koi8-r">` Привет',
  ],
  [
    'XML that was UTF-16 once',
    'x.xml',
    null,
    Buffer.from('<?xml version="1.0" encoding="utf-16"?>\n<a>Привет'),
    '<?xml version="1.0" encoding="utf-16"?>\n<a>Привет',
  ],
  [
    'a server that says UTF-8 of everything',
    'x.html',
    'utf-8',
    page('<meta charset="windows-1251">', cyrillic),
    'Привет',
  ],
  ['such a server, of text', 'x.txt', 'utf-8', Buffer.from('Caf\xe9', 'latin1'), 'Café'],
  [
    'UTF-8 that broke at one place',
    'x.txt',
    'utf-8',
    Buffer.concat([Buffer.from('Привет'), Buffer.from([0xff])]),
    'Привет\ufffd',
  ],
  [
    'UTF-8 whose letters were lost before',
    'x.html',
    'utf-8',
    page('<meta charset="windows-1251">', 'It\ufffds lost'),
    'It\ufffds lost',
  ],
];

test.each(encoded)('%s is read in the encoding that is said', async (_what, name, charset, bytes, text) => {
  expect((await read(bytes, name, parsers, charset)).document.text).toBe(text);
});

test('what is said to be text is still none where its bytes are not', async () => {
  const bytes = Buffer.from(Array.from({ length: 3000 }, (_, at) => (at % 255) + 1));
  await expect(read(bytes, 'x.txt', parsers, 'windows-1251')).rejects.toMatchObject({
    code: 'unsupported_type',
  });
});

const compound = Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1]);

const refused: [string, () => Uint8Array | string, string][] = [
  ['nothing', () => '', 'empty'],
  ['blank text', () => ' \n\n ', 'empty'],
  ['a picture', () => Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex'), 'unsupported_type'],
  ['a file of an old office', () => Buffer.concat([compound, Buffer.alloc(600)]), 'unsupported_type'],
  [
    'a locked office file',
    () => Buffer.concat([compound, Buffer.alloc(600), Buffer.from('EncryptedPackage', 'utf16le')]),
    'password_protected',
  ],
  ['a plain archive', () => zipSync({ 'a.txt': Buffer.from('a') }), 'unsupported_type'],
  ['half a DOCX', () => makeWord(sections).subarray(0, 400), 'malformed'],
  ['half a PDF', () => makePdf(sections).subarray(0, 300), 'malformed'],
  ['a PDF of nothing but its name', () => '%PDF-1.7\n', 'malformed'],
  [
    'a bomb of one part',
    () => zipSync({ 'word/document.xml': new Uint8Array(9 * 1024 * 1024) }),
    'too_large',
  ],
  [
    'a bomb of many parts',
    () => {
      const parts = Array.from({ length: 10_001 }, (_, at) => [`p${at}`, new Uint8Array()]);
      return zipSync(Object.fromEntries(parts), { level: 0 });
    },
    'too_large',
  ],
  ['XML that stands too deep', () => makeWord([], '<w:p>'.repeat(3000)), 'malformed'],
  ['a page of nothing but its depth', () => `<html>${'<div>'.repeat(5000)}x`, 'malformed'],
];

test.each(refused)(
  '%s is refused with a reason',
  async (_what, bytes, code) => {
    await expect(read(bytes(), 'x')).rejects.toMatchObject({ name: 'ParseFailure', code });
  },
  30_000,
);

test('a small text of very many passages is refused', async () => {
  const headings = '# a\nb\n'.repeat(60_001);
  await expect(read(headings, 'x.md')).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringContaining('60000 passages'),
  });
  const { document } = await parsers.parse(
    'org',
    once(headings),
    { name: 'x.md', charset: null },
    null,
    never,
  );
  await expect(parsers.chunk('org', document, chunking, never)).rejects.toMatchObject({ code: 'too_large' });
  expect((await read(headings.slice(0, -6), 'x.md')).chunks).toHaveLength(60_000);
});

test('of very many short paragraphs neighbours become one, and nothing is lost', async () => {
  const text = 'a\n\n'.repeat(400_000);
  const { document, chunks } = await read(text, 'x.txt');
  expect(document.text).toBe(text);
  expect(document.blocks.length).toBeLessThan(10_000);
  expect(
    chunks.map((one) => one.text.replaceAll(/\s/g, '').length).reduce((sum, one) => sum + one),
  ).toBeGreaterThan(399_999);
  // Headings stay what they are: more than a document has are refused, also where nothing is cut.
  const headings = parsers.parse(
    'org',
    once('# a\n'.repeat(200_001)),
    { name: 'x.md', charset: null },
    null,
    never,
  );
  await expect(headings).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringContaining('200000 headings'),
  });
});

test('no part of an archive is written anywhere, wherever its name or its kind leads', async () => {
  const outside = join(tmpdir(), `outside-${process.pid}.txt`);
  const link: [Uint8Array, { os: number; attrs: number }] = [
    Buffer.from(outside),
    // What Unix has for a symbolic link.
    { os: 3, attrs: 0o120777 << 16 },
  ];
  const parts = unzipSync(makeWord(sections));
  const up = `${'../'.repeat(20)}${outside.slice(1)}`;
  const { document } = await read(
    zipSync({ ...parts, [up]: Buffer.from('x'), [outside]: Buffer.from('x'), 'word/link.xml': link }),
    'x.docx',
  );
  expect(document.text).toContain('Travel');
  expect(existsSync(outside)).toBe(false);
});

test('a PDF of 10,000 pages fails by itself, and the next one is read', async () => {
  const page = { title: 'x', paragraphs: [] };
  const many = makePdf(Array.from({ length: 10_000 }, () => page));
  await expect(read(many, 'x.pdf')).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringContaining('10000 pages'),
  });
  expect((await read('# Next', 'x.md')).chunks).toHaveLength(1);
});

test.each([
  ['too long', hasty, /longer than 1 seconds/],
  ['too much memory for its objects', narrow, /too much memory/],
  ['too much memory in all', thin, /too much memory/],
])('what takes %s is stopped, and the next one is read', async (_, limited, message) => {
  const wide = `a,b\n${'"x",1\n'.repeat(1_500_000)}`;
  const refused = { code: 'too_slow', message: expect.stringMatching(message) };
  await expect(read(wide, 'x.csv', limited)).rejects.toMatchObject(refused);
  expect((await read('# Next', 'x.md', limited)).chunks).toHaveLength(1);
});

test('what waits for what never comes is stopped by the clock', async () => {
  await expect(read('# Soon', 'x.md', impatient)).rejects.toMatchObject({
    code: 'too_slow',
    message: expect.stringMatching(/longer than 0\.02 seconds/),
  });
});

test('what nobody wants any more does not wait for bytes that do not come', async () => {
  const asked = Promise.withResolvers<void>();
  const silent = async function* (): AsyncGenerator<Uint8Array> {
    asked.resolve();
    await new Promise(() => undefined);
    yield Buffer.from('never');
  };
  const unwanted = new AbortController();
  const reading = parsers.parse('org', silent(), { name: 'x.md', charset: null }, chunking, unwanted.signal);
  await asked.promise;
  unwanted.abort(new Error('It was cancelled.'));
  await expect(reading).rejects.toThrow('It was cancelled.');
  expect((await read('# Next', 'x.md')).chunks).toHaveLength(1);
});

test('what nobody wants any more is stopped in its middle, and waits for nobody', async () => {
  const reason = new Error('It was cancelled.');
  const sent = Promise.withResolvers<void>();
  const long = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`a,b\n${'"x",1\n'.repeat(1_500_000)}`);
    sent.resolve();
  };
  const [first, second] = [new AbortController(), new AbortController()];
  const reading = parsers.parse('org', long(), { name: 'x.csv', charset: null }, chunking, first.signal);
  const waiting = parsers.parse(
    'org',
    once('# Next'),
    { name: 'x.md', charset: null },
    chunking,
    second.signal,
  );
  second.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  await sent.promise;
  first.abort(reason);
  await expect(reading).rejects.toBe(reason);
  // By another process: that one is in no state to go on.
  expect((await read('# Next', 'x.md')).chunks).toHaveLength(1);
});

/** A server whose reader may have six seconds of the processor, and reads what takes more than twice as long. */
const long = `
  import { createLog } from ${JSON.stringify(join(import.meta.dirname, '../../log.ts'))};
  import { createParsers } from ${JSON.stringify(join(import.meta.dirname, 'parsers.ts'))};
  import { makePdf } from ${JSON.stringify(join(import.meta.dirname, 'test-documents.ts'))};
  const page = { title: 'x', paragraphs: Array(60).fill('Many words that stand in a line of a page. '.repeat(2)) };
  setInterval(() => undefined, 1000);
  await createParsers({ processes: 1, log: createLog('silent'), limits: { timeMs: 2000 } })
    .parse('org', [makePdf(Array(4500).fill(page))], { name: 'x.pdf', charset: null }, null, AbortSignal.timeout(60_000));
`;

/** In a process that may have few files open: it reads a document with none left, and again with some. */
const starved = `
  import { closeSync, openSync } from 'node:fs';
  import { createLog } from ${JSON.stringify(join(import.meta.dirname, '../../log.ts'))};
  import { createParsers } from ${JSON.stringify(join(import.meta.dirname, 'parsers.ts'))};
  const parsers = createParsers({ processes: 1, log: createLog('silent') });
  const read = () =>
    parsers
      .parse('org', [Buffer.from('# Next')], { name: 'x.md', charset: null }, null, AbortSignal.timeout(60_000))
      .then(({ document }) => document.text, ({ code, message, cause }) => code + ' ' + cause?.code);
  // Nothing of the parsers does.
  const staysAlive = setInterval(() => undefined, 1000);
  const held = [];
  try {
    for (;;) held.push(openSync('/dev/null', 'r'));
  } catch {}
  const first = await read();
  for (const one of held) closeSync(one);
  const second = await read();
  await parsers.close();
  clearInterval(staysAlive);
  process.stdout.write(JSON.stringify([first, second]));
`;

test.skipIf(process.platform === 'win32')(
  'a process that cannot be started keeps nobody from the next one',
  async () => {
    const { stdout } = await promisify(execFile)(
      'sh',
      [...['-c', 'ulimit -n 80 && exec "$0" --input-type=module -e "$1"'], ...[process.execPath, starved]],
      { timeout: 30_000 },
    );
    expect(JSON.parse(stdout)).toEqual(['overloaded EMFILE', '# Next']);
  },
);
