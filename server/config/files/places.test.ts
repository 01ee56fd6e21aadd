/** Where settings are looked for: from the working directory up to the root of its repository, and never above. */
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { SettingsError } from '../diagnostic.ts';
import { testProject } from '../test-project.ts';
import { personalGuidance } from './guidance-places.ts';
import { findPlaces, globalPlaces } from './places.ts';

describe('the person’s own places', () => {
  test('are in ~/.config and ~/.local/share', () => {
    expect(globalPlaces({}, '/home/ada')).toMatchObject({
      globalFile: '/home/ada/.config/service/service.json',
      dataHome: '/home/ada/.local/share/service',
      projectFiles: [],
      workspaceFile: null,
    });
  });

  test('follow the XDG variables, unless these are empty or relative', () => {
    const moved = { XDG_CONFIG_HOME: '/config', XDG_DATA_HOME: '/data' };
    expect(globalPlaces(moved, '/home/ada')).toMatchObject({
      globalFile: '/config/service/service.json',
      dataHome: '/data/service',
    });
    for (const value of ['', 'relative']) {
      const ignored = globalPlaces({ XDG_CONFIG_HOME: value, XDG_DATA_HOME: value }, '/home/ada');
      expect(ignored).toEqual(globalPlaces({}, '/home/ada'));
    }
  });

  test('SERVICE_GLOBAL_CONFIG names the folder of the settings, and leaves trust where it is', () => {
    expect(globalPlaces({ SERVICE_GLOBAL_CONFIG: '/elsewhere' }, '/home/ada')).toMatchObject({
      globalFile: '/elsewhere/service.json',
      dataHome: '/home/ada/.local/share/service',
    });
  });
});

describe('a home that is no absolute path', () => {
  test.each(['', 'home', './home'])(
    '%j is refused where the person’s own files would be below it',
    (home) => {
      const message = `HOME is "${home}", and your own settings are kept below it. Set it to an absolute path`;
      for (const variables of [{}, { XDG_CONFIG_HOME: '/config' }, { XDG_DATA_HOME: '/data' }])
        expect(() => globalPlaces({ HOME: home, ...variables }, home)).toThrow(message);
    },
  );

  test('is none that was set, for a user whom the machine does not know', () => {
    expect(() => globalPlaces({}, '')).toThrow('HOME is not set, and ');
  });

  test('is not needed where variables name the folders, and no guidance is looked for in it', () => {
    const named = { SERVICE_GLOBAL_CONFIG: '/own', XDG_DATA_HOME: '/data' };
    expect(globalPlaces(named, '')).toMatchObject({
      globalFile: '/own/service.json',
      dataHome: '/data/service',
    });
    expect(personalGuidance(named, '', '/own')).toEqual({
      contextFiles: ['/own/SERVICE.md'],
      skillFolders: ['/own/skills'],
    });
    const elsewhere = { ...named, SERVICE_SKILLS_DIR: '/skills' };
    expect(personalGuidance(elsewhere, '', '/own').skillFolders).toEqual(['/skills']);
  });
});

describe('the project’s places', () => {
  test('go from the root down to the working directory, in each folder .service.json after service.json', async () => {
    const { root, path, places } = await testProject();
    await mkdir(path('packages/server'), { recursive: true });
    const found = await places('packages/server');
    expect(found).toMatchObject({ workingDirectory: path('packages/server'), projectRoot: root });
    expect(found.projectFiles).toEqual([
      ...[path('service.json'), path('.service.json')],
      ...[path('packages/service.json'), path('packages/.service.json')],
      ...[path('packages/server/service.json'), path('packages/server/.service.json')],
    ]);
    expect(found.workspaceFile).toBe(path('.service/service.json'));
  });

  test('are not told where the folder of the person’s own settings would be one of the project', async () => {
    const { root, home } = await testProject();
    for (const variable of ['SERVICE_GLOBAL_CONFIG', 'SERVICE_SKILLS_DIR'])
      await expect(findPlaces(root, { [variable]: './conf' }, home)).rejects.toThrow(
        new RegExp(`^error: ${variable} is "./conf".* absolute path`),
      );
  });

  test('outside git are those of the working directory alone', async () => {
    const { home } = await testProject();
    await mkdir(join(home, 'notes/today'), { recursive: true });
    const found = await findPlaces(join(home, 'notes/today'), {}, home);
    expect(found).toMatchObject({
      projectRoot: join(home, 'notes/today'),
      projectFiles: ['service.json', '.service.json'].map((name) => join(home, 'notes/today', name)),
      workspaceFile: join(home, 'notes/today/.service/service.json'),
    });
  });

  test('are real paths, whatever link leads there', async () => {
    const { home, root, path } = await testProject();
    await mkdir(path('src'));
    await symlink(path('src'), join(home, 'link'));
    expect(await findPlaces(join(home, 'link'), {}, home)).toMatchObject({
      workingDirectory: path('src'),
      projectRoot: root,
    });
  });

  test.each([
    ['an empty folder', async (git: string) => void (await mkdir(git))],
    [
      'a folder with other things in it',
      async (git: string) => void (await mkdir(join(git, 'refs'), { recursive: true })),
    ],
    ['a link to nothing', (git: string) => symlink('/nowhere/at/all', git)],
    ['a link to itself', (git: string) => symlink('.git', git)],
    ['a pipe', async (git: string) => void execFileSync('mkfifo', [git])],
  ])('a .git that is %s is no root', async (_what, make) => {
    const { root, path, places } = await testProject();
    await mkdir(path('sub'));
    await make(path('sub/.git'));
    expect((await places('sub')).projectRoot).toBe(root);
  });

  test('a .git file is a root only where it says gitdir:', async () => {
    const { root, path, places, put } = await testProject();
    await put('sub/.git', 'not a repository');
    expect((await places('sub')).projectRoot).toBe(root);
    await put('sub/.git', 'gitdir: ../elsewhere\n');
    expect((await places('sub')).projectRoot).toBe(path('sub'));
  });

  test('a .git that is a link to a repository is a root', async () => {
    const { path, places } = await testProject();
    await mkdir(path('sub'));
    await symlink(path('.git'), path('sub/.git'));
    expect((await places('sub')).projectRoot).toBe(path('sub'));
  });

  test('a working directory that is gone is an error that names it', async () => {
    const { path, places } = await testProject();
    await mkdir(path('gone'));
    await rm(path('gone'), { recursive: true });
    await expect(places('gone')).rejects.toThrow(SettingsError);
    await expect(places('gone')).rejects.toThrow(/working directory .*gone cannot be used \(ENOENT\)/);
  });
});

