/** The clients for Python, `anthropic` and `langchain-anthropic`: their cases stand in `python/`, and one process runs them all. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { cutPlaces, playedModel } from './played-model.ts';

const python = join(import.meta.dirname, '../../.venv/bin/python');

let live: Live;
beforeAll(async () => {
  live = await startLive();
  await live.upstream.script(playedModel);
});
afterAll(() => live?.stop());

test('the clients for Python do what they do with their own vendor, and understand what fails', async () => {
  const printed = await runCases();
  expect(printed).toMatch(/^\d+ passed in /m);
  expect(Number(/^(\d+) passed/m.exec(printed)?.[1]), printed).toBeGreaterThan(70);
}, 180_000);

/** What the cases have printed; fails with it where one of them failed. */
async function runCases(): Promise<string> {
  const run = promisify(execFile)(python, ['-m', 'pytest', '-p', 'no:cacheprovider', '--quiet'], {
    cwd: join(import.meta.dirname, 'python'),
    env: {
      PATH: process.env.PATH,
      SERVICE_URL: live.server.url,
      SERVICE_KEY: live.server.operatorKey,
      CUT_PLACES: String(cutPlaces.length),
      // Nothing is left behind, and nobody outside is told.
      PYTHONDONTWRITEBYTECODE: '1',
      LANGSMITH_TRACING: 'false',
    },
  });
  const { stdout } = await run.catch(({ stdout, stderr }: { stdout: string; stderr: string }) => {
    throw new Error(`Cases failed:\n${stdout}${stderr}`);
  });
  return stdout;
}
