/** The AI SDK with its provider of the Messages API, through the server to models of another vendor and of its own. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Live, startLive } from '../live.ts';
import { cutPlaces, playedModel } from './played-model.ts';

let live: Live;
beforeAll(async () => {
  live = await startLive();
  await live.upstream.script(playedModel);
});
afterAll(() => live?.stop());

const weather = tool({
  description: 'Tells the weather of a place.',
  inputSchema: z.object({ place: z.string() }),
  execute: async ({ place }) => `Rain in ${place}.`,
});

describe.each([
  ['another vendor', 'scripted:scripted-1'],
  ['its own vendor', 'vendor:vendor-1'],
])('a model of %s', (_vendor, name) => {
  const named = (id: string, apiKey = live.server.operatorKey) =>
    createAnthropic({ baseURL: `${live.server.url}/v1`, apiKey })(id);
  const terms = (prompt: string) => ({ model: named(name), prompt, maxRetries: 0, maxOutputTokens: 200 });

  test('answers, whole and streamed, with the same usage', async () => {
    const whole = await generateText(terms('Hi'));
    const streamed = streamText(terms('Hi'));
    expect(whole).toMatchObject({ text: 'You said: Hi', finishReason: 'stop' });
    expect(await Array.fromAsync(streamed.textStream)).toEqual(['You said', ': Hi']);
    expect(await streamed.finishReason).toBe('stop');
    const { inputTokens, outputTokens } = whole.usage;
    expect(outputTokens).toBeGreaterThan(0);
    expect(await streamed.usage).toMatchObject({ inputTokens, outputTokens });
  });

  test('goes through a loop of tools of the client, whole and streamed', async () => {
    const request = { ...terms('weather'), tools: { get_weather: weather }, stopWhen: stepCountIs(3) };
    const said = 'They said: Rain in Oslo.';
    const { text, steps } = await generateText(request);
    expect(text).toBe(said);
    expect(steps.map(({ toolResults }) => toolResults.map(({ output }) => output))).toEqual([
      ['Rain in Rome.', 'Rain in Oslo.'],
      [],
    ]);
    expect(await streamText(request).text).toBe(said);
  });

  test('answers in a form', async () => {
    const schema = z.object({ city: z.string(), rains: z.boolean() });
    const { output } = await generateText({ ...terms('report'), output: Output.object({ schema }) });
    expect(output).toEqual({ city: 'Rome', rains: true });
  });

  test('shows its thoughts to who asked for them', async () => {
    const thinking = { type: 'enabled' as const, budgetTokens: 1024 };
    const { reasoningText, text } = await generateText({
      ...terms('think'),
      maxOutputTokens: 2000,
      providerOptions: { anthropic: { thinking } },
    });
    expect({ reasoningText, text }).toEqual({ reasoningText: 'Let me see.', text: 'Yes.' });
  });

  test('ends where the tokens end', async () => {
    expect(await generateText(terms('much'))).toMatchObject({ text: 'Much', finishReason: 'length' });
  });

  test.each([
    ['a wrong key', 401, false, () => ({ ...terms('Hi'), model: named(name, 'sk-wrong') })],
    ['an unknown model', 404, false, () => ({ ...terms('Hi'), model: named('no:such') })],
    ['an overloaded provider', 529, true, () => terms('fail with 529')],
    ['a provider that refuses our key', 502, true, () => terms('fail with 401')],
  ])('tells of %s', async (_what, statusCode, isRetryable, request) => {
    const whole = await generateText(request()).catch((error: unknown) => error);
    const streamed = await errorOf(request());
    for (const error of [whole, streamed]) {
      expect(APICallError.isInstance(error)).toBe(true);
      expect(error).toMatchObject({ statusCode, isRetryable, data: { type: 'error' } });
    }
  });

  test.each(['cut the text', 'end the text', 'cut the call'])(
    'is never taken for complete when the provider breaks off: %s after each chunk',
    async (what) => {
      const ends = await Promise.all(cutPlaces.map((after) => ended(`${what} after ${after}`)));
      // Behind the last chunk there is nothing left to cut.
      const broken = ends.findIndex(({ error }) => error === undefined);
      expect(broken === -1 ? ends.length : broken).toBeGreaterThan(5);
      for (const [index, { error, finishReason, said }] of ends.entries())
        if (broken === -1 || index < broken) {
          expect(String(error)).toContain('cut its answer');
          expect(finishReason).toMatch(/^(error|none)$/);
        } else expect(said).toBe(what === 'cut the call' ? '{"place":"Rome"}' : 'Rain in Rome, as ever.');
    },
  );

  /** How a stream ended for the client: what it was told, and what it had been given until then. */
  async function ended(prompt: string) {
    const seen = { said: '', finishReason: 'none', error: undefined as unknown };
    const tools = { get_weather: weather };
    for await (const part of streamText({ ...terms(prompt), tools, onError: () => undefined }).fullStream)
      if (part.type === 'text-delta') seen.said += part.text;
      else if (part.type === 'tool-input-delta') seen.said += part.delta;
      else if (part.type === 'error') seen.error = part.error;
      else if (part.type === 'finish') seen.finishReason = part.finishReason;
    return seen;
  }

  async function errorOf(request: ReturnType<typeof terms>) {
    const { fullStream } = streamText({ ...request, onError: () => undefined });
    for await (const part of fullStream) if (part.type === 'error') return part.error;
    return 'it succeeded';
  }
});
