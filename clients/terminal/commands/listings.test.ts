/** What the settings of a place amount to: models, providers, MCP and language servers, folders, the schema. */
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { dataFolder, type TestHome, testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';

const gateway = {
  type: 'openai-compat',
  base_url: '$GATEWAY_URL',
  api_key: '$(touch "$HOME/command-ran")',
  models: [{ id: 'one', name: 'The first', context_window: 128000, default_max_tokens: 4096 }, { id: 'two' }],
};
const gatewayUrl = { GATEWAY_URL: 'http://secret.example.com/v1' };

function withGlobal(settings: object): TestHome {
  const home = testHome();
  home.write('.config/service/service.json', settings);
  return home;
}

describe('service models', () => {
  test('`models.large` and `models.small` mark the models that they choose', async () => {
    const models = {
      large: { provider: 'gateway', model: 'two' },
      small: { provider: 'openai', model: 'gpt-nano' },
    };
    const home = withGlobal({ models, providers: { gateway, openai: {} } });
    const { code, stdout, stderr } = await home.service(['models'], {
      variables: { ...gatewayUrl, OPENAI_API_KEY: 'sk-1' },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').slice(0, -1)).toEqual([
      'gateway:one\tThe first\t128000\t\tsettings',
      'gateway:two\ttwo\t\tlarge\tsettings',
      'openai:gpt-5.2\tgpt-5.2\t\t\tsettings',
      'openai:gpt-nano\tgpt-nano\t\tsmall\tsettings',
    ]);
    expect(existsSync(join(home.home, 'command-ran'))).toBe(false);
  });

  test('without a choice the first model does all the work', async () => {
    const { stdout } = await testHome().service(['models', '--json'], {
      variables: { ANTHROPIC_API_KEY: 'sk-1' },
    });
    expect(JSON.parse(stdout)).toEqual([
      {
        model: 'anthropic:claude-sonnet-5',
        name: 'claude-sonnet-5',
        context_window: null,
        max_output_tokens: null,
        large: true,
        small: true,
        origin: 'environment',
      },
    ]);
  });

  test('a choice that no provider has is told, beside the model that is asked instead', async () => {
    const home = withGlobal({
      models: { large: { provider: 'gateway', model: 'twoo' } },
      providers: { gateway },
    });
    const { stdout, stderr } = await home.service(['models'], { variables: gatewayUrl });
    expect(stdout).toContain('gateway:one\tThe first\t128000\tlarge, small\t');
    expect(stderr).toContain('Did you mean "two"?');
  });

  test('where nothing can be asked the demonstration is listed, which answers then, with what to set', async () => {
    const home = testHome();
    const { code, stdout, stderr } = await home.service(['models']);
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'demo:demo-1\tThe built-in demonstration\t\tlarge, small\tbuilt in\n',
    });
    expect(stderr).toContain('Set OPENAI_API_KEY or ANTHROPIC_API_KEY');
    expect((await home.service(['run', '--model', 'demo:demo-1', 'hello'])).code).toBe(0);
  });
});

test('`service models --server` lists those of settings that are kept there, for who asks, as well', async () => {
  const server = await startTestServer({
    providers: { house: { ...gateway, base_url: 'http://127.0.0.1:9' } },
  });
  const own = { provider_id: 'own', type: 'openai-compat' as const, base_url: 'https://llm.example.com/v1' };
  const models = [{ id: 'kept', name: 'Of a person', context_window: 4096 }];
  const { email, password } = server;
  const { data } = await server.client.POST('/api/v1/auth/login', { body: { email, password } });
  const token = data.access_token;
  await server.client.POST('/api/v1/settings/providers', { body: { scope: 'user', ...own, models } });
  const list = (key: string, ...more: string[]) =>
    testHome().service(['models', '--server', server.url, ...more], { variables: { SERVICE_API_KEY: key } });
  expect(await list(token)).toEqual({
    ...{ code: 0, stderr: '' },
    stdout: 'own:kept\tkept\t4096\nhouse:one\tone\t128000\nhouse:two\ttwo\t\n',
  });
  expect(JSON.parse((await list(token, '--json')).stdout)[0]).toMatchObject({ id: 'own:kept' });
  expect((await list(server.operatorKey)).stdout).not.toContain('own:');
});

