/** The settings of a working directory: every scope together, and a strange project that may do nothing unasked. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readdir, readFile, rename, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { clientConfigSchema } from '../contract/config.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { type Diagnostic, formatDiagnostic, SettingsError } from './diagnostic.ts';
import { findPlaces, globalPlaces } from './files/places.ts';
import { loadSettings } from './load.ts';
import type { LoadedSettings } from './loaded-settings.ts';
import { checkFile } from './read-layers.ts';
import { testProject } from './test-project.ts';

const hooks = (command: string) => ({ pre_tool_use: [{ command }] });

/** `file:pointer` of all that does not count. */
function ignoredIn({ ignored, places }: LoadedSettings): string[] {
  return ignored.map(({ file, pointer }) => `${file.slice(places.projectRoot.length + 1)}:${pointer}`);
}

describe('the scopes', () => {
  test('count from the global file to the workspace file, the nearest most', async () => {
    const { globalFile, root, put, load } = await testProject();
    const options = (max_items: number) => ({ tools: { ls: { max_items } } });
    const order = [globalFile, 'service.json', '.service.json', 'a/service.json', 'a/b/.service.json'];
    const files = [...order, '.service/service.json'];
    for (const [index, file] of files.entries()) {
      await put(file, options(index + 1));
      const { config, origin, layers } = await load('a/b').catch(() => load());
      if (index < 3) expect(config.tools?.ls?.max_items).toBe(index + 1);
      expect(layers.at(-1)?.file).toBe(origin('/tools/ls/max_items')?.place.file);
    }
    const { config, layers } = await load('a/b');
    expect(config.tools?.ls?.max_items).toBe(6);
    expect(layers.map(({ scope, file }) => [scope, file.replace(`${root}/`, '')])).toEqual([
      ['global', globalFile],
      ...files.slice(1, 5).map((file) => ['project', file]),
      ['workspace', '.service/service.json'],
    ]);
    expect((await load()).layers).toHaveLength(4);
  });

  test('with no file at all there are no settings, and that is no error', async () => {
    const { load } = await testProject();
    expect(await load()).toMatchObject({ config: {}, layers: [], ignored: [], diagnostics: [] });
  });

  test('for no project only the global file is read', async () => {
    const { home, globalFile, put } = await testProject();
    await put(globalFile, { options: { debug: true } });
    await put(join(home, 'service.json'), 'broken');
    expect((await loadSettings(globalPlaces({}, home))).config).toEqual({ options: { debug: true } });
  });

  test('the global file is always trusted, and is not read again as a file of a project', async () => {
    const { home, put } = await testProject();
    await mkdir(join(home, '.config/service/.git'), { recursive: true });
    await put(join(home, '.config/service/.git/HEAD'), 'x');
    await put(join(home, '.config/service/service.json'), { hooks: hooks('mine') });
    await symlink('service.json', join(home, '.config/service/.service.json'));
    const loaded = await loadSettings(await findPlaces(join(home, '.config/service'), {}, home));
    expect(loaded.layers.map(({ scope }) => scope)).toEqual(['global']);
    expect(loaded.config.hooks).toEqual(hooks('mine'));
  });

  test('a file that is found twice is read as the nearest, so that its hooks run once', async () => {
    const { put, path, trust, load } = await testProject();
    await put('service.json', { hooks: hooks('once') });
    await symlink('service.json', path('.service.json'));
    await trust('service.json');
    const { config, layers } = await load();
    expect(layers.map(({ file }) => file)).toEqual([path('.service.json')]);
    expect(config.hooks).toEqual(hooks('once'));
  });

  test('the merged settings of every valid example are valid', async () => {
    const { globalFile, path, put, load } = await testProject();
    const examples = join(import.meta.dirname, '../../schemas/service.examples/valid');
    for (const file of await readdir(examples)) {
      await cp(join(examples, file), path('service.json'));
      await put(globalFile, await readFile(join(examples, file)));
      const { config } = await load();
      expect({ file, valid: clientConfigSchema.safeParse(config).success }).toEqual({ file, valid: true });
    }
  });
});

