/** What a person sees who writes a settings file in an editor: errors, completion, explanations, deprecations. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { CompletionItem } from 'vscode-json-languageservice';
import type { Schema } from './contract.ts';
import { type OpenedFile, openEditor } from './editor.ts';
import { type Place, placesOf, readSettingsSchema } from './schema-places.ts';

const root = join(import.meta.dirname, '..');
const examples = join(root, 'schemas/service.examples');
const catalog = JSON.parse(await readFile(join(root, 'schemas/catalog.json'), 'utf8'));
const schema = await readSettingsSchema(root);
const association = { uri: catalog.url, fileMatch: catalog.fileMatch, schema };
// Wherever a file of the examples says its schema is, this is it.
const editor = openEditor([association], async () => JSON.stringify(schema));

const places = placesOf(schema);
const keys = places.filter(({ path }) => /[^*\]]$/.test(path));
const sections = places.filter(({ schema: { properties } }) => properties);

describe('errors', async () => {
  const expected = (await readFile(join(import.meta.dirname, 'editor-diagnostics.expected'), 'utf8'))
    .trim()
    .split('\n');
  const invalid = await readdir(join(examples, 'invalid'));

  test.each(invalid)('%s is underlined where it is wrong, and says why', async (file) => {
    const seen = await editor.squiggles(await readFile(join(examples, 'invalid', file), 'utf8'));
    const lines = seen.map(
      ({ range, text, message }) => `${file} ${range} ${text.replaceAll(/\s+/g, ' ')} ${message}`,
    );
    expect(lines).not.toEqual([]);
    expect(lines).toEqual(expected.filter((line) => line.startsWith(`${file} `)));
  });

  test('no line is expected of an example that is gone', () => {
    const named = expected.map((line) => line.split(' ')[0] ?? '');
    expect(named.filter((file) => !invalid.includes(file))).toEqual([]);
  });

  test.each(await readdir(join(examples, 'valid')))('%s has none', async (file) => {
    const seen = await editor.squiggles(await readFile(join(examples, 'valid', file), 'utf8'));
    expect(seen.filter(({ deprecated }) => !deprecated)).toEqual([]);
  });

  test.each(['json', 'jsonc'] as const)(
    'comments and trailing commas are none in a %s file',
    async (language) => {
      const text = '{\n  // why\n  "options": { "debug": true, /* so */ },\n}\n';
      expect(await editor.squiggles(text, { path: '/project/service.json', language })).toEqual([]);
    },
  );

  test('broken JSON is one', async () => {
    expect(await editor.squiggles('{ "options": { "debug" true } }')).toMatchObject([
      { severity: 'error', range: '1:24-28', message: 'Colon expected' },
    ]);
  });
});

describe('where the schema comes from', () => {
  const wrong = '{ "options": { "debug": 1 } }';

  test.each(['/project/service.json', '/project/.service.json', '/project/.service/service.json'])(
    'the catalog entry associates it with %s',
    async (path) => {
      expect(await editor.squiggles(wrong, { path, language: 'json' })).toHaveLength(1);
      expect(await editor.squiggles(wrong, { path, language: 'jsonc' })).toHaveLength(1);
    },
  );

  test.each(['/project/package.json', '/project/my-service.json', '/project/service.json.bak'])(
    'it leaves %s alone',
    async (path) => {
      expect(await editor.squiggles(wrong, { path, language: 'json' })).toEqual([]);
    },
  );

  test('a file that names the schema beside it needs no association', async () => {
    const alone = openEditor([]);
    const file: OpenedFile = { path: join(root, 'schemas/anything.json'), language: 'json' };
    const text = (debug: string) =>
      `{ "$schema": "./service.schema.json", "options": { "debug": ${debug} } }`;
    expect(await alone.squiggles(text('1'), file)).toMatchObject([{ text: '1' }]);
    expect(await alone.squiggles(text('true'), file)).toEqual([]);
  });

  test('the catalog entry has the form that a schema store asks for', () => {
    expect(Object.keys(catalog)).toEqual(['name', 'description', 'fileMatch', 'url']);
    expect(catalog.name).toBe('service.json');
    expect(catalog.description).toMatch(/^[^.]+$/);
    expect(catalog.url).toMatch(/^https:\/\/.+\.json$/);
  });
});

