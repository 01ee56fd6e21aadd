/** Documents name files by their paths: what is moved or renamed must be renamed in them too. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { dirname, join, matchesGlob, posix } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const { stdout } = await promisify(execFile)('git', ['ls-files'], { cwd: root, maxBuffer: 16 * 1024 * 1024 });
const files = stdout.split('\n').filter((file) => file !== '');
const fileNames = new Set(files.map((file) => posix.basename(file)));
const folders = new Set(files.flatMap((file) => foldersAbove(file)));
const topFolders = new Set([...folders].filter((folder) => !folder.includes('/')));

function foldersAbove(file: string): string[] {
  const folder = dirname(file);
  return folder === '.' ? [] : [folder, ...foldersAbove(folder)];
}

const documents = files.filter((file) => file.startsWith('docs/') || /^[A-Z]+\.md$/.test(file));
const generated = /(^|\/)(generated|contract)(\/|$)/;

function isThere(path: string): boolean {
  const plain = path.replace(/\/$/, '');
  if (generated.test(plain) || folders.has(plain) || files.includes(plain)) return true;
  return plain.includes('*') && files.some((file) => matchesGlob(file, plain));
}

/** The paths in backticks that begin at a folder of the root, and the file names that follow one of them in a line. */
function missingPaths(line: string): string[] {
  const missing: string[] = [];
  let folder = '';
  for (const [, word = ''] of line.matchAll(/`([^`\s]+)`/g)) {
    const [top = ''] = word.split('/');
    if (/\/.*\.|\/$/.test(word) && topFolders.has(top)) {
      folder = dirname(word);
      if (!isThere(word)) missing.push(word);
    } else if (/^[\w-]+(\.[\w-]+)*\*?(\.test)?\.ts$/.test(word)) {
      const place = folder === '' ? word : `${folder}/${word}`;
      if (folder === '' ? !fileNames.has(word) : !isThere(place)) missing.push(place);
    }
  }
  return missing;
}

/** Where the links of a document lead that stay in the tree. */
function missingLinks(document: string, text: string): string[] {
  const links = [...text.matchAll(/\]\((?!\w+:|#)([^)\s#]+)/g)].map(([, link = '']) => link);
  return links.filter((link) => !isThere(posix.join(dirname(document), link)));
}

describe('the documents name nothing that is not there', () => {
  test.each(documents)('%s', async (document) => {
    const text = await readFile(join(root, document), 'utf8');
    const missing = text
      .split('\n')
      .flatMap((line, index) => missingPaths(line).map((path) => `${index + 1}: ${path}`));
    expect([...missing, ...missingLinks(document, text)]).toEqual([]);
  });
});

test('each decision has a number of its own', () => {
  const numbers = files.flatMap((file) => /^docs\/decisions\/(\d{4})-.+\.md$/.exec(file)?.[1] ?? []);
  expect(numbers).toHaveLength(new Set(numbers).size);
  expect(numbers.length).toBeGreaterThan(20);
});
