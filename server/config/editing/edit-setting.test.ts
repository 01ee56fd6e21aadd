/** Changing settings in files: which file, under which name, with which rights, and never half of it. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { SettingsError } from '../diagnostic.ts';
import { followSettings } from '../live-settings.ts';
import { type TestProject, testProject } from '../test-project.ts';
import { readTrust } from '../trust/trust-store.ts';
import { changeFile } from './edit-file.ts';
import { type SettingChange, setSetting, unsetSetting } from './edit-setting.ts';

const workspaceFile = '.service/service.json';

async function editable() {
  const project = await testProject();
  const places = await project.places();
  const read = (file = workspaceFile) => readFile(project.path(file), 'utf8');
  const set = (key: string, text: string, scope: 'workspace' | 'global' = 'workspace') =>
    setSetting(places, { scope, key, text });
  const unset = (key: string) => unsetSetting(places, { scope: 'workspace', key });
  return { ...project, settingsPlaces: places, read, set, unset };
}

/** What `service schema` prints. */
const currentSchema = () => readFile(join(import.meta.dirname, '../../contract/service.schema.json'), 'utf8');

/** Every diagnostic with which a change is refused, a line each. */
async function refusal(change: Promise<SettingChange>): Promise<string> {
  const error = await change.then(
    () => new Error('It was not refused'),
    (reason: unknown) => reason,
  );
  if (error instanceof SettingsError) return error.message;
  throw error;
}

describe('a file that is not there', () => {
  test('has its schema put in the place of what a repository has there, which is not followed', async () => {
    const { set, path } = await editable();
    await mkdir(path('.service'));
    await symlink('/dev/zero', path('.service/service.schema.json'));
    await set('options.tui.diff_mode', 'split');
    expect((await lstat(path('.service/service.schema.json'))).isFile()).toBe(true);
  });

  test('is made with its schema beside it, for this person alone, and kept out of git', async () => {
    const { set, read, root, path, load } = await editable();
    await rm(path('.git'), { recursive: true });
    execFileSync('git', ['init', '--quiet', root]);
    expect(await set('options.tui.diff_mode', 'split')).toEqual({
      file: path(workspaceFile),
      created: true,
      changed: true,
      pointer: '/options/tui/diff_mode',
      previous: undefined,
      value: 'split',
      trusted: false,
      ignored: [],
      warnings: [],
    });
    expect(await read()).toBe(
      '{\n  "$schema": "./service.schema.json",\n  "options": {\n    "tui": {\n      "diff_mode": "split"\n    }\n  }\n}\n',
    );
    expect((await stat(path(workspaceFile))).mode & 0o777).toBe(0o600);
    expect((await stat(path('.service'))).mode & 0o777).toBe(0o700);
    expect(await read('.service/service.schema.json')).toBe(await currentSchema());
    const status = ['-C', root, 'status', '--porcelain', '--untracked-files=all', '--ignored=no'];
    expect(execFileSync('git', status, { encoding: 'utf8' })).toBe('?? .service/service.json\n');
    expect((await load()).config.options?.tui?.diff_mode).toBe('split');
  });

  test('is the global one with --global, and nothing is written into the project', async () => {
    const { set, globalFile, root } = await editable();
    const change = await set('hooks.pre_tool_use', '[{ "command": "true" }]', 'global');
    expect(change).toMatchObject({ file: globalFile, created: true, trusted: true, ignored: [] });
    expect((await stat(globalFile)).mode & 0o777).toBe(0o600);
    expect((await readdir(dirname(globalFile))).sort()).toEqual(['service.json', 'service.schema.json']);
    expect(await readdir(root)).toEqual(['.git']);
  });

  test('is not made by what is refused', async () => {
    const { set, unset, root } = await editable();
    await refusal(set('options.debug', 'perhaps'));
    await refusal(set('mcp.x', '{ "url": "https://example.com" }'));
    await refusal(unset('options.debug'));
    expect(await readdir(root)).toEqual(['.git']);
  });
});

