// How the server's tests run: one PostgreSQL for all of them, and time for real parts.
import { defineConfig } from 'vitest/config';

/** They change the process that they run in, or measure what it costs: its variables, its memory, its time. */
const alone = [
  'config/load.test.ts',
  'http/bodies.test.ts',
  'identity/passwords.test.ts',
  'operations/storage.test.ts',
  // Half a minute of waiting, beside those that come after: as the last of all it would be waited for.
  'runtime/extension-times.test.ts',
  'runtime/hooks/hooks-command.test.ts',
  'runtime/lsp/*.test.ts',
  'runtime/mcp/hostile-servers.test.ts',
  'runtime/processes/*.test.ts',
  'runtime/tools/bash.test.ts',
  'store/ingestion-work.test.ts',
  'store/storage/*.test.ts',
];

/** They start the program, as those beside it do. */
const programs = 'maintenance/**/*.test.ts';

/** Whatever stands in a folder and is not named above: a new folder is not forgotten. */
const together = '*/**/*.test.ts';

const common = {
  // What hangs is found all the same; on a machine that is busy with other things, what takes a second may take thirty.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  // What is waited for comes from real processes, and the machine may be busy with other tests.
  expect: { poll: { timeout: 60_000 } },
  // As Node itself loads the program, whose compiled code then comes out of the cache: vite would make it anew for each file.
  experimental: { viteModuleRunner: false, nodeLoader: false },
};

export default defineConfig({
  test: {
    // Before both of the projects, once.
    globalSetup: ['test-temporary-files.ts', 'store/test-postgres.ts', 'test-code-cache.ts'],
    // Most of the time a test waits for the processes that it started; by itself a machine of two cores takes one.
    maxWorkers: 4,
    projects: [
      { test: { ...common, name: 'alone', include: ['*.test.ts', programs, ...alone] } },
      {
        // To import the server takes longer than most of these files: they share what a worker has imported.
        test: {
          ...common,
          name: 'together',
          include: [together],
          exclude: ['**/node_modules/**', programs, ...alone],
          isolate: false,
        },
      },
    ],
  },
});
