/** Writes the validator of fetched catalogues as code, so that no process compiles the schema when it reads one. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standaloneModule from 'ajv/dist/standalone/index.js';
import { parse } from 'yaml';
import { header, writeIfChanged } from './output.ts';
import { withRequire } from './settings-validator.ts';

// The package is CommonJS that mimics a default export, which Node does not unwrap.
const standaloneCode = standaloneModule.default;

const file = 'model-catalog.yaml';

/** Writes server/contract/catalog-validator.js with its types: what Ajv makes of `CatalogDocument`. */
export async function generateCatalogValidator(root: string): Promise<void> {
  const schemas = parse(await readFile(join(root, 'schemas', file), 'utf8')) as object; // ours, and linted
  const ajv = new Ajv2020({
    strict: false,
    // Whoever writes a catalogue may know more of models than this version does.
    removeAdditional: true,
    code: { source: true, esm: true },
  });
  ajv.addSchema(schemas, file);
  const validate = ajv.compile({ $ref: `${file}#/CatalogDocument` });
  const place = join(root, 'server/contract/catalog-validator');
  await writeIfChanged(`${place}.js`, `${header('schemas')}${withRequire(standaloneCode(ajv, validate))}\n`);
  await writeIfChanged(`${place}.d.ts`, `${header('schemas')}${types}`);
}

const types = `import type { ErrorObject } from 'ajv';

/** Says whether a value is a catalogue of models, and takes out of it the members that are not known. */
export declare const validate: ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };
`;
