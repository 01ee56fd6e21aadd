// How the client's tests run: from this folder, with time for the mock to start as a child process.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Most of the time a test waits, for a pause or for a process; by itself a machine of two cores takes one.
    maxWorkers: 4,
    expect: { poll: { timeout: 60_000 } },
  },
});