describe('what is wrong', () => {
  test('is told of every file at once', async () => {
    const { globalFile, put, path, load } = await testProject();
    await put(globalFile, '{"options":{"debug":1}}');
    await put('service.json', '{\n"mcp": []}');
    await put('.service/service.json', '{"models":');
    const failure = await load().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(SettingsError);
    expect(String(failure)).toContain(`${globalFile}:1:21: error: /options/debug`);
    expect(String(failure)).toContain(`${path('service.json')}:2:8: error: /mcp`);
    expect(String(failure)).toContain(`${path('.service/service.json')}:1:11: error: The file is not JSON`);
  });

  test('`hooks.pre_tool_use` with a matcher that is no regular expression is an error, at its place', async () => {
    const { put, load } = await testProject();
    const written = {
      hooks: {
        pre_tool_use: [
          { matcher: '^bash$', command: 'x' },
          { matcher: '(?=x)', command: 'y' },
        ],
      },
    };
    await put('service.json', written);
    await expect(load()).rejects.toThrow(
      /service\.json:1:\d+: error: \/hooks\/pre_tool_use\/1\/matcher: This is no regular expression: .*RE2/,
    );
    await expect(load()).rejects.not.toThrow('(?=x)');
  });

  test('a server that nothing can reach is told once all files have said their part', async () => {
    const { globalFile, put, trust, load } = await testProject();
    await put(globalFile, {
      mcp: { a: { env: {} }, b: { type: 'http' }, c: { type: 'sse' }, d: { disabled: true } },
    });
    await put('service.json', { mcp: { c: { type: 'http', url: 'https://mcp.example.com' } } });
    await trust('service.json');
    expect((await load()).diagnostics.map(({ pointer, message }) => [pointer, message])).toEqual([
      ['/mcp/a', 'This server has no command, and cannot be started'],
      ['/mcp/b', 'This server of type http has no url, and cannot be reached'],
    ]);
  });

  test('a file by itself can be checked wherever it is', async () => {
    const { put, path } = await testProject();
    const file = await put('other.json', '{"options":{"disable_notifications":true,"debug":1}}');
    expect((await checkFile(file)).map(({ severity, pointer }) => `${severity} ${pointer}`)).toEqual([
      'error /options/debug',
    ]);
    await put('other.json', '{"options":{"disable_notifications":true}}');
    expect((await checkFile(file)).map(({ severity, pointer }) => `${severity} ${pointer}`)).toEqual([
      'warning /options/disable_notifications',
    ]);
    expect((await checkFile(path('none.json')))[0]?.message).toBe('There is no such file');
  });
});

const everything = {
  mcp: { a: { command: 'canary' } },
  mcpServers: { b: { command: 'canary' } },
  lsp: { c: { command: 'canary' } },
  hooks: hooks('canary'),
  permissions: { allowed_tools: ['bash'] },
  providers: { openai: { base_url: 'https://canary.example.com', api_key: '$(canary)' } },
  image_generation: { provider: 'canary' },
  text_to_speech: { provider: 'canary' },
  speech_to_text: { provider: 'canary' },
  options: { context_paths: ['canary'], skills_paths: ['canary'], debug: true, disabled_tools: ['fetch'] },
  models: { large: { provider: 'openai', model: 'm' } },
  tools: { ls: { max_depth: 3 } },
};

