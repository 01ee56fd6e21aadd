/** What `service run` does about the settings of the folder: faults, oddities, trust, and files that change meanwhile. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { dataFolder, launcher, type TestHome, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

const rules = [
  { when: { step: 0 }, reply: { tool_calls: [{ name: 'ls', arguments: {} }] } },
  { reply: { text: 'Done.' } },
];
const hooked = { hooks: { pre_tool_use: [{ command: 'touch hook-ran' }] } };

async function homeWithHook(): Promise<TestHome> {
  const home = testHome();
  await withScriptedModel(home, rules);
  home.write('project/service.json', hooked);
  return home;
}

test('settings with errors end with 2, every error of every file, and nothing made', async () => {
  const home = testHome();
  home.write('.config/service/service.json', '{ "options": { "debug": "yes" } }');
  home.write('project/service.json', '{\n  "options": { "progress": 3 },\n  "tools": 4\n}');
  const ended = await home.service(['run', 'x']);
  expect(ended).toMatchObject({ code: 2, stdout: '' });
  expect(ended.stderr).toMatch(/\.config\/service\/service\.json:1:\d+: error: \/options\/debug/);
  expect(ended.stderr).toMatch(/project\/service\.json:2:\d+: error: \/options\/progress/);
  expect(ended.stderr).toMatch(/project\/service\.json:3:\d+: error: \/tools/);
  expect(existsSync(join(home.project, '.service'))).toBe(false);
});

test('a run on a remote server needs no settings of this folder: neither right nor trusted', async () => {
  const [home, server] = [testHome(), await startTestServer()];
  const variables = { SERVICE_API_KEY: server.operatorKey, SERVICE_SERVER: server.url };
  const words = ['run', '--model', 'demo:demo-1', 'hello'];
  const answer = { code: 0, stdout: expect.stringContaining('You said: hello'), stderr: '' };
  home.write('project/service.json', hooked);
  expect(await home.service([...words, '--require-trust'], { variables })).toMatchObject(answer);
  home.write('project/service.json', '{ "tools": 4');
  home.write('.config/service/service.json', '{ "options": { "debug": "yes" } }');
  expect(await home.service(words, { variables })).toMatchObject(answer);
  const terminal = await openTestTerminal([launcher, ...words], {
    cwd: home.project,
    environment: { ...home.environment, ...variables },
  });
  const { screen, code } = await terminal.end();
  expect({ screen, code }).toMatchObject({ code: 0, screen: expect.stringContaining('You said: hello') });
  expect(screen).not.toContain('service.json');
});

test('what is odd in the settings is said once, with its place, and not with --quiet', async () => {
  const home = testHome();
  await withScriptedModel(home, [{ reply: { text: 'Done.' } }]);
  home.write('project/service.json', '{\n  "colour": "red"\n}');
  const ended = await home.service(['run', 'x']);
  expect(ended.stdout).toBe('Done.\n');
  expect(ended.stderr.match(/service\.json:2:3: warning: .*colour/g)).toHaveLength(1);
  expect(await home.service(['run', '-q', 'x'])).toMatchObject({ code: 0, stderr: '' });
});

test('a model that cannot be asked is told once, with the demonstration that answers instead', async () => {
  const home = testHome();
  const file = home.write('.config/service/service.json', {
    models: { large: { provider: 'anthropic', model: 'claude-sonnet-5' } },
  });
  const { code, stdout, stderr } = await home.service(['run', 'hello']);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringContaining('a script answers, not a model'),
  });
  expect(stderr.match(/Set ANTHROPIC_API_KEY/g)).toHaveLength(1);
  expect(stderr).toMatch(
    new RegExp(`^${file}:4:\\d+: warning: /models/large/provider: This provider cannot be used`),
  );
  expect(stderr.match(/the built-in demonstration answers/g)).toHaveLength(1);
  expect(await home.service(['run', '-q', 'hello'])).toMatchObject({ code: 0, stderr: '' });
});

test('without a terminal the run goes on without what is not trusted, and says so', async () => {
  const home = await homeWithHook();
  const ended = await home.service(['run', 'x']);
  expect(ended).toMatchObject({ code: 0, stdout: 'Done.\n' });
  expect(ended.stderr).toMatch(/service\.json:\d+:\d+: hooks does not count: .*service trust/);
  expect(existsSync(join(home.project, 'hook-ran'))).toBe(false);
});

test('--require-trust ends with 3 before anything is made, and runs once all is trusted', async () => {
  const home = await homeWithHook();
  const refused = await home.service(['run', '--require-trust', 'x']);
  expect(refused).toMatchObject({
    code: 3,
    stdout: '',
    stderr: expect.stringContaining('hooks does not count'),
  });
  expect(existsSync(join(home.project, '.service'))).toBe(false);
  expect(await home.service(['trust', '--yes'])).toMatchObject({ code: 0 });
  expect(await home.service(['run', '--require-trust', 'x'])).toMatchObject({
    code: 0,
    stdout: 'Done.\n',
  });
  expect(existsSync(join(home.project, 'hook-ran'))).toBe(true);
});

test.each([
  [['y'], true],
  [['y', 'Enter'], true],
  [['n'], false],
] as const)(
  'at a terminal trust is asked for before the run, and after %j the hook ran: %s',
  async (keys, ran) => {
    const home = await homeWithHook();
    const options = { cwd: home.project, environment: home.environment };
    const terminal = await openTestTerminal([launcher, 'run', 'x'], options);
    expect(await terminal.shows('[y/N]')).toContain('touch hook-ran');
    await terminal.press(...keys);
    const { screen, code } = await terminal.end();
    expect({ code, screen }).toMatchObject({ code: 0, screen: expect.stringContaining('Done.') });
    expect(screen.includes('hooks does not count')).toBe(!ran);
    expect(existsSync(join(home.project, 'hook-ran'))).toBe(ran);
  },
);

test('a settings file that breaks while a run is at work is told, and the run goes on', async () => {
  const home = testHome();
  const upstream = await withScriptedModel(home, [{ reply: { text: 'Here it is.', hold_after_chunks: 1 } }]);
  const service = home.start(['run', 'x']);
  await upstream.latest(({ outcome }) => outcome === 'open');
  home.write('project/service.json', '{ "tools": 4 }');
  await service.until(() => /service\.json:1:\d+: error: \/tools/.test(service.stderr()));
  await upstream.releaseHeld();
  expect(await service.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('Here it is.') });
});

test('-C runs in another folder, with its settings and its sessions', async () => {
  const home = testHome();
  const listing = { reply: { text: '{{last_tool_result}}' } };
  await withScriptedModel(home, [...rules.slice(0, 1), listing]);
  home.write('other/file.txt', '');
  const ended = await home.service(['-C', '../other', 'run', 'x']);
  expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('file.txt') });
  expect(existsSync(join(dataFolder({ ...home, project: join(home.home, 'other') }), 'service.db'))).toBe(
    true,
  );
});