describe('a value', () => {
  test.each<[string, string, unknown]>([
    [
      'models.large',
      '{ "provider": "openai", "model": "gpt-5.2" }',
      { provider: 'openai', model: 'gpt-5.2' },
    ],
    ['providers.a.name', 'true', 'true'],
    ['providers.a.name', '12', '12'],
    ['options.debug', 'true', true],
    ['tools.ls.max_depth', '3', 3],
    ['tools.grep.timeout', '1m30s', '1m30s'],
    ['tools.grep.timeout', '5000000000', 5_000_000_000],
    ['mcp.a.timeout', '2.5', 2.5],
    ['options.disabled_tools', '["bash", "view"]', ['bash', 'view']],
    ['/providers/my.gateway/base_url', 'http://127.0.0.1:8000', 'http://127.0.0.1:8000'],
    ['providers.a.extra_body.flag', 'true', true],
    ['providers.a.extra_body.word', 'yes', 'yes'],
    ['providers.a.extra_body.list', '[1, null]', [1, null]],
    ['lsp.go.command', '"gopls"', '"gopls"'],
  ])('of %s is read by its type: %s', async (key, text, value) => {
    const { set } = await editable();
    expect((await set(key, text)).value).toEqual(value);
  });

  test.each([
    [
      'options.debug',
      'yes',
      "error: /options/debug: This value cannot be read; expected true or false. Write, for example, 'true'.",
    ],
    [
      'tools.ls.max_depth',
      '1.5',
      "/tools/ls/max_depth: This value cannot be read; expected a whole number. Write, for example, '3'.",
    ],
    ['tools.ls.max_depth', '-1', '/tools/ls/max_depth: This number is out of range; expected a number >= 0.'],
    ['mcp.a.timeout', 'soon', '/mcp/a/timeout: This value cannot be read; expected a number.'],
    [
      'options.disabled_tools',
      'bash',
      '/options/disabled_tools: This value cannot be read; expected a list, as JSON. Write, for example, \'["bash","fetch"]\'.',
    ],
    ['options.disabled_tools', '{}', 'expected a list, as JSON.'],
    ['models.large', 'gpt', '/models/large: This value cannot be read; expected an object, as JSON.'],
    ['models.large', '{ "model": "a", "model": "b" }', 'expected an object, as JSON.'],
    [
      'options.tui.diff_mode',
      'splitt',
      '/options/tui/diff_mode: This is none of the values that are known; expected one of "unified", "split". Did you mean "split"?',
    ],
    ['tools.grep.timeout', '5', 'A bare number counts nanoseconds'],
    [
      'options.tui.difmode',
      'split',
      'There is no setting "options.tui.difmode". Did you mean "options.tui.diff_mode"?',
    ],
    [
      'mcp.a',
      '{ "comand": "x" }',
      'The key "comand" is not known, and has no effect. Did you mean "command"?',
    ],
    [
      'models.large.model',
      'a',
      `The key "provider" is missing. Set the whole of it at once: service config set models.large '{"model":"a","provider":"openai"}'`,
    ],
    ['providers.__proto__.name', 'a', 'The key "__proto__" is not allowed.'],
    ['hooks.pre_tool_use.1.command', 'true', 'This list has 0 items. The next one is number 0.'],
  ])('of %s is refused where it is %s', async (key, text, message) => {
    const { set, put, read } = await editable();
    await put(workspaceFile, '{ "hooks": { "pre_tool_use": [] } }');
    expect(await refusal(set(key, text))).toContain(message);
    expect(await read()).toBe('{ "hooks": { "pre_tool_use": [] } }');
  });

  test('that is there already changes nothing, however it is written', async () => {
    const { set, put, read, path } = await editable();
    const text = '{"options":{"disabled_tools":[ "bash" , // dangerous\n]}}';
    await put(workspaceFile, text);
    const { mtimeMs } = await stat(path(workspaceFile));
    expect(await set('options.disabled_tools', '["bash"]')).toMatchObject({
      changed: false,
      previous: ['bash'],
    });
    expect(await read()).toBe(text);
    expect((await stat(path(workspaceFile))).mtimeMs).toBe(mtimeMs);
  });

  test('can be set among errors that were there before, and mends one of them', async () => {
    const { set, put, read } = await editable();
    await put(workspaceFile, '{ "options": { "debug": "yes", "tui": { "diff_mode": 1 } } }');
    await set('options.progress', 'true');
    await set('options.debug', 'true');
    expect(await read()).toBe(
      '{ "options": { "debug": true, "tui": { "diff_mode": 1 }, "progress": true } }',
    );
    expect(await refusal(set('options.debug.x', 'true'))).toContain('There is no setting');
  });

  test('cannot be set where something else stands', async () => {
    const { set, put } = await editable();
    const file = await put(workspaceFile, '{ "options": "debug" }');
    expect(await refusal(set('options.debug', 'true'))).toBe(
      `${file}:1:1: error: /options: This is not an object, so that nothing can be set in it. Mend it first.`,
    );
    await put(workspaceFile, '[]');
    expect(await refusal(set('options.debug', 'true'))).toContain('This is not an object');
  });

  test.each([
    ['{ "options": { "debug": true }', 'The file is not JSON here'],
    ['{ "options": {}, "options": {} }', 'The key "options" stands here twice'],
  ])('is never set in a file that cannot be read: %s', async (text, message) => {
    const { set, unset, put, read } = await editable();
    await put(workspaceFile, text);
    expect(await refusal(set('options.debug', 'false'))).toContain(message);
    expect(await refusal(unset('options'))).toContain(message);
    expect(await read()).toBe(text);
  });

  test('keeps comments, order, line ends and a byte order mark', async () => {
    const { set, unset, put, read } = await editable();
    const text =
      '\uFEFF{\r\n\t// Quiet.\r\n\t"options": {\r\n\t\t"progress": false, // no bars\r\n\t},\r\n}\r\n';
    await put(workspaceFile, text);
    await set('options.debug', 'true');
    const added = text.replace('// no bars\r\n', '// no bars\r\n\t\t"debug": true,\r\n');
    expect(await read()).toBe(added);
    await unset('options.debug');
    expect(await read()).toBe(text);
  });
});

