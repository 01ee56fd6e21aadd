/** Writes the table of all settings: key, type and default, effect, and the test that proves the effect. */
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Schema } from './contract.ts';
import { writeIfChanged } from './output.ts';
import { type Place, placesOf, readSettingsSchema, type SettingsSchema } from './schema-places.ts';
import { laterPartOf } from './settings-of-later-parts.ts';
import { opensTest, withoutIdle } from './test-titles.ts';

/** A key of the settings file, and the tests whose titles begin with it. */
export interface SettingRow {
  readonly key: string;
  readonly type: string;
  /** As JSON; empty where there is none. */
  readonly usual: string;
  readonly effect: string;
  readonly tests: readonly TestTitle[];
}

/** A test whose title begins with keys in backticks. */
export interface TestTitle {
  /** From the root of the repository. */
  readonly file: string;
  readonly title: string;
  /** The keys that the title begins with. */
  readonly keys: readonly string[];
}

const folders = ['clients', 'codegen', 'contract-tests', 'server'];
const passedOver = ['node_modules', 'generated', 'dist'];

/** Writes docs/generated/settings.md. */
export async function generateSettingsTable(root: string): Promise<void> {
  const rows = rowsOf(await readSettingsSchema(root), await readTitles(root));
  await mkdir(join(root, 'docs/generated'), { recursive: true });
  await writeIfChanged(join(root, 'docs/generated/settings.md'), pageOf(rows));
}

/** One row for each key. Keys that several names share, as `models.large` and `models.small`, stand under the first. */
export function rowsOf(schema: SettingsSchema, titles: readonly TestTitle[]): SettingRow[] {
  const find = keyFinder(schema);
  const tests = titles.map((test) => ({ test, about: test.keys.map(find) }));
  return placesOfRows(schema).map(({ path, schema: rules }) => ({
    key: path,
    type: typeOf(rules),
    usual: 'default' in rules ? JSON.stringify(rules.default) : '',
    effect: String(rules.description),
    tests: tests.filter(({ about }) => about.includes(path)).map(({ test }) => test),
  }));
}

/**
 * Finds the row that a key of a title is about; null where there is none. A title may leave out names of the user's
 * choice and the brackets of lists, or write any name there.
 */
export function keyFinder(schema: SettingsSchema): (key: string) => string | null {
  const shared = sharedNames(schema);
  const paths = placesOfRows(schema).map(({ path }) => path);
  const forms = new Map(
    paths.toReversed().flatMap((path) => formsOf(path, shared).map((form) => [form, path])),
  );
  const named = paths.map((path) => [path, patternOf(path)] as const);
  return (key) => {
    const written = plain(key);
    return forms.get(written) ?? named.find(([, pattern]) => pattern.test(written))?.[0] ?? null;
  };
}

/** Whether the key only holds others, each of which has a row of its own. */
export function isHeading(key: string, rows: readonly SettingRow[]): boolean {
  return rows.some((row) => row.key.startsWith(`${key}.`) || row.key.startsWith(`${key}[]`));
}

/** The titles of all tests of the repository that begin with a key in backticks, in the order of files and lines. */
export async function readTitles(root: string): Promise<TestTitle[]> {
  const files = (await Promise.all(folders.map((folder) => testFiles(root, folder)))).flat().sort();
  const titles = await Promise.all(
    files.map(async (file) => titlesOf(file, await readFile(join(root, file), 'utf8'))),
  );
  return titles.flat();
}

