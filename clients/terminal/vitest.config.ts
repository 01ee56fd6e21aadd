// How the tests of the command run: as processes of its own, with time for a server inside them.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    globalSetup: ['../../server/test-temporary-files.ts', '../../server/test-code-cache.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Most of the time a test waits for the processes that it started.
    maxWorkers: 4,
    expect: { poll: { timeout: 60_000 } },
    // As for the server's tests: what Node loads itself comes compiled out of the cache.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
