/** Tells of each request as a span: its operation and its status, and neither its path nor what was sent. */
import type { RequestHandler } from 'express';
import { exchangeOf } from './exchange.ts';
import type { Ports } from './ports.ts';

/** Goes on with the trace of whoever asks, where they name one. A stream is as long as it is read. */
export function traceRequests({ tracing }: Pick<Ports, 'tracing'>): RequestHandler {
  return (request, response, next) => {
    const exchange = exchangeOf(request);
    const { method } = request;
    const span = tracing.begin(method, {
      kind: 'server',
      attributes: { 'http.request.method': method, 'request.id': exchange.requestId },
      from: request.headers,
    });
    response.once('close', () => {
      const { route } = exchange;
      if (route) {
        span.name(`${method} ${route.path}`);
        span.set({ 'http.route': route.path, 'operation.id': route.operationId });
      }
      const { statusCode } = response;
      span.set({ 'http.response.status_code': statusCode });
      // What callers do wrong is no failure of ours.
      if (statusCode >= 500) span.fail(String(statusCode));
      span.end();
    });
    span.within(next);
  };
}
