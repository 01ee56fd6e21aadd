/** Traces of a real server, as a collector gets them over OTLP: what they tell, what they never tell, and that nobody waits for them. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  writeSettings,
} from './server-process.ts';
import { clientOf } from './test-client.ts';

/** As much of https://opentelemetry.io/docs/specs/otlp/ as is looked at. */
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
}

interface Collector {
  readonly url: string;
  readonly spans: readonly Span[];
  /** Of each request, as they came. */
  readonly requests: readonly {
    readonly path: string;
    readonly headers: IncomingHttpHeaders;
    readonly body: string;
  }[];
}

/** A collector that takes everything; one that never answers where it is `silent`. */
async function startCollector(silent = false): Promise<Collector> {
  const requests: { path: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = await Array.fromAsync(request);
    requests.push({
      path: request.url ?? '',
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
    });
    if (!silent) response.setHeader('content-type', 'application/json').end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // a TCP server
    requests,
    get spans() {
      return requests.flatMap(({ body }) =>
        JSON.parse(body).resourceSpans.flatMap((resource: { scopeSpans: { spans: Span[] }[] }) =>
          resource.scopeSpans.flatMap(({ spans }) => spans),
        ),
      );
    },
  };
}

/** With the scripted upstream as its provider. */
async function startTraced(
  variables: Record<string, string>,
): Promise<{ server: ServerProcess; upstream: string }> {
  const upstream = await startUpstream();
  onTestFinished(async () => void (await upstream.stop()));
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  return { server: await startServer({ folder, variables }), upstream: upstream.url };
}

const prompt = 'use tool glob with {"pattern": "what-nobody-else-may-read*"}';
const traceId = '0af7651916cd43dd8448eb211c80319c';
const callerId = 'b7ad6b7169203331';

