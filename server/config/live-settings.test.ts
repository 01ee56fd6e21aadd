/** Settings follow their files: a change counts at once, and one that cannot be used takes nothing but trust. */
import { truncateSync, writeFileSync } from 'node:fs';
import { chmod, mkdir, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import { globalPlaces } from './files/places.ts';
import { followSettings } from './live-settings.ts';
import type { LiveSettings, LoadedSettings } from './loaded-settings.ts';
import { type TestProject, testProject } from './test-project.ts';
import { revokeTrust } from './trust/trust-store.ts';

const hooks = { pre_tool_use: [{ command: 'guard' }] };

async function follow({ places }: TestProject, folder?: string): Promise<LiveSettings> {
  const live = await followSettings(await places(folder));
  onTestFinished(() => live.close());
  return live;
}

test('are the same object as long as nothing changed', async () => {
  const project = await testProject();
  await project.put('service.json', { options: { debug: true } });
  const live = await follow(project);
  const first = await live.current();
  expect(await live.current()).toBe(first);
  expect(
    (await Promise.all([live.current(), live.current(), live.current()])).every((one) => one === first),
  ).toBe(true);
  // Written anew with the same bytes nothing has changed, either.
  await project.put('service.json', { options: { debug: true } });
  expect(await live.current()).toBe(first);
});

test('a program may take the function away from its object', async () => {
  const { current } = await follow(await testProject());
  expect((await current()).config).toEqual({});
});

describe('a change counts for whoever asks next', () => {
  test.each(['service.json', '.service.json', 'sub/.service.json', '.service/service.json'])(
    'when %s appears, changes and goes',
    async (file) => {
      const project = await testProject();
      await mkdir(project.path('sub'));
      const live = await follow(project, 'sub');
      const debug = async () => (await live.current()).config.options?.debug;
      expect(await debug()).toBeUndefined();
      await project.put(file, { options: { debug: true } });
      expect(await debug()).toBe(true);
      await project.put(file, { options: { debug: false } });
      expect(await debug()).toBe(false);
      await rm(project.path(file));
      expect(await debug()).toBeUndefined();
    },
  );

  test('to as many bytes, in the same place, many times within a moment', async () => {
    const project = await testProject();
    const file = await project.put('service.json', '{"tools":{"ls":{"max_depth":100}}}');
    const live = await follow(project);
    for (let depth = 101; depth < 160; depth++) {
      await writeFile(file, `{"tools":{"ls":{"max_depth":${depth}}}}`);
      expect((await live.current()).config.tools?.ls?.max_depth).toBe(depth);
    }
  });

  test.each([
    ['the new ones', '{ "options": { "debug": false } }', false],
    ['those of before, where the new ones break', '{ "options": {', true],
  ])('and a file that is written in place is not empty meanwhile: %s count', async (_, text, debug) => {
    const project = await testProject();
    const file = await project.put('service.json', { options: { debug: true } });
    const live = await follow(project);
    await live.current();
    // However long this process is kept waiting, to those who look the file was emptied just now.
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    truncateSync(file);
    setTimeout(() => writeFileSync(file, text), 20);
    expect((await live.current()).config.options?.debug).toBe(debug);
  });

  test('when it is emptied and stays so', async () => {
    const project = await testProject();
    const file = await project.put('service.json', { options: { debug: true } });
    const live = await follow(project);
    await live.current();
    truncateSync(file);
    expect((await live.current()).config).toEqual({});
  });

  test('when another file takes its place with the same size and time', async () => {
    const project = await testProject();
    await project.put('service.json', '{"tools":{"ls":{"max_depth":1}}}');
    await project.put('other.json', '{"tools":{"ls":{"max_depth":2}}}');
    for (const name of ['service.json', 'other.json']) await utimes(project.path(name), 1000, 1000);
    const live = await follow(project);
    await rename(project.path('other.json'), project.path('service.json'));
    expect((await live.current()).config.tools?.ls?.max_depth).toBe(2);
  });

  test('when what a link leads to changes', async () => {
    const project = await testProject();
    await project.put('real.json', { options: { debug: false } });
    await symlink('real.json', project.path('service.json'));
    const live = await follow(project);
    await project.put('real.json', { options: { debug: true } });
    expect((await live.current()).config.options?.debug).toBe(true);
  });

  test('when it is trusted, and when trust is revoked', async () => {
    const project = await testProject();
    await project.put('service.json', { hooks });
    const live = await follow(project);
    expect((await live.current()).config.hooks).toBeUndefined();
    await project.trust('service.json');
    expect((await live.current()).config.hooks).toEqual(hooks);
    const { dataHome, projectRoot } = await project.places();
    await revokeTrust(dataHome, projectRoot, [project.path('service.json')]);
    expect((await live.current()).config.hooks).toBeUndefined();
  });

  test('when others get to write the trust store', async () => {
    const project = await testProject();
    await project.put('service.json', { hooks });
    await project.trust('service.json');
    const live = await follow(project);
    expect((await live.current()).config.hooks).toEqual(hooks);
    await chmod((await project.places()).dataHome, 0o777);
    expect((await live.current()).config.hooks).toBeUndefined();
  });

  test('when a folder on the way becomes a link: the same file has another real path, which nobody trusts', async () => {
    const project = await testProject();
    await project.put('.service/service.json', { hooks });
    await project.trust('.service/service.json');
    const live = await follow(project);
    expect((await live.current()).config.hooks).toEqual(hooks);
    await rename(project.path('.service'), project.path('moved'));
    await symlink('moved', project.path('.service'));
    expect((await live.current()).config.hooks).toBeUndefined();
  });

  test('of the global file alone, where there is no project', async () => {
    const { home, globalFile, put } = await testProject();
    const live = await followSettings(globalPlaces({}, home));
    onTestFinished(() => live.close());
    await put(globalFile, { options: { debug: true } });
    expect((await live.current()).config.options?.debug).toBe(true);
  });
});

describe('trusted bytes that change', () => {
  test('lose what needs trust at once, and keep the rest', async () => {
    const project = await testProject();
    await project.put('service.json', { hooks, options: { debug: true } });
    await project.trust('service.json');
    const live = await follow(project);
    expect((await live.current()).config).toEqual({ hooks, options: { debug: true } });
    await project.put('service.json', { hooks, options: { debug: true, progress: false } });
    const { config, ignored } = await live.current();
    expect(config).toEqual({ options: { debug: true, progress: false } });
    expect(ignored.map(({ pointer }) => pointer)).toEqual(['/hooks']);
  });

  test('into what cannot be used lose what needs trust at once; the rest counts as it was', async () => {
    const project = await testProject();
    await project.put('service.json', { hooks, options: { debug: true } });
    await project.trust('service.json');
    const live = await follow(project);
    await project.put('service.json', '{} {}');
    const { config, ignored, diagnostics } = await live.current();
    expect(config).toEqual({ options: { debug: true } });
    expect(ignored.map(({ pointer }) => pointer)).toEqual(['/hooks']);
    expect(diagnostics).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('not JSON') },
      { severity: 'warning', message: expect.stringContaining('what it said before counts, but for') },
    ]);
    // It stays so however often one asks, and is mended by mending the file.
    expect((await live.current()).config).toEqual({ options: { debug: true } });
    await project.put('service.json', { hooks, options: { debug: true } });
    expect((await live.current()).config).toEqual({ hooks, options: { debug: true } });
  });
});

