/** Queries and their runs over HTTP, with a scripted provider behind them: answers, questions, interrupts, failures. */
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import type { Run } from '../contract/api.ts';
import { hostile } from '../runtime/mcp/test-mcp.ts';
import { scriptedSettings } from '../server-process.ts';
import { type Account, readEvents, type StreamedEvent, type TestApp, testApp } from '../test-app.ts';
import { interruptSession } from './sessions.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: scriptedSettings(upstream.url),
  });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

beforeEach(() => upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

const writeFile = {
  when: { step: 0 },
  reply: { tool_calls: [{ name: 'write', arguments: { file_path: '{{last_user}}.txt', content: 'A' } }] },
};

/** Streams a query to its end, handing each event over as it comes. */
async function stream(
  body: Record<string, unknown>,
  onEvent?: (event: StreamedEvent) => Promise<void> | void,
  token = ada.token,
): Promise<StreamedEvent[]> {
  const response = await app.stream('POST', '/api/v1/query/stream', { token, body });
  expect(response.status).toBe(200);
  const events: StreamedEvent[] = [];
  for await (const event of readEvents(response)) {
    events.push(event);
    await onEvent?.(event);
  }
  return events;
}

function runtimeEvents(events: readonly StreamedEvent[], type: string) {
  return events
    .filter(({ event, data }) => event === 'runtime' && data.type === type)
    .map(({ data }) => data);
}

function lastOf(events: readonly StreamedEvent[]): StreamedEvent {
  const last = events.at(-1);
  if (!last) throw new Error('the stream was empty');
  return last;
}

describe('a plain query', () => {
  test('answers with what the run gave, and stores question and answer', async () => {
    const answer = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'Hello' },
    });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        stop_reason: 'end_turn',
        content: [{ type: 'text', text: 'You said: Hello' }],
        rag_results: [],
      },
    });
    const messages = await app.request('GET', `/api/v1/sessions/${answer.body.session_id}/messages`, {
      token: ada.token,
    });
    expect(messages.body.data.map((message: { role: string }) => message.role)).toEqual([
      'user',
      'assistant',
    ]);
  });

  test('is refused a tool that needs permission, at once, and the model is told', async () => {
    await upstream.script([writeFile, { reply: { text: 'The tool said: {{last_tool_result}}' } }]);
    const { body } = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'write-1' },
    });
    expect(body.tool_results).toMatchObject([{ name: 'write', is_error: true }]);
    expect(body.content[0].text).toContain('nobody can be asked');
  });

  test('continues a session, with all that was said before', async () => {
    const first = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'One' } });
    await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'Two', session_id: first.body.session_id },
    });
    const sent = await upstream.latest(() => true);
    const texts = (sent.body as { messages: { role: string; content: unknown }[] }).messages.map(
      ({ role }) => role,
    );
    expect(texts).toEqual(['system', 'user', 'assistant', 'user']);
  });

  test('waits its turn on a busy session, and answers what it was asked itself', async () => {
    await upstream.script([
      { when: { last_user: '^hold' }, reply: { text: 'Slow.', hold_after_chunks: 1 } },
      { reply: { text: 'You said: {{last_user}}' } },
    ]);
    const { token } = ada;
    const session_id = (await app.request('POST', '/api/v1/sessions', { token, body: {} })).body.id;
    const statuses = async () => {
      const { body } = await app.request('GET', `/api/v1/runs?session_id=${session_id}`, { token });
      return body.data.map(({ status }: Run) => status).toSorted();
    };
    const first = stream({ prompt: 'hold', session_id });
    await expect.poll(statuses).toEqual(['running']);
    const second = app.request('POST', '/api/v1/query', { token, body: { prompt: 'next', session_id } });
    await expect.poll(statuses).toEqual(['queued', 'running']);
    await upstream.releaseHeld();
    expect(lastOf(await first).data).toMatchObject({ status: 'completed', content: [{ text: 'Slow.' }] });
    expect(await second).toMatchObject({
      status: 200,
      body: { stop_reason: 'end_turn', content: [{ text: 'You said: next' }] },
    });
    const { body } = await app.request('GET', `/api/v1/sessions/${session_id}/messages`, { token });
    const said = body.data.map(({ parts }: { parts: { text: string }[] }) => parts[0]?.text);
    expect(said).toEqual(['hold', 'Slow.', 'next', 'You said: next']);
  });

  test.each([
    [{ prompt: 'x', corpus_id: 'unknown' }, 404, 'corpus_not_found'],
    [{ prompt: 'x', agent_slug: 'poet' }, 404, 'agent_not_found'],
    [{ prompt: 'x', model: 'nobody:none' }, 404, 'model_not_found'],
    [{ prompt: 'x', session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza' }, 404, 'not_found'],
    [{ prompt: 'x', permission_mode: 'bypass' }, 403, 'permission_mode_refused'],
    [{ prompt: '' }, 400, 'invalid_request'],
    [{}, 400, 'invalid_request'],
    [{ prompt: 'x', unknown: 1 }, 400, 'invalid_request'],
  ])('%o is refused with %i %s, and nothing is stored', async (body, status, code) => {
    const before = await app.request('GET', '/api/v1/metrics', { token: ada.token });
    for (const path of ['/api/v1/query', '/api/v1/query/stream']) {
      const answer = await app.request('POST', path, { token: ada.token, body });
      expect(answer).toMatchObject({ status, body: { code } });
    }
    const after = await app.request('GET', '/api/v1/metrics', { token: ada.token });
    expect(after.body.sessions).toBe(before.body.sessions);
  });

  test('cannot reach into the session of somebody else', async () => {
    const { body } = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'Mine' },
    });
    const answer = await app.request('POST', '/api/v1/query', {
      token: mallory.token,
      body: { prompt: 'x', session_id: body.session_id },
    });
    expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test.each([
    [{ kind: 'status', status: 401 }, 'provider_refused'],
    [{ kind: 'status', status: 429 }, 'provider_rate_limited'],
    [{ kind: 'status', status: 500 }, 'provider_failed'],
    [{ kind: 'cut', after_chunks: 2 }, 'provider_failed'],
  ])('fails as the provider does: %o', async (fail, code) => {
    await upstream.script([{ reply: { text: 'A long enough answer to be cut.' }, fail }]);
    const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x' } });
    expect(answer).toMatchObject({ status: 502, body: { code } });
    const { body } = await app.request('GET', '/api/v1/runs?limit=1', { token: ada.token });
    expect(body.data[0]).toMatchObject({ status: 'failed', stop_reason: 'error', error: { code } });
  });
});