describe('a name', () => {
  test.each([
    [
      'the alias, where the server stands under it',
      '{ "mcpServers": { "x": { "command": "a" } } }',
      'mcp.x.command',
      'b',
      '/mcpServers/x/command',
    ],
    [
      'the proper one, where both stand',
      '{ "mcpServers": { "x": { "command": "a" } }, "mcp": { "x": { "command": "a" } } }',
      'mcpServers.x.command',
      'b',
      '/mcp/x/command',
    ],
    [
      'the alias, where the server stands only there',
      '{ "mcpServers": { "x": { "command": "a" } }, "mcp": {} }',
      'mcp.x.command',
      'b',
      '/mcpServers/x/command',
    ],
    ['the proper one, where neither stands', '{}', 'mcpServers.x.command', 'b', '/mcp/x/command'],
    [
      'the deprecated one, where it stands',
      '{ "options": { "disable_notifications": true } }',
      'options.disable_notifications',
      'false',
      '/options/disable_notifications',
    ],
    [
      'its replacement, where it does not',
      '{}',
      'options.disable_notifications',
      'true',
      '/options/notification_style',
    ],
    [
      'the proper one, whatever stands beside it',
      '{ "options": { "disable_notifications": true } }',
      'options.notification_style',
      'bell',
      '/options/notification_style',
    ],
  ])('is %s', async (_, text, key, value, pointer) => {
    const { set, put } = await editable();
    await put(workspaceFile, text);
    expect((await set(key, value)).pointer).toBe(pointer);
  });

  test('that was replaced brings its value along, and one that is deprecated its warning', async () => {
    const { set, put, load } = await editable();
    expect(await set('options.disable_notifications', 'true')).toMatchObject({ value: 'disabled' });
    await put(workspaceFile, '{ "options": { "attribution": { "co_authored_by": true } } }');
    expect(await set('options.attribution.co_authored_by', 'false')).toMatchObject({ value: false });
    expect((await load()).config.options?.attribution).toEqual({ trailer_style: 'none' });
  });
});

