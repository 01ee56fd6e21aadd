/** Which repository a command of git is about counts as well: the aliases and programs of another were never allowed. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
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
  for (const folder of ['src/deep', 'evil/objects', 'evil/refs', 'begun'])
    mkdirSync(join(workspacePath, folder), { recursive: true });
  // As the tool `write` could, which nobody is asked about in accept_edits.
  writeFileSync(join(workspacePath, 'evil/HEAD'), 'ref: refs/heads/main\n');
  for (const folder of ['evil', 'begun'])
    writeFileSync(
      join(workspacePath, folder, 'config'),
      '[core]\nrepositoryformatversion = 0\nbare = true\n[alias]\np = "!echo started"\n',
    );
  symlinkSync('evil', join(workspacePath, 'link'));
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
])('a command of git in the repository of the workspace is covered: %s', (command) => {
  const allowedTools = ['bash(git *)', 'bash(GIT_PAGER=cat git *)', 'bash(cd *)'];
  expect(bash(command, { allowedTools }).verdict).toBe('allow');
  const rules = [{ tool: 'bash', decision: 'deny', pattern: 'rm *' }] as const;
  expect(bash(command.replace('status', 'p'), { mode: 'bypass', rules }).verdict).toBe('allow');
});
