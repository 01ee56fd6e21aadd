// How the agents are run: by `make agents` alone, one at a time, since each brings a runtime of its own.
import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { testTimeout: 120_000, hookTimeout: 60_000, maxWorkers: 1 } });