describe('a file that is not trusted', () => {
  test.each([
    'service.json',
    '.service.json',
    'sub/service.json',
    'sub/.service.json',
    '.service/service.json',
  ])('%s: its eleven restricted sections do not count, and all others do', async (file) => {
    const { put, load, trust, path } = await testProject();
    await put('sub/other', '');
    await put(file, everything);
    const loaded = await load('sub');
    expect(JSON.stringify(loaded.config)).not.toContain('canary');
    expect(loaded.config).toEqual({
      options: { debug: true, disabled_tools: ['fetch'] },
      models: everything.models,
      tools: everything.tools,
    });
    const sections = Object.keys(everything).slice(0, 9);
    expect(ignoredIn(loaded).sort()).toEqual(
      [...sections, 'options/context_paths', 'options/skills_paths'].map((key) => `${file}:/${key}`).sort(),
    );
    expect(loaded.ignored[0]).toEqual({
      file: path(file),
      place: { file: path(file), line: 1, column: 2 },
      pointer: '/mcp',
      reason: 'mcp does not count: the file is not trusted; run `service trust`',
    });
    await trust(file);
    const trusted = await load('sub');
    expect(trusted.ignored).toEqual([]);
    expect(trusted.layers.at(-1)?.trusted).toBe(true);
    expect(Object.keys(trusted.config.mcp ?? {})).toEqual(['a', 'b']);
  });

  test('a section that is spelt otherwise is the same section, or none', async () => {
    const { put, load } = await testProject();
    await put(
      'service.json',
      String.raw`{
        "hoo\u006bs": {"pre_tool_use": [{"command": "canary"}]},
        "HOOKS": {"pre_tool_use": [{"command": "canary"}]},
        "Providers": {"a": {"base_url": "https://canary.example.com"}},
        "ｍｃｐ": {"a": {"command": "canary"}},
        "mcp ": {"a": {"command": "canary"}},
        "mcpservers": {"a": {"command": "canary"}},
        "l\u200bsp": {"a": {"command": "canary"}},
        "options": {"Context_Paths": ["canary"], "skills_path\u0073": ["canary"]}
      }`,
    );
    const loaded = await load();
    expect(loaded.config).toEqual({ options: {} });
    expect(ignoredIn(loaded)).toEqual(['service.json:/hooks', 'service.json:/options/skills_paths']);
    expect(loaded.diagnostics.map(({ pointer }) => pointer)).toHaveLength(7);
  });

  test.each([
    '{"hooks":{},"hooks":{"pre_tool_use":[{"command":"canary"}]}}',
    String.raw`{"options":{"debug":true},"hooks":{},"\u0068ooks":{"pre_tool_use":[{"command":"canary"}]}}`,
    '{"__proto__":{"hooks":{"pre_tool_use":[{"command":"canary"}]}}}',
    '{"options":{"__proto__":{"context_paths":["canary"]}}}',
  ])('a key that readers understand differently keeps the file from being used: %s', async (text) => {
    const { put, load } = await testProject();
    await put('service.json', text);
    await expect(load()).rejects.toThrow(SettingsError);
  });

  test('a file name that is spelt otherwise is no settings file', async () => {
    const { put, load } = await testProject();
    for (const name of [
      'Service.json',
      'SERVICE.JSON',
      'ｓervice.json',
      'service.json ',
      '.Service.json',
      '.service/Service.json',
    ])
      await put(name, everything);
    expect((await load()).layers).toEqual([]);
  });

  test('a path that leads out of the project does not count, whatever way it takes', async () => {
    const { home, path, put, load } = await testProject();
    await symlink(home, path('out'));
    await symlink(join(home, 'nothing-yet'), path('dangling'));
    await mkdir(path('in'));
    const leadingOut = [
      '/etc',
      '..',
      '../project2',
      'a/../../b',
      'out',
      'out/deeper',
      'dangling',
      'dangling/x',
    ];
    for (const data_directory of [...leadingOut, '.git/hooks', 'in/../.GIT', 'a\0b']) {
      await put('service.json', { options: { data_directory, initialize_as: data_directory, debug: true } });
      const loaded = await load();
      expect({ data_directory, options: loaded.config.options }).toEqual({
        data_directory,
        options: { debug: true },
      });
      expect(ignoredIn(loaded)).toEqual([
        'service.json:/options/data_directory',
        'service.json:/options/initialize_as',
      ]);
    }
    for (const data_directory of [
      '.service',
      'in',
      'in/new/deep',
      './a/../b',
      path('in'),
      '..data',
      '.gitignore',
    ]) {
      await put('service.json', { options: { data_directory } });
      const { config, ignored } = await load();
      expect({ data_directory, kept: config.options, ignored }).toEqual({
        data_directory,
        kept: { data_directory },
        ignored: [],
      });
    }
  });

  test('`options.data_directory` of a trusted file or the global one may be anywhere', async () => {
    const { globalFile, put, trust, load } = await testProject();
    await put(globalFile, { options: { initialize_as: '/anywhere' } });
    await put('service.json', { options: { data_directory: '/elsewhere' } });
    await trust('service.json');
    expect((await load()).config.options).toEqual({
      initialize_as: '/anywhere',
      data_directory: '/elsewhere',
    });
  });

  test('what it turns on again is told: it counts, but must not be a surprise', async () => {
    const { globalFile, put, path, trust, load } = await testProject();
    await put(globalFile, {
      options: {
        disabled_tools: ['bash', 'fetch'],
        disable_metrics: true,
        auto_lsp: false,
        disable_notifications: true,
      },
    });
    await put(
      'service.json',
      '{"options":{\n"disabled_tools":["fetch"],\n"disable_metrics":false,\n"auto_lsp":true,\n"notification_style":"bell"}}',
    );
    const { config, diagnostics } = await load();
    expect(config.options).toMatchObject({
      disabled_tools: ['fetch'],
      disable_metrics: false,
      auto_lsp: true,
    });
    const file = path('service.json');
    expect(diagnostics.slice(1).map(formatDiagnostic)).toEqual([
      `${file}:2:1: warning: /options/disabled_tools: This file, which is not trusted, takes back what a farther file says of options.disabled_tools: "bash". \`service config explain options.disabled_tools\` shows both; remove the one that is not meant.`,
      expect.stringContaining(`${file}:3:1: warning: /options/disable_metrics: `),
      expect.stringContaining(`${file}:4:1: warning: /options/auto_lsp: `),
      expect.stringContaining(`${file}:5:1: warning: /options/notification_style: `),
    ]);
    await trust('service.json');
    expect((await load()).diagnostics).toHaveLength(1);
  });

  test('what it turns off besides, or leaves as it was, is nothing to tell', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { options: { disabled_tools: ['bash'], disable_metrics: true } });
    await put('service.json', {
      options: { disabled_tools: ['fetch', 'bash'], disable_metrics: true, disabled_skills: [] },
    });
    expect((await load()).diagnostics).toEqual([]);
  });
});

