/** What generators of clients stumble over is not in their document: each of these was seen to break one of them. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Contract, Schema } from './contract.ts';
import { forGenerators } from './sdk-document.ts';

const file = join(import.meta.dirname, '../server/contract/openapi.json');
const contract = JSON.parse(await readFile(file, 'utf8')) as Contract; // generated from a linted contract
const document = forGenerators(contract);
const written = places(contract);
const derived = places(document);

/** Everything that stands in a document, examples aside, by the path to it. */
function places(node: unknown, at = '#'): Map<string, Schema> {
  if (node === null || typeof node !== 'object') return new Map();
  const own: [string, Schema][] = Array.isArray(node) ? [] : [[at, node as Schema]]; // or something else with keywords of its own
  const below = Object.entries(node).filter(([key]) => key !== 'examples');
  return new Map([...own, ...below.flatMap(([key, value]) => [...places(value, `${at}/${key}`)])]);
}

/** Where something is so. */
function found(among: Map<string, Schema>, holds: (schema: Schema) => boolean): string[] {
  return [...among].flatMap(([at, schema]) => (holds(schema) ? [at] : []));
}

const isObject = ({ properties, type }: Schema) => type === 'object' && properties !== undefined;
const isClosed = (schema: Schema) => isObject(schema) && (schema.additionalProperties ?? false) === false;
const isBytes = ({ contentMediaType: type }: Schema) => type === 'application/octet-stream';

test('no object is closed: what a later server adds would be refused by clients for Go and Java', () => {
  expect(found(derived, isClosed)).toEqual([]);
  expect(found(written, isClosed).length).toBeGreaterThan(300);
});

test('bytes are binary, in forms, bodies and answers: they were text to some generators', () => {
  expect(found(derived, isBytes)).toEqual([]);
  const binary = found(derived, ({ format }) => format === 'binary');
  expect(binary).toEqual(found(written, isBytes));
  expect(binary.length).toBeGreaterThan(6);
});

test.each<[string, (schema: Schema) => boolean]>([
  [
    'an integer of 32 bits that may be larger',
    ({ type, format, maximum = Number.POSITIVE_INFINITY }) =>
      [type].flat().includes('integer') && format === undefined && Number(maximum) > 2_147_483_647,
  ],
  [
    'a default list, or one beside a reference',
    (one) => Array.isArray(one.default) || ('$ref' in one && 'default' in one),
  ],
  ['a constant truth', (one) => one.type === 'boolean' && 'const' in one],
  ['a pattern for a time', (one) => one.format === 'date-time' && 'pattern' in one],
])('%s is in the contract alone', (_, holds) => {
  expect(found(derived, holds)).toEqual([]);
  expect(found(written, holds)).not.toEqual([]);
});

test('no member is null for ever, which has no type in Python and Go', () => {
  expect(
    found(derived, ({ type }) => type === 'null').filter((at) => !/\/(one|any)Of\/\d+$/.test(at)),
  ).toEqual([]);
});

test('examples stay as they are, also where they look like schemas', () => {
  const examples = (of: Contract) =>
    ['/api/v1/tools', '/api/v1/mcp/servers/{server_id}/tools'].map((path) =>
      JSON.stringify(of.paths[path]?.get?.responses['200']),
    );
  for (const [index, text] of examples(contract).entries()) expect(examples(document)[index]).toBe(text);
});
