/** The parts of an OpenAPI document that the generators read. */

/** A JSON Schema, as far as the generators look into it. */
export interface Schema {
  [keyword: string]: unknown;
  type?: string | string[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
}

export interface MediaType {
  schema: Schema;
  examples?: Record<string, { value: unknown }>;
  /** How the parts of a form are written. */
  encoding?: Record<string, { contentType?: string }>;
  'x-example-events'?: { event?: string; id?: string; data: unknown }[];
}

export interface ContractResponse {
  description: string;
  headers?: Record<string, Header | Reference>;
  content?: Record<string, MediaType>;
}

export interface Header {
  required?: boolean;
}

export interface Parameter {
  required?: boolean;
  name: string;
  in: 'path' | 'query' | 'header' | 'cookie';
  schema: Schema;
}

export type Reference = { $ref: string };

/** How often somebody may call, by kind of operation; `none` is never limited. */
export type RateClass = 'read' | 'write' | 'run' | 'login' | 'none';

export interface Operation {
  operationId: string;
  tags: string[];
  parameters?: (Parameter | Reference)[];
  requestBody?: { required?: boolean; content: Record<string, MediaType> };
  responses: Record<string, ContractResponse | Reference>;
  'x-access': { allow: string; scope?: string; resource?: string; role?: string };
  'x-body-limit'?: number;
  'x-body-values'?: number;
  'x-body-names'?: string[];
  'x-rate-class'?: RateClass;
  'x-idempotent'?: 'resource' | 'run' | 'answer' | 'file';
  'x-open-query'?: boolean;
}

export const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;
export type Method = (typeof methods)[number];
export type PathItem = { [M in Method]?: Operation } & { parameters?: (Parameter | Reference)[] };

export interface Contract {
  openapi: string;
  paths: Record<string, PathItem>;
  components: { schemas: Record<string, Schema>; responses: Record<string, ContractResponse> } & Record<
    string,
    Record<string, unknown>
  >;
}

/** One operation with the place where it stands. */
export interface PlacedOperation {
  path: string;
  method: Method;
  operation: Operation;
}

/** Every operation of the contract, in the order of the paths. Whatever else a path holds would get no route. */
export function operationsOf(contract: Contract): PlacedOperation[] {
  return Object.entries(contract.paths).flatMap(([path, item]) => {
    const strange = Object.keys(item).find((key) => ![...methods, 'parameters'].includes(key));
    if (strange) throw new Error(`${path}: ${strange} is none of ${methods}, nor parameters`);
    return methods.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ path, method, operation }] : [];
    });
  });
}

/** Follows a `$ref` within the document; anything else is returned as it is. */
export function resolve<T extends object>(contract: Contract, value: T | Reference): T {
  if (!('$ref' in value) || typeof value.$ref !== 'string') return value as T; // not a reference: it is the value
  const found = value.$ref
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (node, key) => (node as Record<string, unknown>)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
      contract,
    );
  if (!found) throw new Error(`The contract has no ${value.$ref}`);
  return found as T; // the bundler has checked that the reference leads to this kind of component
}
