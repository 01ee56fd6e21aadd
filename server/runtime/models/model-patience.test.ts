/** What is done about models that do not answer: asked again with pauses, replaced, or given up in time. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { dialects, doneOf, errorOf, eventsOf, modelRuntime, told } from '../test-models.ts';
import { testQuery } from '../test-query.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const answer = { reply: { text: 'Hello there.' } };

describe.each(dialects)('a call that fails (%s)', (type) => {
  test.each<[string, object, string]>([
    ['408', { kind: 'status', status: 408 }, 'provider_timeout'],
    ['429', { kind: 'status', status: 429 }, 'provider_rate_limited'],
    ['500', { kind: 'status', status: 500 }, 'provider_failed'],
    ['503 of a proxy', { kind: 'status', status: 503, body: '<html>' }, 'provider_failed'],
    ['529', { kind: 'status', status: 529 }, 'provider_rate_limited'],
    ['a connection that breaks off at once', { kind: 'cut' }, 'provider_failed'],
  ])('with %s is asked again, exactly once more, and the run completes', async (_how, fail, code) => {
    await upstream.script([{ times: 1, fail }, answer]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Hi');
    expect(doneOf(events)).toMatchObject({ content: [{ type: 'text', text: 'Hello there.' }] });
    expect(told(events, 'model_retried')).toMatchObject([{ model: 'house:big', attempt: 2, code }]);
    expect(await upstream.requests()).toHaveLength(2);
  });

  test('`options.limits.max_attempts` bounds how often it is asked the same thing', async () => {
    await upstream.script([{ fail: { kind: 'status', status: 500 } }]);
    const { ask } = await modelRuntime(upstream, { type, options: { limits: { max_attempts: 3 } } });
    const events = await ask('Hi');
    expect(errorOf(events)).toMatch(/^provider_failed: /);
    expect(told(events, 'model_retried').map(({ attempt }) => attempt)).toEqual([2, 3]);
    expect(await upstream.requests()).toHaveLength(3);
  });

  test('is asked four times unless the settings say otherwise, with pauses that grow', async () => {
    await upstream.script([{ fail: { kind: 'status', status: 500 } }]);
    const { ask } = await modelRuntime(upstream, { type, runtime: { retryPauseMs: 20 } });
    const pauses = told(await ask('Hi'), 'model_retried').map(({ wait_ms }) => wait_ms);
    expect(pauses).toHaveLength(3);
    for (const [index, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThanOrEqual(10 * 2 ** index);
      expect(pause).toBeLessThanOrEqual(20 * 2 ** index);
    }
    const times = (await upstream.requests()).map(({ received_at }) => received_at);
    for (const [index, pause] of pauses.entries())
      expect((times[index + 1] ?? 0) - (times[index] ?? 0)).toBeGreaterThanOrEqual(pause - 2);
  });

  test.each(['1', new Date(Date.now() + 2_000_000).toUTCString()])(
    'is left alone for as long as its provider says (Retry-After: %s), within bounds',
    async (retry_after) => {
      await upstream.script([{ times: 1, fail: { kind: 'status', status: 429, retry_after } }, answer]);
      const { ask } = await modelRuntime(upstream, { type });
      const events = await ask('Hi');
      if (retry_after === '1') {
        expect(told(events, 'model_retried')).toMatchObject([{ wait_ms: 1000 }]);
        expect(doneOf(events).stop_reason).toBe('end_turn');
      } else {
        expect(errorOf(events)).toMatch(/^provider_rate_limited: .* try again in 1\d{3} s\.$/);
        expect(await upstream.requests()).toHaveLength(1);
      }
    },
  );

  test('after it began to answer is asked again in a new message, and what was seen is stored', async () => {
    await upstream.script([
      { times: 1, reply: { text: 'An answer that breaks off.' }, fail: { kind: 'cut', after_chunks: 5 } },
      answer,
    ]);
    const { ask, transcript } = await modelRuntime(upstream, { type });
    const events = await ask('Hi');
    const texts = new Map<string, string>();
    for (const { name, data } of events)
      if (name === 'message' && data.type === 'text_delta')
        texts.set(data.message_id, (texts.get(data.message_id) ?? '') + data.text);
    expect([...texts.values()]).toEqual([expect.stringMatching(/^An answer/), 'Hello there.']);
    const stored = await transcript.readMessages('ses_1');
    expect(stored.map(({ role, stop_reason }) => [role, stop_reason])).toEqual([
      ['user', null],
      ['assistant', 'interrupted'],
      ['assistant', 'end_turn'],
    ]);
    const said = stored.slice(1).map(({ parts: [part] }) => (part?.type === 'text' ? part.text : ''));
    expect(said).toEqual([...texts.values()]);
    expect(stored.slice(1).map(({ id }) => id)).toEqual([...texts.keys()]);
    // The next question is asked as if the first attempt had never been.
    await ask('And now?');
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).not.toContain('breaks off');
  });

  test.each<[string, object]>([
    ['what was asked', { kind: 'status', status: 400, message: 'No such thing.' }],
    ['the credential', { kind: 'status', status: 401 }],
    ['the name of the model', { kind: 'status', status: 404 }],
    [
      'an account without money',
      { kind: 'status', status: 429, code: 'insufficient_quota', message: 'billing' },
    ],
  ])('for %s is not asked again', async (_what, fail) => {
    await upstream.script([{ fail }]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Hi');
    expect(errorOf(events)).toMatch(/^provider_(request_)?refused: /);
    expect(told(events, 'model_retried')).toEqual([]);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('can be interrupted while it waits', async () => {
    await upstream.script([{ fail: { kind: 'status', status: 429, retry_after: '30' } }]);
    const { runtime, transcript } = await modelRuntime(upstream, { type });
    const { runId } = await runtime.start(testQuery('Hi'));
    const read = eventsOf(runtime, runId);
    await expect
      .poll(async () => told(await transcript.readEvents(runId, 0, 100), 'model_retried').length)
      .toBe(1);
    transcript.requestInterrupt(runId);
    runtime.wake(runId);
    expect(doneOf(await read)).toMatchObject({ status: 'interrupted', interrupt_reason: 'requested' });
  });

  test('is not asked again behind the Messages API once text has gone out', async () => {
    await upstream.script([
      { times: 1, reply: { text: 'An answer that breaks off.' }, fail: { kind: 'cut', after_chunks: 5 } },
      answer,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(errorOf(await ask('Hi', { trigger: 'messages' }))).toMatch(/^provider_failed: /);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('nor once a part of a tool call has', async () => {
    const call = { name: 'get_weather', arguments: '{"place": "a rather long name of a place"}' };
    const cut = { times: 1, reply: { tool_calls: [call] }, fail: { kind: 'cut', after_chunks: 6 } };
    await upstream.script([cut, answer]);
    const { ask } = await modelRuntime(upstream, { type });
    const callerTools = [{ name: 'get_weather', description: '', inputSchema: { type: 'object' } }];
    const events = await ask('Hi', {
      trigger: 'messages',
      request: { limits: {}, summary: null, callerTools },
    });
    expect(JSON.stringify(events)).toContain('tool_input_delta');
    expect(errorOf(events)).toMatch(/^provider_failed: /);
    expect(await upstream.requests()).toHaveLength(1);
  });
});

test('a provider that nobody listens for is asked again too', async () => {
  // As long as a connection goes out from a port, nobody comes to listen on it.
  const connection = connect(Number(new URL(upstream.url).port), '127.0.0.1');
  onTestFinished(() => void connection.destroy());
  await once(connection, 'connect');
  const provider = { base_url: `http://127.0.0.1:${connection.localPort}/v1` };
  const { ask } = await modelRuntime(upstream, { provider });
  const events = await ask('Hi');
  expect(told(events, 'model_retried')).toHaveLength(3);
  expect(errorOf(events)).toMatch(/^provider_failed: /);
});

describe.each(dialects)('models that stand in (%s)', (type) => {
  test.each<[string, object, number]>([
    ['is overloaded', { kind: 'status', status: 529 }, 4],
    ['refuses the key', { kind: 'status', status: 401 }, 1],
    ['is not there', { kind: 'status', status: 404 }, 1],
  ])(
    '`models.large.fallbacks` are asked in their order where the model %s, and write in their own name',
    async (_how, fail, asked) => {
      await upstream.script([{ when: { model: 'big|other' }, fail }, answer]);
      const { ask, transcript } = await modelRuntime(upstream, {
        type,
        large: { fallbacks: ['gone:model', 'house:other', 'house:tiny'] },
      });
      const events = await ask('Hi');
      expect(told(events, 'model_replaced')).toMatchObject([
        { from: 'house:big', to: 'house:other' },
        { from: 'house:other', to: 'house:tiny' },
      ]);
      expect(doneOf(events)).toMatchObject({ model: 'house:tiny' });
      const stored = await transcript.readMessages('ses_1');
      expect(stored.map(({ model }) => model)).toEqual([null, 'house:tiny']);
      const models = (await upstream.requests()).map(({ body }) => (body as { model: string }).model);
      expect(models).toEqual([
        ...Array.from({ length: asked }, () => 'big'),
        ...Array.from({ length: asked }, () => 'other'),
        'tiny',
      ]);
    },
  );

  test('stay for the rest of the run; the next run begins with the first again', async () => {
    await upstream.script([
      { when: { model: 'big' }, times: 1, fail: { kind: 'status', status: 401 } },
      { when: { step: 0, last_user: 'list' }, reply: { tool_calls: [{ name: 'ls', arguments: {} }] } },
      answer,
    ]);
    const { ask } = await modelRuntime(upstream, { type, large: { fallbacks: ['house:other'] } });
    const first = await ask('list');
    expect(told(first, 'step_finished')).toHaveLength(2);
    await ask('Again');
    const models = (await upstream.requests()).map(({ body }) => (body as { model: string }).model);
    expect(models).toEqual(['big', 'other', 'other', 'big']);
  });

  test('are not asked where what was asked is refused, nor for a model that was chosen by name', async () => {
    await upstream.script([
      { when: { model: 'tiny' }, fail: { kind: 'status', status: 401 } },
      { fail: { kind: 'status', status: 400 } },
    ]);
    const { ask } = await modelRuntime(upstream, { type, large: { fallbacks: ['house:other'] } });
    const refused = await ask('Hi');
    const named = await ask('Hi', { model: 'house:tiny' });
    for (const events of [refused, named]) {
      expect(errorOf(events)).toMatch(/^provider_(request_)?refused: /);
      expect(told(events, 'model_replaced')).toEqual([]);
    }
    expect(await upstream.requests()).toHaveLength(2);
  });
});

describe.each(dialects)('what a provider will not take (%s)', (type) => {
  const refusal = {
    when: { last_user: 'poison' },
    fail: { kind: 'status', status: 400, message: 'Not this.' },
  };

  test('is left out of what is said later: a refused prompt poisons no session', async () => {
    await upstream.script([refusal, answer]);
    const { ask, transcript } = await modelRuntime(upstream, { type });
    await ask('Before');
    expect(errorOf(await ask('poison'))).toMatch(/^provider_request_refused: /);
    expect(doneOf(await ask('After')).stop_reason).toBe('end_turn');
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).not.toContain('poison');
    expect(JSON.stringify(body)).toContain('Before');
    const marks = (await transcript.readMessages('ses_1')).map(({ excluded }) => excluded);
    expect(marks).toEqual([false, false, true, false, false]);
  });

  test('of what a tool gave is told to the model as a call that was cut off', async () => {
    await upstream.script([
      { when: { step: 0, last_user: 'look' }, reply: { tool_calls: [{ name: 'ls', arguments: {} }] } },
      { when: { last_tool_result: '' }, fail: { kind: 'status', status: 400 } },
      answer,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(errorOf(await ask('look'))).toMatch(/^provider_request_refused: /);
    expect(doneOf(await ask('After')).stop_reason).toBe('end_turn');
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).toContain('was interrupted');
  });

  test.each([500, 429])('is kept where the provider failed for its own reasons (%i)', async (status) => {
    await upstream.script([{ when: { last_user: 'First' }, fail: { kind: 'status', status } }, answer]);
    const { ask } = await modelRuntime(upstream, { type, options: { limits: { max_attempts: 1 } } });
    errorOf(await ask('First'));
    await ask('Second');
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).toContain('First');
  });

  test('is kept where only a fallback refused it, for the model that was asked', async () => {
    await upstream.script([
      { when: { model: 'other' }, fail: { kind: 'status', status: 400 } },
      { when: { last_user: 'First' }, fail: { kind: 'status', status: 503 } },
      answer,
    ]);
    const { ask } = await modelRuntime(upstream, {
      type,
      large: { fallbacks: ['house:other'] },
      options: { limits: { max_attempts: 1 } },
    });
    expect(errorOf(await ask('First'))).toMatch(/^provider_request_refused/);
    await ask('Second');
    const { body } = await upstream.latest(() => true);
    expect(JSON.stringify(body)).toContain('First');
  });
});
