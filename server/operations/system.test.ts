/** Health, readiness, metrics, versions, and the contracts as they are served. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '../contract/routes.ts';
import type { Call } from '../handler.ts';
import { problems } from '../problem.ts';
import { type Account, type TestApp, testApp } from '../test-app.ts';
import { getReadiness } from './system.ts';

let app: TestApp;
let ada: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
});
afterAll(() => app.close());

const root = join(import.meta.dirname, '../..');

test('health, readiness and versions need no credential', async () => {
  expect(await app.request('GET', '/health')).toMatchObject({ status: 200, body: { status: 'ok' } });
  await expect
    .poll(() => app.request('GET', '/ready'))
    .toMatchObject({ status: 200, body: { status: 'ready', database: 'sqlite' } });
  const { version } = JSON.parse(readFileSync(join(root, 'server/package.json'), 'utf8'));
  expect(await app.request('GET', '/api/v1/version')).toMatchObject({
    status: 200,
    body: { version, api_version: 'v1', sse_version: '1' },
  });
});

test('readiness is withdrawn while the server stops', async () => {
  const stopping = { ...app.services, draining: () => true };
  // This handler looks at nothing of its call.
  const asked = getReadiness({} as Call<'getReadiness'>, stopping);
  await expect(asked).rejects.toMatchObject({ code: 'draining', status: 503 });
});

test('health asks no database', async () => {
  const other = await testApp();
  await other.services.store.close();
  expect((await other.request('GET', '/health')).status).toBe(200);
  expect((await other.request('GET', '/ready')).status).toBeGreaterThanOrEqual(500);
  await other.close().catch(() => undefined);
});

describe('metrics', () => {
  test('show each queue beside its bound', async () => {
    const { body } = await app.request('GET', '/metrics');
    for (const [name, bound] of [
      ['service_active_runs', 2000],
      ['service_longest_session_queue', 100],
      ['service_longest_job_queue', 100],
      ['service_longest_ingestion_queue', 100_000],
      ['service_open_streams', app.services.settings.streamsTotal],
      ['service_database_writes', 1000],
      ['service_database_reads', 5000],
      ['service_waiting_event_writes', 2000],
      ['service_waiting_call_counts', 1000],
      ['service_waiting_searches', 500],
      ['service_waiting_conversions', 500],
      ['service_waiting_embeddings', 500],
      ['service_waiting_file_texts', 100],
      ['service_waiting_password_settings', 500],
      ['service_waiting_password_checks', 500],
    ] as const) {
      expect(body).toMatch(new RegExp(`^${name} \\d+$`, 'm'));
      const limit = name.replace('_longest_', '_');
      expect(body).toMatch(new RegExp(`^${limit}_limit ${bound}$`, 'm'));
    }
  });

  test('are text for Prometheus, and name nobody', async () => {
    await app.request('GET', '/api/v1/sessions', { token: ada.token });
    const answer = await app.request('GET', '/metrics');
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(answer.body).toContain('service_http_requests_total{operation="listSessions",status="2xx"}');
    expect(answer.body).not.toMatch(/usr_|ses_|org_|ada@/);
  });

  test('as JSON are of the own organizations, or of everything for the operator', async () => {
    const grace = await app.register('grace');
    await app.request('POST', '/api/v1/sessions', { token: grace.token, body: {} });
    const of = async (token: string) => (await app.request('GET', '/api/v1/metrics', { token })).body;
    expect(await of(ada.token)).toMatchObject({ scope: 'organizations', sessions: 0, open_streams: 0 });
    expect(await of(grace.token)).toMatchObject({ scope: 'organizations', sessions: 1 });
    expect(await of(app.operatorKey)).toMatchObject({ scope: 'installation', sessions: 1 });
    expect((await app.request('GET', '/api/v1/metrics')).status).toBe(401);
  });
});

describe('the contracts', () => {
  test.each([
    ['/openapi.json', 'application/json', 'server/contract/openapi.json'],
    ['/openapi.yaml', 'application/yaml', 'server/contract/openapi.yaml'],
    ['/openapi.sdk.json', 'application/json', 'server/contract/openapi.sdk.json'],
    ['/schemas/service.json', 'application/schema+json', 'schemas/service.schema.json'],
  ])('%s is the file, byte for byte', async (path, type, file) => {
    const response = await app.stream('GET', path);
    expect(response.headers.get('content-type')).toBe(type);
    expect(Buffer.from(await response.arrayBuffer()).equals(readFileSync(join(root, file)))).toBe(true);
  });

  test.each(['/openapi.json', '/openapi.yaml', '/openapi.sdk.json', '/schemas/service.json', '/docs'])(
    '%s is not sent again to whoever has it',
    async (path) => {
      const first = await app.request('GET', path);
      const etag = first.headers.get('etag') ?? '';
      expect(etag).toMatch(/^"[\w-]+"$/);
      for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        const again = await app.request('GET', path, { headers: { 'if-none-match': tag } });
        expect(again).toMatchObject({ status: 304, body: null });
        expect(again.headers.get('etag')).toBe(etag);
      }
      const other = await app.request('GET', path, { headers: { 'if-none-match': '"other"' } });
      expect(other.status).toBe(200);
    },
  );
});

describe('the reference page', () => {
  test('holds every operation and schema, and an anchor for each error code', async () => {
    const { body, headers } = await app.request('GET', '/docs');
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    const contract = JSON.parse(readFileSync(join(root, 'server/contract/openapi.json'), 'utf8'));
    const operations = Object.values<Record<string, { operationId?: string }>>(contract.paths).flatMap(
      (item) => Object.values(item).flatMap(({ operationId }) => operationId ?? []),
    );
    expect(operations).toHaveLength(routes.length);
    for (const id of operations) expect(body).toContain(`<article id="${id}">`);
    for (const name of Object.keys(contract.components.schemas))
      expect(body).toContain(`id="schema-${name}"`);
    for (const code of Object.keys(problems)) expect(body).toContain(`<tr id="${code}">`);
    const anchors = new Set([...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    const links = [...body.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
    expect(links.filter((id) => !anchors.has(id))).toEqual([]);
  });

  test('brings all it needs, and runs nothing', async () => {
    const { body, headers } = await app.request('GET', '/docs');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(body).not.toMatch(/<script|<img|<link|\ssrc=|\son\w+=/);
  });
});
