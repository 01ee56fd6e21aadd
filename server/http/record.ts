/** Writes each finished request to the log, and counts it. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { RequestHandler } from 'express';
import { withoutSearch } from '../log.ts';
import { plainAddress } from './caller-address.ts';
import { type Exchange, exchangeOf } from './exchange.ts';
import type { Ports } from './ports.ts';

/** Records when the answer is out, or the caller has gone. */
export function recordRequests(ports: Pick<Ports, 'log' | 'metrics'>): RequestHandler {
  let warned = false;
  const told = { log: withoutSearch(ports.log), metrics: ports.metrics };
  return (request, response, next) => {
    const startedAt = performance.now();
    const exchange = exchangeOf(request);
    if (!warned && namesUnheard(exchange)) {
      warned = true;
      ports.log.warn(
        { address: exchange.address },
        'X-Forwarded-For comes from an address that SERVICE_TRUSTED_PROXIES does not list: all who come from there count as one caller',
      );
    }
    // Its line belongs to the trace of the request, and not to that of whoever closes the connection.
    response.once(
      'close',
      AsyncLocalStorage.bind(() => record(exchange, performance.now() - startedAt, told)),
    );
    next();
  };
}

/** Whether somebody says for whom they ask, and is not believed. */
function namesUnheard({ request, address }: Exchange): boolean {
  if (request.headers['x-forwarded-for'] === undefined) return false;
  return address === plainAddress(request.socket.remoteAddress ?? '');
}

function record(exchange: Exchange, ms: number, { log, metrics }: Pick<Ports, 'log' | 'metrics'>): void {
  const { request, response, route } = exchange;
  const entry = {
    method: request.method,
    route: route?.path ?? null,
    path: exchange.path.slice(0, 2000),
    status: response.statusCode,
    ms: Math.round(ms * 10) / 10,
    request_id: exchange.requestId,
    address: exchange.address,
    user_id: exchange.userId,
    ...(response.writableFinished ? {} : { aborted: true }),
  };
  log.info(entry, 'request');
  metrics.requestEnded({
    operation: route?.operationId ?? 'none',
    status: response.statusCode,
    seconds: ms / 1000,
    streamed: exchange.streamed,
  });
}
