/** Every key of the settings has a test that proves its effect, or a later part that brings it; the table says which. */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readSettingsSchema } from './schema-places.ts';
import { laterPartOf, listedKeys } from './settings-of-later-parts.ts';
import {
  generateSettingsTable,
  isHeading,
  keyFinder,
  readTitles,
  rowsOf,
  titlesOf,
} from './settings-table.ts';

const root = join(import.meta.dirname, '..');
const schema = await readSettingsSchema(root);
const titles = await readTitles(root);
const rows = rowsOf(schema, titles);

describe('completeness', () => {
  test('every key has a test, save those of later parts and mere headings', () => {
    const bare = rows.filter(
      ({ key, tests }) => tests.length === 0 && !laterPartOf(key) && !isHeading(key, rows),
    );
    expect(bare.map(({ key }) => key)).toEqual([]);
  });

  test('no key that has a test is listed as one that does nothing yet', () => {
    const both = rows.filter(({ key, tests }) => tests.length > 0 && laterPartOf(key));
    expect(both.map(({ key, tests: [one] }) => `${key}: ${one?.file}`)).toEqual([]);
  });

  test('every key that is listed as one that does nothing yet exists', () => {
    const known = (listed: string) =>
      rows.some(({ key }) => (listed.endsWith('.') ? key.startsWith(listed) : key === listed));
    expect(listedKeys().filter((listed) => !known(listed))).toEqual([]);
  });

  test('every title that begins with a key of a section names one that exists', () => {
    const sections = new Set(rows.map(({ key }) => key.split('.')[0]));
    const named = titles.flatMap(({ file, keys }) => keys.map((key) => ({ file, key })));
    const find = keyFinder(schema);
    const strange = named.filter(
      ({ key }) => key.includes('.') && sections.has(key.split('.')[0]) && find(key) === null,
    );
    expect(strange).toEqual([]);
  });
});

describe('finding tests', () => {
  // The bracket is written otherwise, or this file would itself hold such titles.
  test.each([
    ["test«'`tools.grep.timeout` bounds a search', () => {", ['tools.grep.timeout']],
    ['  test.each(cases)«\n    "`tools.grep.timeout` of %s bounds a search",', ['tools.grep.timeout']],
    [
      "test«'`tools.ls.max_depth` and `tools.ls.max_items`', () => {",
      ['tools.ls.max_depth', 'tools.ls.max_items'],
    ],
    ['test«`\\`options.debug\\` is so`, () => {', ['options.debug']],
    ["test«'`options.debug` isn\\'t `true`', () => {", ['options.debug']],
  ])('%j', (text, keys) => {
    expect(titlesOf('a.test.ts', text.replace('«', '(')).map((found) => found.keys)).toEqual([keys]);
  });

  test.each([
    "test«'a search ends with `tools.grep.timeout`', () => {",
    "expect«'`tools.grep.timeout`').toBe(1)",
  ])('none in %j', (text) => {
    expect(titlesOf('a.test.ts', text.replace('«', '('))).toEqual([]);
  });

  test.each([
    ['models.small.temperature', 'models.large.temperature'],
    ['models.*.temperature', 'models.large.temperature'],
    ['providers.api_key', 'providers.*.api_key'],
    ['providers.openai.api_key', 'providers.*.api_key'],
    ['providers.*.models[].id', 'providers.*.models[].id'],
    ['providers.models.id', 'providers.*.models[].id'],
    ['hooks.pre_tool_use.timeout', 'hooks.pre_tool_use[].timeout'],
    ['hooks.*[].timeout', 'hooks.pre_tool_use[].timeout'],
    ['options.debug', 'options.debug'],
    ['models.small', 'models.small'],
  ])('a title that begins with %s is about %s', (key, row) => {
    const found = rowsOf(schema, [{ file: 'a.test.ts', title: '', keys: [key] }]);
    expect(found.filter(({ tests }) => tests.length > 0).map((one) => one.key)).toEqual([row]);
  });
});

describe('the table', () => {
  test('has a row for each key, with type, default, effect and a link to its test', async () => {
    const text = await generateInto(await repository());
    expect(text.match(/^\| `/gm)).toHaveLength(rows.length);
    expect(text).toContain(
      '| `tools.grep.timeout` | string or integer | `"5s"` | How long one search may take: a duration such as 5s or 1m30s, or a whole number of nanoseconds. | [`tools.grep.timeout` bounds a search](../../server/deep/grep.test.ts) |',
    );
    expect(text).toContain('| `mcp` | map to objects |  | ');
    expect(text).toContain('*comes with the terminal*');
  });

  test('is the same each time', async () => {
    const folder = await repository();
    const text = await generateInto(folder);
    expect(await generateInto(folder)).toBe(text);
    expect(text.startsWith('<!-- Generated from schemas/. Do not edit. -->\n')).toBe(true);
  });

  test('passes over installed and generated files', async () => {
    const folder = await repository();
    await mkdir(join(folder, 'server/node_modules/x'), { recursive: true });
    await writeFile(
      join(folder, 'server/node_modules/x/a.test.ts'),
      written('`options.debug` of a stranger'),
    );
    expect(await generateInto(folder)).not.toContain('of a stranger');
  });
});

async function repository(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-settings-table-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await cp(join(root, 'schemas/service.schema.json'), join(folder, 'schemas/service.schema.json'));
  await mkdir(join(folder, 'server/deep'), { recursive: true });
  await writeFile(join(folder, 'server/deep/grep.test.ts'), written('`tools.grep.timeout` bounds a search'));
  return folder;
}

async function generateInto(folder: string): Promise<string> {
  await generateSettingsTable(folder);
  return readFile(join(folder, 'docs/generated/settings.md'), 'utf8');
}

function written(title: string): string {
  return `test('${title}', () => {});\n`;
}