describe('what is unset', () => {
  test('goes, with the objects that would be empty, and is told', async () => {
    const { unset, put, read } = await editable();
    await put(workspaceFile, { models: {}, options: { tui: { completions: { max_depth: 3 } } } });
    expect(await unset('options.tui.completions.max_depth')).toMatchObject({ previous: 3, value: undefined });
    expect(await read()).toBe('{"models":{}}');
  });

  test('goes under every name', async () => {
    const { unset, put, load } = await editable();
    await put(workspaceFile, {
      mcp: { a: { command: 'x' } },
      mcpServers: { a: { command: 'y' }, b: { command: 'z' } },
    });
    await unset('mcp.a');
    expect(Object.keys((await load()).layers[0]?.written.mcp ?? {})).toEqual(['b']);
  });

  test('and is not there is told, with what was probably meant', async () => {
    const { unset, put } = await editable();
    const file = await put(workspaceFile, { providers: { gateway: { name: 'a' } } });
    expect(await refusal(unset('providers.gatway'))).toBe(
      `${file}:1:1: error: /providers/gatway: This file does not say so. Did you mean "providers.gateway"?`,
    );
    expect(await refusal(unset('options.debug'))).toContain(
      '`service config explain options.debug` says which file does.',
    );
  });

  test('cannot leave an object without what it needs', async () => {
    const { unset, put } = await editable();
    await put(workspaceFile, { models: { large: { provider: 'a', model: 'b' } } });
    expect(await refusal(unset('models.large.model'))).toMatch(
      /The key "model" is missing.* Or remove the whole of it: service config unset models.large$/,
    );
  });
});

