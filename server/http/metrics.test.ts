/** The counters of a process. */
import { afterEach, expect, test } from 'vitest';
import { createMetrics } from './metrics.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let server: TestServer | undefined;
afterEach(() => server?.close());

test('requests are counted by operation and class of status, and timed unless they were streams', async () => {
  const metrics = createMetrics();
  metrics.requestEnded({ operation: 'getHealth', status: 200, seconds: 0.002, streamed: false });
  metrics.requestEnded({ operation: 'getHealth', status: 204, seconds: 0.002, streamed: false });
  metrics.requestEnded({ operation: 'streamQuery', status: 200, seconds: 60, streamed: true });
  metrics.requestEnded({ operation: 'none', status: 404, seconds: 0.001, streamed: false });
  const text = await metrics.render();
  expect(text).toContain('service_http_requests_total{operation="getHealth",status="2xx"} 2');
  expect(text).toContain('service_http_requests_total{operation="none",status="4xx"} 1');
  expect(text).toContain('service_http_request_duration_seconds_count{operation="getHealth"} 2');
  expect(text).not.toContain('service_http_request_duration_seconds_count{operation="streamQuery"}');
});

test('streams are counted by user for the caps, and in all for everybody', async () => {
  const metrics = createMetrics();
  metrics.streamOpened('usr_a');
  metrics.streamOpened('usr_a');
  metrics.streamOpened('usr_b');
  metrics.streamClosed('usr_a');
  expect([metrics.openStreams('usr_a'), metrics.openStreams('usr_b'), metrics.openStreams('usr_c')]).toEqual([
    1, 1, 0,
  ]);
  expect(metrics.openStreamsInAll()).toBe(2);
  const text = await metrics.render();
  expect(text).toContain('service_open_streams 2');
  expect(text).not.toContain('usr_');
});

test('the process is described, but not which Node it runs on', async () => {
  const text = await createMetrics().render();
  expect(text).toContain('process_cpu_seconds_total');
  expect(text).not.toContain(process.version);
});

test('what a request met is what is counted, whatever its path looked like', async () => {
  server = await startTestServer({
    handlers: { getHealth: async () => ({ status: 200, body: { status: 'ok' } }) },
  });
  for (const path of ['/health', '/api/v1/sessions/a', '/api/v1/sessions/b', '/x', '/y'])
    await server.request('GET', path);
  await expect
    .poll(() => server?.metrics())
    .toContain('service_http_requests_total{operation="getSession",status="4xx"} 2');
  expect(await server.metrics()).toContain('service_http_requests_total{operation="none",status="4xx"} 2');
});
