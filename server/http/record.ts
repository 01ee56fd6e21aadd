/** Writes each finished request to the log, and counts it. */
import type { RequestHandler } from 'express';
import { type Exchange, exchangeOf } from './exchange.ts';
import type { Ports } from './ports.ts';

/** Records when the answer is out, or the caller has gone. */
export function recordRequests(ports: Pick<Ports, 'log' | 'metrics'>): RequestHandler {
  return (request, response, next) => {
    const startedAt = performance.now();
    const exchange = exchangeOf(request);
    response.once('close', () => record(exchange, performance.now() - startedAt, ports));
    next();
  };
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
