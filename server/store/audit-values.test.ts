/** What the audit log keeps of values, and that no value takes long. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { maskedChange, plainText } from './audit-values.ts';

test('the user part of a URL is masked, whatever its scheme', () => {
  expect(plainText('postgres://ada:pw@db and git+ssh://bob:pw@host/x')).toBe(
    'postgres://[masked]@db and git+ssh://[masked]@host/x',
  );
});

test('thousands of texts that could each begin an address are read in time', async () => {
  const rules = Array.from({ length: 50 }, () => 'a.'.repeat(1000));
  const after = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`rules_${at}`, rules]));
  const spent = await cpuMsOf(() => maskedChange({}, after));
  expect(spent).toBeLessThan(4000);
});
