/** Validates a request against the contract, with one express-openapi-validator a path, built when it is needed. */
import type { RequestHandler, Response } from 'express';
import { OpenApiValidator } from 'express-openapi-validator/dist/openapi.validator.js';
import type { FieldError } from '../contract/api.ts';
import { type Route, routes } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import {
  child,
  type DeclaredParameter,
  documentOfPath,
  needsBody,
  operationOf,
  parametersOf,
} from './contract-document.ts';
import { cookiesOf } from './cookies.ts';
import type { Exchange } from './exchange.ts';
import { createExplanation } from './explanation.ts';
import { invalidRequest } from './field-errors.ts';
import { withFiles, withoutFiles } from './form.ts';
import { judgedType } from './media-type.ts';
import { type ReadQuery, readQuery, writeQuery } from './query-string.ts';

/** What the contract lets in, with types and defaults filled in. */
interface ValidInput {
  readonly path: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly cookies: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

// What the contract lets in is the same for every server of a process, of which tests have many.
const validators = new Map<string, readonly RequestHandler[]>();
const declared = new Map<Route, readonly DeclaredParameter[]>();
const explanation = createExplanation();

/** Validators are built on the first request of each path, so that the start does not wait for them. */
export async function validate(exchange: Exchange, route: Route, body: unknown): Promise<ValidInput> {
  const parameters = remember(declared, route, () => parametersOf(route));
  const query = readQuery(exchange.search, parameters, route.openQuery || exchange.surface === 'messages');
  const view = viewOf(exchange, route, parameters, query.values, body);
  const validator = remember(validators, route.path, () => buildValidator(route.path));
  // The validator misses an absent body where no member of it is required.
  const refused = (body === undefined && needsBody(route)) || (await isRefused(validator, view));
  if (refused) throw explain({ exchange, route, parameters, query, body });
  if (query.errors.length > 0) throw invalidRequest(query.errors);
  return { ...inputOf(view, parameters, body), cookies: cookiesOf(exchange.request, route) };
}

interface RefusedRequest {
  readonly exchange: Exchange;
  readonly route: Route;
  readonly parameters: readonly DeclaredParameter[];
  readonly query: ReadQuery;
  readonly body: unknown;
}

/** The validator stops at its first complaint, because to go on is costly; this tells all there is. */
function explain({ exchange, route, parameters, query, body }: RefusedRequest): Problem {
  const found = explanation.ofParameters(parameters, {
    path: exchange.request.params,
    query: Object.fromEntries(query.values),
    header: exchange.request.headers,
  });
  const id = found.find((error) => error.in === 'path');
  if (id) return noSuchId(id.name ?? '');
  const errors = [...query.errors, ...found, ...explainBody(exchange, route, body)];
  if (errors.length > 0) return invalidRequest(errors);
  throw new Error(`Two validators disagree about a request to ${route.operationId}`);
}

function explainBody({ request }: Exchange, route: Route, body: unknown): FieldError[] {
  if (body === undefined)
    return needsBody(route)
      ? [{ in: 'body', pointer: '', message: 'is required by this operation', code: 'required' }]
      : [];
  const content = child(child(operationOf(route), 'requestBody'), 'content');
  const schema = child(child(content, judgedType(request, route) ?? ''), 'schema');
  return explanation.ofBody(schema, withoutFiles(body));
}

/** An id that does not look like one cannot exist: that is not found, as for any other id. */
function noSuchId(parameter: string): Problem {
  const noun = parameter === 'key_id' ? 'API key' : parameter.replace(/_id$/, '');
  return new Problem('not_found', `No ${noun} has this id, or it is not yours.`);
}

/** What the validator is shown of a request: HEAD is GET to it, and it may write where it likes. */
interface RequestView {
  readonly method: string;
  readonly originalUrl: string;
  readonly path: string;
  readonly baseUrl: string;
  readonly app: { enabled(): boolean; param(): void };
  readonly headers: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly cookies: Record<string, unknown>;
  readonly params: Record<string, unknown>;
  readonly body: unknown;
  /** Written by the validator once it has found the operation. */
  readonly openapi?: unknown;
}

/**
 * Past the package's own loader: for each document that one compiles the schema of OpenAPI itself, ten times the work of
 * the rest, though the generator has checked the document and nothing is held against that schema.
 */
function buildValidator(path: string): readonly RequestHandler[] {
  const specification = specificationOf(path);
  const validator = new OpenApiValidator({
    apiSpec: specification.apiDoc,
    validateApiSpec: false,
    validateRequests: { allowUnknownQueryParameters: false, coerceTypes: false },
    validateResponses: false,
    // By itself it takes whatever stands for a time, the 31st of June, too.
    ajvFormats: { mode: 'full' },
    validateSecurity: false,
    fileUploader: false,
  });
  // Its own handler type differs from Express 5's in name only.
  return validator.installMiddleware(Promise.resolve(specification)) as readonly RequestHandler[];
}

type Specification = Awaited<Parameters<OpenApiValidator['installMiddleware']>[0]>;

/** The document of a path as the package's loader would hand it on; it writes into the document. */
function specificationOf(path: string): Specification {
  const operations = routes.filter((route) => route.path === path);
  return {
    // The package's types want an OpenAPI document; the generator has checked that it is one.
    apiDoc: structuredClone(documentOfPath(path)) as unknown as Specification['apiDoc'],
    basePaths: [''],
    routes: operations.map(({ method }) => ({
      basePath: '',
      expressRoute: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      openApiRoute: path,
      method: method.toUpperCase(),
      pathParams: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name),
    })),
    // It tells the documents of answers apart, and no answers are validated.
    serial: 0,
  };
}

