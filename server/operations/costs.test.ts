/** What queries use and cost, over HTTP: told the same way wherever it is asked for; summaries on request; estimates. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { createLog } from '../log.ts';
import { type Account, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

/** What is logged as a fault of the server. */
const faults = vi.fn();
const dialects = ['openai-compat', 'anthropic'] as const;

beforeAll(async () => {
  upstream = await startUpstream();
  const provider = (type: (typeof dialects)[number], more: object = {}) => ({
    ...{ type, base_url: `${upstream.url}/v1`, api_key: 'k' },
    models: [
      {
        id: 'priced',
        cost_per_1m_in: 2,
        cost_per_1m_out: 10,
        cost_per_1m_out_cached: 0.5,
        context_window: 100_000,
        default_max_tokens: 1000,
      },
      { id: 'unpriced' },
    ],
    ...more,
  });
  app = await testApp({
    log: Object.assign(createLog('silent'), { error: faults }),
    config: {
      models: {
        large: { provider: 'openai-compat', model: 'priced' },
        small: { provider: 'openai-compat', model: 'priced' },
      },
      providers: {
        'openai-compat': provider('openai-compat'),
        anthropic: provider('anthropic'),
        flat: provider('openai-compat', { flat_rate: true }),
      },
    },
  });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});

afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const ask = (path: string, body: object, token = ada.token) => app.request('POST', path, { token, body });
const read = async (path: string, token = ada.token): Promise<Json> =>
  (await app.request('GET', path, { token })).body;

async function stream(body: object): Promise<Json[]> {
  const response = await app.stream('POST', '/api/v1/query/stream', { token: ada.token, body });
  const events: Json[] = [];
  for await (const { data } of readEvents(response)) events.push(data);
  return events;
}

/** Waits for the title, which is written behind the run. */
async function named(sessionId: string): Promise<Json> {
  const session = () => read(`/api/v1/sessions/${sessionId}`);
  await expect.poll(async () => (await session()).title).toBe('Tools of mine');
  return session();
}

const title = {
  when: { system: 'Write a title' },
  reply: { text: 'Tools of mine', usage: { input: 50, output: 5 } },
};
const twoSteps = [
  title,
  {
    when: { step: 0 },
    reply: {
      tool_calls: [{ name: 'ls', arguments: {} }],
      usage: { input: 1000, cached: 400, output: 20 },
    },
  },
  { reply: { text: 'Done.', usage: { input: 1100, cached: 1000, output: 30 } } },
];

describe.each(dialects)('a query of two steps (%s)', (dialect) => {
  test('`providers.*.models[].cost_per_1m_in`, `providers.*.models[].cost_per_1m_out` and `providers.*.models[].cost_per_1m_out_cached` price each step, and all places tell the same', async () => {
    await upstream.script(twoSteps);
    const model = `${dialect}:priced`;
    const events = await stream({ prompt: 'x', model });
    const plain = (await ask('/api/v1/query', { prompt: 'x', model })).body;
    const done = events.at(-1);
    const first = (600 * 2 + 400 * 0.5 + 20 * 10) / 1_000_000;
    const second = (100 * 2 + 1000 * 0.5 + 30 * 10) / 1_000_000;
    const whole = Math.round((first + second) * 1e9) / 1e9;
    const usage = { input_tokens: 2100, output_tokens: 50, cached_input_tokens: 1400 };
    expect([done.usage, done.cost]).toEqual([usage, whole]);
    expect([plain.usage, plain.cost]).toEqual([usage, whole]);
    const steps = events.filter(({ type }) => type === 'step_finished');
    expect(steps.map(({ cost }) => cost)).toEqual([first, second]);
    const updates = events.filter(({ type }) => type === 'usage_updated');
    expect(updates).toMatchObject([
      { cost: first, context: { used: 1020, window: 100_000 } },
      { cost: whole, usage, context: { used: 1130, window: 100_000 } },
    ]);
    expect(await read(`/api/v1/runs/${done.run_id}`)).toMatchObject({ usage, cost: whole, steps: 2 });
    const messages = (await read(`/api/v1/sessions/${done.session_id}/messages`)).data;
    expect(messages.map(({ cost }: Json) => cost)).toEqual([null, first, null, second]);
    const titleCost = (50 * 2 + 5 * 10) / 1_000_000;
    expect(await named(done.session_id)).toMatchObject({
      usage: { input_tokens: 2150, output_tokens: 55, cached_input_tokens: 1400 },
      cost: Math.round((whole + titleCost) * 1e9) / 1e9,
      context: { used: 1130, window: 100_000 },
      summary_message_id: null,
    });
    await named(plain.session_id);
  });

  test('costs nobody knows what without a price, which all places say', async () => {
    await upstream.script(twoSteps);
    const events = await stream({ prompt: 'x', model: `${dialect}:unpriced` });
    expect(events.at(-1)).toMatchObject({ cost: null, usage: { input_tokens: 2100 } });
    expect(await named(events.at(-1).session_id)).toMatchObject({ cost: null });
  });
});

