/** Conversations that no provider is to lock for what a model has called its tools, or for where their results stand. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Model, ModelMessage, ModelRequest } from '../models/model.ts';
import { doneOf, modelRuntime } from '../test-models.ts';
import {
  answerOf,
  definitionOf,
  isGoogles,
  latestBody,
  openDefined,
  openResponses,
  providerTypes,
  request,
  textOf,
} from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const call = (id: string, name = 'view') => ({ type: 'tool_use' as const, id, name, input: {} });

/** What the model asked for, and what came of it. */
function turns(calls: readonly ReturnType<typeof call>[], model?: string): ModelMessage[] {
  const results = calls.map(({ id, name }) => ({
    ...{ type: 'tool_result' as const, tool_use_id: id, name, content: `of ${id}`, is_error: false },
  }));
  return [
    { role: 'assistant', parts: calls, ...(model !== undefined && { model }) },
    { role: 'tool', parts: results },
  ];
}

const asking = (...messages: ModelMessage[]): ModelRequest =>
  request('', { messages: [...request('Begin.').messages, ...messages, ...request('Go on.').messages] });

describe.each([...providerTypes, 'openai-responses'] as const)('the provider type %s', (type) => {
  const open = (): Model =>
    type === 'openai-responses' ? openResponses(upstream) : openDefined(definitionOf(type, upstream));

  beforeEach(() => upstream.script([{ reply: { text: 'On it goes.' } }]));

  test('takes every name and id that another model has given, and knows which result is whose', async () => {
    const first = [
      call('functions.todos:0', 'multi_tool_use.parallel'),
      call('functions.todos.0', 'multi tool use parallel'),
      call(`call_${'x'.repeat(400)}`, 'a'.repeat(80)),
      call('ü', ''),
      call(''),
    ];
    const asked = asking(
      ...turns(first, 'other:kimi'),
      ...turns([call('functions.todos:0')], 'other:kimi'),
      ...turns([call('toolu_01', 'view')], 'other:claude'),
    );
    expect(textOf(await answerOf(open(), asked))).toBe('On it goes.');
    const body = await latestBody(upstream);
    const names = valuesOf(body, 'name').filter((name) => name !== 'view');
    expect(new Set(names).size).toBe(4);
    for (const name of names) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    // Google is told in their order which result is whose.
    if (isGoogles(type)) return;
    const { called, answered } = idsOf(body);
    expect(called).toHaveLength(7);
    expect(new Set(called).size).toBe(7);
    expect(answered).toEqual(called);
    expect(called.at(-1)).toBe('toolu_01');
    for (const id of called) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,40}$/);
    await answerOf(open(), asked);
    expect(await latestBody(upstream)).toEqual(body);
  });

  test('goes on in a conversation that begins with an answer', async () => {
    const asked = request('', {
      messages: [...turns([call('call_1')], 'other:m'), ...request('Go on.').messages],
    });
    expect(textOf(await answerOf(open(), asked))).toBe('On it goes.');
    const written = JSON.stringify(await latestBody(upstream));
    expect(written).toMatch(/"role":"user".*begins with an answer.*call/);
  });
});

test('a tool that is offered keeps its name, however long its vendor takes it', async () => {
  await upstream.script([{ reply: { text: 'On it goes.' } }]);
  const name = 'n'.repeat(100);
  const tools = [{ name, description: 'Reads.', inputSchema: { type: 'object' } }];
  const model = openDefined(definitionOf('anthropic', upstream));
  await answerOf(model, { ...asking(...turns([call('call_1', name)])), tools });
  expect(valuesOf(await latestBody(upstream), 'name')).toEqual([name, name]);
});

test.each(['openai', 'azure'] as const)(
  'a tool whose name %s would refuse for its length is offered and called by a shorter one',
  async (type) => {
    await upstream.script([{ reply: { text: 'On it goes.' } }]);
    const [name, other] = [`${'n'.repeat(99)}1`, `${'n'.repeat(99)}2`];
    const tools = [name, other].map((one) => ({
      ...{ name: one, description: 'Reads.', inputSchema: { type: 'object' } },
    }));
    const model = openDefined(definitionOf(type, upstream));
    const asked = { ...asking(...turns([call('call_1', other)])), tools, toolChoice: { tool: other } };
    await answerOf(model, asked);
    const body = await latestBody(upstream);
    const names = valuesOf(body, 'name');
    expect(new Set(names).size).toBe(2);
    for (const sent of names) expect(sent).toMatch(/^n{55}_[0-9a-f]{8}$/);
    const [, called] = valuesOf(body.tools, 'name');
    await upstream.script([{ reply: { tool_calls: [{ name: called, arguments: {} }] } }]);
    const answer = await answerOf(model, asked);
    const given = answer.filter((part) => part.type === 'tool_use' || part.type === 'tool_input');
    expect(new Set(given.map((part) => part.name))).toEqual(new Set([other]));
  },
);

test('a model that imitates OpenAI gets the ids back that it gave itself', async () => {
  await upstream.script([{ reply: { text: 'On it goes.' } }]);
  const model = openDefined(definitionOf('openai-compat', upstream));
  for (const owner of [model.name, undefined]) {
    await answerOf(model, asking(...turns([call('functions.todos:0')], owner)));
    expect(idsOf(await latestBody(upstream)).called).toEqual(['functions.todos:0']);
  }
});

test('a run goes on after a tool was called that nobody can be told of, and so does its session', async () => {
  await upstream.script([
    {
      when: { step: 0, last_user: 'One' },
      reply: { tool_calls: [{ name: 'multi_tool_use.parallel', arguments: {} }] },
    },
    { reply: { text: 'I see.' } },
  ]);
  const { ask } = await modelRuntime(upstream);
  for (const prompt of ['One', 'Two']) expect(doneOf(await ask(prompt)).stop_reason).toBe('end_turn');
});

