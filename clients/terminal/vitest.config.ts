// How the tests of the command run: as processes of its own, with time for a server inside them.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['**/*.test.ts'], testTimeout: 30_000, hookTimeout: 30_000 },
});