describe('rights and links', () => {
  test.each([0o600, 0o640, 0o644, 0o400])('the mode %i of the global file stays', async (mode) => {
    const { set, globalFile } = await editable();
    await set('options.debug', 'false', 'global');
    await chmod(globalFile, mode);
    await set('options.debug', 'true', 'global');
    expect((await stat(globalFile)).mode & 0o777).toBe(mode);
  });

  test.each([0o640, 0o644, 0o400])(
    'the workspace file of mode %i is this person’s alone once it is written',
    async (mode) => {
      const { set, put, path } = await editable();
      await put(workspaceFile, '{}');
      await chmod(path(workspaceFile), mode);
      await set('options.debug', 'true');
      expect((await stat(path(workspaceFile))).mode & 0o777).toBe(0o600);
    },
  );

  test('a file that root changes stays its owner’s', async () => {
    const { set, put, path } = await editable();
    await put(workspaceFile, '{}');
    const owner = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
    await chown(path(workspaceFile), owner, (await stat(path(workspaceFile))).gid);
    await set('options.debug', 'true');
    expect((await stat(path(workspaceFile))).uid).toBe(owner);
  });

  test('behind a link the file itself is changed, and the link stays', async () => {
    const { set, put, path, globalFile, home } = await editable();
    const real = await put(join(home, 'dotfiles/service.json'), '{}');
    await mkdir(dirname(globalFile), { recursive: true });
    await symlink(real, globalFile);
    await put('settings/service.json', '{}');
    await symlink('settings', path('.service'));
    await set('options.debug', 'true', 'global');
    await set('options.debug', 'false');
    expect((await lstat(globalFile)).isSymbolicLink()).toBe(true);
    expect((await lstat(path('.service'))).isSymbolicLink()).toBe(true);
    expect([await readFile(real, 'utf8'), await readFile(path('settings/service.json'), 'utf8')]).toEqual([
      '{\n  "options": {\n    "debug": true\n  }\n}',
      '{\n  "options": {\n    "debug": false\n  }\n}',
    ]);
  });

  test.each<[string, string, (path: (name: string) => string, outside: string) => Promise<unknown>]>([
    [
      'a file that is a link out of the project',
      'symbolic link to outside the project',
      async (path, outside) => {
        await mkdir(path('.service'));
        await symlink(join(outside, 'service.json'), path(workspaceFile));
      },
    ],
    [
      'a folder that is a link out of the project',
      'symbolic link to outside the project',
      (path, outside) => symlink(outside, path('.service')),
    ],
    [
      'a folder that is a link to an empty one outside',
      'symbolic link to outside the project',
      async (path, outside) => {
        await mkdir(join(outside, 'empty'));
        await symlink(join(outside, 'empty'), path('.service'));
      },
    ],
    [
      'a link to nothing',
      'symbolic link to nothing',
      async (path, outside) => {
        await mkdir(path('.service'));
        await symlink(join(outside, 'new.json'), path(workspaceFile));
      },
    ],
    [
      'a folder that is a link to nothing',
      'symbolic link to nothing',
      (path, outside) => symlink(join(outside, 'new'), path('.service')),
    ],
    [
      'a folder that is a file',
      'The file cannot be written (ENOTDIR',
      (path) => writeFile(path('.service'), ''),
    ],
    [
      'a file that is a folder',
      'The file cannot be written (EISDIR',
      (path) => mkdir(path(workspaceFile), { recursive: true }),
    ],
    [
      'a pipe',
      'This is a pipe',
      async (path) => {
        await mkdir(path('.service'));
        execFileSync('mkfifo', [path(workspaceFile)]);
      },
    ],
  ])('%s is refused, and nothing is written', async (_, message, spoil) => {
    const { set, path, home, put } = await editable();
    const outside = join(home, 'outside');
    await put(join(outside, 'service.json'), '{}');
    await spoil(path, outside);
    const before = await readdir(outside, { recursive: true });
    expect(await refusal(set('options.debug', 'true'))).toContain(message);
    expect(await readdir(outside, { recursive: true })).toEqual(before);
    expect(await readFile(join(outside, 'service.json'), 'utf8')).toBe('{}');
  });

  test('a folder that may not be written to is told, and nothing is left in it', async () => {
    const { put, path, root, home, read } = await editable();
    await put(workspaceFile, '{}');
    await put('.service/.gitignore', '*');
    await mkdir(join(home, '.local/share/service'), { recursive: true });
    execFileSync('chmod', ['-R', 'a+rX', dirname(root)]);
    execFileSync('chmod', ['0777', join(home, '.local/share/service')]);
    await chmod(path('.service'), 0o555);
    const child = editor(root, home, `await set('options.debug', 'true')`, { uid: 65_534 });
    const [output] = await Promise.all([textOf(child.stderr), once(child, 'exit')]);
    expect(output).toContain(`${path(workspaceFile)}:1:1: error: The file cannot be written (EACCES: `);
    expect(output).toContain('Let this user write in that folder.');
    expect([await read(), (await readdir(path('.service'))).sort()]).toEqual([
      '{}',
      ['.gitignore', 'service.json'],
    ]);
  });
});

describe('the schema beside a file that is there', () => {
  const schemaFile = '.service/service.schema.json';

  test.each([
    ['is missing', async () => undefined],
    ['is of an older version', (put: TestProject['put']) => put(schemaFile, '{}')],
  ])('is put there where it %s and the file names it', async (_title, before) => {
    const { set, put, read } = await editable();
    await put(workspaceFile, '{ "$schema": "./service.schema.json" }');
    await before(put);
    await set('options.debug', 'true');
    expect(await read(schemaFile)).toBe(await currentSchema());
  });

  test('is not wanted where the file names another or none', async () => {
    const { set, put, path } = await editable();
    for (const text of ['{}', '{ "$schema": "https://example.com/service.json" }']) {
      await put(workspaceFile, text);
      await set('options.debug', 'true');
    }
    expect(await readdir(path('.service'))).not.toContain('service.schema.json');
  });

  test('keeps no setting from being written', async () => {
    const { set, put, path } = await editable();
    await put(workspaceFile, '{ "$schema": "./service.schema.json" }');
    await mkdir(path(schemaFile));
    expect(await set('options.debug', 'true')).toMatchObject({ changed: true });
  });
});

