// How the black-box tests run: from this folder, with time for a child process to start.
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** They take minutes, as no other file does, and are small: vitest, which begins with what is large, would end with them. */
const longest = ['fuzz/fuzz.test.ts', 'container.test.ts', 'access/access.test.ts'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => longest.some((name) => moduleId.endsWith(`/${name}`));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    // They need what only `make agents` installs.
    exclude: ['agents/**', '**/node_modules/**'],
    // One PostgreSQL for all of them, as the server's tests have it: it gives the tests its address, `postgresUrl`.
    globalSetup: [
      '../server/test-temporary-files.ts',
      '../server/store/test-postgres.ts',
      '../server/test-code-cache.ts',
    ],
    // What hangs is found all the same; on a machine that is busy with other things, what takes a second may take thirty.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Most of the time a test waits for the processes that it started; by itself a machine of two cores takes one.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    expect: { poll: { timeout: 60_000 } },
    // As for the server's tests: what Node loads itself comes compiled out of the cache.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
