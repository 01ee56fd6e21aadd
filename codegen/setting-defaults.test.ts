/** Holds the generated defaults of the settings file to its schema. */
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { generateSettingDefaults } from './setting-defaults.ts';

test('the defaults of the schema are there for the code, by the paths of their keys', async () => {
  const root = await mkdtemp(join(tmpdir(), 'setting-defaults-'));
  onTestFinished(() => rm(root, { recursive: true }));
  await mkdir(join(root, 'server/contract'), { recursive: true });
  await cp(
    join(import.meta.dirname, '../schemas/service.schema.json'),
    join(root, 'schemas/service.schema.json'),
  );
  await generateSettingDefaults(root);
  const { settingDefaults } = await import(
    pathToFileURL(join(root, 'server/contract/setting-defaults.ts')).href
  );
  expect(settingDefaults).toMatchObject({
    'tools.bash.network': false,
    'tools.grep.timeout': '5s',
    'tools.ls.max_depth': 0,
    'tools.ls.max_items': 1000,
    'hooks.*[].timeout': 30,
    'mcp.*.timeout': 15,
    'lsp.*.timeout': 30,
    'options.limits.max_steps': 50,
    'options.limits.max_attempts': 4,
    'options.limits.max_agent_depth': 1,
    'options.limits.max_agents': 10,
  });
});