test('`providers.*.flat_rate` makes queries free', async () => {
  await upstream.script(twoSteps);
  const { body } = await ask('/api/v1/query', { prompt: 'x', model: 'flat:priced' });
  expect(body).toMatchObject({ cost: 0, usage: { input_tokens: 2100 } });
});

test('a query may set limits of its own, which are held to the contract', async () => {
  await upstream.script([title, ...twoSteps.slice(1, 2)]);
  const limited = await ask('/api/v1/query', { prompt: 'x', limits: { max_steps: 1 } });
  expect(limited.body).toMatchObject({ stop_reason: 'step_limit', status: 'completed' });
  for (const limits of [{}, { max_steps: 0 }, { max_cost: 0 }, { max_agents: 1 }])
    expect(await ask('/api/v1/query', { prompt: 'x', limits })).toMatchObject({ status: 400 });
});

describe('an estimate', () => {
  const estimate = (body: object, token?: string) => ask('/api/v1/query/estimate', body, token);

  test('says what a query would begin with, asks no model and stores nothing', async () => {
    await upstream.script([]);
    const before = await read('/api/v1/metrics');
    const short = await estimate({ prompt: 'x' });
    const long = await estimate({ prompt: 'word '.repeat(70_000) });
    expect(short).toMatchObject({
      status: 200,
      body: {
        model: 'openai-compat:priced',
        output_tokens: 1000,
        context: { used: 0, window: 100_000 },
        fits: true,
        summarizes: false,
        cost: { output: 0.01 },
      },
    });
    expect(short.body.cost.input).toBe((short.body.input_tokens * 2) / 1_000_000);
    expect(Math.abs(long.body.input_tokens - short.body.input_tokens - 100_000)).toBeLessThan(3);
    expect(long.body.fits).toBe(false);
    expect(await upstream.requests()).toEqual([]);
    expect((await read('/api/v1/metrics')).sessions).toBe(before.sessions);
  });

  test('is near what the provider counts then, and goes on from its count in a session', async () => {
    await upstream.script([title, { reply: { text: 'Done.', usage: { input: 6000, output: 40 } } }]);
    const { body: answer } = await ask('/api/v1/query', { prompt: 'x' });
    const { body } = await estimate({ prompt: 'x'.repeat(350), session_id: answer.session_id });
    expect(body).toMatchObject({ context: { used: 6040 }, input_tokens: 6144, summarizes: false });
    await named(answer.session_id);
  });

  test.each<[object, number, string]>([
    [{ prompt: 'x', model: 'nobody:none' }, 404, 'model_not_found'],
    [{ prompt: 'x', agent_slug: 'poet' }, 404, 'agent_not_found'],
    [{ prompt: 'x', session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza' }, 404, 'not_found'],
    [{ prompt: 'x', unknown: 1 }, 400, 'invalid_request'],
    [{}, 400, 'invalid_request'],
  ])('of %o is refused with %i %s', async (body, status, code) => {
    expect(await estimate(body)).toMatchObject({ status, body: { code } });
  });

  test('is nothing for strangers, nor about the sessions of others', async () => {
    expect(await estimate({ prompt: 'x' }, '')).toMatchObject({ status: 401 });
    const { body } = await ask('/api/v1/sessions', {});
    const foreign = await estimate({ prompt: 'x', session_id: body.id }, mallory.token);
    expect(foreign).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});

describe('a summary on request', () => {
  const summary = {
    when: { system: '^Sum up the conversation' },
    reply: { text: 'They said: {{system}}', usage: { input: 300, output: 10 } },
  };

  async function conversation(): Promise<string> {
    await upstream.script([title, summary, { reply: { text: 'You said: {{last_user}}' } }]);
    const { body } = await ask('/api/v1/query', { prompt: 'Remember the number 4711.' });
    await named(body.session_id);
    return body.session_id;
  }

  const ended = async (runId: string): Promise<Json> => {
    await expect.poll(async () => (await read(`/api/v1/runs/${runId}`)).ended_at).not.toBe(null);
    return read(`/api/v1/runs/${runId}`);
  };

  test('is a run like any other, whose result is the summary; later prompts begin at it', async () => {
    const id = await conversation();
    const before = await read(`/api/v1/sessions/${id}`);
    const wishes = { instructions: 'Keep all numbers.', model: 'anthropic:priced' };
    const { status, headers, body } = await ask(`/api/v1/sessions/${id}/summarize`, wishes);
    expect([status, headers.get('location')]).toEqual([202, `/api/v1/runs/${body.id}`]);
    expect(await ended(body.id)).toMatchObject({
      status: 'completed',
      model: 'anthropic:priced',
      stop_reason: 'end_turn',
      steps: 0,
      usage: { input_tokens: 300 },
      cost: 0.0007,
    });
    const messages = (await read(`/api/v1/sessions/${id}/messages`)).data;
    expect(messages).toHaveLength(3);
    expect(messages[2]).toMatchObject({ role: 'assistant', summary: true, run_id: body.id });
    expect(messages[2].parts[0].text).toContain('Keep all numbers.');
    const after = await read(`/api/v1/sessions/${id}`);
    expect(after).toMatchObject({ summary_message_id: messages[2].id, message_count: 3, status: 'idle' });
    expect(after.cost).toBe(Math.round((before.cost + 0.0007) * 1e9) / 1e9);
    const events = await app.stream('GET', `/api/v1/runs/${body.id}/events`, { token: ada.token });
    const told: Json[] = [];
    for await (const event of readEvents(events)) told.push(event.data);
    expect(told.find(({ type }) => type === 'session_summarized')).toMatchObject({ reason: 'requested' });
    expect(told.at(-1)).toMatchObject({ id: messages[2].id, content: messages[2].parts });
    await ask('/api/v1/query', { prompt: 'Which number?', session_id: id });
    const sent = JSON.stringify((await upstream.latest(() => true)).body);
    expect(sent).toContain('They said');
    expect(sent).toContain('Which number?');
    expect(sent).not.toContain('Remember');
  });

  test('is written by the model that the person prefers, where nothing names another', async () => {
    const id = await conversation();
    const prefer = (default_model: string | null) =>
      app.request('PATCH', '/api/v1/users/me/preferences', {
        ...{ token: ada.token, headers: mergePatch, body: { default_model } },
      });
    onTestFinished(async () => {
      await prefer(null);
    });
    await prefer('anthropic:priced');
    const { body } = await ask(`/api/v1/sessions/${id}/summarize`, {});
    expect(await ended(body.id)).toMatchObject({ status: 'completed', model: 'anthropic:priced' });
    await prefer('nobody:none');
    expect(await ask(`/api/v1/sessions/${id}/summarize`, {})).toMatchObject({
      status: 404,
      body: { code: 'model_not_found' },
    });
  });

  test('of a model without a known window is of the whole, and of half where that is refused', async () => {
    const id = await conversation();
    const summed = async () => {
      const { body } = await ask(`/api/v1/sessions/${id}/summarize`, { model: 'openai-compat:unpriced' });
      expect(await ended(body.id)).toMatchObject({ status: 'completed' });
      const requests = (await upstream.requests()).map(({ body }) => JSON.stringify(body));
      return requests.filter((sent) => sent.includes('Sum up the conversation'));
    };
    const longPrompt = Array.from({ length: 300 }, (_, index) => `Line ${index}.`).join(' ');
    await ask('/api/v1/query', { prompt: longPrompt, session_id: id });
    await upstream.script([summary]);
    const [whole = '', ...more] = await summed();
    expect(more).toEqual([]);
    expect(whole).toContain(longPrompt);
    expect(whole).toContain('Remember the number 4711.');
    const tooLong = { kind: 'status', status: 400, code: 'context_length_exceeded', message: 'too long' };
    await upstream.script([{ reply: { text: 'Yes.' } }]);
    await ask('/api/v1/query', { prompt: longPrompt, session_id: id });
    await upstream.script([{ times: 1, fail: tooLong }, summary]);
    const [refused = '', halved = ''] = await summed();
    expect(refused).toContain(longPrompt);
    expect(halved).not.toContain(longPrompt);
    expect(halved.length).toBeGreaterThan(500);
  });

  test('is the newest one where nothing was said since, and another where somebody wishes it otherwise', async () => {
    const id = await conversation();
    const first = await ask(`/api/v1/sessions/${id}/summarize`, {});
    await ended(first.body.id);
    await upstream.script([summary]);
    const again = await ask(`/api/v1/sessions/${id}/summarize`, {});
    expect(await ended(again.body.id)).toMatchObject({ status: 'completed', cost: 0, steps: 0 });
    expect(await upstream.requests()).toEqual([]);
    const { data } = await read(`/api/v1/sessions/${id}/messages`);
    expect(data).toHaveLength(3);
    const events = await app.stream('GET', `/api/v1/runs/${again.body.id}/events`, { token: ada.token });
    const told: Json[] = [];
    for await (const event of readEvents(events)) told.push(event.data);
    expect(told.at(-1)).toMatchObject({ id: data[2].id, content: data[2].parts });
    const otherwise = await ask(`/api/v1/sessions/${id}/summarize`, { instructions: 'Shorter.' });
    await ended(otherwise.body.id);
    expect(await upstream.requests()).toHaveLength(1);
  });

  test('fails where a model may be shown nothing of what was said', async () => {
    const { body: session } = await ask('/api/v1/sessions', {});
    await upstream.script([{ fail: { kind: 'status', status: 400, message: 'Refused.' } }]);
    await ask('/api/v1/query', { prompt: 'Remember', session_id: session.id });
    expect((await read(`/api/v1/sessions/${session.id}/messages`)).data).toMatchObject([{ excluded: true }]);
    const { body } = await ask(`/api/v1/sessions/${session.id}/summarize`, {});
    expect(await ended(body.id)).toMatchObject({ status: 'failed', error: { code: 'session_empty' } });
    // That is its caller's fault, and none that an operator is woken for.
    const codes = faults.mock.calls.map(([fault]) => fault.code);
    expect(codes).toContain('provider_request_refused');
    expect(codes).not.toContain('session_empty');
  });

  test('fails as its run does, and leaves the session as it was', async () => {
    const id = await conversation();
    await upstream.script([
      { when: { system: '^Sum up' }, fail: { kind: 'status', status: 401 } },
      { reply: { text: 'x' } },
    ]);
    const { body } = await ask(`/api/v1/sessions/${id}/summarize`, {});
    expect(await ended(body.id)).toMatchObject({ status: 'failed', error: { code: 'provider_refused' } });
    expect(await read(`/api/v1/sessions/${id}`)).toMatchObject({ summary_message_id: null });
    await ask('/api/v1/query', { prompt: 'Which number?', session_id: id });
    expect(JSON.stringify((await upstream.latest(() => true)).body)).toContain('Remember');
  });

  test('is refused while the session is busy, and where nothing was said', async () => {
    const id = await conversation();
    await upstream.script([{ reply: { text: 'Slow and steady.', hold_after_chunks: 2 } }]);
    const answer = ask('/api/v1/query', { prompt: 'Hold', session_id: id });
    await upstream.latest(() => true);
    const busy = await ask(`/api/v1/sessions/${id}/summarize`, {});
    expect(busy).toMatchObject({ status: 409, body: { code: 'session_busy' } });
    await upstream.releaseHeld();
    await answer;
    const { body } = await ask('/api/v1/sessions', {});
    const empty = await ask(`/api/v1/sessions/${body.id}/summarize`, {});
    expect(empty).toMatchObject({ status: 409, body: { code: 'session_empty' } });
  });

  test.each<[object, number, string]>([
    [{ model: 'nobody:none' }, 404, 'model_not_found'],
    [{ instructions: '' }, 400, 'invalid_request'],
    [{ prompt: 'x' }, 400, 'invalid_request'],
  ])('with %o is refused with %i %s', async (body, status, code) => {
    const id = await conversation();
    expect(await ask(`/api/v1/sessions/${id}/summarize`, body)).toMatchObject({ status, body: { code } });
  });

  test('is nothing for strangers, and the sessions of others do not exist', async () => {
    const { body } = await ask('/api/v1/sessions', {});
    const path = `/api/v1/sessions/${body.id}/summarize`;
    expect(await ask(path, {}, '')).toMatchObject({ status: 401 });
    expect(await ask(path, {}, mallory.token)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });
});
