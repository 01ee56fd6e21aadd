/** The bundled contract as the black-box tests read it: its operations, and a check of values against its schemas. */
import { readFileSync } from 'node:fs';
import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { WireEvent } from './wire-stream.ts';

interface Operation {
  readonly operationId: string;
  readonly responses: Readonly<Record<string, unknown>>;
}

interface ContractDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, AnySchemaObject>> };
}

export interface ContractOperation {
  readonly operationId: string;
  /** As the fuzzer names it, for instance `GET /health`. */
  readonly label: string;
  readonly successStatuses: readonly number[];
}

const file = new URL('../server/contract/openapi.json', import.meta.url);
const document = JSON.parse(readFileSync(file, 'utf8')) as ContractDocument; // generated from a linted contract
const methods = ['get', 'post', 'put', 'patch', 'delete'];

export const operations: readonly ContractOperation[] = Object.entries(document.paths).flatMap(
  ([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, { operationId, responses }]) => ({
        operationId,
        label: `${method.toUpperCase()} ${path}`,
        successStatuses: Object.keys(responses)
          .map(Number)
          // Some operations send a browser elsewhere, which is what they are for.
          .filter((status) => (status >= 200 && status < 300) || status === 302),
      })),
);

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
ajv.addSchema(document, 'contract');

/** What is wrong with a value by a schema of the contract; empty where nothing is. */
export function faults(schema: string, value: unknown): string[] {
  const validate = ajv.getSchema(`contract#/components/schemas/${schema}`);
  if (!validate) throw new Error(`The contract has no schema ${schema}`);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
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

function references(schemas: { $ref: string }[] | undefined): string[] {
  return (schemas ?? []).map(({ $ref }) => $ref.split('/').at(-1) ?? '');
}