describe('service providers', () => {
  test('lists each with its template, its place, and why it cannot be used; never a secret', async () => {
    const home = withGlobal({
      providers: {
        gateway,
        nowhere: { api_key: 'literal-secret', models: [{ id: 'one' }] },
        openai: { disable: true },
      },
    });
    const variables = { ...gatewayUrl, ANTHROPIC_API_KEY: 'sk-secret' };
    const file = join(home.home, '.config/service/service.json');
    const { code, stdout, stderr } = await home.service(['providers'], { variables });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').slice(0, -1)).toEqual([
      `gateway\topenai-compat\t$GATEWAY_URL\t${file}:3\tusable`,
      `nowhere\topenai\t\t${file}:19\tunusable: A provider that is not built in needs a base_url. Add "base_url": "https://…".`,
      `openai\topenai\thttps://api.openai.com/v1\t${file}:27\tdisabled`,
      'anthropic\tanthropic\thttps://api.anthropic.com/v1\t$ANTHROPIC_API_KEY\tusable',
    ]);
    const { stdout: json } = await home.service(['providers', '--json'], { variables });
    expect(JSON.parse(json).providers[3]).toMatchObject({ id: 'anthropic', file: null, state: 'usable' });
    for (const text of [stdout, json]) expect(text).not.toMatch(/secret/);
    expect(existsSync(join(home.home, 'command-ran'))).toBe(false);
  });

  test('those of a file that is not trusted are not listed, and that is said', async () => {
    const home = testHome();
    const file = home.write('project/service.json', { providers: { gateway } });
    const { stdout, stderr } = await home.service(['providers'], { variables: gatewayUrl });
    expect(stdout).toBe('demo\tdemo\t\tbuilt in\tusable\n');
    expect(stderr).toContain('so that the built-in demonstration answers');
    expect(stderr).toContain(`${file}:2:3: providers does not count`);
    expect(stderr).toContain('service trust');
  });
});

describe('service mcp list and service lsp list', () => {
  const mcp = {
    files: { command: 'mcp-files', args: ['--root', '$HOME'], timeout: 60, disabled_tools: ['delete'] },
    issues: {
      type: 'http',
      url: 'https://me:password@mcp.example.com/mcp?token=secret&team=$TEAM',
      enabled_tools: ['list', 'get', 'delete'],
      disabled_tools: ['delete'],
    },
    old: { command: 'mcp-old', disabled: true },
  };

  test('`mcp.*.disabled_tools` beat `mcp.*.enabled_tools`, and no secret is shown', async () => {
    const home = withGlobal({ mcp });
    const { code, stdout, stderr } = await home.service(['mcp', 'list']);
    const file = join(home.home, '.config/service/service.json');
    expect(code).toBe(0);
    expect(stdout.split('\n').slice(0, -1)).toEqual([
      `files\tstdio\tmcp-files --root $HOME\tenabled\t60s\tall but delete\t${file}:3`,
      `issues\thttp\thttps://(hidden)@mcp.example.com/mcp?token=(hidden)&team=$TEAM\tenabled\t15s\tonly list, get\t${file}:14`,
      `old\tstdio\tmcp-old\tdisabled\t15s\tall\t${file}:26`,
    ]);
    expect(stderr).toContain('service mcp test');
  });

  test('the alias mcpServers is listed like mcp, and its place is where it stands', async () => {
    const home = withGlobal({ mcpServers: { files: mcp.files } });
    const { stdout } = await home.service(['mcp', 'list', '--json']);
    expect(JSON.parse(stdout).servers).toMatchObject([{ name: 'files', line: 3 }]);
  });

  test('language servers are listed with what they are for', async () => {
    const home = withGlobal({ lsp: { go: { command: 'gopls', args: ['-v'], filetypes: ['go', 'mod'] } } });
    const { stdout } = await home.service(['lsp', 'list']);
    const file = join(home.home, '.config/service/service.json');
    expect(stdout).toBe(`go\tgopls -v\tgo, mod\tenabled\t30s\t${file}:3\n`);
  });

  test.each([
    ['mcp', { mcp }],
    ['lsp', { lsp: { go: { command: 'gopls' } } }],
  ])('%s of a file that is not trusted is told as ignored', async (section, settings) => {
    const home = testHome();
    const file = home.write('project/service.json', settings);
    const { stdout, stderr } = await home.service([section, 'list']);
    expect(stdout).toBe('');
    expect(stderr).toContain(`${file}:2:3: ${section} does not count`);
    const { stdout: json } = await home.service([section, 'list', '--json']);
    expect(JSON.parse(json)).toMatchObject({ servers: [], ignored: [{ file, line: 2 }] });
  });
});

