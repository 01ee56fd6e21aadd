/** Validates a request against the contract, and says what is wrong with it. */
import type { FieldError } from '../contract/api.ts';
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import { accepts, isCompiled } from './compiled-validation.ts';
import { child, type DeclaredParameter, needsBody, operationOf, parametersOf } from './contract-document.ts';
import { cookiesOf } from './cookies.ts';
import type { Exchange } from './exchange.ts';
import { createExplanation } from './explanation.ts';
import { invalidRequest } from './field-errors.ts';
import { withFiles, withoutFiles } from './form.ts';
import { judgedType } from './media-type.ts';
import { isRefused, type RequestView } from './path-validator.ts';
import { type ReadQuery, readQuery, writeQuery } from './query-string.ts';

/** What the contract lets in, with types and defaults filled in. */
interface ValidInput {
  readonly path: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly cookies: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

const declared = new Map<Route, readonly DeclaredParameter[]>();
const explanation = createExplanation();

/** Validators are built on the first request of each path, so that the start does not wait for them. Throws Problem. */
export async function validate(exchange: Exchange, route: Route, body: unknown): Promise<ValidInput> {
  const parameters = declared.get(route) ?? parametersOf(route);
  declared.set(route, parameters);
  const query = readQuery(exchange.search, parameters, route.openQuery || exchange.surface === 'messages');
  if (isCompiled(route)) return quickly({ exchange, route, parameters, query, body });
  const view = viewOf(exchange, route, parameters, query.values, body);
  // The validator misses an absent body where no member of it is required.
  const refused = (body === undefined && needsBody(route)) || (await isRefused(route.path, view));
  if (refused) throw explain({ exchange, route, parameters, query, body });
  if (query.errors.length > 0) throw invalidRequest(query.errors);
  return { ...inputOf(view, parameters, body), cookies: cookiesOf(exchange.request, route) };
}

/** Without the middleware, where much is asked. */
function quickly(read: ReadRequest): ValidInput {
  const { exchange, route, parameters, body } = read;
  const query = Object.fromEntries(read.query.values);
  const { headers } = exchange.request;
  if (body === undefined || read.query.errors.length > 0 || !accepts(route, { query, headers, body }))
    throw explain(read);
  return { path: {}, query, headers: declaredHeaders(headers, parameters), cookies: {}, body };
}

interface ReadRequest {
  readonly exchange: Exchange;
  readonly route: Route;
  readonly parameters: readonly DeclaredParameter[];
  readonly query: ReadQuery;
  readonly body: unknown;
}

/** The validator stops at its first complaint, because to go on is costly; this tells all there is. */
function explain({ exchange, route, parameters, query, body }: ReadRequest): Problem {
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

function inputOf(
  view: RequestView,
  parameters: readonly DeclaredParameter[],
  body: unknown,
): Omit<ValidInput, 'cookies'> {
  return {
    path: view.params,
    query: view.query,
    headers: declaredHeaders(view.headers, parameters),
    body: withFiles(view.body, body),
  };
}

/** Those that the operation declares, as it spells them. */
function declaredHeaders(
  given: Readonly<Record<string, unknown>>,
  parameters: readonly DeclaredParameter[],
): Record<string, unknown> {
  const headers: Record<string, unknown> = {};
  for (const { in: place, name } of parameters) {
    const value = place === 'header' ? given[name.toLowerCase()] : undefined;
    if (value !== undefined) headers[name] = value;
  }
  return headers;
}
