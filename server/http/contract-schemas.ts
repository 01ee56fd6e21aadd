/** Validators for any schema of the contract, compiled by Ajv when they are first needed. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { contractDocument, documentOfPath, isNode, type Node } from './contract-document.ts';

const base = 'contract:';

/** Compiles schemas of the contract; a fragment of it may be compiled wherever it stands. */
export interface SchemaCompiler {
  compile(schema: Node): ValidateFunction;
}

export interface CompilerOptions {
  /** Collects everything that is wrong with a value; otherwise the first thing ends the search. */
  readonly allErrors: boolean;
  /** Reads numbers and booleans off texts. */
  readonly coerceTypes?: boolean;
}

const compilers = new Map<string, SchemaCompiler>();

/** The one compiler of this kind: the contract is the same for every server of a process, of which tests have many. */
export function schemaCompiler({ allErrors, coerceTypes = false }: CompilerOptions): SchemaCompiler {
  const kind = `${allErrors} ${coerceTypes}`;
  const present = compilers.get(kind) ?? createCompiler({ allErrors, coerceTypes });
  compilers.set(kind, present);
  return present;
}

/** For requests to one path: stops at the first thing that is wrong, and fills defaults in. */
export function pathCompiler(path: string): SchemaCompiler {
  const options = { allErrors: false, coerceTypes: false, useDefaults: true };
  return createCompiler(options, () => documentOfPath(path));
}

function createCompiler(options: AjvOptions, documentOf = contractDocument): SchemaCompiler {
  let ajv: Ajv2020 | undefined;
  const compiled = new WeakMap<Node, ValidateFunction>();
  return {
    compile(schema) {
      const present = compiled.get(schema);
      if (present) return present;
      // To take the contract in costs more than a start should.
      ajv ??= ajvOf(documentOf(), options);
      const validate = ajv.compile(absolute(schema));
      compiled.set(schema, validate);
      return validate;
    },
  };
}

interface AjvOptions extends Required<CompilerOptions> {
  readonly useDefaults?: boolean;
}

function ajvOf(document: Node, options: AjvOptions): Ajv2020 {
  const ajv = new Ajv2020({
    strict: false,
    ...options,
    verbose: true,
    discriminator: true,
    validateSchema: false,
  });
  formats.default(ajv);
  ajv.addSchema({ $id: base, ...absolute(document) });
  return ajv;
}

/** References as seen from outside the document, and discriminators as Ajv takes them: without a mapping. */
function absolute(node: Node): Node {
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string')
        return [key, value.startsWith('#') ? `${base}${value}` : value];
      if (key === 'discriminator' && isNode(value)) return [key, { propertyName: value.propertyName }];
      return [key, absoluteValue(value)];
    }),
  );
}

function absoluteValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(absoluteValue);
  return isNode(value) ? absolute(value) : value;
}
