/** Validates by what Ajv has compiled from the contract, without a middleware around it: for what is asked most often. */
import type { ValidateFunction } from 'ajv/dist/2020.js';
import type { Route } from '../contract/routes.ts';
import { child, type DeclaredParameter, operationOf, parametersOf } from './contract-document.ts';
import { pathCompiler } from './contract-schemas.ts';

/** As the middleware sees a request: the values of its parameters by name, headers in small letters. */
export interface GivenRequest {
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

/** What a middleware does around its validators is more than they do: see docs/decisions/0076. */
const operations: ReadonlySet<string> = new Set<Route['operationId']>([
  'createMessage',
  'countMessageTokens',
]);

export function isCompiled({ operationId }: Route): boolean {
  return operations.has(operationId);
}

const compiled = new Map<Route, (given: GivenRequest) => boolean>();

/** Whether the contract lets it in; defaults are filled into its body. Compiled when it is first needed. */
export function accepts(route: Route, given: GivenRequest): boolean {
  const known = compiled.get(route) ?? compile(route);
  compiled.set(route, known);
  return known(given);
}

function compile(route: Route): (given: GivenRequest) => boolean {
  const compiler = pathCompiler(route.path);
  const content = child(child(operationOf(route), 'requestBody'), 'content');
  const body = compiler.compile(child(child(content, 'application/json'), 'schema'));
  const parameters = parametersOf(route).map((one) => ({ ...one, validate: compiler.compile(textual(one)) }));
  return (given) => body(given.body) && parameters.every((parameter) => isFitting(parameter, given));
}

/** What is read off a text needs more than a look. */
function textual({ name, schema }: DeclaredParameter): DeclaredParameter['schema'] {
  if (schema.type !== 'string' || schema.default !== undefined)
    throw new Error(`The parameter ${name} is more than a text, which no validator here reads`);
  return schema;
}

function isFitting(
  { name, in: place, required, validate }: DeclaredParameter & { readonly validate: ValidateFunction },
  { query, headers }: GivenRequest,
): boolean {
  const value = place === 'header' ? headers[name.toLowerCase()] : query[name];
  return value === undefined ? !required : validate(value);
}