describe('trust', () => {
  const canary = { hooks: hooks('canary') };

  /** Whether the hook counts. */
  function isInForce({ config }: LoadedSettings): boolean {
    return config.hooks !== undefined;
  }

  test('is for the exact bytes: one more space, other line ends, a byte order mark', async () => {
    const { put, trust, load } = await testProject();
    const text = JSON.stringify(canary, null, 2);
    await put('service.json', text);
    await trust('service.json');
    expect(isInForce(await load())).toBe(true);
    for (const changed of [
      `${text} `,
      text.replaceAll('\n', '\r\n'),
      `\uFEFF${text}`,
      text.replace('canary', 'canarx'),
    ]) {
      await put('service.json', changed);
      expect(isInForce(await load())).toBe(false);
    }
    await put('service.json', text);
    expect(isInForce(await load())).toBe(true);
  });

  test('is for one path: not for a copy, not for the file under another name', async () => {
    const { put, path, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    await rename(path('service.json'), path('.service.json'));
    expect(isInForce(await load())).toBe(false);
    await put('sub/service.json', canary);
    expect(isInForce(await load('sub'))).toBe(false);
    await put('.service/service.json', canary);
    expect(isInForce(await load())).toBe(false);
  });

  test('is for the real path: a link in its place is not trusted, nor is what it leads to', async () => {
    const { put, path, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    await rename(path('service.json'), path('moved.json'));
    await symlink('moved.json', path('service.json'));
    expect(isInForce(await load())).toBe(false);
  });

  test('of a folder that became a link is gone', async () => {
    const { put, path, trust, load } = await testProject();
    await put('.service/service.json', canary);
    await trust('.service/service.json');
    await rename(path('.service'), path('other'));
    await symlink('other', path('.service'));
    expect(isInForce(await load())).toBe(false);
  });

  test('of one file is none of another beside it, above it, or nearer', async () => {
    const { put, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    for (const file of ['.service.json', 'sub/service.json', '.service/service.json'])
      await put(file, { hooks: hooks('stranger'), permissions: { allowed_tools: ['bash'] } });
    const loaded = await load('sub');
    expect(loaded.config).toEqual(canary);
    expect(loaded.ignored).toHaveLength(6);
  });

  test('of a project is none of a project inside it', async () => {
    const { put, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    await put('vendor/strange/.git/HEAD', 'x');
    await put('vendor/strange/service.json', { hooks: hooks('stranger'), options: { debug: true } });
    const loaded = await load('vendor/strange');
    expect(loaded.config).toEqual({ options: { debug: true } });
    expect(loaded.layers).toHaveLength(1);
  });

  test('counts for nothing that was not hashed, however fast the file is swapped', async () => {
    const { put, path, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    await put('evil.json', { hooks: hooks('canarx'), options: { debug: true } });
    const swapper = spawn(process.execPath, ['-e', swapping, path('service.json'), path('evil.json')]);
    onTestFinished(() => void swapper.kill('SIGKILL'));
    await once(swapper.stdout, 'data');
    const seen = new Set<string>();
    const both = [JSON.stringify(canary), '{"options":{"debug":true}}'];
    // Until each of the two was seen: otherwise nothing was swapped under our hands.
    for (let round = 0; round < 200 || !both.every((one) => seen.has(one)); round++) {
      // In the midst of a write a file may be broken, or be missing.
      const loaded = await load().catch((error: unknown) => String(error));
      if (typeof loaded === 'string') seen.add('broken');
      else seen.add(JSON.stringify(loaded.config));
    }
    expect([...seen].filter((one) => one.includes('canarx'))).toEqual([]);
  });

  test('that others could have written is none, and the reason is told where it matters', async () => {
    const { home, put, trust, load } = await testProject();
    await put('service.json', canary);
    await trust('service.json');
    execFileSync('chmod', ['666', join(home, '.local/share/service/trust.json')]);
    const loaded = await load();
    expect(isInForce(loaded)).toBe(false);
    expect(loaded.diagnostics).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('trust store') },
    ]);
    await put('service.json', { options: { debug: true } });
    expect((await load()).diagnostics).toEqual([]);
  });
});

/** By renaming, and by writing over it piece by piece. */
const swapping = `
  const fs = require('node:fs');
  const [file, other] = process.argv.slice(1);
  const [good, evil] = [file, other].map((name) => fs.readFileSync(name));
  const put = (bytes) => { fs.writeFileSync(file + '.new', bytes); fs.renameSync(file + '.new', file); };
  process.stdout.write('ready');
  for (;;) {
    put(evil);
    put(good);
    const handle = fs.openSync(file, 'r+');
    for (const bytes of [evil, good]) for (let at = 0; at < bytes.length; at += 8) fs.writeSync(handle, bytes, at, Math.min(8, bytes.length - at), at);
    fs.ftruncateSync(handle, good.length);
    fs.closeSync(handle);
    put(evil);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    put(good);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  }`;

describe('a hostile file', () => {
  test('behind a link to outside the project is not opened', async () => {
    const { home, put, path, load } = await testProject();
    await put(join(home, 'service.json'), everything);
    await symlink(join(home, 'service.json'), path('service.json'));
    const loaded = await load();
    expect(loaded).toMatchObject({ config: {}, layers: [] });
    expect(loaded.diagnostics).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('outside the project') },
    ]);
  });

  test('that is a pipe, a folder or a loop of links keeps nothing else from being read', async () => {
    const { put, path, load } = await testProject();
    execFileSync('mkfifo', [path('service.json')]);
    await mkdir(path('.service.json'));
    await mkdir(path('sub'));
    await symlink('service.json', path('sub/service.json'));
    await put('.service/service.json', { options: { debug: true } });
    const { config, diagnostics } = await load('sub');
    expect(config).toEqual({ options: { debug: true } });
    expect(diagnostics.map(({ severity }) => severity)).toEqual(['warning', 'warning']);
  });

  test.each([
    [
      'a hundred thousand unknown keys',
      `{${Array.from({ length: 70_000 }, (_, index) => `"k${index}":1`).join()}}`,
      true,
    ],
    [
      'as many wrong values',
      `{"providers":{${Array.from({ length: 60_000 }, (_, index) => `"k${index}":1`).join()}}}`,
      false,
    ],
    [
      'as many servers',
      `{"mcpServers":{${Array.from({ length: 40_000 }, (_, index) => `"k${index}":{}`).join()}},"mcp":{}}`,
      true,
    ],
    ['one long line of broken JSON', `{${'"a" '.repeat(250_000)}`, false],
    ['deep nesting', '{"a":'.repeat(170_000), false],
  ])('with %s costs little, and is told of in few words', async (_what, text, usable) => {
    const { put, load } = await testProject();
    await put('service.json', text);
    let told: readonly Diagnostic[] = [];
    const spent = await cpuMsOf(async () => {
      told = await load().then(
        ({ diagnostics }) => diagnostics,
        (error: unknown) => (error instanceof SettingsError ? error.diagnostics : []),
      );
    });
    expect(told.some(({ severity }) => severity === 'error')).toBe(!usable);
    expect(told.length).toBeLessThan(110);
    expect(spent).toBeLessThan(4000);
  });
});