function viewOf(
  exchange: Exchange,
  route: Route,
  parameters: readonly DeclaredParameter[],
  query: ReadonlyMap<string, string>,
  body: unknown,
): RequestView {
  const search = writeQuery(query);
  const headers = parameters
    .filter((one) => one.in === 'header')
    .map((one) => one.name.toLowerCase())
    .flatMap((name) =>
      exchange.request.headers[name] === undefined ? [] : [[name, exchange.request.headers[name]]],
    );
  // Whether the type is one of the declared was seen before the body was read.
  const type = judgedType(exchange.request, route);
  return {
    method: route.method.toUpperCase(),
    originalUrl: search === '' ? exchange.path : `${exchange.path}?${search}`,
    path: exchange.path,
    baseUrl: '',
    app: { enabled: () => true, param: () => undefined },
    headers: { ...Object.fromEntries(headers), ...(type !== undefined && { 'content-type': type }) },
    query: Object.fromEntries(query),
    // Whatever a browser keeps for us is none of its person's fault: handlers look at it.
    cookies: {},
    params: { ...exchange.request.params },
    body: withoutFiles(body),
  };
}

async function isRefused(steps: readonly RequestHandler[], view: RequestView): Promise<boolean> {
  try {
    for (const step of steps) await take(step, view);
  } catch (error) {
    // Its refusals carry a status; anything else is a fault of ours.
    if (error instanceof Error && 'status' in error && error.status === 400) return true;
    throw error;
  }
  // A path that the validator does not recognise would pass unseen.
  if (view.openapi === undefined) throw new Error(`The validator knows no ${view.method} ${view.path}`);
  return false;
}

function take(step: RequestHandler, view: RequestView): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = (error?: unknown) => (error === undefined ? resolve() : reject(error));
    // The view has every member that the validator's steps touch, and no response is touched.
    void step(view as unknown as Parameters<RequestHandler>[0], {} as Response, next);
  });
}

function inputOf(
  view: RequestView,
  parameters: readonly DeclaredParameter[],
  body: unknown,
): Omit<ValidInput, 'cookies'> {
  const headers = parameters
    .filter((one) => one.in === 'header' && view.headers[one.name.toLowerCase()] !== undefined)
    .map((one) => [one.name, view.headers[one.name.toLowerCase()]]);
  return {
    path: view.params,
    query: view.query,
    headers: Object.fromEntries(headers),
    body: withFiles(view.body, body),
  };
}

function remember<Key, Value>(known: Map<Key, Value>, key: Key, make: () => Value): Value {
  const present = known.get(key);
  if (present !== undefined) return present;
  const made = make();
  known.set(key, made);
  return made;
}