test('a provider that limits the rate is asked again when it said, as the answer says on both surfaces', async () => {
  const fail = { kind: 'status' as const, status: 429, retry_after: '1234' };
  await upstream.script([{ reply: { text: 'Never.' }, fail }]);
  const asked = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x' } });
  expect(asked).toMatchObject({ status: 502, body: { code: 'provider_rate_limited' } });
  expect(asked.headers.get('retry-after')).toBe('1234');
  const { body: runs } = await app.request('GET', '/api/v1/runs?limit=1', { token: ada.token });
  expect(runs.data[0].error).toMatchObject({ code: 'provider_rate_limited', retry_after_seconds: 1234 });
  const message = { max_tokens: 9, messages: [{ role: 'user', content: 'x' }] };
  const said = await app.request('POST', '/v1/messages', {
    token: ada.token,
    body: { model: 'scripted:scripted-1', ...message },
  });
  expect(said.status).toBe(529);
  expect(said.headers.get('retry-after')).toBe('1234');
});

describe('a streamed query', () => {
  test('numbers its events without a gap and ends in exactly one done', async () => {
    const events = await stream({ prompt: 'Hello' });
    expect(events.map(({ id }) => Number(id))).toEqual(events.map((_, index) => index + 1));
    expect(events.filter(({ event }) => event === 'done' || event === 'error')).toHaveLength(1);
    const text = events
      .flatMap(({ event, data }) => (event === 'message' && data.type === 'text_delta' ? [data.text] : []))
      .join('');
    expect(lastOf(events)).toMatchObject({ event: 'done', data: { content: [{ text }] } });
  });

  test('is resumed after the last event that was seen', async () => {
    const events = await stream({ prompt: 'Hello' });
    const runId = runtimeEvents(events, 'run_started')[0]?.run_id;
    const response = await app.stream('GET', `/api/v1/runs/${runId}/events`, {
      token: ada.token,
      headers: { 'last-event-id': '3' },
    });
    const again: StreamedEvent[] = [];
    for await (const event of readEvents(response)) again.push(event);
    // First comes how the run stands, which has no number.
    expect(again[0]).toMatchObject({
      id: undefined,
      data: { type: 'snapshot_given', run: { id: runId, status: 'completed' }, permission_requests: [] },
    });
    expect(again.slice(1)).toEqual(events.slice(3));
  });

  test('goes on when its reader has gone', async () => {
    await upstream.script([{ reply: { text: 'A slow answer that takes its time.', chunk_delay_ms: 30 } }]);
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: ada.token,
      body: { prompt: 'x' },
    });
    const runId = response.headers.get('x-run-id');
    await response.body?.cancel();
    const rest = await app.stream('GET', `/api/v1/runs/${runId}/events`, { token: ada.token });
    const events: StreamedEvent[] = [];
    for await (const event of readEvents(rest)) events.push(event);
    expect(lastOf(events)).toMatchObject({ event: 'done', data: { stop_reason: 'end_turn' } });
  });

  test('asks for permission, and does what is allowed', async () => {
    await upstream.script([writeFile, { reply: { text: 'The tool said: {{last_tool_result}}' } }]);
    const events = await stream({ prompt: 'write-2' }, async ({ data }) => {
      if (data.type !== 'permission_requested') return;
      expect(data.request).toMatchObject({
        tool_name: 'write',
        action: 'write',
        path: '.',
        reply_schema: 'PermissionReply',
      });
      expect(data.request.diff).toContain('+A');
      const stranger = await app.request('POST', data.request.reply_path, {
        token: mallory.token,
        body: { decision: 'allow_once' },
      });
      expect(stranger.status).toBe(404);
      const first = await app.request('POST', data.request.reply_path, {
        token: ada.token,
        body: { decision: 'allow_once' },
      });
      expect(first).toMatchObject({ status: 200, body: { status: 'answered', decision: 'allow_once' } });
      const second = await app.request('POST', data.request.reply_path, {
        token: ada.token,
        body: { decision: 'deny' },
      });
      expect(second).toMatchObject({ status: 409, body: { code: 'already_answered' } });
    });
    expect(runtimeEvents(events, 'permission_resolved')).toHaveLength(1);
    expect(lastOf(events).data.tool_results).toMatchObject([{ is_error: false }]);
  });

  test('remembers a permission for the session', async () => {
    await upstream.script([writeFile, { reply: { text: 'Done.' } }]);
    const events = await stream({ prompt: 'write-3' }, async ({ data }) => {
      if (data.type === 'permission_requested')
        await app.request('POST', data.request.reply_path, {
          token: ada.token,
          body: { decision: 'allow_session' },
        });
    });
    const sessionId = lastOf(events).data.session_id;
    const again = await stream({ prompt: 'write-4', session_id: sessionId });
    expect(runtimeEvents(again, 'permission_requested')).toEqual([]);
    const elsewhere = await stream({ prompt: 'write-5' }, async ({ data }) => {
      if (data.type === 'permission_requested')
        await app.request('POST', data.request.reply_path, {
          token: ada.token,
          body: { decision: 'deny', message: 'Not here.' },
        });
    });
    expect(lastOf(elsewhere).data.tool_results[0]?.content).toContain('Not here.');
  });

  test('asks a person a question, and goes on with the answer', async () => {
    await upstream.script([
      {
        when: { step: 0 },
        reply: {
          tool_calls: [
            {
              name: 'ask_user',
              arguments: { questions: [{ id: 'colour', type: 'free_text', text: 'Which colour?' }] },
            },
          ],
        },
      },
      { reply: { text: 'They said: {{last_tool_result}}' } },
    ]);
    const events = await stream({ prompt: 'Ask' }, async ({ data }) => {
      if (data.type !== 'prompt_requested') return;
      const wrong = await app.request('POST', data.request.reply_path, {
        token: ada.token,
        body: { answers: [{ question_id: 'size', fill_in_text: 'big' }] },
      });
      expect(wrong).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
      const right = await app.request('POST', data.request.reply_path, {
        token: ada.token,
        body: { answers: [{ question_id: 'colour', fill_in_text: 'green' }] },
      });
      expect(right.status).toBe(200);
    });
    expect(lastOf(events).data.content[0]?.text).toContain('green');
  });

  test.each(['withdraws', 'forgets'])(
    'of an MCP server that %s it expires, and the run goes on',
    async (deed) => {
      const permissions = { allowed_tools: ['mcp_curious_act'] };
      const config = { ...scriptedSettings(upstream.url), permissions, mcp: { curious: hostile(deed) } };
      const own = await testApp({ config });
      onTestFinished(() => own.close());
      await upstream.script([
        { when: { step: 0 }, reply: { tool_calls: [{ name: 'mcp_curious_act', arguments: {} }] } },
        { reply: { text: 'It said: {{last_tool_result}}' } },
      ]);
      const asked = { token: own.operatorKey, body: { prompt: 'Act' } };
      const events = await Array.fromAsync(
        readEvents(await own.stream('POST', '/api/v1/query/stream', asked)),
      );
      const types = events.map(({ data }) => data.type);
      expect(types).toContain('prompt_requested');
      expect(types.indexOf('prompt_expired')).toBeLessThan(types.indexOf('tool_finished'));
      expect(types.indexOf('prompt_expired')).toBeGreaterThan(types.indexOf('prompt_requested'));
      expect(lastOf(events).data.content[0]?.text).toBe('It said: done without an answer');
    },
  );

  test('that is plain tells its agent that nobody can be asked', async () => {
    const questions = [{ id: 'q', type: 'yes_no', text: 'Really?' }];
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'ask_user', arguments: { questions } }] } },
      { reply: { text: 'They said: {{last_tool_result}}' } },
    ]);
    const { body } = await app.request('POST', '/api/v1/query', {
      token: ada.token,
      body: { prompt: 'Ask' },
    });
    expect(body.content[0].text).toMatch(/^They said: Nobody can be asked in this kind of query\./);
  });

  test('obeys the mode read_only, and the rules of the session', async () => {
    await upstream.script([writeFile, { reply: { text: 'Done.' } }]);
    const readOnly = await stream({ prompt: 'write-6', permission_mode: 'read_only' });
    expect(lastOf(readOnly).data.tool_results).toMatchObject([{ is_error: true }]);
    const { body } = await app.request('POST', '/api/v1/sessions', {
      token: ada.token,
      body: { permission_rules: [{ tool: 'write', decision: 'allow' }] },
    });
    const ruled = await stream({ prompt: 'write-7', session_id: body.id });
    expect(lastOf(ruled).data.tool_results).toMatchObject([{ is_error: false }]);
    expect(runtimeEvents(ruled, 'permission_requested')).toEqual([]);
  });

  test('is told a failure of the provider in its last event, with the one key error', async () => {
    await upstream.script([
      { reply: { text: 'A long enough answer to be cut.' }, fail: { kind: 'cut', after_chunks: 3 } },
    ]);
    const events = await stream({ prompt: 'x' });
    expect(lastOf(events).event).toBe('error');
    expect(Object.keys(lastOf(events).data)).toEqual(['error']);
    expect(lastOf(events).data.error).toMatch(/^provider_failed: /);
  });
});

