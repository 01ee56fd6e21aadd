/** Health, metrics, versions, and the contracts themselves. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { referencePage } from './reference-page.ts';

export const getHealth: Handler<'getHealth'> = async () => ({ status: 200, body: { status: 'ok' } });

export const getReadiness: Handler<'getReadiness'> = async (_call, services) => {
  const { capabilities, draining, runtime, store } = services;
  if (draining()) throw new Problem('draining', 'The server is stopping; another one may take the work.');
  // First: what the others read waits as long as any query where the database is silent.
  await store.ping();
  await Promise.all([runtime.refresh(), store.pingStorage()]);
  const { mode, database, sandboxUnavailable, providers, off } = capabilities;
  const sandbox = sandboxUnavailable === null;
  return {
    status: 200,
    body: { status: 'ready', mode, database, sandbox, providers: [...providers], off: [...off] },
  };
};

export const getPrometheusMetrics: Handler<'getPrometheusMetrics'> = async (_call, { metrics }) => ({
  status: 200,
  type: 'text/plain',
  body: await metrics.render(),
});

export const getMetricsSnapshot: Handler<'getMetricsSnapshot'> = async (
  { principal },
  { metrics, store },
) => {
  const stored = await store.metrics.snapshot(principal.operator ? 'installation' : principal);
  return {
    status: 200,
    body: {
      ...stored,
      open_streams: metrics.openStreams(principal.userId),
    },
  };
};

export const getVersion: Handler<'getVersion'> = async () => ({
  status: 200,
  body: { version: programVersion(), api_version: 'v1', sse_version: '1' },
});

export const getOpenapiJson: Handler<'getOpenapiJson'> = async ({ headers }) =>
  serveDocument(openapiJson(), headers['If-None-Match']);

export const getOpenapiYaml: Handler<'getOpenapiYaml'> = async ({ headers }) =>
  serve(openapiYaml(), 'application/yaml', headers['If-None-Match']);

export const getSdkOpenapi: Handler<'getSdkOpenapi'> = async ({ headers }) =>
  serveDocument(openapiSdk(), headers['If-None-Match']);

export const getConfigSchema: Handler<'getConfigSchema'> = async ({ headers }) => {
  const reply = serveDocument(configSchema(), headers['If-None-Match']);
  return reply.status === 304 ? reply : { ...reply, type: 'application/schema+json' };
};

export const getDocs: Handler<'getDocs'> = async ({ headers }) => {
  const reply = serve(docs(), 'text/html', headers['If-None-Match']);
  return { ...reply, headers: { ...reply.headers, 'Content-Security-Policy': docsPolicy } };
};

/** The page brings its own style and nothing else; nothing may frame it. */
const docsPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

interface Served {
  readonly text: string;
  readonly etag: string;
}

/** Read, or made, at the first request; the files do not change while the server runs. */
const openapiJson = once(() => contractFile('openapi.json'));
const openapiYaml = once(() => contractFile('openapi.yaml'));
const openapiSdk = once(() => contractFile('openapi.sdk.json'));
const configSchema = once(() => tagged(read('../../schemas/service.schema.json')));
const docs = once(() => tagged(referencePage(JSON.parse(openapiJson().text))));
const programVersion = once((): string => JSON.parse(read('../package.json')).version);

function serve<const Type extends string>(served: Served, type: Type, ifNoneMatch: string | undefined) {
  const headers = { ETag: served.etag };
  if (isCurrent(ifNoneMatch, served.etag)) return { status: 304, headers } as const;
  return { status: 200, headers, type, body: served.text } as const;
}

/** A JSON document goes out byte for byte, as the file has it. */
function serveDocument(served: Served, ifNoneMatch: string | undefined) {
  const reply = serve(served, 'application/json', ifNoneMatch);
  if (reply.status === 304) return reply;
  // http/ writes bytes as they are; the contract's type can only say that they are an object.
  return { ...reply, body: Buffer.from(reply.body) as unknown as Record<string, unknown> };
}

function contractFile(name: string): Served {
  return tagged(read(`../contract/${name}`));
}

function tagged(text: string): Served {
  const hash = createHash('sha256').update(text).digest('base64url');
  return { text, etag: `"${hash.slice(0, 27)}"` };
}

function read(path: string): string {
  return readFileSync(join(import.meta.dirname, path), 'utf8');
}

function once<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