describe('service dirs', () => {
  test('prints every place, in a pipe with tabs between', async () => {
    const home = testHome();
    const { code, stdout, stderr } = await home.service(['dirs'], {
      variables: { XDG_CACHE_HOME: undefined },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').slice(0, -1)).toEqual([
      `working directory\t${home.project}`,
      `project root\t${home.project}`,
      `global file\t${home.home}/.config/service/service.json`,
      `workspace file\t${home.project}/.service/service.json`,
      `data directory\t${home.project}/.service`,
      `database\t${dataFolder(home)}/service.db`,
      `log file\t${dataFolder(home)}/logs/service.log`,
      `trust file\t${home.home}/.local/share/service/trust.json`,
      `master key\t${home.home}/.local/share/service/master.key`,
      `compiled code\t${home.home}/.cache/service/compiled`,
    ]);
    expect(existsSync(join(home.home, '.cache/service/compiled'))).toBe(true);
  });

  test('`options.data_directory` moves the data and what is in it', async () => {
    const home = withGlobal({ options: { data_directory: 'data' } });
    const { stdout } = await home.service(['dirs', '--json'], {
      variables: { XDG_CACHE_HOME: join(home.home, 'caches') },
    });
    const folder = join(home.project, 'data', basename(dataFolder(home)));
    expect(JSON.parse(stdout)).toMatchObject({
      data_directory: join(home.project, 'data'),
      database: join(folder, 'service.db'),
      log_file: join(folder, 'logs/service.log'),
      compiled_code: join(home.home, 'caches/service/compiled'),
    });
  });
});

test('service schema prints the schema byte for byte', async () => {
  const { code, stdout } = await testHome().service(['schema']);
  expect(code).toBe(0);
  expect(stdout).toBe(
    readFileSync(join(import.meta.dirname, '../../../schemas/service.schema.json'), 'utf8'),
  );
});

describe('service web-search', () => {
  test('prints what the engine finds, says so where it finds nothing, and what to set where there is none', async () => {
    const engine = createServer(({ url = '' }, response) => {
      const about = new URL(url, 'http://x').searchParams.get('q');
      const hit = { url: 'https://example.com/', title: 'A page', content: `About ${about}` };
      response.end(JSON.stringify({ results: about === 'nothing' ? [] : [hit] }));
    });
    await new Promise<void>((resolve) => void engine.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void engine.close());
    const { port } = engine.address() as AddressInfo; // it listens on TCP
    const variables = { SERVICE_WEB_SEARCH_URL: `http://127.0.0.1:${port}` };
    const home = testHome();
    const found = await home.service(['web-search', 'tall', 'lighthouses', '-n', '3'], { variables });
    expect(found).toMatchObject({
      code: 0,
      stdout: 'A page\thttps://example.com/\tAbout tall lighthouses\n',
    });
    const nothing = await home.service(['web-search', 'nothing'], { variables });
    expect(nothing).toMatchObject({ code: 0, stdout: '' });
    expect(nothing.stderr).toContain('Nothing was found for "nothing".');
    const unset = await home.service(['web-search', 'x'], { variables: { SERVICE_SERVER: '' } });
    expect(unset.stderr).not.toContain('in the log');
    expect(unset).toMatchObject({ code: 1, stderr: expect.stringContaining('SERVICE_WEB_SEARCH_URL') });
    expect((await home.service(['web-search', 'x', '-n', '21'])).code).toBe(2);
  });
});
