/** Files as people have them: any number of generated ones in each format that is read, broken ones among them, and a few real ones. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  makeHtml,
  makeMarkdown,
  makePdf,
  makeSlides,
  makeSpreadsheet,
  makeWord,
  type TestSection,
} from './knowledge/parsing/test-documents.ts';

export interface SampleFile {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** A word that no other file has; null where nothing can be read. */
  readonly word: string | null;
}

const makers: Readonly<Record<string, (sections: readonly TestSection[]) => Uint8Array>> = {
  txt: (sections) => encoded(plain(sections)),
  md: makeMarkdown,
  html: makeHtml,
  pdf: makePdf,
  docx: makeWord,
  xlsx: makeSpreadsheet,
  csv: (sections) => encoded(['title,text', ...rowsOf(sections)].join('\n')),
  pptx: makeSlides,
  ts: (sections) => encoded(sections.map(sourceOf).join('\n\n')),
  py: (sections) =>
    encoded(sections.map(({ title, paragraphs }) => `# ${title}\n${script(paragraphs)}`).join('\n')),
};

const formats = Object.keys(makers);
/** Of so many files one is broken, in each format in turn that can be. */
const oneBrokenOf = 23;

/** The same file for the same number, always. */
export function sampleFile(number: number): SampleFile {
  const isBroken = number % oneBrokenOf === oneBrokenOf - 1;
  const format = isBroken ? ['pdf', 'docx', 'xlsx', 'pptx'][number % 4] : formats[number % formats.length];
  const make = makers[format ?? 'txt'] ?? makeMarkdown;
  const word = `sample${number}word`;
  const bytes = make(sectionsOf(number, word));
  return {
    name: `sample-${number}.${format}`,
    bytes: isBroken ? bytes.subarray(0, bytes.length / 3) : bytes,
    word: isBroken ? null : word,
  };
}

/** So many of them that can be read. */
export function readableFiles(count: number): SampleFile[] {
  const files: SampleFile[] = [];
  for (let number = 0; files.length < count; number += 1) {
    const file = sampleFile(number);
    if (file.word !== null) files.push(file);
  }
  return files;
}

const warmUp = 1_000_000;

/** One of each format, and none of those above. */
export function warmUpFiles(): SampleFile[] {
  return formats.map((_, at) => sampleFile(warmUp + at)).filter(({ word }) => word !== null);
}

const realFolder = join(import.meta.dirname, 'knowledge/parsing/real-files');

/** Made by programs that people use: its README tells by which. */
export function realFiles(): SampleFile[] {
  return readdirSync(realFolder)
    .filter((name) => name !== 'README.md')
    .map((name) => ({
      name,
      bytes: readFileSync(join(realFolder, name)),
      // The name of each file stands in it, written as one word.
      word: name.replace(/\..*/, '').replaceAll('-', ''),
    }));
}

const things = [
  'the harbour',
  'a lantern',
  'our archive',
  'the winter road',
  'a quiet engine',
  'the orchard',
];
const deeds = ['was mended', 'is kept', 'was counted', 'is lent', 'was drawn', 'is watched'];
const places = ['by the river', 'above the town', 'behind the mill', 'at the border', 'near the station'];
const times = [
  'in spring',
  'before noon',
  'every other year',
  'since the fire',
  'without a word',
  'by its keeper',
];

/** Two to five sections of two paragraphs each: one to four passages. */
function sectionsOf(number: number, word: string): TestSection[] {
  return Array.from({ length: 2 + (number % 4) }, (_, section) => ({
    title: `Chapter ${section + 1} of ${word}`,
    paragraphs: [0, 1].map((paragraph) =>
      Array.from({ length: 6 }, (_unused, at) =>
        sentence(number * 7 + section * 5 + paragraph * 3 + at),
      ).join(' '),
    ),
  }));
}

function sentence(seed: number): string {
  const pick = (words: readonly string[], step: number) => words[Math.trunc(seed / step) % words.length];
  return `In report ${seed} ${pick(things, 1)} ${pick(deeds, 2)} ${pick(places, 3)} ${pick(times, 5)}.`;
}

function plain(sections: readonly TestSection[]): string {
  return sections.flatMap(({ title, paragraphs }) => [title, ...paragraphs]).join('\n\n');
}

function rowsOf(sections: readonly TestSection[]): string[] {
  return sections.flatMap(({ title, paragraphs }) => paragraphs.map((text) => `"${title}","${text}"`));
}

function sourceOf({ title, paragraphs }: TestSection, index: number): string {
  const lines = paragraphs.map((text) => `  // ${text}`);
  return `/** ${title} */\nexport function chapter${index}(): void {\n${lines.join('\n')}\n}`;
}

function script(paragraphs: readonly string[]): string {
  return paragraphs.map((text, at) => `def part_${at}():\n    return """${text}"""\n`).join('\n');
}

function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
