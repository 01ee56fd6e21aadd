/** Which repository a command of git is about counts as well: the aliases and programs of another were never allowed. */
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
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PermissionMode, PermissionRule } from '../../contract/api.ts';
import { decide, type Verdict } from './permissions.ts';

let root = '';
let workspacePath = '';
beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'service-repositories-')));
  workspacePath = join(root, 'workspace');
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.com', ...args], { cwd: root });
  git('init', '-q', workspacePath);
  git('init', '-q', join(root, 'neighbour'));
  git('-C', workspacePath, 'commit', '-q', '--allow-empty', '-m', 'first');
  git('-C', workspacePath, 'worktree', 'add', '-q', join(workspacePath, 'checkout'));
  git('init', '-q', join(workspacePath, 'nested'));
  git('init', '-q', '--separate-git-dir', join(workspacePath, 'settings'), join(workspacePath, 'apart'));
  for (const folder of ['src/deep', 'evil/objects', 'evil/refs', 'evil/hooks', 'begun'])
    mkdirSync(join(workspacePath, folder), { recursive: true });
  // As the tool `write` could, which nobody is asked about in accept_edits.
  writeFileSync(join(workspacePath, 'evil/HEAD'), 'ref: refs/heads/main\n');
  for (const folder of ['evil', 'begun'])
    writeFileSync(
      join(workspacePath, folder, 'config'),
      '[core]\nrepositoryformatversion = 0\nbare = true\n[alias]\np = "!echo started"\n',
    );
  writeFileSync(join(workspacePath, 'evil/hooks/post-update'), '#!/bin/sh\necho the hook\n', { mode: 0o755 });
  writeFileSync(join(workspacePath, 'pointer'), 'gitdir: evil\n');
  // Git takes no notice of the lines behind, up to a megabyte.
  writeFileSync(join(workspacePath, 'large-pointer'), `gitdir: evil${'\n'.repeat(10_000)}`);
  symlinkSync('evil', join(workspacePath, 'link'));
  symlinkSync('evil/objects', join(workspacePath, 'link-below'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function bash(
  command: string,
  more: { mode?: PermissionMode; rules?: readonly PermissionRule[]; allowedTools?: readonly string[] },
  path = workspacePath,
): Verdict {
  const params = { command };
  const need = { action: 'execute', description: '', path, params } as const;
  const rest = { mode: 'ask', rules: [], allowedTools: [], hookAllows: false, grants: [] } as const;
  return decide({ name: 'bash', input: params }, need, { ...rest, workspacePath: path, ...more });
}

const elsewhere = [
  'git -C evil p',
  'git -C ./src/../evil p',
  'git -C src -C ../evil p',
  'git -C link p',
  'git -C evil/objects p',
  'git -C begun p',
  'git -C not-there p',
  'git -C apart p',
  'git -C nested p',
  'git -C ../neighbour p',
  'git -C $x p',
  'git --git-dir=evil p',
  'git --git-dir evil p',
  'git --no-pager -C evil p',
  'git --bare p',
  'timeout 5 git -C evil p',
  '/usr/bin/git -C evil p',
  'GIT_DIR=evil git p',
  'GIT_DIR=$x git p',
  'GIT_COMMON_DIR=evil git p',
  'GIT_CONFIG_GLOBAL=evil/config git p',
  'HOME=evil git p',
  'cd evil && git p',
  'cd -P -- evil; git p',
  'cd src; cd ../evil; git p',
  '(cd src); pushd evil; git p',
  'cd $x && git p',
  'git -C link-below/.. p',
  'cd -P link-below/.. && git p',
  'GIT_PAGER=cat cd evil && git p',
  'builtin cd evil && git p',
  'CDPATH=evil cd src && git p',
  'OLDPWD=evil; cd -; git p',
  'HOME=evil; git p',
  'export GIT_DIR=evil; git p',
  'declare -n x=HOME; x=evil; git p',
  'for HOME in evil; do true; done; git p',
  'env -C evil git p',
  'env -iCevil git p',
  'env --chdir=evil git p',
  'env --ch evil timeout 5 git p',
  'timeout 5 env -C evil git p',
  'sudo -D evil git p',
  'sudo -u x --chdir=evil git p',
  'unshare --wd=evil git p',
  'systemd-run --working-directory=evil git p',
  'bwrap --bind / / --chdir evil git p',
];

/** What runs in the folder stands in another script, or in front of more words. */
const around = [
  "env -C evil sh -c 'git p'",
  "GIT_DIR=evil sh -c 'git p'",
  "env GIT_DIR=evil sh -c 'git p'",
  "sudo --chdir=evil bash -c 'git p; true'",
  'find evil -maxdepth 0 -execdir git p ";"',
  'git --shallow-file x -C evil p',
];

describe('a command of git in another repository', () => {
  test('is one, as git has it', () => {
    const run = (...args: readonly string[]) =>
      execFileSync('git', args, { cwd: workspacePath, encoding: 'utf8', stdio: 'pipe' });
    expect(run('-C', 'evil', 'p')).toBe('started\n');
    expect(run('--git-dir=evil', 'p')).toBe('started\n');
    expect(run('-C', 'checkout', 'rev-parse', '--git-common-dir').trim()).toBe(join(workspacePath, '.git'));
  });

  test.each(elsewhere)('is covered by no pattern with a star: %s', (command) => {
    for (const mode of ['ask', 'accept_edits'] as const)
      for (const pattern of ['*', 'git *', 'git -C evil *'])
        expect(
          bash(command, { mode, allowedTools: [`bash(${pattern})`, 'bash(cd *)', 'bash(pushd *)'] }).verdict,
        ).toBe('ask');
  });

  test.each(elsewhere)('may be any command by an alias, as long as a rule denies one: %s', (command) => {
    const rules = [{ tool: 'bash', decision: 'deny', pattern: 'rm *' }] as const;
    expect(bash(command, { mode: 'bypass', rules }).verdict).toBe('deny');
    expect(bash(command.replace(/ p$/, ' status'), { mode: 'bypass', rules }).verdict).toBe(
      /[=C] ?\$x/.test(command) ? 'deny' : 'allow',
    );
  });

  test.each(around)('may be any command within another one: %s', (command) => {
    const rules = (pattern: string) => [{ tool: 'bash', decision: 'deny', pattern }] as const;
    expect(bash(command, { mode: 'bypass', rules: rules('rm *') }).verdict).toBe('deny');
    const status = command.replace(/ p\b/, ' status');
    expect(bash(status, { mode: 'bypass', rules: rules('rm *') }).verdict).toBe('allow');
    expect(bash(status, { mode: 'bypass', rules: rules('git status') }).verdict).toBe('deny');
  });

  test('is covered by a pattern for it alone, which a person is offered', () => {
    const command = 'git -C nested status';
    expect(bash(command, {})).toEqual({ verdict: 'ask', grants: [command] });
    expect(bash(command, { allowedTools: [`bash(${command})`] }).verdict).toBe('allow');
  });

  test('is every one where the workspace itself could be a repository that somebody wrote there', () => {
    const more = { allowedTools: ['bash(git *)'] };
    expect(bash('git p', more, join(workspacePath, 'evil')).verdict).toBe('ask');
    expect(bash('git p', more, join(workspacePath, 'apart')).verdict).toBe('allow');
    expect(bash('git init --separate-git-dir=begun x', more).verdict).toBe('ask');
    expect(bash('git clone --separate-git-dir begun . x', more).verdict).toBe('ask');
  });
});

test.each([
  'git status',
  'git -C . status',
  'git -C src status',
  'git -C src/deep -C .. log',
  'git -C checkout status',
  'git --work-tree=src status',
  'GIT_PAGER=cat git log',
  'cd src && git status',
  'cd src; cd deep; git status; cd ..',
  'git push',
  'git push origin main',
  'git push -u origin HEAD:refs/heads/src',
  'git push . HEAD:refs/heads/copy',
  'git push https://example.org/x.git main',
  'git push git@example.org:x/y.git main',
  'git -C checkout push origin main',
  'git -C src push origin main',
  'git fetch ./evil',
  'git clone ./evil copy',
  'git ls-remote ./evil',
  'git archive HEAD src',
  'git remote add origin https://example.org/x.git',
  'git remote -v',
  'git submodule add https://example.org/x.git ./libs/x',
])(
  'a command of git that works with the repository of the workspace alone, or reads from another, is covered: %s',
  (command) => {
    const allowedTools = ['bash(git *)', 'bash(GIT_PAGER=cat git *)', 'bash(cd *)'];
    expect(bash(command, { allowedTools }).verdict).toBe('allow');
    const rules = [{ tool: 'bash', decision: 'deny', pattern: 'rm *' }] as const;
    expect(bash(command.replace('status', 'p'), { mode: 'bypass', rules }).verdict).toBe('allow');
  },
);

test.each([
  'export FOO=1; git p',
  'FOO=1; git p',
  'sudo -u x git p',
  'env FOO=1 git p',
  'timeout -k 5 10 git p',
  'find . -exec git p ";"',
  'mkdir -p x && git p',
])('a command of git stays what it is behind others that lead nowhere else: %s', (command) => {
  const rules = [{ tool: 'bash', decision: 'deny', pattern: 'rm *' }] as const;
  expect(bash(command, { mode: 'bypass', rules }).verdict).toBe('allow');
});

const sending = [
  'git push ./evil HEAD:refs/heads/x',
  'git push evil HEAD:refs/heads/x',
  'git push -f link HEAD:refs/heads/x',
  'git push pointer HEAD:refs/heads/x',
  'git push large-pointer HEAD:refs/heads/x',
  'git push --repo=evil',
  'git push --repo evil',
  'git push -o some -- evil HEAD:refs/heads/x',
  'git push ./not-there',
  'git push ../neighbour main',
  'git push nested main',
  'git push $x main',
  'git push -- $x main',
  'git -C src push ./evil HEAD:refs/heads/x',
  'cd src && git push ./evil HEAD:refs/heads/x',
  'git send-pack ./evil HEAD:refs/heads/x',
  'git receive-pack evil',
  'git upload-archive evil',
  'git archive --remote=./evil HEAD',
  'git archive --format=x --remote evil HEAD',
  'git remote add x ./evil',
  'git remote add -f x evil',
  'git remote set-url --push origin ./evil',
  'git submodule set-url x ./evil',
];

describe('a repository that is sent to', () => {
  test('starts its hooks, and what its settings name, where one that is read from does not', () => {
    const run = (...args: readonly string[]) => {
      const { stderr, stdout } = spawnSync('git', args, { cwd: workspacePath, encoding: 'utf8' });
      return stderr + stdout;
    };
    for (const target of ['./evil', 'evil', `file://${workspacePath}/evil`, 'pointer', 'large-pointer'])
      expect(run('push', target, `HEAD:refs/heads/${Math.random()}`), target).toContain('the hook');
    for (const command of ['fetch', 'ls-remote']) expect(run(command, './evil')).not.toContain('the hook');
    // From the top of the work tree, wherever the command starts.
    expect(run('-C', 'src', 'push', './evil', 'HEAD:refs/heads/below')).toContain('the hook');
  });

  test.each([...sending, 'git push file://$workspace/evil main', 'git push $workspace/evil main'])(
    'is covered by no pattern with a star: %s',
    (form) => {
      const command = form.replace('$workspace', workspacePath);
      for (const pattern of ['*', 'git *', 'git push *'])
        expect(bash(command, { allowedTools: [`bash(${pattern})`, 'bash(cd *)'] }).verdict).toBe('ask');
      if (command.includes('$')) return;
      const plain = { allowedTools: [`bash(${command.replace('cd src && ', '')})`, 'bash(cd *)'] };
      expect(bash(command, plain).verdict).toBe('allow');
      const rules = [{ tool: 'bash', decision: 'deny', pattern: 'rm *' }] as const;
      expect(bash(command, { mode: 'bypass', rules }).verdict).toBe('allow');
    },
  );

  test('is covered by none where a remote of the workspace lies in it, under whichever name', () => {
    const path = join(root, 'with-remote');
    const git = (...args: readonly string[]) => execFileSync('git', args, { cwd: root });
    const remote = (url: string) => git('-C', path, 'config', 'remote.x.url', url);
    const push = (command: string) => bash(command, { allowedTools: ['bash(git *)'] }, path).verdict;
    git('init', '-q', path);
    git('init', '-q', '--bare', join(path, 'within'));
    for (const url of ['https://example.org/x.git', join(root, 'neighbour'), '../neighbour', '.']) {
      remote(url);
      expect(push('git push x main'), url).toBe('allow');
    }
    for (const url of ['within', './within', join(path, 'within'), './not-there', `file://${path}/within`]) {
      remote(url);
      for (const command of ['git push', 'git push x main', 'git archive --remote=x HEAD'])
        expect(push(command), url).toBe('ask');
      expect(push('git fetch x'), url).toBe('allow');
      expect(push('git archive HEAD'), url).toBe('allow');
    }
  });
});

describe('files that git obeys', () => {
  function write(file: string, path: string): Verdict['verdict'] {
    const need = { action: 'write', description: '', path, params: {}, file: join(path, file) } as const;
    const rest = { rules: [], allowedTools: [], hookAllows: false, grants: [] };
    const context = { ...rest, mode: 'accept_edits', workspacePath: path } as const;
    return decide({ name: 'write', input: { file_path: file } }, need, context).verdict;
  }

  test.each(['settings/config', 'settings/hooks/pre-commit', 'evil/config', 'evil/hooks/deep/x'])(
    'are those in a folder of git by whatever name: %s',
    (file) => {
      expect(write(file, workspacePath)).toBe('ask');
    },
  );

  test.each(['src/deep/HEAD', 'begun/config', 'HEAD', 'nested/src/config'])('are no others: %s', (file) => {
    expect(write(file, workspacePath)).toBe('allow');
  });

  test.each([
    ['a pointer', (path: string) => writeFileSync(join(path, '.git'), 'gitdir: .bare\n')],
    ['a link', (path: string) => symlinkSync('.bare', join(path, '.git'))],
  ])('lie also where %s in the place of .git leads, though there is no repository yet', (form, lead) => {
    const path = join(root, form.replace(' ', '-'));
    mkdirSync(path);
    lead(path);
    expect([write('.bare/config', path), write('.bar/config', path)]).toEqual(['ask', 'allow']);
  });

  test('may be any where the pointer cannot be read', () => {
    const path = join(root, 'unreadable');
    mkdirSync(path);
    writeFileSync(join(path, '.git'), `gitdir: .bare${'\n'.repeat(10_000)}`);
    expect(write('.bare/config', path)).toBe('ask');
  });

  test.each([
    ['core.hooksPath', '.husky', '.husky/pre-commit', 'husky/pre-commit'],
    ['core.hooksPath', './tools//git/', 'tools/git/post-merge', 'tools/make.ts'],
    // The scripts of husky there start what people write in the folder above.
    ['core.hooksPath', '.husky/_', '.husky/pre-commit', 'husky/pre-commit'],
    ['include.path', '../git.config', 'git.config', '.git.config'],
    ['includeIf.gitdir:/.path', '../git.config', 'git.config', 'config'],
  ])('are what its settings name, be they there or not: %s = %s', (setting, value, obeyed, other) => {
    const path = mkdtempSync(join(root, 'named-'));
    execFileSync('git', ['init', '-q', path]);
    execFileSync('git', ['-C', path, 'config', setting, value]);
    expect([write(obeyed, path), write(other, path)]).toEqual(['ask', 'allow']);
  });

  test('are named as git reads settings: capitals, quotation marks, joined lines, remarks', () => {
    const path = mkdtempSync(join(root, 'written-'));
    execFileSync('git', ['init', '-q', path]);
    writeFileSync(
      join(path, '.git/config'),
      '[branch "a]"] x = y\n[CORE] # hooksPath = no\n; hooksPath = no\n  HooksPath = ".hu\\\nsky" ; here\n[user]\nhooksPath=none\n',
    );
    expect(execFileSync('git', ['-C', path, 'config', 'core.hooksPath'], { encoding: 'utf8' })).toBe(
      '.husky\n',
    );
    expect(['.husky/x', 'no/x', 'none/x'].map((file) => write(file, path))).toEqual([
      'ask',
      'allow',
      'allow',
    ]);
  });

  test('lie behind a link as well as in it', () => {
    const path = mkdtempSync(join(root, 'linked-'));
    execFileSync('git', ['init', '-q', path]);
    execFileSync('git', ['-C', path, 'config', 'core.hooksPath', '.husky']);
    mkdirSync(join(path, 'real'));
    symlinkSync('real', join(path, '.husky'));
    expect(['.husky/pre-push', 'real/pre-push'].map((file) => write(file, path))).toEqual(['ask', 'ask']);
  });

  test('may be any where the settings are too many to read', () => {
    const path = mkdtempSync(join(root, 'many-'));
    execFileSync('git', ['init', '-q', path]);
    truncateSync(join(path, '.git/config'), 5 * 1024 ** 2);
    expect(write('src/a.ts', path)).toBe('ask');
  });
});
