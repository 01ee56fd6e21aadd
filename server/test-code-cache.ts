/** One cache of compiled code for the processes of all tests, as a person has one: to compile for each takes longest. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Before all tests; takes the cache away after them. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'service-caches-'));
  process.env.TEST_CODE_CACHE = folder;
  // For those that run the tests: vitest starts them after this.
  process.env.NODE_COMPILE_CACHE = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
