// How the black-box tests run: from this folder, with time for a child process to start.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    // They need what only `make agents` installs.
    exclude: ['agents/**', '**/node_modules/**'],
    // One PostgreSQL for all of them, as the server's tests have it: it gives the tests its address, `postgresUrl`.
    globalSetup: ['../server/store/test-postgres.ts', '../server/test-code-cache.ts'],
    // What hangs is found all the same; on a machine that is busy with other things, what takes a second may take thirty.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Most of the time a test waits for the processes that it started; by itself a machine of two cores takes one.
    maxWorkers: 2,
    expect: { poll: { timeout: 20_000 } },
  },
});
