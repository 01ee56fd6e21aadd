// What git obeys in the repository of a workspace, while commands run in the sandbox and afterwards.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { bashTool } from '../tools/bash.ts';
import { createJobs } from '../tools/jobs.ts';
import { callTool, type TestWorkspace, testWorkspace } from '../tools/test-workspace.ts';
import { sandboxHere } from './test-sandbox.ts';

const found = await sandboxHere();
const sandbox = 'unavailable' in found ? null : found;
const when = test.skipIf(!sandbox);
const tool = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });

const run = (workspace: TestWorkspace, command: string) => callTool(tool, { command }, workspace.context());

/** As a person calls it, outside of the sandbox. */
function git(folder: string, ...args: readonly string[]): string {
  const identity = ['-c', 'user.name=x', '-c', 'user.email=x@example.com'];
  return execFileSync('git', [...identity, ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
}

function repository(): TestWorkspace {
  const workspace = testWorkspace();
  git(workspace.path, 'init', '-q');
  workspace.file('a.txt', 'x');
  git(workspace.path, 'add', '.');
  git(workspace.path, 'commit', '-q', '-m', 'first');
  return workspace;
}

/** In a command: a second folder of git whose settings start a program, which leaves the file `obeyed`. */
const planted = [
  'mkdir -p evil/objects evil/refs',
  `printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = %s/hook.sh\\n' "$PWD" > evil/config`,
  `printf '#!/bin/sh\\ntouch %s/obeyed\\n' "$PWD" > hook.sh && chmod +x hook.sh`,
].join(' && ');

describe('what the settings of git name in the workspace', () => {
  when.each([
    ['a folder of hooks', '.hooks', '.hooks/pre-commit'],
    ['the folder that the scripts of husky start from', '.husky/_', '.husky/pre-commit'],
    ['a folder of hooks that is not there yet', 'tools/git', 'tools/git/pre-commit'],
  ])('is not changed: %s (needs bubblewrap)', async (_what, folder, hook) => {
    const workspace = repository();
    git(workspace.path, 'config', 'core.hooksPath', folder);
    if (folder.startsWith('.')) workspace.file(hook, '#!/bin/sh\n');
    if (folder.endsWith('_')) {
      workspace.file(`${folder}/pre-commit`, `#!/bin/sh\nsh "$(dirname "$0")/../pre-commit"\n`);
      chmodSync(join(workspace.path, folder, 'pre-commit'), 0o755);
    }
    const above = dirname(hook);
    await run(
      workspace,
      [
        "printf '#!/bin/sh\\ntouch obeyed\\n' > hook.sh; chmod +x hook.sh",
        `mkdir -p ${above}; cp hook.sh ${hook}`,
        `mv ${above} away; mkdir -p ${above}; cp hook.sh ${hook}`,
        `mv ${dirname(above)} away; mkdir -p ${above}; cp hook.sh ${hook}`,
      ].join('\n'),
    );
    expect(existsSync(join(workspace.path, 'hook.sh'))).toBe(true);
    git(workspace.path, 'commit', '-q', '--allow-empty', '-m', 'second');
    expect(existsSync(join(workspace.path, 'obeyed'))).toBe(false);
    expect(existsSync(join(workspace.path, folder))).toBe(folder.startsWith('.'));
  });

  when('is not changed: a file of further settings (needs bubblewrap)', async () => {
    const workspace = repository();
    git(workspace.path, 'config', 'include.path', '../extra.config');
    await run(workspace, `${planted}; cp evil/config extra.config; echo done`);
    git(workspace.path, 'status');
    expect(existsSync(join(workspace.path, 'obeyed'))).toBe(false);
    expect(existsSync(join(workspace.path, 'extra.config'))).toBe(false);
  });

  when.each([
    ['behind a link', '.husky', (path: string) => symlinkSync('a.txt', join(path, '.husky'))],
    ['all of it', '.', () => undefined],
  ])('and cannot be protected has no command run: %s (needs bubblewrap)', async (_what, named, prepare) => {
    const workspace = repository();
    prepare(workspace.path);
    git(workspace.path, 'config', 'core.hooksPath', named);
    expect(await run(workspace, 'echo ran')).toMatchObject({
      is_error: true,
      content: expect.stringMatching(/settings of git name.* cannot protect/),
    });
  });

  when('elsewhere is nobody’s matter (needs bubblewrap)', async () => {
    const workspace = repository();
    git(workspace.path, 'config', 'core.hooksPath', join(workspace.path, '../hooks'));
    expect((await run(workspace, 'echo ran')).content).toContain('ran');
  });
});

describe('a command that sends git elsewhere for its settings', () => {
  when('is not obeyed while it runs, nor after it has closed the folder (needs bubblewrap)', async () => {
    const workspace = repository();
    const obeyed = join(workspace.path, 'obeyed');
    const attack = `${planted}; echo "$PWD/evil" > .git/commondir; chmod 555 .git; touch ready; until [ -e on ]; do sleep 0.1; done`;
    const slow = run(workspace, attack);
    await until(() => existsSync(join(workspace.path, 'ready')));
    git(workspace.path, 'status');
    expect(existsSync(obeyed)).toBe(false);
    workspace.file('on', '');
    await slow;
    git(workspace.path, 'status');
    expect(existsSync(obeyed)).toBe(false);
  });

  when('does not reach a checkout outside of the workspace (needs bubblewrap)', async () => {
    const workspace = repository();
    const checkout = join(dirname(workspace.path), 'checkout');
    git(workspace.path, 'worktree', 'add', '-q', checkout);
    const names = ['.git/worktrees/checkout', '.git/worktrees'];
    const moves = names.map((name) => `mv ${name} aside && cp -r aside ${name}`).join('; ');
    await run(
      workspace,
      `${planted}; ${moves}; echo "$PWD/evil" > .git/worktrees/checkout/commondir; git worktree prune`,
    );
    expect(git(checkout, 'status', '--short')).toBe('');
    expect(existsSync(join(workspace.path, 'obeyed'))).toBe(false);
  });

  when('does not reach a folder of git that lies elsewhere in the workspace (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    const { path } = workspace;
    mkdirSync(join(path, 'kept'));
    git(path, 'init', '-q', '--separate-git-dir', 'kept/bare');
    writeFileSync(join(path, '.git'), 'gitdir: ./kept/bare\n');
    const attack = [
      planted,
      'cp evil/config kept/bare/config',
      'echo "$PWD/evil" > kept/bare/commondir',
      'mv kept aside && cp -r aside kept && cp evil/config kept/bare/config',
      'echo "gitdir: ./evil" > .git',
    ].join('; ');
    await run(workspace, attack);
    git(path, 'status');
    expect(existsSync(join(path, 'obeyed'))).toBe(false);
    const output = await run(workspace, 'git add hook.sh && git status --short hook.sh');
    expect(output.content).toBe('A  hook.sh\n(Exit code 0.)');
  });

  when.each([
    ['larger than that of any folder', (back: string) => truncateSync(back, 400 * 1024 ** 2)],
    [
      'a pipe',
      (back: string) => {
        rmSync(back);
        execFileSync('mkfifo', [back]);
      },
    ],
  ])(
    'does not reach what git keeps for a checkout whose name there is %s (needs bubblewrap)',
    async (_kind, change) => {
      const workspace = repository();
      git(workspace.path, 'worktree', 'add', '-q', 'inner');
      const commondir = '.git/worktrees/inner/commondir';
      expect((await run(workspace, `touch ${commondir}`)).content).toBe('(no output)\n(Exit code 0.)');
      change(join(workspace.path, '.git/worktrees/inner/gitdir'));
      expect((await run(workspace, `touch ${commondir}`)).content).toContain('Read-only file system');
    },
  );

  when(
    'finds the settings of a worktree kept where those of git are too many to read (needs bubblewrap)',
    async () => {
      const workspace = repository();
      truncateSync(join(workspace.path, '.git/config'), 600 * 1024 ** 2);
      const { content } = await run(workspace, 'echo "[alias]" > .git/config.worktree');
      expect(content).toContain('Read-only file system');
    },
  );

  when('has written a `.git` that is too large to read: then none runs (needs bubblewrap)', async () => {
    const workspace = testWorkspace();
    // Git takes no notice of the lines behind, up to a megabyte.
    writeFileSync(join(workspace.path, '.git'), `gitdir: ./kept${'\n'.repeat(10_000)}`);
    expect(await run(workspace, 'echo ran')).toMatchObject({
      is_error: true,
      content: expect.stringContaining('too large for the name of a folder'),
    });
  });

  when('has been there before: then none runs (needs bubblewrap)', async () => {
    const workspace = repository();
    writeFileSync(join(workspace.path, '.git/commondir'), '../evil\n');
    expect(await run(workspace, 'echo ran')).toMatchObject({
      is_error: true,
      content: expect.stringContaining('sends git elsewhere'),
    });
  });
});

describe('what holds the place of names that do not exist', () => {
  when('leaves git as it is, inside and outside, and goes with the command (needs bubblewrap)', async () => {
    const workspace = repository();
    const commands = [
      'export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@example.com GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@example.com',
      'test -e .git/commondir',
      'echo y > b.txt && git add . && git commit -q -m second && git branch side',
      'git worktree add -q inner side && (cd inner && echo z > c.txt && git add . && git commit -q -m third)',
      'git worktree remove inner && git merge -q side && git stash list && git gc -q && git fsck',
      'git log --format=%s && git status --short && git rev-parse --git-dir',
    ];
    const output = await run(workspace, commands.join(' && '));
    expect(output.content).toBe('third\nsecond\nfirst\n.git\n(Exit code 0.)');
    expect(existsSync(join(workspace.path, '.git/commondir'))).toBe(false);
    expect(git(workspace.path, 'log', '--format=%s')).toBe('third\nsecond\nfirst\n');
  });

  when.each(['.\n', ''])('goes with the next command after a crash: %j (needs bubblewrap)', async (left) => {
    const workspace = repository();
    const common = join(workspace.path, '.git/commondir');
    writeFileSync(common, left);
    expect((await run(workspace, 'git status --short')).content).toBe('(no output)\n(Exit code 0.)');
    expect(existsSync(common)).toBe(false);
  });

  when('goes where the command cannot be started after all (needs bubblewrap)', async () => {
    const workspace = repository();
    // No user, root neither, finds anything behind a link to itself.
    symlinkSync('loop', join(workspace.path, 'loop'));
    const failing = await sandboxHere({ hiddenPaths: [join(workspace.path, 'loop/data')] });
    if ('unavailable' in failing) throw new Error(failing.unavailable);
    const wrapping = failing.wrap(['true'], { workspacePath: workspace.path, network: false });
    await expect(wrapping).rejects.toThrow('ELOOP');
    expect(readdirSync(workspace.path).toSorted()).toEqual(['.git', 'a.txt', 'loop']);
    expect(existsSync(join(workspace.path, '.git/commondir'))).toBe(false);
  });

  when('hides no answer where it cannot be taken away (needs bubblewrap)', async () => {
    const workspace = repository();
    const { path } = workspace;
    const slow = run(workspace, 'touch ready; until [ -e on ]; do sleep 0.1; done; echo done');
    await until(() => existsSync(join(path, 'ready')));
    // No user, root neither, finds anything behind a link to itself.
    renameSync(path, `${path}-moved`);
    symlinkSync(path, path);
    writeFileSync(join(`${path}-moved`, 'on'), '');
    expect((await slow).content).toBe('done\n(Exit code 0.)');
    rmSync(path);
    renameSync(`${path}-moved`, path);
    expect(readFileSync(join(path, '.git/commondir'), 'utf8')).toBe('.\n');
    expect((await run(workspace, 'git status --short -uno')).content).toBe('(no output)\n(Exit code 0.)');
    expect(readdirSync(path).toSorted()).toEqual(['.git', 'a.txt', 'on', 'ready']);
    expect(existsSync(join(path, '.git/commondir'))).toBe(false);
  });
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(20);
}
