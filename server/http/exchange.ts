/** One request and its answer, from the first byte on: its id, its path, and what is known of it so far. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response } from 'express';
import type { Route } from '../contract/routes.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { type AddressOf, addressReader } from './caller-address.ts';
import type { Caller, HttpSettings, Origin } from './ports.ts';

/** `native` speaks problem+json, `messages` the vendor's error shape. */
type Surface = 'native' | 'messages';

export interface Exchange {
  readonly request: Request;
  readonly response: Response;
  readonly requestId: string;
  /** The path as it came, without the query. */
  readonly path: string;
  /** The query as it came, without the question mark. */
  readonly search: string;
  readonly surface: Surface;
  /** Where the request comes from; null where the connection was gone before anybody asked. */
  readonly address: string | null;
  /** Known once the path and the method are matched. */
  route: Route | null;
  /** Known once the credential is checked. */
  userId: string | null;
  caller: Caller | null;
  streamed: boolean;
  /** Aborts when nobody will read on: the caller has gone, or what was streamed to them was cut. */
  readonly abandoned: AbortController;
}

const exchanges = new WeakMap<object, Exchange>();

/** What a caller's own request id must look like to be taken over. */
const saneRequestId = /^[A-Za-z0-9._-]{1,128}$/;

/** The first thing a request meets: it gets its id, and broken HTTP is refused. */
export function beginExchange({ trustedProxies }: Pick<HttpSettings, 'trustedProxies'>): RequestHandler {
  const addressOf = addressReader(trustedProxies);
  return (request, response, next) => {
    begin(request, response, addressOf);
    refuseDoubtfulHost(request);
    next();
  };
}

function begin(request: Request, response: Response, addressOf: AddressOf): void {
  const target = originForm(request.url);
  // The router, and whoever else reads the target, must see the same one.
  request.url = target;
  request.originalUrl = target;
  const { path, search, surface, requestId } = headOf(request);
  response.setHeader('X-Request-Id', requestId);
  if (surface === 'messages') response.setHeader('request-id', requestId);
  response.setHeader('X-Content-Type-Options', 'nosniff');
  const exchange = { request, response, requestId, path, search, surface, address: addressOf(request) };
  const open = { route: null, userId: null, caller: null, streamed: false, abandoned: new AbortController() };
  exchanges.set(request, { ...exchange, ...open });
}

/** What the head of a request says of it. */
function headOf({ url = '/', headers }: IncomingMessage) {
  const [path = '/', search = ''] = splitOnce(originForm(url), '?');
  const surface: Surface = path.startsWith('/v1/') ? 'messages' : 'native';
  const given = headers['x-request-id'];
  const requestId = typeof given === 'string' && saneRequestId.test(given) ? given : newId('request');
  return { path, search, surface, requestId };
}

/** The same of one that may break off before its exchange has begun. */
export function occasionOf(request: IncomingMessage): Pick<Exchange, 'path' | 'surface' | 'requestId'> {
  return exchanges.get(request) ?? headOf(request);
}

/** The exchange that this request belongs to. */
export function exchangeOf(request: Request): Exchange {
  const exchange = exchanges.get(request);
  if (!exchange) throw new Error('beginExchange has not run');
  return exchange;
}

/** Where a request came from, as the audit log tells it. */
export function originOf({ request, address, requestId }: Exchange): Origin {
  const { 'user-agent': agent = '' } = request.headers;
  return { requestId, address, userAgent: agent === '' ? null : agent.slice(0, 200), credential: null };
}

/** Aborts when the caller goes away before the answer is out, too. */
export function abortWithCaller({ response, abandoned }: Exchange): AbortSignal {
  response.once('close', () => {
    if (!response.writableFinished) abandoned.abort();
  });
  if (response.destroyed) abandoned.abort();
  return abandoned.signal;
}

/** Two hosts, or none, mean that somebody between us may read the request differently. */
function refuseDoubtfulHost(request: Request): void {
  const hosts = request.headersDistinct.host ?? [];
  if (hosts.length === 1 || (hosts.length === 0 && request.httpVersion === '1.0')) return;
  const count = hosts.length === 0 ? 'no Host header' : 'more than one Host header';
  throw new Problem('malformed_http', `The request has ${count}; send exactly one.`, {
    headers: { Connection: 'close' },
  });
}

/** A target may name the whole URL, as to a proxy (RFC 9112, 3.2.2); fragments never belong there. */
function originForm(target: string): string {
  const [withoutFragment = '/'] = splitOnce(target, '#');
  const absolute = /^https?:\/\/[^/?]*(.*)$/i.exec(withoutFragment);
  if (!absolute) return withoutFragment;
  const rest = absolute[1] ?? '';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
