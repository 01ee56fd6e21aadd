/** What people are told of settings: what counts, where it comes from, and what else was said. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these templates are not JavaScript's.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SettingsError } from './diagnostic.ts';
import { explainSetting, flattenSettings } from './explain.ts';
import { maskSecrets } from './mask-secrets.ts';
import { keyToPointer, listKeys, pointerToKey } from './setting-keys.ts';
import { testProject } from './test-project.ts';

describe('the settings as a list', () => {
  test('has every value that counts, with its key and its file', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { hooks: { pre_tool_use: [{ command: 'a' }] }, options: { debug: true, tui: {} } });
    await put('service.json', { options: { debug: false, disabled_tools: ['bash'] } });
    const flat = flattenSettings(await load());
    expect(flat.map(({ key, value, origin }) => [key, value, origin?.scope])).toEqual([
      ['options.tui', {}, 'global'],
      ['options.debug', false, 'project'],
      ['options.disabled_tools', ['bash'], 'project'],
      ['hooks.pre_tool_use.0.command', 'a', 'global'],
    ]);
  });

  test('has the defaults too where they are asked for, those of every server included', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { mcp: { a: { command: 'x' } }, options: { progress: false } });
    const flat = flattenSettings(await load(), { defaults: true });
    const found = Object.fromEntries(
      flat.map(({ key, value, origin }) => [key, [value, origin?.scope ?? 'default']]),
    );
    expect(found).toMatchObject({
      'mcp.a.command': ['x', 'global'],
      'mcp.a.timeout': [15, 'default'],
      'options.progress': [false, 'global'],
      'options.auto_lsp': [true, 'default'],
      'options.tui.completions.max_items': [1000, 'default'],
      'tools.grep.timeout': ['5s', 'default'],
    });
    // Nobody should be told to use what is deprecated.
    expect(Object.keys(found).filter((key) => /disable_notifications|mcpServers/.test(key))).toEqual([]);
  });

  test('names what has a dot in its name by a pointer', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { providers: { 'my.gate/way': { name: 'n' } } });
    expect(flattenSettings(await load())).toMatchObject([
      { key: '/providers/my.gate~1way/name', value: 'n' },
    ]);
  });

  test('hides secrets', async () => {
    const { globalFile, put, load } = await testProject();
    const secret = 'sk-canary';
    await put(globalFile, {
      providers: {
        a: {
          api_key: secret,
          extra_headers: { 'X-Key': secret },
          oauth: { access_token: secret, expires_in: 1, expires_at: 1 },
        },
      },
      mcp: {
        b: { command: 'x', env: { API_TOKEN: secret }, headers: { Authorization: `Bearer ${secret}` } },
      },
    });
    const loaded = await load();
    expect(JSON.stringify(flattenSettings(loaded, { defaults: true }))).not.toContain('canary');
    for (const key of [
      'providers',
      'providers.a',
      'providers.a.api_key',
      'mcp.b.env.API_TOKEN',
      'mcpServers',
    ])
      expect(JSON.stringify(explainSetting(loaded, key))).not.toContain('canary');
  });
});

describe('a secret', () => {
  const shown = (text: string) => maskSecrets(text, ['providers', 'a', 'api_key']);

  test('is hidden, and a template is shown: it says where the secret is', () => {
    expect(shown('sk-1')).toBe('(hidden)');
    expect(shown('$OPENAI_API_KEY')).toBe('$OPENAI_API_KEY');
    expect(shown('$(pass show openai)')).toBe('$(pass show openai)');
    expect(shown('Bearer ${A:?set it}')).toBe('Bearer ${A:?set it}');
  });

  test('within a template is hidden too', () => {
    expect(shown('sk-1$B')).toBe('(hidden)${B}');
    expect(shown('${A:-sk-1}')).toBe('${A:-(hidden)}');
    expect(shown('${A:-$B}')).toBe('${A:-$B}');
    expect(shown('$A:$B')).toBe('$A:$B');
    expect(shown(String.raw`\$A`)).toBe('(hidden)');
    expect(shown('${broken sk-1')).toBe('(hidden)');
    expect(shown('a\0sk-1\0$B')).not.toContain('sk-1');
  });

  test('in a URL is hidden wherever a URL can be, and the rest of it is shown', () => {
    const url = 'https://ann:pw@h.example/mcp?token=t0&team=$TEAM#x';
    const hidden = 'https://(hidden)@h.example/mcp?token=(hidden)&team=$TEAM#x';
    const oauth = { client: { auth_url: url, token_url: url } };
    expect(maskSecrets({ providers: { a: { base_url: url, oauth } }, mcp: { b: { url } } })).toEqual({
      providers: { a: { base_url: hidden, oauth: { client: { auth_url: hidden, token_url: hidden } } } },
      mcp: { b: { url: hidden } },
    });
    const variables = 'https://ann:$PASSWORD@h.example/?key=${KEY}';
    expect(maskSecrets(variables, ['mcp', 'b', 'url'])).toBe(variables);
  });

  test('of an environment is what its name says', () => {
    const env = { API_TOKEN: 'x', GOTOOLCHAIN: 'local', DB_PASSWORD: 'y' };
    expect(maskSecrets({ env }, ['lsp', 'go'])).toEqual({
      env: { API_TOKEN: '(hidden)', GOTOOLCHAIN: 'local', DB_PASSWORD: '(hidden)' },
    });
  });

  test('that no template can be is hidden whatever it looks like', () => {
    expect(maskSecrets({ oauth: { access_token: '$TOKEN' } }, ['providers', 'a'])).toEqual({
      oauth: { access_token: '(hidden)' },
    });
  });
});

describe('one key', () => {
  test('is explained: what it is, what it may be, who says what', async () => {
    const { globalFile, put, path, load } = await testProject();
    await put(globalFile, '{"options":\n{"tui":{"diff_mode":"split"}}}');
    await put('service.json', '{"options":{"tui":{"diff_mode":"unified"}}}');
    expect(explainSetting(await load(), 'options.tui.diff_mode')).toEqual({
      key: 'options.tui.diff_mode',
      pointer: '/options/tui/diff_mode',
      description: 'Whether a change is shown in one column or in two.',
      type: ['string'],
      enum: ['unified', 'split'],
      default: undefined,
      deprecated: null,
      restricted: false,
      value: 'unified',
      origin: { scope: 'project', place: { file: path('service.json'), line: 1, column: 20 } },
      setBy: [
        {
          scope: 'global',
          place: { file: globalFile, line: 2, column: 9 },
          value: 'split',
          status: 'overridden',
          writtenAs: null,
        },
        {
          scope: 'project',
          place: { file: path('service.json'), line: 1, column: 20 },
          value: 'unified',
          status: 'effective',
          writtenAs: null,
        },
      ],
      notes: [],
    });
  });

  test('that nobody set has its default, and no file', async () => {
    const { load } = await testProject();
    expect(explainSetting(await load(), 'tools.grep.timeout')).toMatchObject({
      value: '5s',
      origin: null,
      setBy: [],
    });
  });

  test('shows what does not count, and why', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, {
      hooks: { pre_tool_use: [{ command: 'mine' }] },
      options: { disabled_tools: ['bash'] },
    });
    await put('service.json', {
      hooks: { pre_tool_use: [{ command: 'theirs' }] },
      mcpServers: { a: { command: 'x' } },
      options: { data_directory: '/etc', disabled_tools: [] },
    });
    const loaded = await load();
    const statuses = (key: string) => explainSetting(loaded, key).setBy.map(({ status }) => status);
    expect(statuses('hooks.pre_tool_use')).toEqual(['effective', 'not trusted']);
    expect(statuses('mcp.a.command')).toEqual(['not trusted']);
    expect(statuses('options.data_directory')).toEqual(['confined']);
    expect(statuses('options')).toEqual(['merged', 'merged']);
    const taken = explainSetting(loaded, 'options.disabled_tools');
    expect(taken.setBy.map(({ status }) => status)).toEqual(['overridden', 'effective']);
    expect(taken.notes).toEqual([expect.stringContaining('takes back what a farther file says')]);
  });

  test('shows hooks of several files as appended', async () => {
    const { globalFile, put, trust, load } = await testProject();
    await put(globalFile, { hooks: { pre_tool_use: [{ command: 'mine' }] } });
    await put('service.json', { hooks: { pre_tool_use: [{ command: 'theirs' }] } });
    await trust('service.json');
    const { value, setBy } = explainSetting(await load(), 'hooks.pre_tool_use');
    expect(value).toEqual([{ command: 'mine' }, { command: 'theirs' }]);
    expect(setBy.map(({ status }) => status)).toEqual(['appended', 'appended']);
  });

  test('shows under which name the file has it', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { mcpServers: { a: { command: 'x' } }, options: { disable_notifications: true } });
    const loaded = await load();
    expect(explainSetting(loaded, 'mcpServers.a.command')).toMatchObject({
      pointer: '/mcp/a/command',
      value: 'x',
      setBy: [{ writtenAs: 'mcpServers.a.command', status: 'effective' }],
    });
    for (const key of ['options.notification_style', 'options.disable_notifications']) {
      expect(explainSetting(loaded, key)).toMatchObject({
        key,
        pointer: '/options/notification_style',
        value: 'disabled',
        setBy: [{ writtenAs: 'options.disable_notifications', status: 'effective' }],
        notes: [expect.stringContaining('deprecated')],
      });
    }
    expect(explainSetting(loaded, 'options.disable_notifications').deprecated).toMatch(
      /^Use notification_style/,
    );
  });

  test('may have a name of the user’s choice in it, and a dot in that', async () => {
    const { globalFile, put, load } = await testProject();
    await put(globalFile, { providers: { 'my.gateway': { base_url: 'https://a.example.com' } } });
    expect(explainSetting(await load(), '/providers/my.gateway/base_url')).toMatchObject({
      value: 'https://a.example.com',
      restricted: true,
    });
  });

  test.each([
    ['options.debugg', 'Did you mean "options.debug"?'],
    ['option.debug', 'Did you mean "options.debug"?'],
    ['diff_mode', 'Did you mean "options.tui.diff_mode"?'],
    ['diff_mod', 'Did you mean "options.tui.diff_mode"?'],
    ['tui.dif_mode', 'Did you mean "options.tui.diff_mode"?'],
    ['models.medium', 'Below models there are large, small.'],
    ['providers.my.gateway.base_url', 'A name with a dot in it'],
    ['options.debug.more', 'See `service schema`.'],
    ['__proto__', 'Below the top there are '],
    ['options.constructor', 'Below options there are '],
    ['', 'Below the top there are '],
    ['/', 'Below the top there are '],
  ])('that there is not is an error which helps: %s', async (key, remedy) => {
    const { load } = await testProject();
    const loaded = await load();
    expect(() => explainSetting(loaded, key)).toThrow(SettingsError);
    expect(() => explainSetting(loaded, key)).toThrow(
      `There is no setting ${JSON.stringify(key)}. ${remedy}`,
    );
  });
});

describe('keys', () => {
  test('and pointers lead to each other', () => {
    for (const key of [
      'options.tui.diff_mode',
      'providers.a.models.0.id',
      'hooks.pre_tool_use.1',
      '/mcp/a.b/env/X~1Y',
    ])
      expect(pointerToKey(keyToPointer(key))).toBe(key);
  });

  test('are all listed, with a star for names of the user’s choice', () => {
    const keys = listKeys();
    const found = new Map(keys.map((one) => [one.key, one]));
    expect(found.get('options.notification_style')).toEqual({
      key: 'options.notification_style',
      description: 'How the terminal tells that something needs attention.',
      type: ['string'],
      enum: ['auto', 'native', 'osc', 'bell', 'disabled'],
      default: 'auto',
      deprecated: null,
      restricted: false,
    });
    expect(found.get('providers.*.api_key')).toMatchObject({ restricted: true });
    expect(found.get('options.context_paths')).toMatchObject({ restricted: true });
    expect(keys.length).toBeGreaterThan(100);
    expect(keys.every(({ key }) => keyToPointer(key.replaceAll('*', 'name')) !== '')).toBe(true);
  });
});

test('every value of every valid example can be explained', async () => {
  const { path, put, trust, load } = await testProject();
  const examples = join(import.meta.dirname, '../../schemas/service.examples/valid');

  for (const file of await readdir(examples)) {
    await put(path('service.json'), await readFile(join(examples, file)));
    await trust('service.json');
    const loaded = await load();
    for (const { key, value, origin } of flattenSettings(loaded)) {
      const explained = explainSetting(loaded, key);
      expect({ file, key, value: explained.value }).toEqual({ file, key, value });
      expect({ file, key, origin: explained.origin }).toEqual({ file, key, origin });
      expect({ file, key, origin: origin?.place.file }).toEqual({ file, key, origin: path('service.json') });
    }
  }
});
