/** A real server for the tests of http/: real routes, hand-made handlers, and an identity of three credentials. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { createApp, createHttpServer, createMetrics } from '../app.ts';
import type { OperationId } from '../contract/routes.ts';
import { routes } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import type { Services } from '../services.ts';
import { noTracing } from '../tracing.ts';
import type { AnyCall, Caller, HttpSettings } from './ports.ts';
import type { ArrivalLimits } from './server.ts';
import type { AnyReply } from './wire.ts';

/** What a test puts in the place of the real thing. */
export interface TestServerOptions {
  readonly settings?: Partial<HttpSettings>;
  readonly handlers?: { readonly [Id in OperationId]?: (call: AnyCall) => Promise<AnyReply> };
  readonly limits?: ArrivalLimits;
  /** Keeps the answer of a request with an Idempotency-Key. */
  readonly keeps?: () => Promise<void>;
  /** What checking a credential waits for. */
  readonly looksUp?: () => Promise<void>;
}

export interface TestServer {
  readonly url: string;
  readonly port: number;
  /** Every line of the log so far. */
  readonly log: readonly Record<string, unknown>[];
  /** Credentials that authenticate; a test may take one away. */
  readonly callers: Map<string, Caller>;
  readonly state: { draining: boolean };
  request(method: string, path: string, options?: RequestOptions): Promise<TestAnswer>;
  /** Sends bytes as they are, and reads until the server closes. */
  raw(...parts: readonly (string | Buffer)[]): Promise<string>;
  /** The text of the metrics. */
  metrics(): Promise<string>;
  drain(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

interface RequestOptions {
  readonly token?: string | null;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body as JSON, where it is. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  readonly json: any;
}

const everyone = {
  login: caller('usr_01k9w6r3h2e7xv5q0c8m4b1tza', { credential: 'login', scopes: allScopes() }),
  key: caller('usr_01k9w6r3h2e7xv5q0c8m4b1tza', {
    credential: 'api_key',
    scopes: new Set(['sessions:read']),
  }),
  operator: caller('usr_01k9w6r3h2e7xv5q0c8m4b1tzb', {
    credential: 'login',
    scopes: allScopes(),
    operator: true,
  }),
} as const;

export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const callers = new Map<string, Caller>(Object.entries(everyone));
  const state = { draining: false };
  const log: Record<string, unknown>[] = [];
  // Only what http/ reaches is here; the other services have no part in these tests.
  const services = {
    settings: { ...defaults, ...options.settings },
    log: pino(linesInto(log)),
    tracing: noTracing,
    metrics: createMetrics(),
    draining: () => state.draining,
    identity: {
      async authenticate(credential: string) {
        await options.looksUp?.();
        const found = callers.get(credential);
        if (found) return found;
        if (credential === 'expired')
          throw new Problem('credential_expired', 'The access token has expired.');
        throw new Problem('credential_invalid', 'The credential is unknown or was revoked.');
      },
      // Nothing is kept beyond the answer.
      requests: {
        find: async () => null,
        add: options.keeps ?? (async () => undefined),
        once: (_request: unknown, work: () => Promise<AnyReply>) => work(),
      },
      stillValid: async (known: readonly Caller[]) => {
        const valid = new Set([...callers.values()].map(({ credentialId }) => credentialId));
        return known.map(({ credentialId }) => valid.has(credentialId));
      },
    },
    // What is refused here is recorded nowhere; the operations are tested with a store that does.
    store: { auditRefusals: { note: () => undefined } },
  } as unknown as Services;
  const app = createApp(services, handlersOf(options.handlers ?? {}));
  const { server, drain } = createHttpServer(app, options.limits);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has no other kind of address
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    port,
    log,
    callers,
    state,
    request: (method, path, request) => send(url + path, method, request ?? {}),
    raw: (...parts) => sendRaw(port, parts),
    metrics: () => services.metrics.render(),
    drain,
    close: async () => {
      server.closeAllConnections();
      if (server.listening) await new Promise((resolve) => server.close(resolve));
    },
  };
}

const defaults: HttpSettings = {
  trustedProxies: [],
  corsOrigins: [],
  debug: false,
  metrics: 'public',
  docs: 'public',
  keepaliveSeconds: 15,
  stallSeconds: 60,
  rateLimits: {},
  streamsPerUser: 100,
  streamsTotal: 1000,
  strict: true,
};

function caller(userId: string, rest: Partial<Caller> & Pick<Caller, 'credential' | 'scopes'>): Caller {
  return { userId, operator: false, credentialId: `of_${rest.credential}_${userId}`, ...rest };
}

function allScopes(): ReadonlySet<string> {
  return new Set(routes.flatMap((route) => route.access.scope ?? []));
}

function handlersOf(given: NonNullable<TestServerOptions['handlers']>) {
  const families = Map.groupBy(routes, (route) => route.family);
  const handlers = [...families].map(([family, members]) => [
    family,
    Object.fromEntries(members.map(({ operationId }) => [operationId, given[operationId] ?? notFound])),
  ]);
  return Object.fromEntries(handlers);
}

async function notFound(): Promise<AnyReply> {
  throw new Problem('not_found', 'No session has this id, or it is not yours.');
}

async function send(url: string, method: string, options: RequestOptions): Promise<TestAnswer> {
  const { token = 'login', body, headers } = options;
  const plain = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  const response = await fetch(url, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: plain ? ((body as string | undefined) ?? null) : JSON.stringify(body),
  });
  const text = await response.text();
  const json =
    /json/.test(response.headers.get('content-type') ?? '') && text !== '' ? JSON.parse(text) : undefined;
  return { status: response.status, headers: response.headers, text, json };
}

function sendRaw(port: number, parts: readonly (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => {
      for (const part of parts) socket.write(part);
    });
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
    socket.on('error', reject);
  });
}

function linesInto(log: Record<string, unknown>[]): Writable {
  return new Writable({
    write(line, _encoding, done) {
      log.push(JSON.parse(line.toString()));
      done();
    },
  });
}
