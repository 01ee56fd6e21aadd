/** Answers that end within or behind a tool call: they have reached their largest size, or were refused. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { dialects, doneOf, modelRuntime } from '../test-models.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

describe.each(dialects)('an answer that reached its largest size (%s)', (type) => {
  const resultsOf = async (calls: readonly { name: string; arguments: string }[]) => {
    const reply = { tool_calls: calls, stop_reason: 'max_tokens' };
    await upstream.script([{ when: { step: 0 }, reply }, { reply: { text: 'Done.' } }]);
    const { ask } = await modelRuntime(upstream, { type });
    const done = doneOf(await ask('Go'));
    expect(done.stop_reason).toBe('end_turn');
    return done.tool_results.map(({ content, is_error }) => ({ content, is_error }));
  };

  test('within a call: it is not carried out, even where it could be without arguments, and the model is told why', async () => {
    const cut = { is_error: true, content: expect.stringContaining('reached its largest size') };
    for (const call of [
      { name: 'ls', arguments: '{"path": "sub' },
      { name: 'write', arguments: '{"file_path": "a.txt", "content": "x' },
    ])
      expect(await resultsOf([call])).toEqual([cut]);
  });

  test('behind a whole call: that one is carried out', async () => {
    const [whole, cut] = await resultsOf([
      { name: 'ls', arguments: '{"path": "."}' },
      { name: 'ls', arguments: '{"path": "' },
    ]);
    expect(whole).toMatchObject({ is_error: false });
    expect(cut).toMatchObject({ is_error: true });
    expect(await resultsOf([{ name: 'ls', arguments: '{"path": "."}' }])).toMatchObject([
      { is_error: false },
    ]);
  });
});

test.each(dialects)('the calls of an answer that was refused are not carried out (%s)', async (type) => {
  const reply = { tool_calls: [{ name: 'ls', arguments: '{"path": "."}' }], stop_reason: 'refusal' };
  await upstream.script([{ when: { step: 0 }, reply }, { reply: { text: 'Done.' } }]);
  const { ask } = await modelRuntime(upstream, { type });
  const done = doneOf(await ask('Go'));
  expect(done).toMatchObject({
    stop_reason: 'refusal',
    tool_results: [{ is_error: true, content: expect.stringContaining('was refused') }],
  });
  expect(await upstream.requests()).toHaveLength(1);
});
