/** `service init`, as a person uses it in a new project. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';

const writes = (file: string) => [
  {
    when: { step: 0 },
    reply: { tool_calls: [{ name: 'write', arguments: { file_path: file, content: '# Notes\n' } }] },
  },
  { reply: { text: 'Written.' } },
];

test.each([
  [undefined, 'AGENTS.md'],
  ['docs/FOR-AGENTS.md', 'docs/FOR-AGENTS.md'],
])(
  '`options.initialize_as` of %s names the file that the agent is asked for',
  async (initialize_as, file) => {
    const home = testHome();
    const upstream = await withScriptedModel(home, writes(file));
    if (initialize_as !== undefined) home.write('project/service.json', { options: { initialize_as } });
    const ended = await home.service(['init', '--yolo']);
    expect(ended).toMatchObject({ code: 0, stdout: 'Written.\n' });
    expect(readFileSync(join(home.project, file), 'utf8')).toBe('# Notes\n');
    expect(JSON.stringify(await upstream.requests())).toContain(`Write ${file} for this project`);
  },
);

test('nothing is written unless somebody allows it, and the exit code says so', async () => {
  const home = testHome();
  await withScriptedModel(home, writes('AGENTS.md'));
  const ended = await home.service(['init']);
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('AGENTS.md was not written.') });
  expect(existsSync(join(home.project, 'AGENTS.md'))).toBe(false);
});

test('a stranger’s repository does not choose a file outside of it', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, writes('AGENTS.md'));
  home.write('project/service.json', { options: { initialize_as: '../.bashrc' } });
  const ended = await home.service(['init', '--yolo']);
  expect(JSON.stringify(await upstream.requests())).toContain('Write AGENTS.md for this project');
  expect(ended.stderr).toContain('initialize_as');
});

test('what was written is what the next run is told', async () => {
  const home = testHome();
  await withScriptedModel(home, writes('AGENTS.md'));
  await home.service(['init', '--yolo']);
  const upstream = await withScriptedModel(home, [{ reply: { text: 'Done.' } }]);
  await home.service(['run', 'hello']);
  expect(JSON.stringify(await upstream.requests())).toContain('<context_file path=\\"AGENTS.md\\">');
});