describe('an interrupt', () => {
  test('stops the model call; what was said is kept', async () => {
    await upstream.script([
      {
        reply: { text: 'A long enough answer to hang in its middle.' },
        fail: { kind: 'hang', after_chunks: 3 },
      },
    ]);
    const events = await stream({ prompt: 'x' }, async ({ event, data }) => {
      if (event !== 'message') return;
      const runId =
        data.message_id &&
        (await app.request('GET', '/api/v1/runs?limit=1', { token: ada.token })).body.data[0].id;
      expect(
        (await app.request('POST', `/api/v1/runs/${runId}/interrupt`, { token: mallory.token })).status,
      ).toBe(404);
      await app.request('POST', `/api/v1/runs/${runId}/interrupt`, { token: ada.token });
    });
    expect(lastOf(events)).toMatchObject({
      event: 'done',
      data: { stop_reason: 'interrupted', interrupt_reason: 'requested' },
    });
    await upstream.latest(({ outcome }) => outcome === 'aborted');
    const { run_id, session_id, content } = lastOf(events).data;
    const late = await app.request('POST', `/api/v1/runs/${run_id}/interrupt`, { token: ada.token });
    expect(late).toMatchObject({ status: 409, body: { code: 'run_ended' } });
    const { body } = await app.request('GET', `/api/v1/sessions/${session_id}/messages`, {
      token: ada.token,
    });
    expect(body.data.at(-1)).toMatchObject({ role: 'assistant', parts: content, stop_reason: 'interrupted' });
  });

  test('of a session stops what waits for a person, and the question is cancelled', async () => {
    await upstream.script([writeFile]);
    let path = '';
    const events = await stream({ prompt: 'write-8' }, async ({ data }) => {
      if (data.type !== 'permission_requested') return;
      path = data.request.reply_path;
      const { status } = await app.request('POST', `/api/v1/sessions/${data.request.session_id}/interrupt`, {
        token: ada.token,
      });
      expect(status).toBe(202);
    });
    expect(lastOf(events).data).toMatchObject({ status: 'interrupted' });
    const answer = await app.request('POST', path, { token: ada.token, body: { decision: 'allow_once' } });
    expect(answer).toMatchObject({ status: 409, body: { code: 'already_answered' } });
    const session = path.split('/permissions')[0] ?? '';
    const { body: said } = await app.request('GET', `${session}/messages?role=tool`, { token: ada.token });
    expect(said.data[0].parts[0].content).toBe('The call was not made: the run was interrupted before.');
    const idle = await app.request('POST', `${session}/interrupt`, { token: ada.token });
    expect(idle).toMatchObject({ status: 409, body: { code: 'run_ended' } });
    expect((await app.request('DELETE', session, { token: ada.token })).status).toBe(204);
  });

  test('of a session stops the others where one has ended by itself meanwhile', async () => {
    await upstream.script([{ reply: { text: 'Slow.', hold_after_chunks: 1 } }]);
    const session_id = (await app.request('POST', '/api/v1/sessions', { token: ada.token, body: {} })).body
      .id;
    const body = { prompt: 'x', session_id };
    const { store, identity } = app.services;
    const principal = await identity.authenticate(ada.token);
    const activeOf = () => store.runs.activeOf(principal, session_id);
    const statuses = async () => (await activeOf()).map(({ status }) => status);
    const first = stream(body);
    // Sent at once, either might be the one that runs.
    await expect.poll(statuses).toEqual(['running']);
    const second = stream(body);
    await expect.poll(statuses).toEqual(['running', 'queued']);
    const active = await activeOf();
    const [atWork] = active;
    await app.request('POST', `/api/v1/runs/${atWork?.id}/interrupt`, { token: ada.token });
    await first;
    // As the handler sees it that has looked a moment earlier.
    const services = {
      ...app.services,
      store: { ...store, runs: { ...store.runs, activeOf: async () => active } },
    };
    const call = { principal, path: { session_id } } as Parameters<typeof interruptSession>[0]; // all that it reads
    await expect(interruptSession(call, services)).resolves.toMatchObject({ status: 202 });
    expect(lastOf(await second).data).toMatchObject({ status: 'interrupted' });
  });

  test('of a session stops what waits before what is at work, so that none of it begins', async () => {
    await upstream.script([{ reply: { text: 'Held for a long, long time.', hold_after_chunks: 3 } }]);
    const principal = await app.services.identity.authenticate(ada.token);
    const { store } = app.services;
    const { session } = await store.sessions.create(principal, {});
    const statuses = async () =>
      (await store.runs.activeOf(principal, session.id)).map(({ status }) => status);
    const ending: Promise<StreamedEvent[]>[] = [];
    for (const known of [[], ['running'], ['running', 'queued'], ['running', 'queued', 'queued']]) {
      await expect.poll(statuses).toEqual(known);
      ending.push(stream({ prompt: `number ${known.length}`, session_id: session.id }));
    }
    await expect.poll(statuses).toEqual(['running', 'queued', 'queued', 'queued']);
    await upstream.latest(({ chunks_written }) => chunks_written > 0);
    // A store so slow that each has ended before the next is asked to.
    const asked: string[] = [];
    const requestInterrupt: typeof store.runs.requestInterrupt = async (reach, runId, reason) => {
      const endsOf = async () =>
        Promise.all(asked.map(async (id) => (await store.runs.find(principal, id))?.run.ended_at));
      await expect.poll(endsOf).not.toContain(null);
      asked.push(runId);
      return store.runs.requestInterrupt(reach, runId, reason);
    };
    const services = { ...app.services, store: { ...store, runs: { ...store.runs, requestInterrupt } } };
    const call = { principal, path: { session_id: session.id } } as Parameters<typeof interruptSession>[0]; // all that it reads
    expect(await interruptSession(call, services)).toMatchObject({ status: 202 });
    const [first = [], ...waited] = await Promise.all(ending);
    for (const events of [first, ...waited])
      expect(lastOf(events).data).toMatchObject({ status: 'interrupted' });
    for (const events of waited) expect(runtimeEvents(events, 'run_started')).toEqual([]);
    const { body } = await app.request('GET', `/api/v1/runs?session_id=${session.id}`, { token: ada.token });
    const begun = body.data.filter(({ started_at }: Run) => started_at !== null);
    expect([body.data.length, begun.length]).toEqual([4, 1]);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('of a session keeps the queue where that is wished: what waits begins then', async () => {
    await upstream.script([
      { when: { last_user: '^hold' }, reply: { text: 'Slow.', hold_after_chunks: 1 } },
      { reply: { text: 'Done.' } },
    ]);
    const { body: session } = await app.request('POST', '/api/v1/sessions', { token: ada.token, body: {} });
    const path = `/api/v1/sessions/${session.id}/interrupt`;
    const runs = async () =>
      (await app.request('GET', `/api/v1/runs?session_id=${session.id}`, { token: ada.token })).body.data;
    const first = stream({ prompt: 'hold', session_id: session.id });
    await expect.poll(async () => (await runs()).length).toBe(1);
    const second = stream({ prompt: 'next', session_id: session.id });
    await expect.poll(async () => (await runs()).length).toBe(2);
    const stopped = await app.request('POST', path, { token: ada.token, body: { keep_queue: true } });
    expect(stopped).toMatchObject({ status: 202, body: { data: [{ session_id: session.id }] } });
    expect(lastOf(await first).data).toMatchObject({ status: 'interrupted' });
    expect(lastOf(await second).data).toMatchObject({ status: 'completed', content: [{ text: 'Done.' }] });
    const odd = await app.request('POST', path, { token: ada.token, body: { keep_queue: 'yes' } });
    expect(odd).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('a session with a run at work cannot be deleted', async () => {
    await upstream.script([writeFile]);
    await stream({ prompt: 'write-9' }, async ({ data }) => {
      if (data.type !== 'permission_requested') return;
      const path = `/api/v1/sessions/${data.request.session_id}`;
      expect(await app.request('DELETE', path, { token: ada.token })).toMatchObject({
        status: 409,
        body: { code: 'session_busy' },
      });
      expect((await app.request('GET', path, { token: ada.token })).body.status).toBe('waiting');
      await app.request('POST', `${path}/interrupt`, { token: ada.token });
    });
  });
});

describe('the events of a run', () => {
  test('are refused to a stranger, and from a number that is not there yet', async () => {
    const { body } = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x' } });
    const path = `/api/v1/runs/${body.run_id}/events`;
    expect((await app.request('GET', path, { token: mallory.token })).status).toBe(404);
    const future = await app.request('GET', `${path}?after=99999`, { token: ada.token });
    expect(future).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  test('end at once where the run has ended and all was seen', async () => {
    const { body } = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x' } });
    const run = await app.request('GET', `/api/v1/runs/${body.run_id}`, { token: ada.token });
    const path = `/api/v1/runs/${body.run_id}/events?after=${run.body.last_event_id}`;
    const events: StreamedEvent[] = [];
    for await (const event of readEvents(await app.stream('GET', path, { token: ada.token })))
      events.push(event);
    expect(events.map(({ id, data }) => [id, data.type])).toEqual([[undefined, 'snapshot_given']]);
  });

  test('are answered with 410 once they are no longer kept', async () => {
    const { body } = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x' } });
    await app.services.store.runs.pruneEvents(new Date(Date.now() + 60_000));
    const gone = await app.request('GET', `/api/v1/runs/${body.run_id}/events?after=1`, { token: ada.token });
    expect(gone).toMatchObject({ status: 410, body: { code: 'events_expired' } });
    expect(gone.body.detail).toContain(body.session_id);
  });
});

test('a question that nobody answers in time is refused, and a late answer gets 410', async () => {
  const quick = await testApp({
    settings: { answerSeconds: 0.3 },
    config: scriptedSettings(upstream.url),
  });
  const bob = await quick.register('bob');
  await upstream.script([writeFile, { reply: { text: 'The tool said: {{last_tool_result}}' } }]);
  const response = await quick.stream('POST', '/api/v1/query/stream', {
    token: bob.token,
    body: { prompt: 'write-10' },
  });
  const events: StreamedEvent[] = [];
  for await (const event of readEvents(response)) events.push(event);
  expect(runtimeEvents(events, 'permission_expired')).toHaveLength(1);
  const { reply_path } = runtimeEvents(events, 'permission_requested')[0]?.request ?? {};
  const late = await quick.request('POST', reply_path, {
    token: bob.token,
    body: { decision: 'allow_once' },
  });
  expect(late).toMatchObject({ status: 410, body: { code: 'request_expired' } });
  await quick.close();
});
