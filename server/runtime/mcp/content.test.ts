/** What becomes of an answer of a tool as text, however many blocks it has. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { textOfResult } from './content.ts';

const text = (said: string) => ({ type: 'text' as const, text: said });

test('what is structured is told once, in whichever form a block says it too', () => {
  const structuredContent = { a: [1, 2], b: 'x' };
  const own = '{"a":[1,2],"b":"x"}';
  for (const said of [own, JSON.stringify(structuredContent, null, 2), '{"b":"\\u0078","a":[1.0,2]}'])
    expect(textOfResult({ content: [text('Look:'), text(said)], structuredContent })).toBe(
      `Look:\n\n${said}`,
    );
  expect(textOfResult({ content: [text('Look:')], structuredContent })).toBe(`Look:\n\n${own}`);
  expect(textOfResult({ content: [text('done')], structuredContent: { result: 'done' } })).toBe('done');
});

test('many blocks beside much that is structured take no longer than both', async () => {
  const structuredContent = { items: Array.from({ length: 20_000 }, (_, at) => at) };
  const content = Array.from({ length: 50_000 }, () => text('{}'));
  const spent = await cpuMsOf(() => textOfResult({ content, structuredContent }));
  expect(spent).toBeLessThan(1500);
});
