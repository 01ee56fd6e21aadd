/** Writes the validator of the settings file as code, so that no process compiles the schema when it starts. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import standaloneModule from 'ajv/dist/standalone/index.js';
import { header, writeIfChanged } from './output.ts';

// The package is CommonJS that mimics a default export, which Node does not unwrap.
const standaloneCode = standaloneModule.default;

/** Keywords that Ajv does not judge by: notes for editors and for the loader. */
const notes = [
  'allowComments',
  'allowTrailingCommas',
  'deprecationMessage',
  'enumDescriptions',
  'errorMessage',
];

/**
 * Writes server/contract/settings-validator.js with its types: what Ajv makes of the schema, all errors told, each
 * with the rule that it breaks.
 */
export async function generateSettingsValidator(root: string): Promise<void> {
  const schema = JSON.parse(await readFile(join(root, 'schemas/service.schema.json'), 'utf8')) as object; // it is one
  const ajv = new Ajv2020({
    allErrors: true,
    verbose: true,
    // The loader has words of its own.
    messages: false,
    allowUnionTypes: true,
    code: { source: true, esm: true },
  });
  ajv.addVocabulary([...notes, ...marksIn(schema)].filter((keyword) => !ajv.getKeyword(keyword)));
  const code = withSchema(withRequire(withoutCopies(standaloneCode(ajv, ajv.compile(schema)))));
  const file = join(root, 'server/contract/settings-validator');
  await writeIfChanged(`${file}.js`, `${header('schemas')}${code}\n`);
  await writeIfChanged(`${file}.d.ts`, `${header('schemas')}${types}`);
}

const types = `import type { ErrorObject } from 'ajv';

/** Says whether a value keeps to the schema of the settings file; where it does not, \`errors\` has every breach. */
export declare const validate: ((value: unknown) => boolean) & { errors?: ErrorObject[] | null };

/** The schema itself, which errors quote. */
export declare const schema: object;
`;

/** The loader's marks: every keyword that begins with x-. */
function marksIn(schema: unknown): string[] {
  const found = new Set<string>();
  JSON.stringify(schema, (key, value: unknown) => {
    if (key.startsWith('x-')) found.add(key);
    return value;
  });
  return [...found];
}

/** Ajv writes require() for what it needs at run time even into an ES module, where there is none. */
export function withRequire(code: string): string {
  return `import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n${code}`;
}

/** The schema stands in the code anyway, for the errors to quote: nobody need read it a second time. */
function withSchema(code: string): string {
  const [, name] = /\bconst (schema\d+) = \{"\$schema":/.exec(code) ?? [];
  if (!name) throw new Error('Ajv no longer writes the schema into the code of the validator.');
  return `${code}\nexport { ${name} as schema };`;
}

/** Ajv copies the list of all errors for each new one below a reference, which for a hostile file takes minutes. */
function withoutCopies(code: string): string {
  const cheap = code.replaceAll(/\bvErrors\.concat\(([\w.]+)\)/g, 'joined(vErrors, $1)');
  if (cheap === code)
    throw new Error('Ajv no longer joins lists of errors in the way that is made cheap here.');
  return `${cheap}\nfunction joined(all, more) { for (const one of more) all.push(one); return all; }`;
}