describe('completion', () => {
  test.each(
    sections.map(({ path, schema: { properties } }) => [path || 'the file', path, properties ?? {}] as const),
  )('in %s offers every key with its explanation, save the deprecated', async (_name, path, properties) => {
    const offered = await editor.completions(written(path, '{ | }'));
    expect(documented(offered)).toEqual(
      Object.fromEntries(
        Object.entries(properties)
          .map(([key, rules]): [string, Schema] => [key, resolved(path, key, rules)])
          .filter(([, { deprecationMessage }]) => deprecationMessage === undefined)
          .map(([key, { description }]) => [key, description]),
      ),
    );
  });

  test('of a key writes the key, and a value to start from', async () => {
    const offered = await editor.completions('{ "tools": { "grep": { | } } }');
    expect(offered.map(({ insertText }) => insertText)).toEqual(['"timeout": $1']);
    const mcp = (await editor.completions('{ | }')).find(({ label }) => label === 'mcp');
    expect(mcp?.insertText).toContain('"type": "http"');
  });

  const enums = keys.filter((place) => Array.isArray(place.schema.enum));
  test.each(enums.map((place) => [place.path, place.schema] as const))(
    'of %s offers every value with its explanation',
    async (path, { enum: values, enumDescriptions, description }) => {
      const offered = documented(await editor.completions(written(path, '|')));
      for (const [index, value] of (values as unknown[]).entries()) {
        const explanation = (enumDescriptions as string[] | undefined)?.[index] ?? description;
        expect(offered).toMatchObject({ [JSON.stringify(value)]: explanation });
      }
    },
  );

  const booleans = keys.filter((place) => place.schema.type === 'boolean');
  test.each(booleans.map(({ path }) => path))('of %s offers true and false', async (path) => {
    const labels = (await editor.completions(written(path, '|'))).map(({ label }) => label);
    expect(labels.sort()).toEqual(['false', 'true']);
  });

  const valued = keys.filter((place) => 'default' in place.schema || place.schema.examples);
  test.each(valued.map((place) => [place.path, place.schema] as const))(
    'of %s offers its default and its examples',
    async (path, { default: usual, examples: written_ }) => {
      const offered = await editor.completions(written(path, '|'));
      const texts = offered.map(({ insertText }) => plain(insertText ?? ''));
      const values = [...(usual === undefined ? [] : [usual]), ...((written_ ?? []) as unknown[])];
      expect(texts).toEqual(expect.arrayContaining(values.map((value) => JSON.stringify(value))));
    },
  );

  const lists = places.filter((place) => place.path.endsWith('[]') && place.schema.examples);
  test.each(lists.map((place) => [place.path, place.schema.examples] as const))(
    'in %s offers the names that are known, and no other word is an error',
    async (path, names) => {
      const labels = (await editor.completions(written(path, '|'))).map(({ label }) => label);
      expect(labels).toEqual((names as string[]).map((name) => JSON.stringify(name)));
      expect(await editor.squiggles(written(path, '"mcp_issues_list"'))).toEqual([]);
    },
  );

  test('the lists of tools are such lists', () => {
    expect(lists.map(({ path }) => path)).toEqual([
      'options.disabled_tools[]',
      'permissions.allowed_tools[]',
    ]);
  });
});

test.each(keys.map((place) => [place.path, place] as const))(
  'hovering over %s explains it',
  async (path, place) => {
    const text = written(path, JSON.stringify(valueFor(place)));
    const shown = await editor.hover(withCursorOnKey(text, path));
    expect(shown).toContain(place.schema.description);
  },
);

test('hovering over a value explains that value too', async () => {
  expect(await editor.hover('{ "mcp": { "a": { "type": "ht|tp" } } }')).toContain(
    'A URL, over streamable HTTP.',
  );
});

const deprecated = keys.filter((place) => place.schema.deprecated);
test.each(deprecated.map((place) => [place.path, place] as const))(
  '%s is shown as deprecated, with what replaces it, and is not offered',
  async (path, place) => {
    const [seen, ...more] = await editor.squiggles(written(path, JSON.stringify(valueFor(place))));
    expect(more).toEqual([]);
    expect(seen).toMatchObject({
      deprecated: true,
      severity: 'warning',
      message: place.schema.deprecationMessage,
    });
    expect(seen?.text).toMatch(new RegExp(`^"${path.split('.').at(-1)}": `));
  },
);

test.each(['docs/editors.md', 'README.md'])('%s shows what an editor really offers', async (page) => {
  const guide = await readFile(join(root, page), 'utf8');
  const shown = [...guide.matchAll(/^```jsonc?\n([^`]*\|[^`]*)```\n\n```text\n([^`]*)```$/gm)];
  expect(shown).not.toEqual([]);
  for (const [, text = '', listing] of shown) {
    const offered = await editor.completions(text);
    expect(`${offered.map(lineOf).join('\n')}\n`).toBe(listing);
  }
});

/** A settings file with the text at the place, and nothing else. */
function written(path: string, text: string): string {
  if (path === '') return text;
  const [key = '', ...rest] = path.split('.');
  const bare = key.replace('[]', '');
  const inner = written(rest.join('.'), text);
  const name = JSON.stringify(bare === '*' ? 'a_name' : bare);
  return `{ ${name}: ${key.endsWith('[]') ? `[${inner}]` : inner} }`;
}

/** The property's own schema, which may stand behind a reference. */
function resolved(path: string, key: string, rules: Schema): Schema {
  const place = path === '' ? key : `${path}.${key}`;
  return places.find((one) => one.path === place)?.schema ?? rules;
}

function documented(items: readonly CompletionItem[]): Record<string, unknown> {
  return Object.fromEntries(items.map(({ label, documentation }) => [label, documentation]));
}

function valueFor({ schema: { examples: some, type } }: Place): unknown {
  if (Array.isArray(some)) return some[0];
  return type === 'array' ? [] : {};
}

function withCursorOnKey(text: string, path: string): string {
  const key = JSON.stringify(path.split('.').at(-1));
  // The last key of this name is the one that is meant, since each object before it holds one key.
  const at = path.split('.').reduce((from, part) => {
    const bare = part.replace('[]', '');
    return text.indexOf(`"${bare === '*' ? 'a_name' : bare}":`, from);
  }, 0);
  if (!text.startsWith(`${key}:`, at)) throw new Error(`${path} does not stand in ${text}`);
  return `${text.slice(0, at + 2)}|${text.slice(at + 2)}`;
}

/** An insertion without the marks where the cursor jumps to. */
function plain(snippet: string): string {
  return JSON.stringify(
    JSON.parse(snippet.replaceAll(/\$\{\d+:((?:[^\\}]|\\.)*)\}/g, '$1').replaceAll(/\\([$}\\])/g, '$1')),
  );
}

function lineOf({ label, documentation, labelDetails }: CompletionItem): string {
  const told = typeof documentation === 'string' ? documentation : '';
  return `${label.padEnd(16)}${told || (labelDetails?.description ?? '')}`.trimEnd();
}
