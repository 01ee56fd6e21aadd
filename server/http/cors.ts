/** Cross-origin sharing: which web pages may call, and what they may send and read. */
import type { RequestHandler } from 'express';
import type { HttpSettings } from './ports.ts';

const exposedHeaders = [
  'X-Request-Id',
  'ETag',
  'Location',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'X-Quota-Notice',
  'X-SSE-Version',
  'X-Run-Id',
  'request-id',
  'x-should-retry',
  'x-service-session-id',
].join(', ');

const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'Accept',
  'If-Match',
  'If-None-Match',
  'Idempotency-Key',
  'Last-Event-ID',
  'X-Request-Id',
  'x-api-key',
  'x-service-session-id',
  'anthropic-version',
  'anthropic-beta',
  'traceparent',
  'tracestate',
].join(', ');

const localhost = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;

/** Lets the listed origins in; in debug mode without a list, pages on this machine; else none. */
export function shareWithOrigins(settings: Pick<HttpSettings, 'corsOrigins' | 'debug'>): RequestHandler {
  const listed = new Set(settings.corsOrigins);
  const open = listed.size > 0 || settings.debug;
  const allows = (origin: string): boolean =>
    listed.size > 0 ? listed.has(origin) || listed.has('*') : settings.debug && localhost.test(origin);
  return (request, response, next) => {
    const origin = request.get('origin');
    if (open) response.setHeader('Vary', 'Origin');
    if (origin !== undefined && allows(origin)) {
      response.setHeader('Access-Control-Allow-Origin', origin);
      response.setHeader('Access-Control-Expose-Headers', exposedHeaders);
    }
    next();
  };
}

/** What a preflight of an allowed origin is told besides. */
export function preflightHeaders(methods: readonly string[]): Record<string, string> {
  return {
    'Access-Control-Allow-Methods': methods.join(', '),
    'Access-Control-Allow-Headers': allowedHeaders,
    'Access-Control-Max-Age': '600',
  };
}