describe('trust', () => {
  const hook = '{ "hooks": { "pre_tool_use": [{ "command": "true" }] } }';

  test('in a file stays when we change it, and is for the new bytes', async () => {
    const { set, unset, put, trust, load, settingsPlaces } = await editable();
    await put(workspaceFile, hook);
    await trust(workspaceFile);
    expect(await set('lsp.go.command', 'gopls')).toMatchObject({ trusted: true, ignored: [], warnings: [] });
    const [layer] = (await load()).layers;
    expect(layer).toMatchObject({ trusted: true, config: { lsp: { go: { command: 'gopls' } } } });
    const entries = await readTrust(settingsPlaces.dataHome, settingsPlaces.projectRoot);
    expect(entries.entry(layer?.realPath ?? '')?.review).toBe(
      'hooks.pre_tool_use[0].command = "true"\nlsp.go.command = "gopls"\n',
    );
    expect(await unset('lsp.go')).toMatchObject({ trusted: true });
    expect((await load()).layers[0]?.trusted).toBe(true);
  });

  test('is there for whoever reads while we change the file', async () => {
    const { root, home, put, trust, load, settingsPlaces } = await editable();
    await put(workspaceFile, hook);
    await trust(workspaceFile);
    const live = await followSettings(settingsPlaces);
    onTestFinished(() => live.close());
    const child = editor(
      root,
      home,
      `for (let i = 0; i < 40; i++) await set('tools.ls.max_depth', String(i))`,
    );
    const exit = once(child, 'exit');
    const lost: string[] = [];
    while (child.exitCode === null) {
      if (!(await live.current()).config.hooks) lost.push('followed');
      const loads = await Promise.all(Array.from({ length: 10 }, () => load()));
      if (loads.some(({ config }) => !config.hooks)) lost.push('loaded');
    }
    expect([await exit, lost]).toEqual([[0, null], []]);
  });

  test('is not kept for bytes that could not be written', async () => {
    const { root, home, put, trust, settingsPlaces, path } = await editable();
    await put(workspaceFile, `${hook} // ${'x'.repeat(8000)}`);
    await trust(workspaceFile);
    // No file may grow larger than a few blocks: the record of trust can be written, and the settings cannot.
    const child = editor(root, home, `await set('options.debug', 'true')`, { limit: 'ulimit -f 4' });
    const said = textOf(child.stderr);
    expect([await once(child, 'exit'), await said]).toEqual([[1, null], expect.stringContaining('EFBIG')]);
    const { dataHome, projectRoot } = settingsPlaces;
    const entry = (await readTrust(dataHome, projectRoot)).entry(path(workspaceFile));
    expect(entry).not.toBeNull();
    expect(entry).not.toHaveProperty('next');
  });

  test('is never gained: what does not count is told', async () => {
    const { set, put, load, path } = await editable();
    expect(await set('mcpServers.x.command', 'npx')).toMatchObject({ trusted: false, ignored: ['/mcp'] });
    await put(workspaceFile, hook);
    expect(await set('options.data_directory', '/tmp/elsewhere')).toMatchObject({
      trusted: false,
      ignored: ['/hooks', '/options/data_directory'],
    });
    expect((await load()).layers[0]?.config).toEqual({ options: {} });
    expect(await readdir(path('.service'))).toContain('service.json');
  });

  test('is not kept for bytes that somebody else wrote in between', async () => {
    const { set, put, trust, load } = await editable();
    await put(workspaceFile, hook);
    await trust(workspaceFile);
    await put(workspaceFile, hook.replace('true', 'evil'));
    expect(await set('options.debug', 'true')).toMatchObject({ trusted: false, ignored: ['/hooks'] });
    expect((await load()).config.hooks).toBeUndefined();
  });

  test('in a store that cannot be believed is told, and the setting is written', async () => {
    const { set, put, trust, settingsPlaces, read } = await editable();
    await put(workspaceFile, hook);
    await trust(workspaceFile);
    await chmod(join(settingsPlaces.dataHome, 'trust.json'), 0o666);
    const change = await set('options.debug', 'true');
    expect(change).toMatchObject({ trusted: false, ignored: ['/hooks'] });
    expect(change.warnings.map(({ severity, message }) => [severity, message])).toEqual([
      ['warning', 'Others than you may read or write the trust store'],
    ]);
    expect(await read()).toContain('"debug": true');
  });
});

