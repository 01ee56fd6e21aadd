/** The order in which a request meets the server, on one page. */
import type { EventEmitter } from 'node:events';
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import { accessOf, enforceAccess } from './http/access.ts';
import { shareWithOrigins } from './http/cors.ts';
import { authenticate, requireStillValid } from './http/credential.ts';
import { abortWithCaller, beginExchange, type Exchange, exchangeOf, originOf } from './http/exchange.ts';
import { withCheckedFiles } from './http/form.ts';
import { createIdempotency, type PerformOnce } from './http/idempotency.ts';
import { requireAcceptable } from './http/media-type.ts';
import { answerOptions, operationFor, type Path, paths } from './http/paths.ts';
import type { AnyCall, Caller, OnceReceived, Ports } from './http/ports.ts';
import { noSuchOperation, toProblem } from './http/problems.ts';
import { limitRate } from './http/rate-limits.ts';
import { recordRequests } from './http/record.ts';
import { refusalOf } from './http/refusals.ts';
import { createReplies, type Replies } from './http/replies.ts';
import { readBody } from './http/request-body.ts';
import { traceRequests } from './http/trace.ts';
import { validate } from './http/validation.ts';
import type { AnyReply } from './http/wire.ts';
import { type Operations, operations } from './operations/operations.ts';
import type { Services } from './services.ts';

// main.ts knows http/ through this page only.
export { createMetrics } from './http/metrics.ts';
export { createHttpServer, type HttpServer } from './http/server.ts';

/** Everything between Node's HTTP server and the handlers. */
export function createApp(services: Services, handlers: Operations = operations): Express {
  const ports = portsOf(services, handlers);
  const replies = createReplies(ports);
  const performOnce = createIdempotency(ports);
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('strict routing').enable('case sensitive routing');
  app.set('query parser', false); // The contract says how a query is read.
  app.use(beginExchange(ports.settings));
  app.use(traceRequests(ports));
  app.use(recordRequests(ports));
  app.use(shareWithOrigins(ports.settings));
  const steps = { ports, performOnce, replies };
  app.use(serveFixed(paths.filter(isFixed), steps));
  for (const path of paths) if (!isFixed(path)) app.route(path.pattern).all(serve(path, steps));
  app.use(refuseUnknownPath);
  app.use(answerFailure(replies, ports));
  // http/server.ts tells when; Express types only the one event of its own.
  (app as EventEmitter).on('drain', replies.endStreams);
  return app;
}

/** Of a body that comes sooner nobody can tell whether it came before the credential had ended, and all would pay for asking. */
const slowBodyMs = 1000;

interface Steps {
  readonly ports: Ports;
  readonly performOnce: PerformOnce;
  readonly replies: Replies;
}

/** Whether the path is one for all, without an id. */
function isFixed({ pattern }: Path): boolean {
  return !pattern.includes(':');
}

/** Found by name: Express would try one pattern after the other, of which the contract has hundreds. */
function serveFixed(fixed: readonly Path[], steps: Steps): RequestHandler {
  const served = new Map(fixed.map((path) => [path.pattern, serve(path, steps)]));
  return (request, response, next) => {
    const handle = served.get(exchangeOf(request).path);
    return handle ? handle(request, response, next) : next();
  };
}

/** All that comes to one path. */
function serve(path: Path, steps: Steps): RequestHandler {
  return async (request) => {
    const exchange = exchangeOf(request);
    if (request.method === 'OPTIONS') return answerOptions(path, exchange);
    const { reply, principal } = await answer(exchange, path, steps);
    // It may be a stream that lasts for hours: nothing here holds any more what was asked for it.
    await steps.replies.send(exchange, reply, principal);
  };
}

interface Answered {
  readonly reply: AnyReply;
  readonly principal: Caller | null;
}

/** What is meant, who calls, may they, what do they say, and what is the answer. */
async function answer(
  exchange: Exchange,
  path: Path,
  { ports, performOnce, replies }: Steps,
): Promise<Answered> {
  const { request, requestId } = exchange;
  const route = operationFor(path, request.method);
  exchange.route = route;
  const principal = await identify(exchange, ports);
  await limitRate(exchange, route, principal, ports);
  requireAcceptable(request, route);
  const stillValid = async () => {
    if (exchange.caller) await requireStillValid(exchange.caller, ports.identity);
  };
  const begun = performance.now();
  const body = await readBody(exchange, route);
  // A request may be kept half sent until its credential has ended: it is not to act with that any more.
  if (performance.now() - begun > slowBodyMs) await stillValid();
  const validated = await validate(exchange, route, body);
  // A file goes on arriving while its operation reads it.
  const input = { ...validated, body: withCheckedFiles(validated.body, stillValid) };
  replies.admit(exchange, input.body, principal);
  const origin = principal?.origin ?? originOf(exchange);
  const signal = abortWithCaller(exchange);
  const keyless = { earlierRun: null, onceReceived, keepMeanwhile };
  const headOnly = request.method === 'HEAD';
  const call = { ...input, ...keyless, principal, requestId, origin, signal, headOnly };
  return { reply: await performOnce(exchange, route, call), principal };
}

/** Without a key nothing is remembered. */
const onceReceived: OnceReceived = (_sha256, work) => work();
const keepMeanwhile = async (): Promise<void> => undefined;

/** Who calls, once the access table has let them in; null where the operation is public. */
async function identify(exchange: Exchange, { identity, settings }: Ports): Promise<Caller | null> {
  const { request, route } = exchange;
  if (!route) return null;
  const access = accessOf(route, settings);
  if (access.allow === 'public') return null;
  const from = originOf(exchange);
  const caller = await authenticate(request, route, identity, from.address);
  exchange.userId = caller.userId;
  const credential = { kind: caller.credential, id: caller.credentialId };
  exchange.caller = { ...caller, origin: { ...from, credential } };
  return enforceAccess(access, exchange.caller);
}

const refuseUnknownPath: RequestHandler = () => {
  throw noSuchOperation();
};

/** Express knows a handler of failures by its four parameters. */
function answerFailure(replies: Replies, ports: Ports): ErrorRequestHandler {
  return (error, request, _response, _next) => {
    const exchange = exchangeOf(request);
    const refusal = refusalOf(exchange, toProblem(error));
    if (refusal) ports.refused(refusal);
    replies.fail(exchange, error);
  };
}

function portsOf(services: Services, handlers: Operations): Ports {
  const { settings, log, tracing, metrics, identity, draining, store } = services;
  return {
    settings,
    log,
    tracing,
    metrics,
    identity,
    draining,
    counters: store.counters,
    refused: store.auditRefusals.note,
    requests: identity.requests,
    perform(route, call) {
      // The route table and the type of the handlers come from the same contract: family and id fit together.
      const family = handlers[route.family] as unknown as Readonly<Record<string, AnyHandler>>;
      const handler = family[route.operationId];
      if (!handler) throw new Error(`${route.operationId} has no handler`);
      return handler(call, services);
    },
  };
}

type AnyHandler = (call: AnyCall, services: Services) => Promise<AnyReply>;