/** The titles of tests that run that begin with a key in backticks; a key that a table fills in (%s) is none. */
export function titlesOf(file: string, text: string): TestTitle[] {
  const running = withoutIdle(text);
  const found = [...running.matchAll(titled)].filter(({ index }) => opensTest(running, index));
  return found.map(([, , quoted = '']) => {
    const title = quoted.replaceAll(/\\([`'"])/g, '$1');
    const [beginning = ''] = /^`[^`]*`(?:(?:, | and |, and )`[^`]*`)*/.exec(title) ?? [];
    return { file, title, keys: [...beginning.matchAll(/`([^`%]*)`/g)].map(([, key = '']) => key) };
  });
}

/** A string that an open bracket stands before, a comma after, and that begins with a backtick. */
const titled = /\(\s*(?:'(?=`)|"(?=`)|`(?=\\`))(?<=(['"`]))((?:\\.|(?!\1)[^\\\n])*)\1,/g;

async function testFiles(root: string, folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []; // an image may hold only a part of the repository
      throw error;
    },
  );
  const found = entries.map(async (entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return passedOver.includes(entry.name) ? [] : testFiles(root, path);
    return entry.isFile() && entry.name.endsWith('.test.ts') ? [path] : [];
  });
  return (await Promise.all(found)).flat();
}

/** For each object of the schema, the names of its properties that have one definition: the first stands for all. */
type SharedNames = ReadonlyMap<string, readonly string[]>;

function sharedNames(schema: SettingsSchema): SharedNames {
  return new Map(
    placesOf(schema).flatMap(({ path, schema: { properties, additionalProperties } }) => {
      const named = Object.entries({ ...properties, '*': additionalProperties as Schema }); // a schema or a truth
      const groups = Map.groupBy(named, ([, rules]) => definitionOf(rules));
      return [...groups]
        .filter(([definition, group]) => definition !== null && group.length > 1)
        .map(([, [first, ...others]]): [string, string[]] => {
          const at = path === '' ? '' : `${path}.`;
          return [`${at}${first?.[0]}`, others.map(([name]) => `${at}${name}`)];
        });
    }),
  );
}

/** What the schema of a property refers to, itself or for its entries; null where it describes itself. */
function definitionOf(rules: Schema | boolean | undefined): string | null {
  if (typeof rules !== 'object') return null;
  if (typeof rules.$ref === 'string') return rules.$ref;
  return typeof rules.additionalProperties === 'object'
    ? definitionOf(rules.additionalProperties as Schema)
    : null;
}

function placesOfRows(schema: SettingsSchema): Place[] {
  const repeated = [...sharedNames(schema).values()].flat();
  return placesOf(schema).filter(
    ({ path }) =>
      /[^*\]]$/.test(path) &&
      !repeated.some((name) => path.startsWith(`${name}.`) || path.startsWith(`${name}[`)),
  );
}

/** All that a title may write for the row: with each of the shared names, or with none. */
function formsOf(path: string, shared: SharedNames): string[] {
  const parts = path.split('.').map((part, index, all) => {
    const others =
      index === all.length - 1
        ? []
        : shared.get(
            all
              .slice(0, index + 1)
              .join('.')
              .replace(/\[\]$/, ''),
          );
    return others?.length ? [part, ...others.map(lastOf), ...(index > 0 ? ['*'] : [])] : [part];
  });
  const written = parts.reduce(
    (before, names) => before.flatMap((one) => names.map((name) => `${one}.${name}`)),
    [''],
  );
  return written.map((one) => plain(one.slice(1)));
}

/** The key without brackets, and without what stands for a name of the user's choice. */
function plain(key: string): string {
  const names = key.split('.').map((name) => name.replace(/\[\d*\]$/, ''));
  return names.filter((name) => !/^(?:\*|<.*>|\{.*\})$/.test(name)).join('.');
}

function patternOf(path: string): RegExp {
  const parts = path.split('.').map((name) => name.replace('[]', ''));
  return new RegExp(
    `^${parts.map((name) => (name === '*' ? '[^.]+' : name.replace('$', '[$]'))).join('[.]')}$`,
  );
}

function lastOf(path: string): string {
  return path.split('.').at(-1) ?? path;
}

function typeOf({ type, enum: values, items, additionalProperties }: Schema): string {
  if (Array.isArray(values)) return values.map((value) => code(JSON.stringify(value))).join(' ');
  if (isSchema(items)) return `list of ${plural(items)}`;
  if (isSchema(additionalProperties)) return `map to ${plural(additionalProperties)}`;
  return [type].flat().map(String).join(' or ');
}

function plural(schema: Schema): string {
  return typeof schema.type === 'string' ? `${schema.type}s` : 'objects';
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null;
}

function pageOf(rows: readonly SettingRow[]): string {
  const lines = rows.map(({ key, type, usual, effect, tests }) =>
    [code(key), type, usual && code(usual), effect, testsCell(key, tests, rows)].map(cell).join(' | '),
  );
  return [
    '<!-- Generated from schemas/. Do not edit. -->',
    '# Settings',
    '',
    'Every key of `service.json`, what it does, and the test that shows it. `*` is a name of your choice, `[]` an item of',
    'a list. What `models.large`, `mcp` and `hooks.pre_tool_use` say holds for `models.small`, `mcpServers` and other',
    'events alike.',
    '',
    '| Key | Type | Default | Effect | Test |',
    '|---|---|---|---|---|',
    ...lines.map((line) => `| ${line} |`),
    '',
  ].join('\n');
}

function testsCell(key: string, tests: readonly TestTitle[], rows: readonly SettingRow[]): string {
  if (tests.length === 0 && laterPartOf(key)) return `*comes with ${laterPartOf(key)}*`;
  if (tests.length === 0 && isHeading(key, rows)) return '*see its keys*';
  // What a table of cases fills in.
  const shown = (title: string) => title.replaceAll(/%[sdifj]/g, '…');
  return tests.map(({ file, title }) => `[${shown(title)}](../../${file})`).join('<br>');
}

function code(text: string): string {
  return `\`${text}\``;
}

/** A bar would end the cell, and what stands in angle brackets would vanish. */
function cell(text: string): string {
  return text
    .replaceAll('|', String.raw`\|`)
    .replace(/<(?!br>)/g, '&lt;')
    .replaceAll('\n', ' ');
}
