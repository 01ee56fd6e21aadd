/** Holds the validator that is written as code equal to Ajv, error by error. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateSettingsValidator } from './settings-validator.ts';

const root = join(import.meta.dirname, '..');
const schema = JSON.parse(await readFile(join(root, 'schemas/service.schema.json'), 'utf8')) as object; // it is one
const ajv = new Ajv2020({ strict: false, allErrors: true, verbose: true }).compile(schema);

type Validate = ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

let folder: string;
let generated: { validate: Validate; schema: object };

beforeAll(async () => {
  // Below this folder, so that the generated file finds Ajv's run-time part; the name is one that git ignores.
  await mkdir(join(import.meta.dirname, 'generated'), { recursive: true });
  folder = await mkdtemp(join(import.meta.dirname, 'generated/settings-validator-'));
  await mkdir(join(folder, 'server/contract'), { recursive: true });
  await symlink(join(root, 'schemas'), join(folder, 'schemas'));
  await generateSettingsValidator(folder);
  generated = await import(pathToFileURL(join(folder, 'server/contract/settings-validator.js')).href);
});

afterAll(() => rm(folder, { recursive: true }));

/** All that is wrong, with the rule that it breaks, as the loader explains it. */
function errorsOf(validate: Validate, value: unknown): unknown {
  if (validate(value)) return [];
  return validate.errors?.map(({ instancePath, keyword, params, parentSchema }) => ({
    ...{ instancePath, keyword, params, parentSchema },
  }));
}

test('it finds in every example, and in every damaged copy of one, exactly the errors that Ajv finds', async () => {
  let wrong = 0;
  for (const kind of ['valid', 'invalid']) {
    for (const file of await readdir(join(root, 'schemas/service.examples', kind))) {
      const value: unknown = JSON.parse(
        await readFile(join(root, 'schemas/service.examples', kind, file), 'utf8'),
      );
      for (const damaged of [value, ...damagedCopies(value)]) {
        const expected = errorsOf(ajv, damaged);
        if (JSON.stringify(errorsOf(generated.validate, damaged)) !== JSON.stringify(expected)) {
          expect({ file, damaged, errors: errorsOf(generated.validate, damaged) }).toEqual({
            file,
            damaged,
            errors: expected,
          });
        }
        wrong += ajv(damaged) ? 0 : 1;
      }
    }
  }
  expect(wrong).toBeGreaterThan(1000);
});

test('it finds errors of several servers at once, each once', () => {
  const value = {
    mcp: { a: { url: 1 }, b: { args: [1, 2], stray: 1 } },
    providers: { x: 1, y: { models: [{}, 3] } },
  };
  expect(errorsOf(generated.validate, value)).toEqual(errorsOf(ajv, value));
  // Asked again: the lists of one answer must not grow into those of the next.
  expect(errorsOf(generated.validate, value)).toEqual(errorsOf(ajv, value));
});

test('it brings the schema along', () => {
  expect(generated.schema).toEqual(schema);
});

/** The value with each part of it replaced in turn by what hardly ever belongs there. */
function* damagedCopies(value: unknown): Generator<unknown> {
  yield* [0, -1.5, '', 'x', null, true, [], [0], {}, { stray: 1 }];
  if (typeof value !== 'object' || value === null) return;
  for (const [key, child] of Object.entries(value)) {
    for (const damaged of damagedCopies(child)) {
      yield Array.isArray(value) ? value.with(Number(key), damaged) : { ...value, [key]: damaged };
    }
    if (!Array.isArray(value)) {
      const { [key]: _left, ...rest } = value as Record<string, unknown>; // an object, as was just asked
      yield rest;
    }
  }
}