test('a repository cannot fill the memory with files in ever deeper folders', async () => {
  const { put, load } = await testProject();
  const large = `// ${'x'.repeat(1_000_000)}\n{}`;
  const folders = Array.from({ length: 6 }, (_, depth) => 'deeper/'.repeat(depth));
  for (const folder of folders) await put(`${folder}service.json`, large);
  await expect(load(folders[3])).resolves.toMatchObject({ config: {} });
  await expect(load(folders[5])).rejects.toThrow(/together larger than \d+ bytes/);
});

test('each value knows its file, objects only where one file says all of it', async () => {
  const { globalFile, put, path, load } = await testProject();
  await put(globalFile, '{\n  "options": {\n    "debug": true,\n    "disable_notifications": true\n  }\n}');
  await put('service.json', '{"options": {"tui": {"diff_mode": "split"}, "disabled_tools": ["a", "b"]}}');
  const { origin } = await load();
  expect(origin('/options/debug')).toEqual({
    scope: 'global',
    place: { file: globalFile, line: 3, column: 5 },
  });
  expect(origin('/options/notification_style')?.place.line).toBe(4);
  const project = { file: path('service.json'), line: 1 };
  expect(origin('/options/tui')).toEqual({ scope: 'project', place: { ...project, column: 14 } });
  expect(origin('/options/disabled_tools/1')).toEqual({
    scope: 'project',
    place: { ...project, column: 69 },
  });
  for (const pointer of [
    '',
    '/options',
    '/options/progress',
    '/options/disabled_tools/2',
    '/options/debug/x',
    '/stray',
  ])
    expect({ pointer, origin: origin(pointer) }).toEqual({ pointer, origin: null });
});
