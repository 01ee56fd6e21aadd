/** A server that runs takes up what changes in the global service.json, and keeps what was where the file breaks. */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type TestApp, testApp } from './test-app.ts';

let app: TestApp;
beforeEach(async () => {
  app = await testApp({ config: { options: { disabled_tools: ['write'] } } });
});
afterEach(() => app.close());

test('a change counts at the next request, without a restart', async () => {
  expect(await disabled()).toEqual(['write']);
  await rewrite('{ "options": { "disabled_tools": ["bash", "edit"] } } // by hand');
  expect(await disabled()).toEqual(['bash', 'edit']);
  await rewrite('');
  expect(await disabled()).toEqual([]);
});

test('a file that breaks leaves the settings as they were', async () => {
  await rewrite('{ "options": { "disabled_tools": ["bash"');
  expect(await disabled()).toEqual(['write']);
  await rewrite('{ "options": { "disabled_tools": "bash" } }');
  expect(await disabled()).toEqual(['write']);
});

test('the tools that ask language servers are listed as theirs, and say why they are not there', async () => {
  const asking = async () => {
    const { body } = await app.request('GET', '/api/v1/tools?limit=100', { token: app.operatorKey });
    const tools: { name: string; source: string; disabled_by: string | null }[] = body.data;
    return tools
      .filter(({ source }) => source === 'lsp')
      .map(({ name, disabled_by }) => `${name}: ${disabled_by}`);
  };
  const names = ['definition', 'diagnostics', 'references', 'symbols'];
  expect(await asking()).toEqual(names.map((name) => `${name}: null`));
  await rewrite('{ "options": { "auto_lsp": false } }');
  const why = 'no language server is named, and options.auto_lsp is off';
  expect(await asking()).toEqual(names.map((name) => `${name}: ${why}`));
});

/** In one step: on a busy machine a file that is written in place may stay empty for longer than the server doubts it. */
async function rewrite(text: string): Promise<void> {
  const file = join(app.services.settings.globalConfigDirectory, 'service.json');
  await writeFile(`${file}.new`, text);
  await rename(`${file}.new`, file);
}

async function disabled(): Promise<string[]> {
  const { body } = await app.request('GET', '/api/v1/tools?limit=100', { token: app.operatorKey });
  const tools: { name: string; disabled_by: string | null }[] = body.data;
  return tools
    .filter(({ disabled_by }) => disabled_by === 'options.disabled_tools')
    .map(({ name }) => name)
    .sort();
}
