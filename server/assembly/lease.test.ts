/** How often a process says that it still holds its work. */
import { expect, test } from 'vitest';
import { readServerSettings } from '../server-settings/server-settings.ts';
import { leaseOf } from './lease.ts';

test('a lease of ten seconds, as where nothing is set, is renewed every three', () => {
  const { settings } = readServerSettings([], { HOME: '/home/ada' });
  expect(leaseOf(settings)).toEqual({ leaseMs: 10_000, renewMs: 3000 });
  expect(leaseOf({ leaseSeconds: 20 })).toEqual({ leaseMs: 20_000, renewMs: 6000 });
});
