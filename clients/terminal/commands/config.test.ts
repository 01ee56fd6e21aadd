/** The settings commands, as a person and as a script see them. */
import { execFileSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { openTestTerminal } from '../test-terminal.ts';

const globalFile = '.config/service/service.json';

/** Settings in three files, one of them with a section that needs trust. */
function threeFiles(): TestHome {
  const person = testHome();
  person.write(globalFile, {
    models: { large: { provider: 'openai', model: 'gpt-5.2' } },
    providers: { openai: { api_key: 'sk-very-secret', base_url: '$OPENAI_URL' } },
    options: { tui: { diff_mode: 'unified' } },
  });
  person.write('project/service.json', { options: { tui: { diff_mode: 'split' } } });
  person.write('project/.service/service.json', {
    mcp: { files: { command: 'mcp-files', env: { TOKEN: 'abc' } } },
    options: { debug: true },
  });
  return person;
}

const atTerminal = ({ project, environment }: TestHome, ...args: readonly string[]) =>
  openTestTerminal([launcher, ...args], { cwd: project, environment });

const json = async ({ service }: TestHome, ...args: readonly string[]) =>
  JSON.parse((await service([...args, '--json'])).stdout);

test('show prints what counts as JSON, secrets hidden, and says beside it what does not count', async () => {
  const { service, project } = threeFiles();
  const { code, stdout, stderr } = await service(['config', 'show']);
  expect(JSON.parse(stdout)).toEqual({
    models: { large: { provider: 'openai', model: 'gpt-5.2' } },
    providers: { openai: { api_key: '(hidden)', base_url: '$OPENAI_URL' } },
    options: { tui: { diff_mode: 'split' }, debug: true },
  });
  expect(stderr).toMatch(
    `service: ${project}/.service/service.json:2:3: mcp does not count: the file is not trusted`,
  );
  expect(code).toBe(0);
});

test('show, explain and set hide the secrets in a URL', async () => {
  const { service } = threeFiles();
  const url = 'https://ann:pw-in-url@h.example/v1?key=k-in-url';
  const set = await service(['config', 'set', '--global', 'providers.own.base_url', url]);
  expect(set).toMatchObject({ code: 0 });
  const again = await service(['config', 'set', '--global', 'providers.own.base_url', `${url}2`]);
  const explained = await service(['config', 'explain', 'providers.own.base_url']);
  for (const { stdout, stderr } of [set, again, await service(['config', 'show']), explained]) {
    expect(stdout).toContain('https://(hidden)@h.example/v1?key=(hidden)');
    expect(stdout + stderr).not.toContain('in-url');
  }
});

test('show --origin is a line for each value, with tabs between, where it is piped', async () => {
  const { home, project, service } = threeFiles();
  const { stdout } = await service(['config', 'show', '--origin']);
  expect(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t')),
  ).toEqual([
    ['models.large.model', '"gpt-5.2"', 'global', `${home}/${globalFile}:5`],
    ['models.large.provider', '"openai"', 'global', `${home}/${globalFile}:4`],
    ['providers.openai.base_url', '"$OPENAI_URL"', 'global', `${home}/${globalFile}:11`],
    ['providers.openai.api_key', '"(hidden)"', 'global', `${home}/${globalFile}:10`],
    ['options.tui.diff_mode', '"split"', 'project', `${project}/service.json:4`],
    ['options.debug', 'true', 'workspace', `${project}/.service/service.json:11`],
  ]);
});

test('show --origin is a note to each value at a terminal, with short paths', async () => {
  const terminal = await atTerminal(threeFiles(), 'config', 'show', '--origin');
  const { screen, code } = await terminal.end();
  expect(screen).toMatch(/^models\.large\.model = "gpt-5\.2" +# ~\/\.config\/service\/service\.json:5$/m);
  expect(screen).toMatch(/^options\.tui\.diff_mode = "split" +# service\.json:4$/m);
  expect(code).toBe(0);
});

test('show --defaults has what nobody wrote, too, and --origin tells the two apart', async () => {
  const person = threeFiles();
  const all = await json(person, 'config', 'show', '--defaults');
  expect(all).toMatchObject({
    options: { tui: { diff_mode: 'split', compact_mode: false }, data_directory: '.service' },
    tools: { ls: { max_items: 1000 } },
  });
  const rows = await json(person, 'config', 'show', '--defaults', '--origin');
  expect(rows).toContainEqual(
    expect.objectContaining({ key: 'tools.ls.max_items', value: 1000, scope: 'default', file: null }),
  );
  expect(rows).toContainEqual(
    expect.objectContaining({ key: 'options.debug', value: true, scope: 'workspace', line: 11 }),
  );
});

test('show --defaults puts lists back together, and takes any name for a server', async () => {
  const { service, write } = testHome();
  const hooks = {
    pre_tool_use: [
      { command: 'one', timeout: 5 },
      { command: 'two', timeout: 7 },
    ],
  };
  const mcp = JSON.parse(
    '{ "toString": { "command": "x" }, "a.b/c": { "command": "y", "args": ["1", "2"] } }',
  );
  write(globalFile, `{ "hooks": ${JSON.stringify(hooks)}, "mcp": ${JSON.stringify(mcp)} }`);
  const shown = JSON.parse((await service(['config', 'show', '--defaults', '--json'])).stdout);
  expect(shown.hooks.pre_tool_use).toMatchObject(hooks.pre_tool_use);
  expect(Object.keys(shown.mcp)).toEqual(['toString', 'a.b/c']);
  expect(shown.mcp['a.b/c']).toMatchObject({ args: ['1', '2'] });
});

test('there are colours at a terminal alone, but for NO_COLOR and FORCE_COLOR', async () => {
  const { service } = threeFiles();
  const show = (variables: Record<string, string>) => service(['config', 'show'], { variables });
  const escapes = async (variables: Record<string, string>) => {
    const { stdout, stderr } = await show(variables);
    return [stdout.includes('\x1b['), stderr.includes('\x1b[')];
  };
  expect(await escapes({})).toEqual([false, false]);
  expect(await escapes({ FORCE_COLOR: '1' })).toEqual([true, true]);
});

test('NO_COLOR keeps colours away from a terminal', async () => {
  const person = threeFiles();
  const show = async (variables: Record<string, string>) => {
    const environment = { ...person.environment, ...variables };
    const terminal = await openTestTerminal([launcher, 'config', 'show'], {
      cwd: person.project,
      environment,
    });
    await terminal.end();
    return terminal.colours();
  };
  expect(await show({})).toBe(true);
  expect(await show({ NO_COLOR: '1' })).toBe(false);
});

test('show names no settings as none, and says where some may be', async () => {
  const terminal = await atTerminal(testHome(), 'config', 'show');
  expect((await terminal.end()).screen).toBe(
    '{}\nservice: No settings file says anything here. service config path shows where one may be.',
  );
});

test('names and values of a file cannot do anything to a terminal', async () => {
  const { service, write } = testHome();
  write('project/service.json', { options: { initialize_as: 'A\u001b[2J\u202e\u009b.md' }, models: {} });
  for (const words of [
    ['show'],
    ['show', '--origin'],
    ['explain', 'options.initialize_as'],
    ['show', '--json'],
  ]) {
    const { stdout } = await service(['config', ...words]);
    expect(stdout).toContain(String.raw`A\u001b[2J\u202e\u009b.md`);
  }
});

test('settings that cannot be used are an error with every place, and nothing is shown', async () => {
  const { service, write } = threeFiles();
  const one = write('project/service.json', '{ "options": { "debug": "yes", "tui": 3 } }');
  const two = write(globalFile, '{ "models": ');
  const { code, stdout, stderr } = await service(['config', 'show']);
  expect(stderr).toContain(`${one}:1:25: error: /options/debug`);
  expect(stderr).toContain(`${one}:1:39: error: /options/tui`);
  expect(stderr).toContain(`${two}:1:`);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('explain says what a key means and is, and what became of what each file says', async () => {
  const person = threeFiles();
  const { stdout } = await person.service(['config', 'explain', 'options.tui.diff_mode']);
  for (const line of ['value\t"split"', 'one of\t"unified", "split"', 'default\tnone', 'type\tstring'])
    expect(stdout).toContain(line);
  expect(stdout).toContain(`from\tproject file ${person.project}/service.json:4\n`);
  expect(stdout).toMatch(/^global\t.*:16\t"unified"\tdoes not count: a nearer file says otherwise$/m);
  expect(stdout).toMatch(/^project\t.*:4\t"split"\tcounts$/m);
  expect(await json(person, 'config', 'explain', 'options.tui.diff_mode')).toMatchObject({
    key: 'options.tui.diff_mode',
    value: 'split',
    origin: { scope: 'project', line: 4 },
    restricted: false,
    set_by: [{ status: 'overridden' }, { status: 'effective' }],
  });
});

test('explain says what does not count for want of trust, and hides its secrets', async () => {
  const { stdout } = await threeFiles().service(['config', 'explain', 'mcp.files']);
  expect(stdout).toContain('value\tnot set');
  expect(stdout).toContain('trust\tOf the files of a project it counts only when the file is trusted.');
  expect(stdout).toContain('does not count: the file is not trusted (service trust)');
  // As a word: the name of the test's folder is any letters.
  expect(stdout).not.toMatch(/\babc\b/);
});

test('explain knows a deprecated key, what replaces it, and where it is written', async () => {
  const { service, write } = testHome();
  const file = write('project/service.json', { options: { disable_notifications: true } });
  const { stdout } = await service(['config', 'explain', 'options.notification_style']);
  expect(stdout).toContain('value\t"disabled"');
  expect(stdout).toContain('"disabled" (as options.disable_notifications)');
  expect(stdout).toContain(`warning: ${file}:3:5: The key "disable_notifications" is deprecated.`);
  expect((await service(['config', 'explain', 'options.disable_notifications'])).stdout).toContain(
    'deprecated\tUse notification_style',
  );
});

test('explain names the nearest key where there is none of that name', async () => {
  const { code, stdout, stderr } = await testHome().service(['config', 'explain', 'options.tui.dif_mode']);
  expect(stderr).toBe(
    'error: There is no setting "options.tui.dif_mode". Did you mean "options.tui.diff_mode"?\n',
  );
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('set changes the file of the project, prints what changed, and keeps the comments', async () => {
  const { service, write } = testHome();
  const file = write(
    'project/.service/service.json',
    '{\n  // mine\n  "options": { "tui": { "diff_mode": "unified" } },\n}\n',
  );
  const { code, stdout, stderr } = await service(['config', 'set', 'options.tui.diff_mode', 'split']);
  expect(stdout).toBe(`options.tui.diff_mode: "unified" → "split" in ${file}\n`);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(readFileSync(file, 'utf8')).toBe(
    '{\n  // mine\n  "options": { "tui": { "diff_mode": "split" } },\n}\n',
  );
});

test('set --global makes the global file, with a schema that editors find', async () => {
  const { home, service } = testHome();
  const { stdout } = await service(['config', 'set', '--global', 'options.debug', 'true']);
  expect(stdout).toBe(`options.debug: not set → true in ${home}/${globalFile}, a new file\n`);
  const { $schema } = JSON.parse(readFileSync(join(home, globalFile), 'utf8'));
  expect(JSON.parse(readFileSync(join(home, '.config/service', $schema), 'utf8'))).toHaveProperty(
    'properties.models',
  );
});

test('set says that a nearer file says otherwise', async () => {
  const { project, service } = threeFiles();
  const { code, stderr } = await service(['config', 'set', '-g', 'options.tui.diff_mode', 'split']);
  expect(stderr).toBe(`service: ${project}/service.json:4 says otherwise, and counts: it is nearer.\n`);
  expect(code).toBe(0);
});

test('set says what must be trusted before it counts, and hides the secret that it wrote', async () => {
  const { project, service } = testHome();
  const { stdout, stderr } = await service(['config', 'set', 'providers.openai.api_key', 'sk-secret']);
  expect(stdout).toBe(
    `providers.openai.api_key: not set → "(hidden)" in ${project}/.service/service.json, a new file\n`,
  );
  expect(stderr).toBe(
    `service: ${project}/.service/service.json is not trusted: this does not count until you run: service trust\n`,
  );
});

test('set says which part of what it wrote must be trusted, where the rest counts', async () => {
  const { project, service } = testHome();
  const value = '{"context_paths": ["NOTES.md"], "debug": true}';
  const { stderr } = await service(['config', 'set', 'options', value]);
  expect(stderr).toBe(
    `service: ${project}/.service/service.json is not trusted: options.context_paths in it does not count until you run: service trust\n`,
  );
});

test('set refuses what the file may not say, and changes nothing', async () => {
  const { service, write } = testHome();
  const file = write('project/.service/service.json', '{}');
  const { code, stdout, stderr } = await service(['config', 'set', 'options.tui.diff_mode', 'spilt']);
  expect(stderr).toContain('Did you mean "split"?');
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(readFileSync(file, 'utf8')).toBe('{}');
});

test('unset says what counts now', async () => {
  const { home, service, write } = threeFiles();
  write('project/service.json', '{}');
  await service(['config', 'set', 'options.tui.diff_mode', 'split']);
  const { stdout, stderr } = await service(['config', 'unset', 'options.tui.diff_mode']);
  expect(stdout).toContain('options.tui.diff_mode: "split" → not set in ');
  expect(stderr).toBe(`service: Now it is what ${home}/${globalFile}:16 says.\n`);
  expect(await service(['config', 'unset', 'options.tui.diff_mode'])).toMatchObject({ code: 2, stdout: '' });
});

test('check finds everything that is wrong, says in how many files, and fails where one cannot be used', async () => {
  const { service, write } = threeFiles();
  const file = write(
    'project/service.json',
    '{\n  "option": {},\n  "tools": { "grep": { "timeout": 5 } }\n}',
  );
  const { code, stdout, stderr } = await service(['config', 'check']);
  expect(stdout).toMatch(new RegExp(`^${file}:2:3: warning: /option: .*Did you mean "options"\\?$`, 'm'));
  expect(stdout).toMatch(new RegExp(`^${file}:3:\\d+: error: /tools/grep/timeout: .*"5s"`, 'm'));
  expect(stderr).toBe('Looked at 3 files: 1 error, 1 warning.\n');
  expect(code).toBe(2);
});

test('check is content with warnings, and with files by name wherever they are', async () => {
  const person = threeFiles();
  const file = person.write('elsewhere/any.json', '{ "option": {} }');
  const { code, stdout, stderr } = await person.service(['config', 'check', '../elsewhere/any.json']);
  expect(stdout).toContain(`${file}:1:3: warning: /option`);
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'Looked at 1 file: 1 warning.\n' });
  expect(await json(person, 'config', 'check', file)).toMatchObject([
    { severity: 'warning', pointer: '/option', place: { line: 1 } },
  ]);
  expect(await person.service(['config', 'check'])).toMatchObject({
    code: 0,
    stderr: 'Looked at 3 files: nothing is wrong.\n',
  });
});

test('check names a file that is not there', async () => {
  const { code, stdout } = await testHome().service(['config', 'check', 'nowhere.json']);
  expect(stdout).toContain('There is no such file');
  expect(code).toBe(2);
});

test('path says of every place whether its file is there, trusted, and can be used', async () => {
  const person = threeFiles();
  const state = async () => {
    const rows: { scope: string; file: string; state: string }[] = await json(person, 'config', 'path');
    return rows.map(({ scope, file, state }) => [scope, file.slice(person.home.length + 1), state]);
  };
  expect(await state()).toEqual([
    ['global', globalFile, 'there'],
    ['project', 'project/service.json', 'there'],
    ['project', 'project/.service.json', 'absent'],
    ['workspace', 'project/.service/service.json', 'not trusted'],
  ]);
  symlinkSync('/etc/hostname', join(person.project, '.service.json'));
  expect((await state())[2]).toEqual(['project', 'project/.service.json', 'not read']);
  writeFileSync(join(person.project, 'service.json'), '{');
  expect((await state())[1]).toEqual(['project', 'project/service.json', 'cannot be used']);
});

test('path says why a file is not read', async () => {
  const { project, service } = testHome();
  execFileSync('mkfifo', [join(project, 'service.json')]);
  const { stdout, stderr } = await service(['config', 'path']);
  expect(stdout).toContain(`project\t${project}/service.json\tnot read\n`);
  expect(stderr).toContain('This is a pipe');
});
