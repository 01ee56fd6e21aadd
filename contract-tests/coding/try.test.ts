/** `make try`, with a played vendor in the place of a real one: the program itself, its answers, and how it ends. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startUpstream } from '../upstream/start-upstream.ts';
import { lastWords, script } from './repository.ts';

function tryIt(variables: NodeJS.ProcessEnv): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const { PATH, HOME } = process.env;
  const program = join(import.meta.dirname, 'try.ts');
  return new Promise((resolve) =>
    execFile(process.execPath, [program], { env: { PATH, HOME, ...variables } }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stdout, stderr }),
    ),
  );
}

test('a model that mends the repository is told of so, step by step', async () => {
  const upstream = await startUpstream();
  onTestFinished(() => void upstream.stop());
  await upstream.script([...script], ['gpt-5-mini']);
  const { code, stdout, stderr } = await tryIt({
    ...{ TRY_PROVIDER: 'openai', TRY_MODEL: 'gpt-5-mini' },
    ...{ OPENAI_API_KEY: 'a-key', OPENAI_BASE_URL: `${upstream.url}/v1` },
  });
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('● edit {');
  expect(stdout).toContain(lastWords);
  expect(stdout).toMatch(/^openai:gpt-5-mini, completed: \{"input_tokens":\d+/m);
  expect(stdout).toContain('The test of the repository passes: 0 failed');
});

test.each([
  ['without a provider', {}, 'make try PROVIDER=openai'],
  ['without its key', { TRY_PROVIDER: 'openai' }, 'set OPENAI_API_KEY'],
  ['without the key of one that has two names', { TRY_PROVIDER: 'vendor-openai' }, 'set OPENAI_API_KEY'],
])('%s it says what to give', async (_, variables, advice) => {
  const { code, stderr } = await tryIt(variables);
  expect(code).toBe(2);
  expect(stderr).toContain(advice);
});
