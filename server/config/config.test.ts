/** The global settings as they lie on a disk. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { globalPlaces, loadSettings, SettingsError } from './config.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'service-config-'));
});

afterEach(() => rm(home, { recursive: true }));

async function load(environment: NodeJS.ProcessEnv, homeDirectory: string) {
  const { config, layers, diagnostics } = await loadSettings(globalPlaces(environment, homeDirectory));
  return { config, file: layers[0]?.file ?? null, diagnostics };
}

async function put(folder: string, text: string): Promise<string> {
  await mkdir(join(home, folder), { recursive: true });
  const file = join(home, folder, 'service.json');
  await writeFile(file, text);
  return file;
}

test('without a file there are no settings, and that is no error', async () => {
  expect(await load({}, home)).toEqual({ config: {}, file: null, diagnostics: [] });
});

test('the file is looked for in ~/.config/service', async () => {
  const file = await put('.config/service', '{"options":{"debug":true}}');
  expect(await load({}, home)).toMatchObject({ file, config: { options: { debug: true } } });
});

test('XDG_CONFIG_HOME moves it, unless it is relative or empty', async () => {
  const moved = await put('elsewhere/service', '{}');
  const usual = await put('.config/service', '{}');
  expect((await load({ XDG_CONFIG_HOME: join(home, 'elsewhere') }, home)).file).toBe(moved);
  expect((await load({ XDG_CONFIG_HOME: 'elsewhere' }, home)).file).toBe(usual);
  expect((await load({ XDG_CONFIG_HOME: '' }, home)).file).toBe(usual);
});

test('SERVICE_GLOBAL_CONFIG names the folder, and nothing else is then read', async () => {
  const named = await put('named', '{}');
  await put('.config/service', 'broken');
  const environment = { SERVICE_GLOBAL_CONFIG: join(home, 'named'), XDG_CONFIG_HOME: join(home, '.config') };
  expect((await load(environment, home)).file).toBe(named);
  await rm(named);
  expect((await load(environment, home)).file).toBeNull();
});

test('a SERVICE_GLOBAL_CONFIG that names the file is told to name the folder', async () => {
  const file = await put('named', '{}');
  await expect(load({ SERVICE_GLOBAL_CONFIG: file }, home)).rejects.toThrow('name the folder');
});

test('warnings come with the settings', async () => {
  await put('.config/service', '{"modles":{}}');
  const { config, diagnostics } = await load({}, home);
  expect(config).toEqual({});
  expect(diagnostics).toMatchObject([{ severity: 'warning', pointer: '/modles' }]);
});

test('errors come all at once, with the file', async () => {
  const file = await put('.config/service', '{"options":{"debug":1},\n"mcp":[]}');
  const failure = await load({}, home).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(SettingsError);
  expect(String(failure)).toContain(`${file}:1:21: error: /options/debug: `);
  expect(String(failure)).toContain(`${file}:2:7: error: /mcp: `);
});

test('a folder in place of the file is an error that names it', async () => {
  await mkdir(join(home, '.config/service/service.json'), { recursive: true });
  await expect(load({}, home)).rejects.toThrow(/service\.json.*cannot be read \(EISDIR\)/);
});