describe('above the root', () => {
  test.each(['repository', 'worktree', 'submodule', 'no repository'] as const)(
    'of a %s nothing is opened, as a process trace shows',
    async (kind) => {
      const { home, path, put } = await testProject();
      const folder = await makeKind(kind, path('.'), path('inner'));
      for (const name of ['service.json', '.service.json', '.service/service.json'])
        await put(name, '{"options":{"debug":true}}');
      await put(`${folder}/deep/service.json`, '{"options":{"progress":false}}');
      const trace = join(home, 'trace');
      const script = `
        import { loadSettings } from ${JSON.stringify(join(import.meta.dirname, '../load.ts'))};
        import { findPlaces } from ${JSON.stringify(join(import.meta.dirname, 'places.ts'))};
        const { config } = await loadSettings(await findPlaces(process.cwd(), {}, ${JSON.stringify(home)}));
        console.log(JSON.stringify(config));`;
      const strace = ['-f', '-qq', '-e', 'trace=open,openat,openat2,execve', '-o', trace];
      const output = execFileSync(
        'strace',
        [...strace, process.execPath, '--input-type=module', '-e', script],
        { cwd: join(folder, 'deep'), encoding: 'utf8' },
      );
      expect(JSON.parse(output)).toEqual({ options: { progress: false } });
      const lines = (await readFile(trace, 'utf8')).split('\n');
      // The trace shows what was meant to be read, so that it can show what was not.
      expect(lines.some((line) => line.includes(`"${folder}/deep/service.json"`))).toBe(true);
      const opened = lines.flatMap((line) => /open\w*\([^"]*"([^"]+)"/.exec(line)?.[1] ?? []);
      const above = opened.filter((file) => file.startsWith(path('.')) && !file.startsWith(`${folder}/`));
      expect(above).toEqual([]);
      expect(lines.filter((line) => line.includes('execve('))).toHaveLength(1);
    },
  );
});

/** Makes the folder with git itself, inside another repository where there is one. */
async function makeKind(
  kind: 'repository' | 'worktree' | 'submodule' | 'no repository',
  outer: string,
  inner: string,
): Promise<string> {
  const quiet = ['-c', 'protocol.file.allow=always', '-c', 'user.name=a', '-c', 'user.email=a@example.com'];
  const git = (cwd: string, ...args: string[]) =>
    execFileSync('git', [...quiet, ...args], { cwd, stdio: 'pipe' });
  await rm(join(outer, '.git'), { recursive: true });
  if (kind === 'no repository') {
    await mkdir(join(inner, 'deep'), { recursive: true });
    return inner;
  }
  git(outer, 'init', '-q');
  git(outer, 'commit', '-q', '--allow-empty', '-m', 'first');
  if (kind === 'worktree') git(outer, 'worktree', 'add', '-q', inner);
  if (kind === 'repository') git(outer, 'init', '-q', inner);
  if (kind === 'submodule') {
    const source = join(outer, '..', 'source');
    git(outer, 'clone', '-q', outer, source);
    git(outer, 'submodule', '--quiet', 'add', source, 'inner');
  }
  return inner;
}
