/** How full a window is, and what of a conversation is cut so that it fits. */
import { describe, expect, test } from 'vitest';
import type { ModelMessage } from '../models/model.ts';
import { estimateTokens, isNearlyFull, tokensOf, withoutHugeResults } from './context-use.ts';

describe('a window is nearly full', () => {
  test.each([
    [200_000, 159_999, false],
    [200_000, 160_000, true],
    [100_000, 79_999, false],
    [100_000, 80_000, true],
    [200_001, 180_000, false],
    [200_001, 180_001, true],
    [1_000_000, 979_999, false],
    [1_000_000, 980_000, true],
    [1_000_000, 2_000_000, true],
    [null, 10_000_000, false],
  ])('of %s tokens with %i used: %s', (window, used, full) => {
    expect(isNearlyFull(used, window)).toBe(full);
  });
});

test('tokens are estimated by bytes, so that other scripts count for more than their letters', () => {
  expect(estimateTokens('')).toBe(0);
  expect(estimateTokens('x'.repeat(3500))).toBe(1000);
  expect(estimateTokens('語'.repeat(350))).toBe(300);
});

test('what the provider has counted counts, and only what came behind it is estimated', () => {
  const said = (role: ModelMessage['role'], text: string, tokens?: number): ModelMessage => ({
    role,
    parts: [{ type: 'text', text }],
    ...(tokens !== undefined && { tokens }),
  });
  const long = 'x'.repeat(35_000);
  expect(tokensOf([])).toBe(0);
  expect(tokensOf([said('user', long), said('assistant', 'y', 500)])).toBe(500);
  expect(tokensOf([said('user', long), said('assistant', 'y', 500), said('user', long)])).toBe(10_504);
  expect(tokensOf([said('user', long), said('assistant', 'y')])).toBe(10_009);
});

test('a result that would fill the window is cut, says so, and nothing else is touched', () => {
  const result = (content: string): ModelMessage => ({
    role: 'tool',
    parts: [{ type: 'tool_result', tool_use_id: 'a', name: 'view', content, is_error: false }],
  });
  const conversation = [result('short'), result('é'.repeat(10_000)), result('👩🏽‍🚀'.repeat(1000))];
  const shown = withoutHugeResults(conversation, 4000);
  expect(shown[0]).toBe(conversation[0]);
  for (const message of shown.slice(1)) {
    const [part] = message.parts;
    const content = part?.type === 'tool_result' ? part.content : '';
    expect(content).toContain('Cut here');
    expect(content).not.toContain('\ufffd');
    expect(content.isWellFormed()).toBe(true);
    expect(estimateTokens(content)).toBeLessThan(1100);
    expect(estimateTokens(content)).toBeGreaterThan(900);
  }
  expect(withoutHugeResults(conversation, null)).toBe(conversation);
});