describe('a file that cannot be used', () => {
  test('to begin with is an error', async () => {
    const project = await testProject();
    await project.put('service.json', '{"options":{"debug":1}}');
    await expect(follow(project)).rejects.toThrow(SettingsError);
  });

  test('leaves the global file as it last was, whole', async () => {
    const project = await testProject();
    await project.put(project.globalFile, { hooks, options: { debug: true } });
    const live = await follow(project);
    await project.put(project.globalFile, '{"hooks":');
    expect((await live.current()).config).toEqual({ hooks, options: { debug: true } });
  });

  test('and was not there before is as good as absent', async () => {
    const project = await testProject();
    const live = await follow(project);
    await project.put('service.json', 'broken');
    const { config, diagnostics } = await live.current();
    expect(config).toEqual({});
    expect(diagnostics).toHaveLength(1);
    await project.put('.service.json', { options: { debug: true } });
    expect((await live.current()).config).toEqual({ options: { debug: true } });
  });
});

describe('who listens', () => {
  test('is told of a change without anybody asking, and of what is wrong with it', async () => {
    const project = await testProject();
    await project.put('service.json', { options: { debug: true } });
    const live = await follow(project);
    const heard: { loaded: LoadedSettings; problems: readonly Diagnostic[] }[] = [];
    live.onChange((loaded, problems) => heard.push({ loaded, problems }));
    await project.put('service.json', '{} {}');
    await expect.poll(() => heard).toHaveLength(1);
    expect(heard[0]?.loaded.config).toEqual({ options: { debug: true } });
    expect(heard[0]?.problems).toMatchObject([
      { severity: 'error', place: { file: project.path('service.json') } },
    ]);
    await project.put('service.json', { options: { debug: false } });
    expect((await live.current()).config).toEqual({ options: { debug: false } });
    expect(heard[1]).toMatchObject({ loaded: { config: { options: { debug: false } } }, problems: [] });
  });

  test('hears nothing more once it is closed', async () => {
    const project = await testProject();
    const live = await follow(project);
    const heard = vi.fn();
    live.onChange(heard);
    live.close();
    await project.put('service.json', { options: { debug: true } });
    expect((await live.current()).config.options?.debug).toBe(true);
    expect(heard).not.toHaveBeenCalled();
  });
});

test('many who ask at once while a file changes never see less than what was there when they asked', async () => {
  const project = await testProject();
  const file = await project.put('service.json', '{"tools":{"ls":{"max_depth":0}}}');
  const live = await follow(project);
  const asked: Promise<{ least: number; seen: number | undefined }>[] = [];
  // Fewer times than a reading begins again because of it: after those, what was there before counts.
  for (let depth = 1; depth < 10; depth++) {
    await writeFile(`${file}.new`, `{"tools":{"ls":{"max_depth":${depth}}}}`);
    await rename(`${file}.new`, file);
    for (let one = 0; one < 10; one++)
      asked.push(live.current().then(({ config }) => ({ least: depth, seen: config.tools?.ls?.max_depth })));
  }
  for (const { least, seen } of await Promise.all(asked)) expect(seen).toBeGreaterThanOrEqual(least);
});

test('a working directory that is deleted leaves the person’s own settings', async () => {
  const project = await testProject();
  await project.put(project.globalFile, { options: { debug: true } });
  await project.put('service.json', { hooks, options: { progress: false } });
  await project.trust('service.json');
  const live = await follow(project);
  await rm(project.root, { recursive: true });
  expect((await live.current()).config).toEqual({ options: { debug: true } });
});
