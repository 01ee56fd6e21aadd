/** What of the stored messages a model is shown. */
import { expect, test } from 'vitest';
import type { Message } from '../../contract/api.ts';
import { cpuMsOf } from '../../test-cpu.ts';
import { toModelMessages } from './conversation.ts';

function said(
  role: Message['role'],
  text: string,
  run_id: string | null,
  stop_reason: Message['stop_reason'],
) {
  return { role, parts: [{ type: 'text' as const, text }], run_id, stop_reason };
}

const asked = (run_id: string | null) => said('user', 'Go on.', run_id, null);
const broken = (run_id: string | null) => said('assistant', 'The begin', run_id, 'interrupted');
const whole = (run_id: string | null) => said('assistant', 'The whole', run_id, 'end_turn');

test.each([
  ['one that the same run has given anew is left out', [asked('a'), broken('a'), whole('a')], undefined, 2],
  ['each of several, and the last one stays', [asked('a'), broken('a'), broken('a')], undefined, 2],
  ['one that its run is about to give anew is left out', [asked('a'), broken('a')], 'a', 1],
  ['one that was stopped stays', [asked('a'), broken('a'), asked('b'), whole('b')], undefined, 4],
  ['one of no run stays', [asked(null), broken(null), whole(null)], undefined, 3],
])('of the beginnings of answers, %s', (_, stored, atWork, count) => {
  expect(toModelMessages(stored, atWork)).toHaveLength(count);
});

test.each([
  ['the same run', 'a', 'a', true],
  ['another run', 'a', 'b', false],
  // As in a fork and an import.
  ['no run, as the summary', null, null, false],
])('a summary is followed by the prompt before it where that is of %s', (_, prompt, summing, repeated) => {
  const summary = { ...whole(summing), summary: true };
  const [shown] = toModelMessages([asked(prompt), summary]);
  expect(JSON.stringify(shown?.parts).includes('Go on.')).toBe(repeated);
});

test("what a client's tool gave behind a summary comes with its call, whose count was of the conversation before", () => {
  const use = { type: 'tool_use' as const, id: 'call_1', name: 'get_weather', input: {} };
  const result = {
    ...{ type: 'tool_result' as const, tool_use_id: 'call_1', name: 'get_weather' },
    ...{ content: 'Rain.', is_error: false },
  };
  const usage = { input_tokens: 20, output_tokens: 10, cached_input_tokens: 0 };
  const calling = { ...whole('a'), parts: [use], usage };
  const summary = { ...whole('b'), summary: true };
  const given = { ...asked('c'), role: 'tool' as const, parts: [result] };
  const [summed, ...shown] = toModelMessages([asked('a'), calling, summary, given], 'c');
  expect(JSON.stringify(summed)).toContain('The whole');
  expect(shown).toEqual([
    { role: 'assistant', parts: [use] },
    { role: 'tool', parts: [result] },
  ]);
});

test.each([
  ['a run here has had', 'a', 30],
  ['no run here has had', null, undefined],
])('of an answer that %s the count of its provider', (_, run_id, tokens) => {
  const usage = { input_tokens: 20, output_tokens: 10, cached_input_tokens: 0 };
  const [, answer] = toModelMessages([asked(run_id), { ...whole(run_id), usage }]);
  expect(answer?.tokens).toBe(tokens);
});

test('a long conversation costs each message once', async () => {
  const costOf = async (count: number, times: number) => {
    const stored = Array.from({ length: count }, (_, index) =>
      (index % 2 ? whole : asked)(`run_${index >> 1}`),
    );
    const costs: number[] = [];
    // The cheapest of several: the collector of garbage comes when it likes, and only ever adds.
    for (let round = 0; round < 4; round += 1) {
      const all = await cpuMsOf(() => {
        for (let done = 0; done < times; done += 1) toModelMessages(stored);
      });
      costs.push(all / times);
    }
    return Math.min(...costs);
  };
  // Often enough that it can be measured at all, and once before, for the compiler.
  await costOf(10_000, 10);
  const short = await costOf(10_000, 20);
  expect((await costOf(40_000, 5)) / short).toBeLessThan(10);
});
