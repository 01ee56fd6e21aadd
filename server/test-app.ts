/** A real server for tests: SQLite in a temporary folder, a free port, every answer held against the contract. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readServerSentEvents } from '../clients/typescript/event-source.ts';
import type { Clock } from './clock.ts';
import type { ClientConfig } from './contract/config.ts';
import { createLog, type Log } from './log.ts';
import { startServer } from './main.ts';
import type { Resolver } from './outbound/outbound.ts';
import { readServerSettings, type ServerSettings } from './server-settings/server-settings.ts';
import type { OpenServices } from './services.ts';

/**
 * What an answer holds, read freely: `--strict` has held it against the contract before it was sent.
 * Naming each type again in each test would only repeat the contract.
 */
// biome-ignore lint/suspicious/noExplicitAny: see above
export type Json = any;

export interface TestAppOptions {
  /** What stands in the global service.json. */
  readonly config?: ClientConfig;
  readonly settings?: Partial<ServerSettings>;
  readonly environment?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  readonly resolver?: Resolver;
  readonly log?: Log;
}

export interface RequestOptions {
  readonly token?: string;
  /** Sent as JSON, unless it is bytes or a string already. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed where it is JSON, text where it is not, null where there is none. */
  readonly body: Json;
}

/** Somebody who has registered. */
export interface Account {
  readonly user: Json;
  readonly email: string;
  readonly password: string;
  readonly token: string;
  readonly refreshToken: string;
}

export interface TestApp {
  readonly url: string;
  readonly services: OpenServices;
  /** Where its database and its files lie. */
  readonly dataDirectory: string;
  /** The key of the operator that the first start made. */
  readonly operatorKey: string;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** The bare response, for streams and bytes. */
  stream(method: string, path: string, options?: RequestOptions): Promise<Response>;
  /** `more` goes into the body: a token of an invitation, say. */
  register(name: string, more?: object): Promise<Account>;
  close(): Promise<void>;
}

/** The header of a PATCH. */
export const mergePatch = { 'content-type': 'application/merge-patch+json' };

/** What tells refusals apart; the code is null where nothing was refused. */
export function coded({ status, body }: Answer): [number, string | null] {
  return [status, body?.code ?? null];
}

/** Starts a server as `make serve` does, but for its folder, its port and its silence. */
export async function testApp(options: TestAppOptions = {}): Promise<TestApp> {
  const folder = await mkdtemp(join(tmpdir(), 'service-app-'));
  await writeFile(join(folder, 'service.json'), JSON.stringify(options.config ?? {}));
  const flags = [
    '--port',
    '0',
    '--data-dir',
    folder,
    '--global-config',
    folder,
    '--strict',
    '--drain-seconds',
    '0',
  ];
  const { settings } = readServerSettings(flags, { HOME: folder });
  const server = await startServer(
    { ...settings, ...options.settings },
    {
      environment: options.environment ?? {},
      log: options.log ?? createLog('silent'),
      ...(options.clock && { clock: options.clock }),
      ...(options.resolver && { resolver: options.resolver }),
    },
  );
  const { firstCredential } = server;
  const stream = (method: string, path: string, sent: RequestOptions = {}) =>
    fetch(server.url + path, init(method, sent));
  const request = async (method: string, path: string, sent?: RequestOptions) =>
    answerOf(await stream(method, path, sent));
  return {
    url: server.url,
    services: server.services,
    dataDirectory: folder,
    operatorKey: firstCredential?.kind === 'operator' ? firstCredential.apiKey : '',
    request,
    stream,
    async register(name, more = {}) {
      const account = { email: `${name}@example.com`, password: `the password of ${name}` };
      const { status, body } = await request('POST', '/api/v1/auth/register', {
        body: { ...account, name, ...more },
      });
      if (status !== 201) throw new Error(`${name} could not register: ${JSON.stringify(body)}`);
      return { ...account, user: body.user, token: body.access_token, refreshToken: body.refresh_token };
    },
    async close() {
      await server.stop();
      await rm(folder, { recursive: true });
    },
  };
}

/** One event of a stream, its data parsed. An unnamed event is called `message`. */
export interface StreamedEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: Json;
}

/** Reads a stream of server-sent events to its end. */
export async function* readEvents({ body }: Response): AsyncGenerator<StreamedEvent> {
  if (!body) throw new Error('the answer has no body');
  const watch = { idleTimeoutMs: 20_000, signal: undefined, heard: () => undefined };
  for await (const { id, event, data } of readServerSentEvents(body, watch))
    yield { id, event: event ?? 'message', data: JSON.parse(data) };
}

function init(method: string, { token, body, headers }: RequestOptions): RequestInit {
  const asItIs = typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData;
  return {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      // The boundary is in the type that a form brings along.
      ...(body !== undefined && !(body instanceof FormData) && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: asItIs ? body : JSON.stringify(body) }),
  };
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  return {
    status: response.status,
    headers: response.headers,
    body: text === '' ? null : isJson ? JSON.parse(text) : text,
  };
}
