/** Broken JSON of any size is told by its first fault, in time. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { readJson } from './json.ts';

test('sixteen megabytes without commas are refused in time, with the place of the first fault', async () => {
  const bytes = Buffer.from(`[${'1 '.repeat(8_000_000)}`);
  let refusal: unknown;
  const spent = await cpuMsOf(() => {
    try {
      readJson(bytes, { bodyValues: 100_000, bodyNames: [] });
    } catch (error) {
      refusal = error;
    }
  });
  expect(refusal).toMatchObject({
    code: 'invalid_json',
    message: 'The body is not JSON: line 1, column 4 (offset 3).',
  });
  expect(spent).toBeLessThan(700);
});
