/** Passages: each is exactly what its offsets cut out, nothing is lost, and none is too long. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import type { Chunk } from '../chunk.ts';
import { markdownBlocks } from '../parsing/markdown.ts';
import { cleaned } from '../parsing/parsed-document.ts';
import { paragraphsOf } from '../parsing/plain-text.ts';
import { codeBlocks } from '../parsing/source-code.ts';
import { chunk } from './chunking.ts';
import { countTokens } from './tokens.ts';

const small = { strategy: 'structure', size: 32, overlap: 8 } as const;
const parsers = { markdown: markdownBlocks, text: paragraphsOf, code: codeBlocks };

const word = fc.oneof(
  fc.stringMatching(/^[a-zA-Z]{1,24}$/),
  fc.constantFrom(
    '資料',
    '漢字かな交じり文',
    '👩‍👩‍👧',
    '🙂🙂',
    'e\u0301',
    'Ünïcödé',
    'Привет',
    '12,345.67',
    '𠜎𠜱',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);
const line = fc.array(word, { maxLength: 30 }).map((words) => words.join(' '));
const piece = fc.oneof(
  { weight: 4, arbitrary: line },
  fc.tuple(fc.constantFrom('#', '##', '###'), line).map(([signs, title]) => `${signs} ${title}`),
  fc.array(line, { minLength: 1, maxLength: 6 }).map((lines) => `\`\`\`\n${lines.join('\n')}\n\`\`\``),
  fc.array(line, { maxLength: 6 }).map((rows) => ['a | b', '--- | ---', ...rows].join('\n')),
  fc.array(line, { maxLength: 6 }).map((items) => items.map((item) => `- ${item}`).join('\n')),
  fc
    .array(line, { maxLength: 6 })
    .map((lines) => ['def f(x):', ...lines.map((one) => `    ${one}`)].join('\n')),
  line.map((title) => `${title}\n===`),
);
const documents = fc.array(piece, { maxLength: 12 }).map((pieces) => cleaned(pieces.join('\n\n')));

const chunkings = fc.record({
  strategy: fc.constantFrom('structure' as const, 'fixed' as const),
  size: fc.integer({ min: 32, max: 120 }),
  overlap: fc.integer({ min: 0, max: 15 }),
});

describe.each(Object.entries(parsers))('of %s', (_kind, blocksOf) => {
  test('each is what its offsets cut out, none is too long, and together they hold all that is not blank', () => {
    fc.assert(
      fc.property(documents, chunkings, (text, chunking) => {
        const characters = [...text];
        const chunks = chunk({ text, blocks: blocksOf(text) }, chunking);
        const seen = new Set<number>();
        for (const { start, end, text: words, ordinal, line: first } of chunks) {
          expect(characters.slice(start, end).join('')).toBe(words);
          expect(words.trim()).not.toBe('');
          expect(countTokens(words)).toBeLessThanOrEqual(chunking.size);
          expect(chunks[ordinal]?.start).toBe(start);
          expect(first).toBe(characters.slice(0, start).filter((one) => one === '\n').length + 1);
          for (let at = start; at < end; at += 1) seen.add(at);
        }
        const lost = characters.filter((one, at) => one.trim() !== '' && !seen.has(at));
        expect(lost).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  test('none repeats more of the one before than was asked for', () => {
    fc.assert(
      fc.property(documents, chunkings, (text, chunking) => {
        const chunks = chunk({ text, blocks: blocksOf(text) }, chunking);
        for (const [index, next] of chunks.entries()) {
          const before = chunks[index - 1];
          if (!before || before.end <= next.start) continue;
          const shared = [...text].slice(next.start, before.end).join('');
          expect(countTokens(shared)).toBeLessThanOrEqual(chunking.overlap);
          expect(next.end).toBeGreaterThan(before.end);
        }
      }),
      { numRuns: 100 },
    );
  });
});

const shown = (chunks: readonly Chunk[]) =>
  chunks.map(({ text, headings, line: first }) => ({ text, headings, first }));

test('a heading stands with what is below it, under those above', () => {
  const text = '# Handbook\n\nHello.\n\n## Holidays\n\nThirty days.\n\nAnd Sundays.\n\n# End\n\nBye.';
  expect(shown(chunk({ text, blocks: markdownBlocks(text) }, small))).toEqual([
    { text: '# Handbook\n\nHello.', headings: ['Handbook'], first: 1 },
    { text: '## Holidays\n\nThirty days.\n\nAnd Sundays.', headings: ['Handbook', 'Holidays'], first: 5 },
    { text: '# End\n\nBye.', headings: ['End'], first: 11 },
  ]);
});

test('what is too long ends at a sentence, and a table between its rows', () => {
  const sentence = 'The quick brown fox jumps over the lazy dog again. ';
  const text = sentence.repeat(8).trim();
  for (const one of chunk({ text, blocks: paragraphsOf(text) }, { ...small, overlap: 0 }))
    expect(one.text.endsWith('again.')).toBe(true);
  const table = Array.from({ length: 30 }, (_, row) => `row ${row} | value ${row}`).join('\n');
  const rows = chunk(
    { text: table, blocks: [{ kind: 'table', start: 0, end: table.length, page: 7 }] },
    { ...small, overlap: 0 },
  );
  expect(rows.length).toBeGreaterThan(3);
  for (const { text: part, page } of rows) {
    expect(part).toMatch(/^row .*\d$/s);
    expect(page).toBe(7);
  }
});

test('blanks without end make no passage of any length, and no passage of their own', () => {
  const text = `needle${' '.repeat(1_000_000)}needle${'\n\t'.repeat(100_000)}needle`;
  for (const strategy of ['structure', 'fixed'] as const) {
    const chunks = chunk({ text, blocks: paragraphsOf(text) }, { strategy, size: 220, overlap: 30 });
    expect(Math.max(...chunks.map(({ text: part }) => part.length))).toBeLessThanOrEqual(220 * 64);
    expect(chunks.map(({ text: part }) => part.trim())).toEqual(Array(chunks.length).fill('needle'));
    for (const { start, end, text: part } of chunks) expect(text.slice(start, end)).toBe(part);
  }
});

test('a megabyte without a space is cut all the same, and soon', async () => {
  const text = '漢'.repeat(300_000) + 'x'.repeat(700_000);
  const spent = await cpuMsOf(() => {
    const chunks = chunk(
      { text, blocks: paragraphsOf(text) },
      { strategy: 'structure', size: 220, overlap: 30 },
    );
    expect(chunks.length).toBeGreaterThan(1000);
  });
  expect(spent).toBeLessThan(10_000);
});
