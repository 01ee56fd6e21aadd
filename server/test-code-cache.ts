/** One cache of compiled code for the processes of all tests, as a person has one: to compile for each takes longest. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeAtEnd } from './test-temporary-files.ts';

/** Before all tests; takes the cache away after them. */
export function setup(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'service-caches-'));
  process.env.TEST_CODE_CACHE = folder;
  // For those that run the tests: vitest starts them after this.
  process.env.NODE_COMPILE_CACHE = folder;
  return () => removeAtEnd(folder);
}
