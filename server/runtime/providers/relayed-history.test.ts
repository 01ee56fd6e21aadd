/** A history that a client took along from a model that signs nothing, at those who speak the Messages API. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Model } from '../models/model.ts';
import { portableHistory } from './relayed-history.ts';
import { definitionOf, openDefined, openOwnAnthropic } from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  await upstream.script([{ reply: { text: 'Hello.' } }]);
});
afterAll(async () => {
  await upstream.stop();
});

const unsigned = { type: 'thinking', thinking: 'Let me see.', signature: '' };
const call = (id: string) => ({ type: 'tool_use', id, name: 'look', input: {} });
const result = (tool_use_id: string) => ({ type: 'tool_result', tool_use_id, content: 'Rain.' });
const messages = [
  { role: 'user', content: 'Look twice.' },
  { role: 'assistant', content: [unsigned, call('functions.look:0'), call('functions.look/0')] },
  { role: 'user', content: [result('functions.look:0'), result('functions.look/0')] },
  { role: 'assistant', content: [unsigned] },
  { role: 'user', content: 'And?' },
];
const body = { model: 'local:deepseek', max_tokens: 100, messages };

async function relayed(model: Model): Promise<readonly { body: typeof body }[]> {
  const before = (await upstream.requests()).length;
  const answer = await model.relay?.({ body, beta: false }, new AbortController().signal);
  expect(answer).toMatchObject({ message: { content: [{ text: 'Hello.' }] } });
  return (await upstream.requests()).slice(before) as unknown as { body: typeof body }[]; // as they were sent
}

function blocksOf(message: { readonly content: unknown } | undefined): readonly Record<string, string>[] {
  return (message?.content ?? []) as Record<string, string>[]; // as they are written above
}

test('goes to Anthropic without what Anthropic refuses', async () => {
  const [sent, ...more] = await relayed(openOwnAnthropic(upstream, 'claude-haiku-4-5'));
  expect(more).toEqual([]);
  const [, answer, results, last] = sent?.body.messages ?? [];
  const ids = blocksOf(answer).map(({ id }) => id);
  expect(ids).toEqual([
    expect.stringMatching(/^functions_look_0_[0-9a-f]{8}$/),
    expect.stringMatching(/^functions_look_0_/),
  ]);
  expect(new Set(ids).size).toBe(2);
  expect(blocksOf(results).map(({ tool_use_id }) => tool_use_id)).toEqual(ids);
  expect(last).toEqual(messages[4]);
});

test('goes to others as it is, who may want it back, and without that only where they refuse it', async () => {
  const [first, second, ...more] = await relayed(openDefined(definitionOf('anthropic', upstream)));
  expect(more).toEqual([]);
  expect(first?.body.messages).toEqual(messages);
  expect(JSON.stringify(second?.body)).not.toContain('functions.look');
});

test('stays the same object where there is nothing of the kind', () => {
  const signed = { ...unsigned, signature: 'Eq' };
  const own = { ...body, messages: [{ role: 'assistant', content: [signed, call('toolu_1')] }] };
  expect(portableHistory(own)).toBe(own);
});
