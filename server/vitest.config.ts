// How the server's tests run: one PostgreSQL for all of them, and time for real parts.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    globalSetup: ['store/test-postgres.ts', 'test-code-cache.ts'],
    // What hangs is found all the same; on a machine that is busy with other things, what takes a second may take thirty.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Most of the time a test waits for the processes that it started; by itself a machine of two cores takes one.
    maxWorkers: 2,
    // What is waited for comes from real processes, and the machine may be busy with other tests.
    expect: { poll: { timeout: 20_000 } },
  },
});