test('a provider that wants an answer between a result and a prompt gets one, once it has said so', async () => {
  await upstream.script([
    { when: { last_user: 'One' }, reply: { tool_calls: [{ name: 'glob', arguments: { pattern: '*' } }] } },
    { when: { last_user: 'Two', step: 0 }, reply: { tool_calls: [{ name: 'ls', arguments: {} }] } },
    { reply: { text: 'I see.' } },
  ]);
  const large = { model: 'mistral-large' };
  const { ask } = await modelRuntime(upstream, { large, options: { limits: { max_steps: 2 } } });
  expect(doneOf(await ask('One')).stop_reason).toBe('step_limit');
  for (const prompt of ['Two', 'Three']) expect(doneOf(await ask(prompt)).stop_reason).toBe('end_turn');
  const requests = await upstream.requests();
  // Refused once: the second step knows better, and so does the next run.
  expect(requests.map(({ status }) => status)).toEqual([200, 200, 400, 200, 200, 200]);
  const { messages } = (await latestBody(upstream)) as { messages: { role: string }[] }; // The upstream has read it.
  const roles = messages.map(({ role }) => role);
  expect(roles.slice(-7)).toEqual(['tool', 'assistant', 'user', 'assistant', 'tool', 'assistant', 'user']);
});

describe('a model of Mistral', () => {
  test('is asked with ids that it takes, once it has refused those of other models', async () => {
    await upstream.script([{ reply: { text: 'On it goes.' } }]);
    // The hashes of the last two begin alike.
    const first = ['toolu_01', 'call_1', 'abcDEF123', '', 'call_122405', 'call_688993'];
    const asked = request('', {
      messages: [
        ...request('Begin.').messages,
        ...turns(
          first.map((id) => call(id)),
          'other:claude',
        ),
        ...turns([call('call_1')], 'other:kimi'),
        ...turns([call('call_1')]),
      ],
    });
    const definition = definitionOf('openai-compat', upstream);
    const open = () => openDefined(definition, 5000, 'mistral-large');
    expect(textOf(await answerOf(open(), asked))).toBe('On it goes.');
    const body = await latestBody(upstream);
    const { called, answered } = idsOf(body);
    expect(called).toHaveLength(8);
    expect(new Set(called).size).toBe(8);
    expect(answered).toEqual(called);
    expect(called[2]).toBe('abcDEF123');
    for (const id of called) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/);
    // As the next run opens it.
    await answerOf(open(), asked);
    expect(await latestBody(upstream)).toEqual(body);
    expect((await upstream.requests()).map(({ status }) => status)).toEqual([400, 200, 200]);
  });

  test('answers each of those who ask it at once, before any of them knows what it refuses', async () => {
    await upstream.script([{ reply: { text: 'On it goes.' } }]);
    const definition = definitionOf('openai-compat', upstream);
    const asked = asking(...turns([call('toolu_01')], 'other:claude'));
    const answers = Array.from({ length: 5 }, () =>
      answerOf(openDefined(definition, 5000, 'mistral-large'), asked),
    );
    expect((await Promise.all(answers)).map(textOf)).toEqual(answers.map(() => 'On it goes.'));
    const statuses = (await upstream.requests()).map(({ status }) => status);
    expect(statuses.filter((status) => status === 400).length).toBeGreaterThan(1);
  });

  test('gets the ids back that it gave itself', async () => {
    const look = { name: 'glob', arguments: { pattern: '*' } };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [look] } },
      { reply: { text: 'Done.' } },
    ]);
    const { ask } = await modelRuntime(upstream, { large: { model: 'mistral-large' } });
    expect(doneOf(await ask('One')).stop_reason).toBe('end_turn');
    expect((await upstream.requests()).map(({ status }) => status)).toEqual([200, 200]);
  });
});

test('a server that holds a model of Mistral refuses ids in words of its own', async () => {
  const message = 'Tool call IDs should be alphanumeric strings with length 9!';
  await upstream.script([
    { times: 1, fail: { kind: 'status', status: 400, message } },
    { reply: { text: 'On.' } },
  ]);
  const model = openDefined(definitionOf('openai-compat', upstream));
  expect(textOf(await answerOf(model, asking(...turns([call('toolu_01')], 'other:claude'))))).toBe('On.');
  expect(idsOf(await latestBody(upstream)).called).toEqual([expect.stringMatching(/^[a-zA-Z0-9]{9}$/)]);
});

/** Every value of members that are called so. */
function valuesOf(value: unknown, name: string): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => (key === name ? [inner] : valuesOf(inner, name)));
}

/** By the words of each vendor. */
function idsOf(body: Record<string, unknown>): { called: unknown[]; answered: unknown[] } {
  const said = (body.messages ?? body.input) as Record<string, unknown>[]; // The upstream has read them.
  const blocks = said.flatMap((one) => [one, ...(Array.isArray(one.content) ? one.content : [])]);
  return {
    called: blocks.flatMap(({ type, id, call_id, tool_calls }) => [
      ...(tool_calls ?? []).map((each: { id: string }) => each.id),
      ...(type === 'tool_use' ? [id] : []),
      ...(type === 'function_call' ? [call_id] : []),
    ]),
    answered: blocks.flatMap(({ type, role, tool_call_id, tool_use_id, call_id }) => [
      ...(role === 'tool' ? [tool_call_id] : []),
      ...(type === 'tool_result' ? [tool_use_id] : []),
      ...(type === 'function_call_output' ? [call_id] : []),
    ]),
  };
}
