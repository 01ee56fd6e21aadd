/** What the settings of a repository tell about a push, where an earlier command may have put anything in their place. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { commandParts } from './command-parts.ts';
import { withRepositories } from './git-repository.ts';

/** A workspace with a submodule in `sub`, whose settings are a file that anybody may write. */
function workspaceWithSubmodule(): { readonly path: string; readonly config: string } {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'service-targets-')));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  for (const folder of [path, join(path, 'within')]) execFileSync('git', ['init', '-q', folder]);
  mkdirSync(join(path, '.git/modules'));
  execFileSync('git', ['init', '-q', '--separate-git-dir', join(path, '.git/modules/m'), join(path, 'sub')]);
  const config = join(path, '.git/modules/m/config');
  rmSync(config);
  return { path, config };
}

/** Whether some part of the line may start anything in another repository than the workspace's. */
function startsElsewhere(command: string, path: string): boolean {
  return withRepositories(commandParts(command), path).parts.some(({ elsewhere }) => elsewhere !== undefined);
}

const remoteAt = (url: string) => `[remote "origin"]\n\turl = ${url}\n`;

describe('where the settings of a submodule should be', () => {
  test.each([
    ['a pipe', (config: string) => void execFileSync('mkfifo', [config])],
    ['a link to a device', (config: string) => symlinkSync('/dev/null', config)],
    ['a folder', (config: string) => mkdirSync(config)],
    [
      'more than git writes',
      (config: string) => {
        writeFileSync(config, remoteAt('https://example.org/x.git'));
        truncateSync(config, 400 * 1024 ** 2);
      },
    ],
  ])('%s could name any repository, and holds nothing up', (_kind, put) => {
    const { path, config } = workspaceWithSubmodule();
    put(config);
    // A process that can be ended: what waits for a pipe on this thread would be waited for here, too.
    const source = `
      import { commandParts } from ${JSON.stringify(import.meta.resolve('./command-parts.ts'))};
      import { withRepositories } from ${JSON.stringify(import.meta.resolve('./git-repository.ts'))};
      const { parts } = withRepositories(commandParts('cd sub && git push'), ${JSON.stringify(path)});
      console.log(parts.map(({ elsewhere }) => elsewhere ?? 'here').join());`;
    const words = ['--max-old-space-size=200', '--input-type=module', '--eval', source];
    const options = { encoding: 'utf8', timeout: 30_000 } as const;
    expect(spawnSync(process.execPath, words, options).stdout).toBe('here,a command of git\n');
  });

  test('a link to a file is read as git reads it, and none at all names no remote', () => {
    const { path, config } = workspaceWithSubmodule();
    const push = () => startsElsewhere('cd sub && git push', path);
    expect(push()).toBe(false);
    const settings = join(path, 'settings');
    symlinkSync(settings, config);
    writeFileSync(settings, remoteAt('https://example.org/x.git'));
    expect(push()).toBe(false);
    writeFileSync(settings, remoteAt('../within'));
    expect(push()).toBe(true);
  });
});

describe('a remote within the workspace', () => {
  test.each([
    '[remote "origin"] url = ../within',
    '[core][remote "origin"]pushurl=../within\n[remote "origin"]url=x',
    '[remote "or]igin"] url = ../within',
    '[remote "origin"]\n\tURL = "../within"  # where it was',
    '[remote "origin"]\n\turl = ../within;as before',
    '[remote "origin"]\n\turl = ../\\\n\\\nwithin',
    '[remote "origin"]\n\turl = ".."/"with"in',
  ])('is seen where git sees it: %j', (settings) => {
    const { path, config } = workspaceWithSubmodule();
    writeFileSync(config, settings);
    const read = ['config', '--file', config, '--get-regexp', String.raw`\.(push)?url$`];
    expect(execFileSync('git', read, { encoding: 'utf8' })).toMatch(/url \.\.\/within$/m);
    expect(startsElsewhere('cd sub && git push', path)).toBe(true);
  });

  test('is none where git sees a remark', () => {
    const { path, config } = workspaceWithSubmodule();
    writeFileSync(config, '[remote "origin"] # url = ../within\n\turl = "/elsewhere;../within"\n');
    expect(startsElsewhere('cd sub && git push', path)).toBe(false);
  });
});

describe('it is decided in time', () => {
  test.each([
    ['empty lines', '\n'.repeat(20_000), false],
    ['remotes', Array.from({ length: 15_000 }, (_, at) => `url=${at}\n`).join(''), true],
  ])('about many pushes to a repository whose settings are many %s', async (_name, settings, expected) => {
    const { path, config } = workspaceWithSubmodule();
    writeFileSync(config, settings);
    const command = `cd sub; ${'git push;'.repeat(10)}`;
    let decided: boolean | null = null;
    const spent = await cpuMsOf(() => {
      decided = startsElsewhere(command, path);
    });
    expect(decided).toBe(expected);
    expect(spent).toBeLessThan(3000);
  });

  test('about pushes from many folders', async () => {
    const { path } = workspaceWithSubmodule();
    const folders = Array.from({ length: 40 }, (_, at) => 'a/'.repeat(at + 1));
    mkdirSync(join(path, folders.at(-1) ?? ''), { recursive: true });
    const command = `${folders.map((folder) => `cd ${folder};`).join('')}${'git push x y;'.repeat(100)}`;
    expect(await cpuMsOf(() => startsElsewhere(command, path))).toBeLessThan(3000);
  });
});