describe('several processes', () => {
  test('that change one file at once lose nothing, and keep its trust', async () => {
    const { root, home, put, trust, load } = await editable();
    await put(workspaceFile, '{\n  // Ours.\n  "hooks": { "pre_tool_use": [] }\n}\n');
    await trust(workspaceFile);
    const children = Array.from({ length: 10 }, (_, index) =>
      editor(root, home, `for (const i of [0, 1]) await set('providers.p${index}' + i + '.name', 'n')`),
    );
    const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]));
    expect(codes).toEqual(children.map(() => 0));
    const { config, layers } = await load();
    expect(Object.keys(config.providers ?? {})).toHaveLength(20);
    expect(layers[0]?.trusted).toBe(true);
    expect(await readFile(join(root, workspaceFile), 'utf8')).toContain('// Ours.');
  });

  test('beside an editor that saves meanwhile: its text is changed, not replaced', async () => {
    const { put, read, settingsPlaces } = await editable();
    await put(workspaceFile, '{}');
    const seen: string[] = [];
    await changeFile(settingsPlaces, 'workspace', async ({ bytes }) => {
      const text = Buffer.from(bytes ?? []).toString();
      seen.push(text);
      if (seen.length < 3) await put(workspaceFile, `{ "saved": ${seen.length} }`);
      return { bytes: Buffer.from(`${text} // ours`), finish: async () => undefined };
    });
    expect(seen).toEqual(['{}', '{ "saved": 1 }', '{ "saved": 2 }']);
    expect(await read()).toBe('{ "saved": 2 } // ours');
  });

  test('that are killed in the middle leave a whole file, the old one or the new one', async () => {
    const { root, home, put, read, path, set } = await editable();
    const long = 'x'.repeat(200_000);
    const texts = ['one', 'two'].map((word) =>
      JSON.stringify({ providers: { a: { name: `${word}${long}` } } }),
    );
    await put(workspaceFile, texts[0] ?? '');
    const hashes = texts.map((text) => createHash('sha256').update(text).digest('hex'));
    for (let round = 0; round < 4; round++) {
      const child = editor(
        root,
        home,
        `console.log('ready'); for (let i = 0; ; i++) await set('providers.a.name', ['two', 'one'][i % 2] + '${'x'.repeat(10)}'.repeat(20000))`,
      );
      await once(child.stdout, 'data');
      await pause(10 + round * 9);
      child.kill('SIGKILL');
      await once(child, 'exit');
      expect(hashes).toContain(
        createHash('sha256')
          .update(await read())
          .digest('hex'),
      );
    }
    expect(await set('providers.a.name', 'again')).toMatchObject({ changed: true });
    expect(await readdir(path('.service'))).toContain('service.json');
  });
});

/** A process that changes settings; `program` may call `set(key, text)`. */
function editor(
  root: string,
  home: string,
  program: string,
  { uid, limit = ':' }: { uid?: number; limit?: string } = {},
) {
  const source = `
    import { setSetting } from ${JSON.stringify(join(import.meta.dirname, 'edit-setting.ts'))};
    import { findPlaces } from ${JSON.stringify(join(import.meta.dirname, '../files/places.ts'))};
    const places = await findPlaces(${JSON.stringify(root)}, {}, ${JSON.stringify(home)});
    const set = (key, text) => setSetting(places, { scope: 'workspace', key, text });
    try { ${program} } catch (error) { console.error(error.message); process.exitCode = 1; }`;
  // Root may write everywhere, so that it has to become somebody else to be refused.
  const other = uid !== undefined && process.getuid?.() === 0 ? { uid, gid: uid } : {};
  const words = [process.execPath, '--input-type=module', '--eval', source];
  return spawn('bash', ['-c', `${limit}; trap '' XFSZ; exec "$@"`, 'bash', ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: '/',
    ...other,
  });
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  const chunks: string[] = [];
  for await (const chunk of stream) chunks.push(String(chunk));
  return chunks.join('');
}
