/** Cross-origin sharing: which web pages may call, and what they may send and read. */
import type { RequestHandler } from 'express';
import { requestHeaders, responseHeaders } from '../contract/headers.ts';
import type { HttpSettings } from './ports.ts';

/** Those that every operation takes, or that tools send along: what a preflight does not allow, a page cannot send at all. */
const commonHeaders = [
  'Authorization',
  'Content-Type',
  'Accept',
  'X-Request-Id',
  'x-api-key',
  'traceparent',
  'tracestate',
];

/** What the vendor's own client for `/v1/messages` says of itself in a browser. */
const messagesHeaders = [
  'anthropic-dangerous-direct-browser-access',
  'x-stainless-lang',
  'x-stainless-package-version',
  'x-stainless-os',
  'x-stainless-arch',
  'x-stainless-runtime',
  'x-stainless-runtime-version',
  'x-stainless-retry-count',
  'x-stainless-timeout',
  'x-stainless-helper',
  'x-stainless-helper-method',
];

const allowedHeaders = [...commonHeaders, ...requestHeaders, ...messagesHeaders].join(', ');
const exposedHeaders = responseHeaders.join(', ');

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
