/** Runs end by themselves: at the limits of steps, tokens and costs, and where a model turns in circles. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { dialects, doneOf, modelRuntime, told } from '../test-models.ts';
import { limitsOf } from './run-limits.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

/** Calls a tool at each step, with another input each time. */
const busy = {
  reply: {
    tool_calls: [{ name: 'glob', arguments: { pattern: '{{step}}.txt' } }],
    usage: { input: 900, output: 100 },
  },
};
const prices = { big: { cost_per_1m_in: 1, cost_per_1m_out: 1 } };

describe.each(dialects)('a run that would go on for ever (%s)', (type) => {
  test('`options.limits.max_steps` ends it with step_limit, and says so', async () => {
    await upstream.script([busy]);
    const { ask } = await modelRuntime(upstream, { type, options: { limits: { max_steps: 3 } } });
    const events = await ask('Go');
    expect(doneOf(events)).toMatchObject({ status: 'completed', stop_reason: 'step_limit' });
    expect(await upstream.requests()).toHaveLength(3);
    expect(told(events, 'notice_given')).toMatchObject([{ message: expect.stringContaining('3 steps') }]);
  });

  test('`options.limits.max_tokens` ends it with token_limit, with each of its tool calls answered', async () => {
    await upstream.script([busy]);
    const { ask } = await modelRuntime(upstream, { type, options: { limits: { max_tokens: 2500 } } });
    const done = doneOf(await ask('Go'));
    expect(done).toMatchObject({ stop_reason: 'token_limit', usage: { input_tokens: 2700 } });
    expect(done.tool_results.map(({ tool_use_id }) => tool_use_id)).toEqual(
      done.tool_uses.map(({ id }) => id),
    );
    expect(await upstream.requests()).toHaveLength(3);
  });

  test('`options.limits.max_cost` ends it with cost_limit', async () => {
    await upstream.script([busy]);
    const { ask } = await modelRuntime(upstream, {
      type,
      models: prices,
      options: { limits: { max_cost: 0.0015 } },
    });
    const events = await ask('Go');
    expect(doneOf(events)).toMatchObject({ stop_reason: 'cost_limit', cost: 0.002 });
    expect(told(events, 'notice_given')).toMatchObject([{ message: expect.stringContaining('$0.0015') }]);
  });

  test('cannot be held to a cost that nobody knows, which is said once', async () => {
    await upstream.script([busy]);
    const { ask } = await modelRuntime(upstream, {
      type,
      options: { limits: { max_cost: 0.001, max_steps: 3 } },
    });
    const events = await ask('Go');
    expect(doneOf(events)).toMatchObject({ stop_reason: 'step_limit', cost: null });
    const notices = told(events, 'notice_given').map(({ message }) => message);
    expect(notices.filter((message) => message.includes('not known'))).toHaveLength(1);
  });

  test('is told that a cost is not known also where a later model is the first without a price', async () => {
    await upstream.script([
      { when: { model: 'big', step: 2 }, fail: { kind: 'status', status: 404 } },
      { when: { step: 4 }, reply: { text: 'Done.' } },
      busy,
    ]);
    const { ask } = await modelRuntime(upstream, {
      type,
      models: prices,
      large: { fallbacks: ['house:other'] },
      options: { limits: { max_cost: 1 } },
    });
    const events = await ask('Go');
    expect(told(events, 'model_replaced')).toHaveLength(1);
    const notices = told(events, 'notice_given').map(({ message }) => message);
    expect(notices).toEqual([expect.stringContaining('not known')]);
  });

  test('may be asked to do less than the settings allow, and never more', async () => {
    await upstream.script([busy]);
    const { ask } = await modelRuntime(upstream, { type, options: { limits: { max_steps: 3 } } });
    const asked = (max_steps: number) => ask('Go', { request: { limits: { max_steps }, summary: null } });
    expect(told(await asked(2), 'step_finished')).toHaveLength(2);
    expect(told(await asked(9), 'step_finished')).toHaveLength(3);
  });
});

test('a run takes fifty steps where nothing is said, whatever they cost', () => {
  const endless = Number.POSITIVE_INFINITY;
  expect(limitsOf({})).toEqual({ maxSteps: 50, maxTokens: endless, maxCost: endless });
});

describe.each(dialects)('a model that turns in circles (%s)', (type) => {
  const same = { reply: { tool_calls: [{ name: 'glob', arguments: { pattern: 'x' } }] } };

  test('is stopped when the same call has given the same result a sixth time', async () => {
    await upstream.script([same]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Go');
    expect(doneOf(events)).toMatchObject({ status: 'completed', stop_reason: 'loop_detected' });
    expect(told(events, 'step_finished')).toHaveLength(6);
    expect(told(events, 'notice_given')).toMatchObject([{ message: expect.stringContaining('glob') }]);
  });

  test('is not, as long as the same comes no more than five times in ten steps', async () => {
    await upstream.script([
      ...[1, 3, 5, 7, 9, 11, 13, 15].map((step) => ({ when: { step }, ...busy })),
      { when: { step: 16 }, reply: { text: 'Done.' } },
      same,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Go');
    expect(doneOf(events).stop_reason).toBe('end_turn');
    expect(told(events, 'step_finished')).toHaveLength(17);
  });

  test('is not, where the same call gives something else each time', async () => {
    await upstream.script([
      { when: { step: 8 }, reply: { text: 'Done.' } },
      { reply: { tool_calls: [{ name: 'no_such_tool_{{step}}', arguments: {} }] } },
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(doneOf(await ask('Go')).stop_reason).toBe('end_turn');
  });

  test('is not, while it waits for a command that writes nothing', async () => {
    const begin = { name: 'bash', arguments: { command: 'sleep 60', run_in_background: true } };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [begin] } },
      { reply: { text: 'It is at work.' } },
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    const started = doneOf(await ask('Begin')).tool_results[0]?.content;
    const job_id = /\bjob_\w+/.exec(started ?? '')?.[0];
    await upstream.script([
      { when: { step: 6 }, reply: { text: 'Done.' } },
      { reply: { tool_calls: [{ name: 'job_output', arguments: { job_id, wait_seconds: 1 } }] } },
    ]);
    const done = doneOf(await ask('Wait'));
    expect(done.tool_results.at(-1)?.content).toMatch(/^\(no new output\)/);
    expect(done.stop_reason).toBe('end_turn');
  });

  test('begins anew with each prompt', async () => {
    await upstream.script([{ when: { step: 4 }, reply: { text: 'Done.' } }, same]);
    const { ask } = await modelRuntime(upstream, { type });
    for (const prompt of ['One', 'Two', 'Three'])
      expect(doneOf(await ask(prompt)).stop_reason).toBe('end_turn');
  });
});
