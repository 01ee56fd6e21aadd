/** The examples of the contract as tests read them: what is asked, what is answered, and which of it differs each time. */
import contract from './contract/openapi.json' with { type: 'json' };

interface Schema {
  readonly $ref?: string;
  readonly 'x-volatile'?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

interface Media {
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly example?: string;
}

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly (Parameter & Schema)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<
    Record<string, Schema & { readonly content?: Readonly<Record<string, Media>> }>
  >;
}

/** One answer of an operation that succeeds, and the request that it belongs to. */
export interface Example {
  readonly operationId: string;
  readonly title: string;
  readonly method: string;
  /** As the contract has it. */
  readonly path: string;
  /** Of the parameters in the query, those that have an example: `name=value`. */
  readonly query: readonly string[];
  readonly status: number;
  readonly schema: Schema;
  readonly answer: unknown;
  readonly type?: string;
  readonly body?: unknown;
}

/** Every one whose answer is JSON. */
export const examples: readonly Example[] = Object.entries(contract.paths).flatMap(([path, item]) =>
  // The document is our own bundle, whose shape the linter has checked.
  Object.entries(item as Record<string, Operation>).flatMap(([method, operation]) =>
    'operationId' in operation ? examplesOf(path, method, operation) : [],
  ),
);

/** What the first example of an operation answers with. */
export function answerOf<T>(operationId: string): T {
  return exampleOf(operationId).answer as T; // the linter has held the example against its schema
}

/** What the first example of an operation asks with. */
export function requestOf<T>(operationId: string): T {
  return exampleOf(operationId).body as T; // held against its schema, too
}

/** Without what the contract calls volatile, which `--strict` has held against its schema, and without new ids. */
export function steady(value: unknown, schema: Schema, created: boolean): unknown {
  const known = resolve(schema);
  if (known['x-volatile'] || schema['x-volatile']) return 'volatile';
  if (Array.isArray(value)) return value.map((item) => steady(item, known.items ?? {}, created));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      created && ['id', 'default_workspace_id', 'document_id'].includes(key)
        ? 'new'
        : steady(member, known.properties?.[key] ?? {}, created),
    ]),
  );
}

function exampleOf(operationId: string): Example {
  const found = examples.find((example) => example.operationId === operationId);
  if (!found) throw new Error(`${operationId} has no example`);
  return found;
}

function examplesOf(path: string, method: string, operation: Operation): Example[] {
  const { operationId, parameters = [], requestBody, responses } = operation;
  const [type, request] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const query = parameters.flatMap(({ name, in: where, example }) =>
    where === 'query' && example ? [`${name}=${example}`] : [],
  );
  return Object.entries(responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([status, response]) =>
      Object.entries(response.content?.['application/json']?.examples ?? {}).map(([name, { value }]) => ({
        operationId,
        title: `${operationId}: ${name}`,
        method: method.toUpperCase(),
        path,
        query,
        status: Number(status),
        schema: response.content?.['application/json']?.schema ?? {},
        answer: value,
        ...(request && type && { type, body: bodyFor(name, request) }),
      })),
    );
}

/** The request of the same name; else the first one. */
function bodyFor(name: string, { examples = {} }: Media): unknown {
  return (examples[name] ?? Object.values(examples)[0])?.value;
}

function resolve(schema: Schema): Schema {
  if (schema.$ref) {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return resolve((contract.components.schemas as Record<string, Schema>)[name] ?? {}); // our own bundle
  }
  const [branch] = [...(schema.allOf ?? []), ...(schema.oneOf ?? [])];
  return branch && !schema.properties ? { ...resolve(branch), ...schema } : schema;
}
