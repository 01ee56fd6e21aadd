// How the tests of the generators run: with time for the programs that they start.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['**/*.test.ts'],
    // What hangs is found all the same; on a machine that is busy with other things, what takes a second may take thirty.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
