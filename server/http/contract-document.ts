/** The bundled contract as data: parameters and schemas of an operation, and the document of one path. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Route } from '../contract/routes.ts';

/** A JSON value of the document that is an object. */
export type Node = { readonly [key: string]: unknown };

/** A declared parameter, its references followed. */
export interface DeclaredParameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: Node;
}

let read: Node | undefined;

/** The whole contract, read once. */
export function contractDocument(): Node {
  read ??= JSON.parse(readFileSync(join(import.meta.dirname, '../contract/openapi.json'), 'utf8')) as Node; // the generator wrote it
  return read;
}

/** The operation as it stands in the contract. */
export function operationOf(route: Pick<Route, 'path' | 'method'>): Node {
  return child(pathItem(route.path), route.method);
}

/** Every parameter of the operation but its cookies, those of its path included. */
export function parametersOf(route: Pick<Route, 'path' | 'method'>): readonly DeclaredParameter[] {
  return declaredFor(route)
    .filter((parameter) => parameter.in !== 'cookie')
    .map((parameter) => ({
      name: String(parameter.name),
      in: parameter.in as DeclaredParameter['in'], // OpenAPI's own enumeration, without cookies
      required: parameter.required === true,
      schema: follow(child(parameter, 'schema')),
    }));
}

/** The names of the cookies that the operation looks at. */
export function cookieNamesOf(route: Pick<Route, 'path' | 'method'>): readonly string[] {
  return declaredFor(route)
    .filter((parameter) => parameter.in === 'cookie')
    .map(({ name }) => String(name));
}

function declaredFor(route: Pick<Route, 'path' | 'method'>): readonly Node[] {
  const declared = [...list(pathItem(route.path), 'parameters'), ...list(operationOf(route), 'parameters')];
  return declared.map(follow);
}

/** Whether the operation asks for a body, or merely takes one. */
export function needsBody(route: Pick<Route, 'path' | 'method'>): boolean {
  return child(operationOf(route), 'requestBody').required === true;
}

/** A document that holds one path and what requests need: small, so that a validator of it is built fast. */
export function documentOfPath(path: string): Node {
  const contract = contractDocument();
  const item = Object.fromEntries(
    Object.entries(pathItem(path)).map(([key, value]) => [key, isNode(value) ? requestSide(value) : value]),
  );
  const { schemas, parameters } = child(contract, 'components');
  const components = { parameters, schemas: reachable(item, { schemas, parameters }) };
  return { openapi: contract.openapi, info: contract.info, paths: { [path]: item }, components };
}

/** Follows a reference within the document; anything else is returned as it is. */
export function follow(node: Node): Node {
  if (typeof node.$ref !== 'string') return node;
  return follow(node.$ref.slice(2).split('/').map(unescapePointer).reduce(child, contractDocument()));
}

/** The member of a node that is a node itself; an empty one where there is none. */
export function child(node: Node, key: string): Node {
  const value = node[key];
  return isNode(value) ? value : {};
}

/** The objects of a list in the document. */
export function list(node: Node, key: string): readonly Node[] {
  const value = node[key];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function pathItem(path: string): Node {
  return child(child(contractDocument(), 'paths'), path);
}

/** Responses are not for the request validator. */
function requestSide(operation: Node): Node {
  return { ...operation, responses: {} };
}

/** The schemas that something in the item leads to. */
function reachable(item: Node, components: Node): Node {
  const found = new Map<string, unknown>();
  const parameters = child(components, 'parameters');
  const schemas = child(components, 'schemas');
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) for (const entry of value) visit(entry);
    else if (isNode(value)) {
      if (typeof value.$ref === 'string') visitReference(value.$ref);
      for (const entry of Object.values(value)) visit(entry);
    }
  };
  const visitReference = (reference: string): void => {
    const [, , kind, name = ''] = reference.split('/');
    if (kind === 'parameters') visit(parameters[name]);
    if (kind !== 'schemas' || found.has(name)) return;
    found.set(name, schemas[name]);
    visit(schemas[name]);
  };
  // The parameters travel as a whole, so that all their schemas must come along.
  visit(item);
  visit(parameters);
  return Object.fromEntries(found);
}

function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~');
}