test('a query is a trace from whoever asks to the model provider, in names, numbers and codes alone', async () => {
  const collector = await startCollector();
  const { server, upstream } = await startTraced({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20the-token-of-the-collector',
    OTEL_SERVICE_NAME: 'assistants',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=staging',
  });
  const asked = await fetch(`${server.url}/api/v1/query?`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.key}`,
      'content-type': 'application/json',
      traceparent: `00-${traceId}-${callerId}-01`,
      tracestate: 'vendor=1',
    },
    body: JSON.stringify({ prompt, permission_mode: 'accept_edits' }),
  });
  expect(asked.status).toBe(200);
  const { run_id, session_id } = (await asked.json()) as { run_id: string; session_id: string }; // held by the contract
  await fetch(`${server.url}/nowhere?token=what-nobody-else-may-read`);
  // What was not sent by now is sent at the end.
  expect(await server.stop()).toBe(0);

  const { spans, requests } = collector;
  const [first] = requests;
  expect(first?.path).toBe('/v1/traces');
  expect(first?.headers.authorization).toBe('Bearer the-token-of-the-collector');
  const resource = JSON.stringify(JSON.parse(first?.body ?? '').resourceSpans[0].resource);
  for (const told of ['assistants', 'deployment.environment.name', 'staging', 'service.version'])
    expect(resource).toContain(told);

  const named = (name: string) => spans.filter((span) => span.name === name);
  const one = (name: string): Span => {
    const [found] = named(name);
    if (!found) throw new Error(`${name} is not among ${spans.map((span) => span.name)}`);
    return found;
  };
  const request = one('POST /api/v1/query');
  expect(request).toMatchObject({ traceId, parentSpanId: callerId, kind: 2 });
  expect(valuesOf(request)).toMatchObject({
    'http.request.method': 'POST',
    'http.route': '/api/v1/query',
    'http.response.status_code': 200,
    'operation.id': 'createQuery',
    'request.id': asked.headers.get('x-request-id'),
  });
  const run = one('invoke_agent coder');
  expect(run).toMatchObject({ traceId, parentSpanId: request.spanId, kind: 1 });
  expect(valuesOf(run)).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.conversation.id': session_id,
    'run.id': run_id,
    'run.steps': 2,
  });
  const steps = named('step');
  expect(steps.map((step) => [step.parentSpanId, valuesOf(step)['run.step']])).toEqual([
    [run.spanId, 1],
    [run.spanId, 2],
  ]);
  const calls = named('chat scripted-1');
  expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual(steps.map(({ spanId }) => spanId));
  expect(calls[0]).toMatchObject({ traceId, kind: 3 });
  expect(valuesOf(calls[0])).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai-compat',
    'gen_ai.request.model': 'scripted-1',
    'gen_ai.response.finish_reasons': ['tool_use'],
    'gen_ai.usage.input_tokens': expect.any(Number),
    'gen_ai.usage.output_tokens': expect.any(Number),
  });
  const tool = one('execute_tool glob');
  expect(tool).toMatchObject({ traceId, parentSpanId: run.spanId, status: {} });
  expect(valuesOf(tool)).toMatchObject({ 'gen_ai.tool.name': 'glob', 'run.id': run_id });

  // The provider is told which call it answers.
  const { requests: provided } = (await (await fetch(`${upstream}/_requests`)).json()) as {
    requests: { headers: Record<string, string> }[]; // as its README says
  };
  expect(provided.map(({ headers }) => headers.traceparent)).toEqual(
    expect.arrayContaining(calls.map(({ spanId }) => `00-${traceId}-${spanId}-01`)),
  );
  expect(provided[0]?.headers.tracestate).toBe('vendor=1');

  // Of what has no operation the method is told, and the path is not.
  expect(valuesOf(one('GET'))).toMatchObject({ 'http.response.status_code': 404 });
  const everything = requests.map(({ body }) => body).join();
  for (const secret of [
    'what-nobody-else-may-read',
    server.key,
    'the-key-of-the-upstream',
    'the-token-of',
    'nowhere',
    '127.0.0.1',
  ])
    expect(everything).not.toContain(secret);
  expect(server.log()).not.toContain('the-token-of-the-collector');

  const line = server
    .log()
    .split('\n')
    .find((text) => text.includes('"route":"/api/v1/query"'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({
    trace_id: traceId,
    span_id: request.spanId,
    msg: 'request',
  });
});

test('a model call and a run that fail are told by their code', async () => {
  const collector = await startCollector();
  const { server, upstream } = await startTraced({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
  });
  const fail = { kind: 'status', status: 400, message: 'what-nobody-else-may-read' };
  await fetch(`${upstream}/_script`, { method: 'PUT', body: JSON.stringify({ rules: [{ fail }] }) });
  const client = clientOf(server, server.key);
  const { status } = await client.post('/api/v1/query', { prompt: 'hello' });
  expect(status).toBe(502);
  expect(await server.stop()).toBe(0);
  const { spans } = collector;
  for (const name of ['chat scripted-1', 'step', 'invoke_agent coder']) {
    const span = spans.find((one) => one.name === name);
    expect(span?.status, name).toEqual({ code: 2 });
    expect(valuesOf(span)['error.type'], name).toMatch(/^provider_/);
  }
  expect(valuesOf(spans.find(({ name }) => name === 'POST /api/v1/query'))['error.type']).toBe('502');
  expect(JSON.stringify(collector.requests)).not.toContain('what-nobody-else-may-read');
});

test('what is passed on as it is carries its trace too, whole and streamed', async () => {
  const collector = await startCollector();
  const upstream = await startUpstream();
  onTestFinished(async () => void (await upstream.stop()));
  const folder = await temporaryFolder();
  const provider = { base_url: `${upstream.url}/v1`, api_key: 'k', models: [{ id: 'passed-1' }] };
  await writeSettings(folder, { providers: { vendor: { type: 'anthropic', ...provider } } });
  const variables = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces` };
  const server = await startServer({ folder, variables });
  for (const stream of [false, true]) {
    const answer = await fetch(`${server.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': server.key, 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ model: 'vendor:passed-1', max_tokens: 10, stream },
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    });
    // What no translation brings.
    expect(await answer.text()).toContain('"citations":null');
  }
  expect(await server.stop()).toBe(0);
  const spans = collector.spans.filter(({ name }) => name === 'chat passed-1');
  expect(spans.map((span) => valuesOf(span)['gen_ai.provider.name'])).toEqual(['anthropic', 'anthropic']);
});

test.each([
  ['a collector that is away', async () => 'http://127.0.0.1:9'],
  ['a collector that never answers', async () => (await startCollector(true)).url],
])('%s keeps nobody waiting, and is told of in the log', async (_what, start) => {
  const { server } = await startTraced({
    OTEL_EXPORTER_OTLP_ENDPOINT: await start(),
    OTEL_EXPORTER_OTLP_TIMEOUT: '500',
  });
  const client = clientOf(server, server.key);
  for (let count = 0; count < 5; count += 1)
    expect((await client.post('/api/v1/query', { prompt: 'hello' })).status).toBe(200);
  const since = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - since).toBeLessThan(8000);
  const told = server
    .log()
    .split('\n')
    .filter((line) => line.includes('traces could not be sent'));
  expect(told.length).toBeLessThanOrEqual(1);
});

test.each([
  [
    'none is kept by the sampler',
    { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' },
    '01',
  ],
  ['whoever asks has decided against it', {}, '00'],
  ['the SDK is disabled', { OTEL_SDK_DISABLED: 'true' }, '01'],
  ['there is no exporter', { OTEL_TRACES_EXPORTER: 'none' }, '01'],
])('nothing is sent where %s', async (_why, variables, flags) => {
  const collector = await startCollector();
  const { server } = await startTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...variables });
  const headers = { traceparent: `00-${traceId}-${callerId}-${flags}` };
  expect((await fetch(`${server.url}/health`, { headers })).status).toBe(200);
  expect(await server.stop()).toBe(0);
  expect(collector.requests).toEqual([]);
});

test.each([
  ['nobody speaks of traces', {}, false],
  [
    'they are switched off',
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_SDK_DISABLED: 'true' },
    false,
  ],
  ['they are asked for', { OTEL_TRACES_EXPORTER: 'otlp' }, true],
])('where %s, the libraries are loaded: %s %s', async (_what, variables, loaded) => {
  const folder = await temporaryFolder();
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ resolve(name, context, next) {
      if (name.startsWith('@opentelemetry/')) console.error('loads ' + name);
      return next(name, context);
    } });`;
  const options = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
  // From its sources: in compiled programs a library has no name of its own.
  const server = await startServer({
    folder,
    variables: { NODE_OPTIONS: options, SERVICE_DEBUG: 'true', ...variables },
  });
  expect((await clientOf(server, server.key).post('/api/v1/query', { prompt: 'hello' })).status).toBe(200);
  expect(await server.stop()).toBe(0);
  expect(/loads @opentelemetry\/(sdk|exporter|resources)/.test(server.log())).toBe(loaded);
});

function valuesOf(span: Span | undefined): Record<string, unknown> {
  return Object.fromEntries(span?.attributes.map(({ key, value }) => [key, plain(value)]) ?? []);
}

// biome-ignore lint/suspicious/noExplicitAny: a value of OTLP is one of several, by its key
function plain(value: any): unknown {
  if (value.arrayValue) return value.arrayValue.values.map(plain);
  const found = value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue;
  return typeof value.intValue === 'string' ? Number(value.intValue) : found;
}
