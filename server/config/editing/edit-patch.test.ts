/** Merge patches into the workspace file: what is merged, what is refused, and that values are literals. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these templates are not JavaScript's.
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { expandSetting } from '../on-demand.ts';
import { RestrictedSettings } from '../restricted-settings.ts';
import { type TestProject, testProject } from '../test-project.ts';
import { patchSettings } from './edit-patch.ts';

const file = '.service/service.json';

async function patched(
  project: TestProject,
  patch: object,
  { mayRestrict = true, trusted = false }: { mayRestrict?: boolean; trusted?: boolean } = {},
) {
  return patchSettings(await project.places(), {
    patch: { ...patch },
    mayRestrict,
    isTrusted: () => trusted,
    check: () => undefined,
  });
}
const read = (project: TestProject) => readFile(project.path(file), 'utf8');

describe('a merge patch', () => {
  test('makes the file where there is none, beside what belongs there', async () => {
    const project = await testProject();
    const change = await patched(project, { models: { large: { provider: 'demo', model: 'demo-1' } } });
    expect(change).toMatchObject({ created: true, before: null, pointers: ['/models'] });
    expect(JSON.parse(await read(project))).toEqual({
      $schema: './service.schema.json',
      models: { large: { provider: 'demo', model: 'demo-1' } },
    });
    expect(await readFile(project.path('.service/.gitignore'), 'utf8')).toContain('!service.json');
  });

  test('merges objects by key, replaces lists, removes what is null, and leaves comments', async () => {
    const project = await testProject();
    const text = `{
  // by hand
  "models": { "large": { "provider": "a", "model": "m", "temperature": 1 } },
  "options": { "disabled_tools": ["bash", "write"], "debug": true } // stays
}
`;
    await project.put(file, text);
    await patched(project, {
      models: { large: { temperature: null, top_p: 0.5 } },
      options: { disabled_tools: ['fetch'] },
    });
    const now = await read(project);
    expect(now).toContain('// by hand');
    expect(now).toContain('// stays');
    const { config } = await project.load();
    expect(config).toMatchObject({
      models: { large: { provider: 'a', model: 'm', top_p: 0.5 } },
      options: { disabled_tools: ['fetch'], debug: true },
    });
    expect(config.models?.large).not.toHaveProperty('temperature');
  });

  test('finds a section under the other name that it has in the file', async () => {
    const project = await testProject();
    await project.put(file, { mcpServers: { one: { command: 'x' } } });
    await patched(project, { mcp: { two: { command: 'y' } } });
    expect(JSON.parse(await read(project))).toEqual({
      mcpServers: { one: { command: 'x' }, two: { command: 'y' } },
    });
    await patched(project, { mcp: { one: null } });
    expect(JSON.parse(await read(project))).toEqual({ mcpServers: { two: { command: 'y' } } });
  });

  test.each(['$(touch x)', '$SERVICE_ADMIN_PASSWORD', '${HOME:-x}', String.raw`\$(id)`, '$', 'a$b$$c'])(
    'writes %s as what it is, which no template makes anything else of',
    async (value) => {
      const project = await testProject();
      await patched(project, {
        providers: { p: { type: 'openai-compat', base_url: 'http://x', api_key: value } },
        mcp: { m: { command: 'x', args: [value], env: { TOKEN: value } } },
        models: { large: { provider: 'p', model: value } },
      });
      await project.trust(file);
      const { config } = await project.load();
      const expand = (entry: object, pointer: string) =>
        expandSetting(entry, pointer, {
          environment: { SERVICE_ADMIN_PASSWORD: 'secret', HOME: '/home', b: 'wrong' },
          workingDirectory: project.root,
          signal: AbortSignal.timeout(5000),
        });
      expect(await expand(config.providers?.p ?? {}, '/providers/p')).toMatchObject({ api_key: value });
      expect(await expand(config.mcp?.m ?? {}, '/mcp/m')).toMatchObject({
        args: [value],
        env: { TOKEN: value },
      });
      // No template is read there.
      expect(config.models?.large?.model).toBe(value);
      await expect(readFile(project.path('x'))).rejects.toThrow();
    },
  );

  test.each<[string, object, object | null]>([
    ['a restricted section', { hooks: { pre_tool_use: [{ command: 'x' }] } }, null],
    ['nothing in a restricted section', { hooks: {} }, null],
    ['a restricted key of an open section', { options: { context_paths: ['x'] } }, null],
    [
      'what goes to a provider as it is',
      { models: { large: { provider: 'a', model: 'm', provider_options: { x: 1 } } } },
      null,
    ],
    ['the end of a restricted section', { permissions: null }, { permissions: { allowed_tools: ['bash'] } }],
    [
      'the end of a section that holds a restricted one',
      { options: null },
      { options: { context_paths: ['x'] } },
    ],
    ['the other name of a restricted section', { mcpServers: { a: { command: 'x' } } }, null],
  ])('with %s is for who may do so alone', async (_, patch, before) => {
    const project = await testProject();
    if (before) await project.put(file, before);
    const text = before && (await read(project));
    await expect(patched(project, patch, { mayRestrict: false })).rejects.toBeInstanceOf(RestrictedSettings);
    if (text) expect(await read(project)).toBe(text);
    await expect(patched(project, patch)).resolves.toMatchObject({ created: !before });
  });

  test('into a trusted file with restricted sections would end its trust: for who may do so alone', async () => {
    const project = await testProject();
    await project.put(file, { hooks: { pre_tool_use: [{ command: './guard.sh' }] } });
    const patch = { models: { large: { provider: 'a', model: 'm' } } };
    const refused = patched(project, patch, { mayRestrict: false, trusted: true });
    await expect(refused).rejects.toMatchObject({ pointers: ['/hooks'] });
    await expect(patched(project, patch, { mayRestrict: false })).resolves.toMatchObject({ created: false });
  });

  test.each<[string, object]>([
    ['of a wrong type', { models: 5 }],
    ['of an unknown key', { options: { nonsense: true } }],
    ['beyond what a key allows', { models: { large: { provider: 'a', model: 'm', top_p: 7 } } }],
    ['without what a section needs', { models: { large: { model: 'm' } } }],
    ['named like what objects inherit', JSON.parse('{ "providers": { "__proto__": { "base_url": "x" } } }')],
  ])('%s changes nothing', async (_, patch) => {
    const project = await testProject();
    await project.put(file, { options: { debug: true } });
    const before = await read(project);
    await expect(patched(project, patch)).rejects.toMatchObject({ name: 'SettingsError' });
    expect(await read(project)).toBe(before);
  });

  const numbered = (count: number, value: unknown) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, value]));

  test('of very many keys is refused before any is written, which would take minutes', async () => {
    const project = await testProject();
    await project.put(file, { options: { debug: true } });
    const before = await read(project);
    await expect(patched(project, { options: numbered(40_000, 1) })).rejects.toMatchObject({
      diagnostics: [{ pointer: '', message: expect.stringContaining('at once') }],
    });
    expect(await read(project)).toBe(before);
  });

  test('of many keys is refused where the file is so large that each takes long', async () => {
    const project = await testProject();
    const disabled_tools = Array.from({ length: 100_000 }, () => 'x_y_z');
    await project.put(file, { options: { disabled_tools }, providers: { one: {} } });
    await expect(patched(project, { providers: numbered(500, {}) })).rejects.toMatchObject({
      diagnostics: [{ pointer: '', message: expect.stringContaining('file of this size') }],
    });
  });

  test('of as many keys as somebody may have is merged', async () => {
    const project = await testProject();
    await project.put(file, { providers: { one: { base_url: 'http://x' } } });
    await patched(project, { providers: numbered(150, { base_url: 'http://y' }) });
    expect(Object.keys(JSON.parse(await read(project)).providers)).toHaveLength(151);
  });

  test('that changes nothing makes no file', async () => {
    const project = await testProject();
    await patched(project, { models: null });
    await expect(read(project)).rejects.toThrow();
  });

  test('is refused by who knows better what the file is', async () => {
    const project = await testProject();
    const hashes: (string | null)[] = [];
    const refusing = patchSettings(await project.places(), {
      patch: { options: { debug: true } },
      mayRestrict: true,
      isTrusted: () => false,
      check: (sha256) => {
        hashes.push(sha256);
        throw new Error('not now');
      },
    });
    await expect(refusing).rejects.toThrow('not now');
    expect(hashes).toEqual([null]);
    await expect(read(project)).rejects.toThrow();
  });
});
