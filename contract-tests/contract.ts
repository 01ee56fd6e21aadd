/** The bundled contract as the black-box tests read it: its operations, and a check of values against its schemas. */
import { readFileSync } from 'node:fs';
import type { Role, Scope } from '@service/client/api';
import { Ajv2020, type AnySchemaObject, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { readEvents, type WireEvent } from './wire-stream.ts';

type Content = Readonly<Record<string, { readonly schema: AnySchemaObject; readonly examples?: Examples }>>;
type Examples = Readonly<Record<string, { readonly value: unknown }>>;

interface Parameter {
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  readonly name: string;
  readonly schema: AnySchemaObject;
}

/** Who may call an operation, as the contract has it; see docs/decisions/0024-reach.md. */
export interface Access {
  readonly allow: 'public' | 'principal' | 'login' | 'operator';
  readonly scope?: Scope;
  readonly role?: Role;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly 'x-access': Access;
  readonly parameters?: readonly unknown[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<Record<string, unknown>>;
}

interface ContractDocument {
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: { readonly schemas: Readonly<Record<string, AnySchemaObject>> };
}

type Method = (typeof methods)[number];

type PathItem = Readonly<Partial<Record<Method, Operation>>> & { readonly parameters?: readonly unknown[] };

export interface ContractOperation {
  readonly operationId: string;
  /** As the fuzzer names it, for instance `GET /health`. */
  readonly label: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  readonly successStatuses: readonly number[];
  readonly parameters: readonly Parameter[];
  /** What the body of a request may be; an empty schema where there is none. */
  readonly body: AnySchemaObject;
  /** The first example of a request, and its media type; null where there is no body. */
  readonly example: { readonly type: string; readonly value: unknown } | null;
  /** The headers of the first successful answer. */
  readonly answerHeaders: readonly string[];
  readonly responses: Readonly<Record<string, unknown>>;
}

const file = new URL('../server/contract/openapi.json', import.meta.url);
const document = JSON.parse(readFileSync(file, 'utf8')) as ContractDocument; // generated from a linted contract
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

export const operations: readonly ContractOperation[] = Object.entries(document.paths).flatMap(
  ([path, item]) => {
    const strange = Object.keys(item).find((key) => ![...methods, 'parameters'].includes(key));
    if (strange) throw new Error(`${path}: no test would ask for ${strange}, which is none of ${methods}`);
    return methods.flatMap((method) => {
      const operation = item[method];
      return operation ? [toOperation(path, item, method.toUpperCase(), operation)] : [];
    });
  },
);

function toOperation(
  path: string,
  item: PathItem,
  method: string,
  { operationId, summary, responses, ...operation }: Operation,
): ContractOperation {
  const successStatuses = Object.keys(responses)
    .map(Number)
    // Some operations send a browser elsewhere, which is what they are for.
    .filter((status) => (status >= 200 && status < 300) || status === 302);
  const content = resolved<{ content: Content } | undefined>(operation.requestBody)?.content;
  return {
    ...{ operationId, method, path, summary, responses, successStatuses },
    label: `${method} ${path}`,
    access: operation['x-access'],
    parameters: [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(toParameter),
    body: resolved(Object.values(content ?? {})[0]?.schema ?? {}),
    example: exampleOf(content),
    answerHeaders: headersOf(responses[successStatuses[0] ?? '']),
  };
}

function headersOf(response: unknown): string[] {
  return Object.keys(resolved<{ headers?: object } | undefined>(response)?.headers ?? {});
}

function toParameter(value: unknown): Parameter {
  const parameter = resolved<Parameter>(value);
  return { ...parameter, schema: resolved<AnySchemaObject>(parameter.schema) };
}

function exampleOf(content: Content = {}): ContractOperation['example'] {
  const [[type, { examples = {} }] = ['', {}]] = Object.entries(content);
  const [example] = Object.values(examples);
  return example ? { type, value: example.value } : null;
}

/** What a reference of the document leads to. Of what kind that is, a linted contract decides. */
export function resolved<Kind>(value: unknown): Kind {
  if (typeof value !== 'object' || value === null || !('$ref' in value)) return value as Kind;
  const names = String(value.$ref).slice('#/'.length).split('/');
  const found = names.reduce<unknown>((place, name) => (place as Record<string, unknown>)[name], document);
  return resolved(found);
}

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema(document, 'contract');

/** What is wrong with a value by a schema of the contract; empty where nothing is. */
export function faults(schema: string, value: unknown): string[] {
  const validate = ajv.getSchema(`contract#/components/schemas/${schema}`);
  if (!validate) throw new Error(`The contract has no schema ${schema}`);
  return validate(value) ? [] : told(validate);
}

/** What is wrong with an answer by what the contract says of the operation; empty where nothing is. */
export async function answerFaults(
  { responses }: ContractOperation,
  { status, type, text }: { readonly status: number; readonly type: string; readonly text: string },
): Promise<string[]> {
  const response = resolved<{ content?: Content } | undefined>(responses[status] ?? responses.default);
  if (!response) return [`the contract has no answer ${status}`];
  if (!response.content) return text === '' ? [] : ['a body where there is none'];
  const schema = response.content[type]?.schema;
  if (!schema) return [`the contract has no ${type} for ${status}`];
  if (type === 'text/event-stream') {
    const [events = ''] = references([schema]);
    return (await readEvents(new Response(text))).flatMap((event) => eventFaults(events, event));
  }
  return valueFaults(schema, /\bjson$/.test(type) ? JSON.parse(text) : text);
}

const compiled = new Map<AnySchemaObject, ValidateFunction>();

function valueFaults(schema: AnySchemaObject, value: unknown): string[] {
  const validate = compiled.get(schema) ?? compileOfContract(schema);
  compiled.set(schema, validate);
  return validate(value) ? [] : told(validate);
}

/** References of a part of the document begin at its root. */
function compileOfContract(schema: AnySchemaObject): ValidateFunction {
  return ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"contract#/')));
}

function told({ errors }: ValidateFunction): string[] {
  return (errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/**
 * What is wrong with a server-sent event by a schema of the contract that describes events: the frame, and the data
 * by the `contentSchema` of the branch that the name of the event chooses, which Ajv itself only annotates.
 */
export function eventFaults(schema: string, event: WireEvent): string[] {
  const branch = references(document.components.schemas[schema]?.oneOf).find(
    (name) => document.components.schemas[name]?.properties.event.const === event.event,
  );
  if (!branch) return [`${schema} has no event ${event.event}`];
  const [content = ''] = references([document.components.schemas[branch]?.properties.data.contentSchema]);
  return [...faults(branch, event), ...faults(content, JSON.parse(event.data))];
}

function references(schemas: readonly AnySchemaObject[] | undefined): string[] {
  return (schemas ?? []).map(({ $ref }) => String($ref).split('/').at(-1) ?? '');
}
