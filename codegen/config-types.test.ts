/** Holds the generated validator of the settings file equal to Ajv, on every example and on damaged copies of them. */
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateConfigTypes } from './config-types.ts';

const root = join(import.meta.dirname, '..');
const examples = join(root, 'schemas/service.examples');
const { $schema: dialect, ...schema } = JSON.parse(
  await readFile(join(root, 'schemas/service.schema.json'), 'utf8'),
);
const ajv2020 = new Ajv2020({ strict: false }).compile({ $schema: dialect, ...schema });
// Ajv for draft-07 knows no other dialect by name; what counts is that it reads the keywords alike.
const ajvDraft07 = new Ajv({ strict: false, validateSchema: true }).compile(schema);

let zod: (value: unknown) => boolean;
let generated: string;
let folder: string;

beforeAll(async () => {
  // Below this folder, so that the generated file finds zod; the name is one that git ignores.
  await mkdir(join(import.meta.dirname, 'generated'), { recursive: true });
  folder = await mkdtemp(join(import.meta.dirname, 'generated/config-types-'));
  generated = await generateInto(folder);
  const { clientConfigSchema } = await import(pathToFileURL(join(folder, 'server/contract/config.ts')).href);
  zod = (value) => clientConfigSchema.safeParse(value).success;
});

afterAll(() => rm(folder, { recursive: true }));

describe.each([
  ['valid', true],
  ['invalid', false],
] as const)('the %s examples', async (kind, verdict) => {
  for (const file of await readdir(join(examples, kind))) {
    test(`${file} is ${kind} for Ajv in both drafts and for zod`, async () => {
      const value: unknown = JSON.parse(await readFile(join(examples, kind, file), 'utf8'));
      expect({ ajv2020: ajv2020(value), ajvDraft07: ajvDraft07(value), zod: zod(value) }).toEqual({
        ajv2020: verdict,
        ajvDraft07: verdict,
        zod: verdict,
      });
    });
  }
});

test('each invalid example is wrong in one place only', async () => {
  const all = new Ajv2020({ strict: false, allErrors: true }).compile(schema);
  for (const file of await readdir(join(examples, 'invalid'))) {
    all(JSON.parse(await readFile(join(examples, 'invalid', file), 'utf8')));
    // That a condition led to an error is no error of its own.
    const errors = (all.errors ?? []).filter(({ keyword }) => keyword !== 'if');
    const places = new Set(errors.map(({ instancePath }) => instancePath));
    expect({ file, places: places.size }).toEqual({ file, places: 1 });
  }
});

test('damaging a valid example anywhere leads all three to the same verdict', async () => {
  let refused = 0;
  for (const file of await readdir(join(examples, 'valid'))) {
    const text = await readFile(join(examples, 'valid', file), 'utf8');
    for (const [what, damaged] of damagedCopies(text)) {
      const verdict = ajv2020(damaged);
      if (!verdict) refused += 1;
      expect({ file, what, draft07: ajvDraft07(damaged), zod: zod(damaged) }).toEqual({
        file,
        what,
        draft07: verdict,
        zod: verdict,
      });
    }
  }
  expect(refused).toBeGreaterThan(1000);
});

test('zod overlooks what stands under the key __proto__, where Ajv is the judge', () => {
  const value: unknown = JSON.parse('{"providers":{"__proto__":{"type":"nonsense"}}}');
  expect({ ajv2020: ajv2020(value), zod: zod(value) }).toEqual({ ajv2020: false, zod: true });
});

test('the validator leaves absent keys absent, so that a merge sees what was written', async () => {
  const { clientConfigSchema } = await import(pathToFileURL(join(folder, 'server/contract/config.ts')).href);
  expect(clientConfigSchema.parse({ options: {} })).toEqual({ options: {} });
});

test('generating twice gives the same text, which says that it is generated', async () => {
  expect(generated.startsWith('// Generated from schemas/. Do not edit.\n')).toBe(true);
  expect(await generateInto(folder)).toBe(generated);
});

async function generateInto(target: string): Promise<string> {
  await mkdir(join(target, 'server/contract'), { recursive: true });
  await cp(join(root, 'schemas/service.schema.json'), join(target, 'schemas/service.schema.json'));
  await generateConfigTypes(target);
  return readFile(join(target, 'server/contract/config.ts'), 'utf8');
}

/** Whole numbers beyond those that a program can count with are among them. */
const replacements: readonly unknown[] = [
  ...[null, '', 'x', -1, 0, 1.5, 2 ** 53 - 1, 2 ** 53, 1e18, 1e20, -(2 ** 53), true, [], {}, ['x'], { x: 1 }],
  [{}],
];

/** Every copy with one place replaced, removed or given a key that no one knows. */
function* damagedCopies(text: string): Generator<[what: string, value: unknown]> {
  for (const path of pathsOf(JSON.parse(text))) {
    for (const replacement of replacements) {
      yield [
        `${path.join('/')} = ${JSON.stringify(replacement)}`,
        changed(text, path, (at, key) => Object.assign(at, { [key]: replacement })),
      ];
    }
    yield [`${path.join('/')} removed`, changed(text, path, (at, key) => Reflect.deleteProperty(at, key))];
    yield [
      `a stray key beside ${path.join('/')}`,
      changed(text, path, (at) => Object.assign(at, { stray_key: 1 })),
    ];
  }
}

function changed(text: string, path: readonly string[], change: (at: object, key: string) => void): unknown {
  const value = JSON.parse(text);
  const parent = path.slice(0, -1).reduce((node, key) => node[key], value);
  change(parent, path.at(-1) ?? '');
  // Removing an item leaves a hole, which JSON does not know.
  return JSON.parse(JSON.stringify(value));
}

function* pathsOf(node: unknown, path: readonly string[] = []): Generator<readonly string[]> {
  if (typeof node !== 'object' || node === null) return;
  for (const [key, value] of Object.entries(node)) {
    yield [...path, key];
    yield* pathsOf(value, [...path, key]);
  }
}
