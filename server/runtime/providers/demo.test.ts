/** The built-in demonstration, where it is given more than a demonstration needs. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import type { ModelPart } from '../models/model.ts';
import { demoModel } from './demo.ts';

async function answerTo(text: string): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  const messages = [{ role: 'user' as const, parts: [{ type: 'text' as const, text }] }];
  const request = { system: '', messages, tools: [], maxTokens: 2 };
  for await (const part of demoModel().stream(request, AbortSignal.timeout(50_000))) parts.push(part);
  return parts;
}

test('counts the words that it read and wrote', async () => {
  const parts = await answerTo('  one two\n\nthree ');
  expect(parts.at(-1)).toMatchObject({ usage: { input_tokens: 3, output_tokens: 2 } });
});

test('keeps nobody waiting over megabytes of words', async () => {
  let parts: Awaited<ReturnType<typeof answerTo>> = [];
  const spent = await cpuMsOf(async () => {
    parts = await answerTo('a '.repeat(16 << 20));
  });
  expect(parts.at(-1)).toMatchObject({ usage: { input_tokens: 16 << 20 } });
  // What went over all of it for each word would take minutes.
  expect(spent).toBeLessThan(3000);
});
