/** What is decided about a tool call, and why: denials first, every part of a command, what people granted. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the shell's.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PermissionMode, PermissionRule } from '../../contract/api.ts';
import { cpuMsOf } from '../../test-cpu.ts';
import type { PermissionNeed } from '../tools/tool.ts';
import { decide, type PermissionContext, type Verdict } from './permissions.ts';
import { resourcePath } from './resource-path.ts';

let workspacePath = '';
beforeAll(() => {
  workspacePath = realpathSync(mkdtempSync(join(tmpdir(), 'service-decisions-')));
  mkdirSync(join(workspacePath, 'src'));
  writeFileSync(join(workspacePath, 'src/a.ts'), 'a');
  writeFileSync(join(workspacePath, 'notes.md'), 'n');
  symlinkSync('/etc', join(workspacePath, 'outside'));
  symlinkSync('src/a.ts', join(workspacePath, 'link'));
});
afterAll(() => rmSync(workspacePath, { recursive: true, force: true }));

type Case = Partial<Omit<PermissionContext, 'workspacePath'>>;

function context(more: Case): PermissionContext {
  return { mode: 'ask', rules: [], allowedTools: [], hookAllows: false, grants: [], ...more, workspacePath };
}

function bash(command: string, more: Case = {}): Verdict {
  const params = { command };
  const need = { action: 'execute', description: '', path: workspacePath, params } as const;
  return decide({ name: 'bash', input: params }, need, context(more));
}

function tool(
  name: string,
  need: Partial<PermissionNeed> | null,
  input: Record<string, unknown>,
  more: Case = {},
): Verdict {
  const whole =
    need && ({ action: 'execute', description: '', path: workspacePath, params: input, ...need } as const);
  return decide({ name, input }, whole, context(more));
}

const rule = (decision: PermissionRule['decision'], pattern?: string, name = 'bash'): PermissionRule => ({
  tool: name,
  decision,
  ...(pattern !== undefined && { pattern }),
});
const granted = (...patterns: (string | null)[]) =>
  patterns.map((pattern) => ({ toolName: 'bash', action: 'execute', pattern }));

describe('a pattern for commands', () => {
  test.each([
    ['git diff *', 'git diff', true],
    ['git diff *', 'git diff --stat a b', true],
    ['git diff *', 'git  "diff" \\--stat', true],
    ['git diff *', 'git diff $x', false],
    ['git diff *', 'git diff -- $x', true],
    ['git diff *', 'git diff --output=x', false],
    ['git diff *', 'git diff --outpu x', false],
    ['git diff --output=* *', 'git diff --output=x', true],
    ['git diff --output=x', 'git diff --output=x', true],
    ['git *', 'git archive -o x HEAD', false],
    ['git *', 'git commit -o x', true],
    ['git *', 'git log --oneline', true],
    ['git *', 'git fetch --upload-pack=./x .', false],
    ['git *', 'git submodule foreach ./x', false],
    ['git *', 'git grep -O./x a', false],
    ['git *', 'git grep -1O./x a', false],
    ['git *', 'git grep -1 O', true],
    ['git *', 'git clone -4u./x . y', false],
    ['git *', 'git clone -4c core.fsmonitor=./x . y', false],
    ['git *', 'git clone -4 . y', true],
    ['git *', 'git merge-file .git/config .git/config ./x', false],
    ['git merge-file *', 'git merge-file a b c', true],
    ['git *', 'git checkout-index -f --prefix=.git/hooks/ x', false],
    ['git *', 'git --work-tree=.git/hooks checkout HEAD -- x', false],
    ['git *', 'git --work-tree .git/hooks checkout HEAD -- x', false],
    ['git *', 'git --work-tree=src status', true],
    ['git *', "git remote-ext x './x'", false],
    ['git *', 'git submodule--helper foreach ./x', false],
    ['git *', 'git instaweb -d ./x', false],
    ['git *', 'git send-email --sendm=./x a', false],
    ['git *', 'git shell -c "git-receive-pack x"', false],
    ['git *', 'git mailsplit -o.git/hooks mbox', false],
    ['git *', 'git mailinfo .git/config /dev/null', false],
    ['git *', 'git credential-store --file=.git/config store', false],
    ['git *', 'git fast-import --export-pack-edges=x', false],
    ['git *', 'git rev-parse --git-dir', true],
    ['git *', 'git ls-files', true],
    ['git *', 'git -C src log', true],
    ['git *', 'git --version', true],
    ['git *', 'git lfs ls-files', true],
    ['git *', 'git fetch --upl ./x .', false],
    ['git *', 'git ls-remote --u=./x .', false],
    ['git clone *', 'git clone -u ./x . y', false],
    ['git clone *', 'git clone -qu ./x . y', false],
    ['git clone *', 'git clone -c core.fsmonitor=./x . y', false],
    ['git clone *', 'git clone --config core.fsmonitor=./x . y', false],
    ['git clone *', 'git clone --template=./t . y', false],
    ['git clone *', 'git clone --depth 1 https://example.com/x.git y', true],
    ['git *', 'git init --template ./t', false],
    ['git *', 'git config core.pager ./x', false],
    ['git *', 'git -C . config set --global core.pager ./x', false],
    ['git *', 'git config --add core.pager ./x', false],
    ['git *', 'git config $x ./x', false],
    ['git *', 'git config --comment user.name core.pager ./x', false],
    ['git *', 'git config set --comment user.name core.pager ./x', false],
    ['git *', 'git config --comment --get core.pager ./x', false],
    ['git *', 'git config --comment get core.pager ./x', false],
    ['git *', 'git config --comment -l core.pager ./x', false],
    ['git *', 'git config --global --comment --list core.pager ./x', false],
    ['git *', 'git config --file a --comment --get core.pager ./x', false],
    ['git *', 'git config core.pager --get ./x', false],
    ['git *', 'git config --global --get core.pager', true],
    ['git *', 'git config --file .gitmodules --get-regexp path', true],
    ['git *', 'git config --show-origin -l', true],
    ['git *', 'git config --local list', true],
    ['git *', 'git config --edit', false],
    ['git *', 'git config edit', false],
    ['git *', 'git config user.name Ada', true],
    ['git *', 'git config set --global user.email ada@example.com', true],
    ['git *', 'git config core.pager', true],
    ['git *', 'git config --get core.pager', true],
    ['git *', 'git config get core.pager', true],
    ['git *', 'git config --list', true],
    ['curl *', 'curl -sSLo x https://example.org', false],
    ['curl *', 'curl -XPOST https://example.org', true],
    ['curl *', 'curl -K x', false],
    ['sort *', 'sort -u -oa b', false],
    ['sort *', 'sort --compress-program ./x b', false],
    ['sort *', 'sort --co=./x -S 1k b', false],
    ['sort *', 'sort --com ./x b', false],
    ['less *', 'less --lesskey-src=x a', false],
    ['less *', 'less -Nkx a', false],
    ['less *', 'less -N -pfork a', true],
    ['sort *', 'sort -k2 b', true],
    ['find *', 'find . -newer a', true],
    ['find *', 'find . -delete', false],
    ['find *', 'find . -fprint a', false],
    ['sed *', 'sed -ni.bak s/a/b/ a', false],
    ['sed *', 'sed -n 1p a', true],
    ['sed *', "sed '1e ./x' a", false],
    ['sed *', "sed -n 'w x' a", false],
    ['sed *', 'sed s/a/b/e a', false],
    ['sed *', "sed 's/a/b/w x' a", false],
    ['sed *', 'sed -f x a', false],
    ['sed *', 'sed -nfx a', false],
    ['sed *', "sed -l 5 '1e ./x' a", false],
    ['sed *', "sed -l5 '1p' a", true],
    ['sed *', "sed --line-length 5 '1e ./x' a", false],
    ['sed *', "sed --quiet -E -u '1p' a", true],
    ['sed *', 'sed --fil=x a', false],
    ['sed *', "sed -e p -e 'e ./x' a", false],
    ['sed *', "sed --expression='e ./x' a", false],
    ['sed *', "sed -n '/a/{p;w x\n}' a", false],
    ['sed *', "sed 's/[/]e/b/' a", false],
    ['sed *', "sed 'r x' a", false],
    ['sed *', 'sed s/a/b/g a', true],
    ['sed *', "sed -n '1,5p' a", true],
    ['sed *', "sed -n '/a b/,/c/p;$p' a", true],
    ['sed *', "sed -e 's|/usr|/opt|gI' -e '$d' a", true],
    ['sed *', "sed -E 's/([a-z]+) x/\\1/; /^$/d' a", true],
    ['sed *', "sed '/a/{s/x/y/;p}' a", true],
    ['sed *', 'sed 10q a', true],
    ['tar *', 'tar -cI ./x -f a b', false],
    ['tar *', 'tar czf INFO.tgz b', true],
    ['npx *', "npx -c 'a b'", true],
    ['tmux *', "tmux new -d 'a b'", true],
    ['rsync *', "rsync -e 'ssh -p 22' a b:c", true],
    ['choom *', 'choom -n 0 rm x', false],
    ["sed 's/a/b/e' *", "sed 's/a/b/e' a", true],
    ['*', 'sort -o a b', true],
    ['LANG=C make', 'LANG=../x make', false],
    ['make', 'LANG=$x make', false],
    ['make', 'TZ=:/etc/passwd make', false],
    ['make', 'TZ=/etc/passwd make', false],
    ['make', 'TZ=../../x make', false],
    ['make', 'TZ=Europe/Berlin LC_ALL=de_DE.UTF-8@euro make', true],
    ['git diff *', 'git differ', false],
    ['git diff *', 'git diffx --stat', false],
    ['git diff *', 'git $x', false],
    ['git diff *', 'git $x diff', false],
    ['git diff *', './git diff', false],
    ['git diff *', 'PAGER=./x git diff', false],
    ['git diff *', 'LANG=C git diff', true],
    ['git diff *', 'git -c core.pager=./x diff', false],
    ['git *', 'git -c core.pager=./x diff', false],
    ['git *', 'git status', true],
    ['git', 'git status', false],
    ['git* *', 'github x', true],
    ['npm run test:*', 'npm run test:unit', true],
    ['npm run test:*', 'npm run test:unit --watch', false],
    ['npm run test:*', 'npm run testing', false],
    ['npm run test:* *', 'npm run test:unit --watch', true],
    ['npm * test', 'npm run test', true],
    ['npm * test', 'npm "$x" test', true],
    ['npm * test', 'npm $x test', false],
    ['npm * test', 'npm run run test', false],
    ["echo 'a b' *", 'make "a b"', false],
    ["make 'a b' \\*", 'make "a b" "*"', true],
    ["make 'a b' \\*", 'make "a b" c', false],
    ["make 'a", 'make a', true],
    ['*', 'rm -rf x > y', true],
    ['*', 'eval x', false],
    ['bash *', 'bash scripts/dev/check.sh', true],
    ['bash *', 'bash -c -- x', false],
    ['bash *', 'bash /dev/stdin', false],
    ['*', 'printf x | sh /proc/self/fd/0', false],
    ['timeout *', 'timeout 5 rm x', false],
    ['rm *', 'timeout 5 rm x', true],
    ['sudo *', 'sudo rm x', false],
    ['A=1 make', 'A=1 make', true],
    ['A=1 make', 'A=2 make', false],
    ['make', 'A=1 make', false],
    ['> build/*', 'echo x > build/a', true],
    ['> build/*', 'echo x >> build/a', true],
    ['> build/*', 'echo x > built', false],
    ['> build/*', 'echo x > $x', false],
    ['> build/*', 'echo x > build/../.git/config', false],
    ['> build/*', 'echo x > build/..', false],
    ['> build/*', 'echo x > build/a..b', true],
    ['> build/../out', 'echo x > build/../out', true],
    ['< build/*', 'cat x < build/../../secret', false],
    ['> *', 'echo x > build/../out', true],
    ['> *', 'make x', false],
    ['< /etc/hosts', 'wc -l < /etc/hosts', true],
    ['< /etc/hosts', 'wc -l < /etc/passwd', false],
  ])('%j, allowed, covers %j: %j', (pattern, command, covered) => {
    const verdict = covered ? 'allow' : 'ask';
    expect(bash(command, { rules: [rule('allow', pattern)] })).toMatchObject({ verdict });
    expect(bash(command, { allowedTools: [`bash(${pattern})`] })).toMatchObject({ verdict });
    expect(bash(command, { allowedTools: [`bash:execute(${pattern})`] })).toMatchObject({ verdict });
    expect(bash(command, { allowedTools: [`bash:write(${pattern})`] }).verdict).toBe('ask');
    expect(bash(command, { rules: [rule('allow', pattern)], mode: 'deny_unlisted' }).verdict).toBe(
      covered && !command.includes('echo') && !command.includes('wc') ? 'allow' : 'deny',
    );
  });

  const rules = [rule('allow', 'git *'), rule('allow', 'npm test')];
  test.each([
    'git status; rm x',
    'git status && rm x',
    'git status || rm x',
    'git status | rm x',
    'git status & rm x',
    'git status\nrm x',
    'git status `rm x`',
    'git status $(rm x)',
    'git status "$(rm x)"',
    'git status <(rm x)',
    'git status > x',
    'git status > ~/.bashrc',
    'git status >> .git/config',
    'git status 2> x',
    'git status &> x',
    'git status < /etc/passwd',
    'git status <<E\n$(rm x)\nE',
    'git status <<< $(rm x)',
    'A=$(rm x) git status',
    'GIT_PAGER=./x git log',
    'GIT_SSH_COMMAND=./x git fetch',
    'LD_PRELOAD=./x.so git log',
    'PATH=. git log',
    'PATH=.; git log',
    'export PATH=.; git log',
    'IFS=x; git log',
    'git() { rm x; }; git log',
    'alias git=rm; git x',
    'hash -p ./x git; git log',
    'eval "git status"',
    'xargs git status',
    'sudo git status',
    'env git status',
    'find . -exec git status {} ;',
    'if git status; then rm x; fi',
    'for i in 1; do rm x; done',
    '(rm x); git status',
    '{ rm x; }; git status',
    'coproc rm x; git status',
    '[[ -n $(rm x) ]] && git status',
    'echo $((a[$(rm x)])); git status',
    "a='x[$(rm x)]'; echo $((a)); git status",
    'git status\rrm x',
    'git\u00a0status',
    'git status (',
    'git status; "rm',
    `${'npm test; '.repeat(3000)}npm test`,
  ])('what else a command could do is asked about: %.70j', (command) => {
    expect(bash(command, { rules }).verdict).toBe('ask');
    expect(bash(command, { rules, mode: 'deny_unlisted' }).verdict).toBe('deny');
  });

  test('every part may be allowed by another hand', () => {
    const more = { rules: [rule('allow', 'a')], allowedTools: ['bash(b *)'], grants: granted('c') };
    expect(bash('a && b 1 2; c; ls src', more).verdict).toBe('allow');
    expect(bash('a && b 1 2; c x; ls src', more)).toEqual({ verdict: 'ask', grants: ['c x'] });
  });

  test('a rule without a pattern, the name alone in the settings, and bypass are for every command', () => {
    for (const more of [
      { rules: [rule('allow')] },
      { allowedTools: ['bash'] },
      { allowedTools: ['bash:execute'] },
      { mode: 'bypass' as const },
    ])
      expect(bash('eval "$x" > y', more).verdict).toBe('allow');
  });
});

describe('a rule that denies', () => {
  const everything = {
    mode: 'bypass' as PermissionMode,
    allowedTools: ['bash'],
    grants: granted('*'),
    hookAllows: true,
  };

  test.each([
    'rm x',
    'ls; rm x',
    'ls $(rm x)',
    '/bin/rm x',
    '\\rm x',
    "r''m x",
    "$'\\x72m' x",
    'A=1 rm x',
    'timeout 5 rm x',
    'sudo -u root rm x',
    'xargs rm',
    'find . -exec rm {} +',
    'bash -c "ls; rm x"',
    'eval "rm x"',
    'env A=1 rm x',
    // It could be that.
    '$cmd x',
    'bash -c "$x"',
    'eval "$x"',
    'curl x | sh',
    '. ./x',
    'rm x (',
    'ls\rrm x',
  ])('ends a command that has it in it, or could: %j', (command) => {
    const verdict = bash(command, { ...everything, rules: [rule('deny', 'rm *')] });
    expect(verdict).toMatchObject({ verdict: 'deny', reason: expect.stringContaining('denies bash(rm *)') });
  });

  test.each([
    'git -c alias.p=push p',
    'git --shallow-file x push',
    'git --attr-source HEAD push',
    'git -c core.pager="git push" log',
    'git --config-env=alias.p=X p',
    'git bisect run git push',
    'git rebase -x "git push" HEAD~2',
    'git submodule foreach "git push"',
    'env -S "git push"',
    'env -S"git push"',
    'env --split-string="git push"',
    'watch "git push"',
    'flock l -c "git push"',
    'flock l --command="git push"',
    'script -qc "git push" out',
    'su ada -c "git push"',
    'parallel "git push" ::: 1',
    'parallel git ::: push',
    'find . -exec sh -c "git push" \\;',
    'tar -I "git push" -cf a.tar b',
    "tar -cI 'git push' -f a.tar b",
    "tar cIf 'git push' a.tar b",
    "tar -czvF 'git push' -f a.tar b",
    "tar -cf a.tar --use-c='git push' b",
    "tar -xf a.tar --to-com='git push'",
    "tar -cf a.tar --checkpoint=1 --checkpoint-a='exec=git push' b",
    "man --pag='git push' ls",
    "man -aP 'git push' ls",
    "sed '1e git push' a",
    "sed 's/x/git push/e' a",
    "sed -n -e p -e '$!{/a/e git push\n}' a",
    "sed 's/x/git push/;w b' a -f c",
    'sed "s/x/$x/" a',
    `sed "$x" 's/x/git push/e' a`,
    'sudo sed "1e git push" a',
    'choom -n 0 git push',
    'ssh-agent git push',
    'systemd-cat -t x git push',
    'systemd-inhibit git push',
    'dbus-run-session -- git push',
    'start-stop-daemon -S -x /usr/bin/git -- push',
    'start-stop-daemon -S --exec=/usr/bin/git -- push',
    'pkexec git push',
    'run0 git push',
    'numactl -l git push',
    'xvfb-run git push',
    'tini -- git push',
    'gosu ada git push',
    'choom -n 0 -- bash -c "git push"',
    '/lib64/ld-linux-x86-64.so.2 /usr/bin/git push',
    '/lib/ld-musl-x86_64.so.1 --library-path /lib /usr/bin/git push',
    'perf stat -e cycles git push',
    'uv run git -P push',
    'npm exec -- git push',
    "npm exec -c 'git push'",
    "npx --call='cd x && git push'",
    'pnpm exec bash -c "git push"',
    "rsync -e 'git push' a b:c",
    "rsync -ae'git push' a b:c",
    "rsync --rsh='git push' a b:c",
    "socat - EXEC:'git push'",
    'tmux new -d git push',
    "tmux new -d 'cd x; git push'",
    `tmux new -d 'g"i"t push'`,
    'screen -dm git push',
    'gdb -ex "shell git push"',
    // The script is the next word that is no option.
    'bash -c -- "git push"',
    'bash -c -e "git push"',
    'sh -c - "git push"',
    'dash -ec -x -- "git push"',
    'zsh -c -e "git push"',
    'ksh -c -- "git push"',
    'bash -c -o pipefail "git push"',
    'bash -c +e -- "git push"',
    'pwsh -c git push',
    'fish -c -n "git push"',
    'timeout 5 bash -c -- "git push"',
    'xargs bash -c -- "git push"',
    'xargs bash -c x bash -c -- "git push"',
    'find . -exec bash -c -- "git push" \\;',
    'find . -exec bash -c x \\; -exec bash -c -e "git push" \\;',
    'sudo sh -c -e "git push"',
    'env bash -c -- "git push"',
    // Behind what starts it, git has options, too.
    'sudo git --no-pager push',
    'env git -c alias.p=push p',
    'find . -exec git -P push \\;',
    'find . -exec env git -c alias.p=push p \\;',
    'sudo find . -exec git -P push \\;',
    'echo push | xargs git -P',
    'sudo watch "git push"',
    'sudo env -S "git push"',
    'find . -exec flock l -c "git push" \\;',
    '/usr/lib/git-core/git-push',
    'sudo /usr/lib/git-core/git-push x',
    '/usr/lib/git-core/git -P push',
    // The shell's own commands are meant behind these two.
    'builtin eval "git push"',
    'command -p eval "git push"',
    'command -- builtin eval "git push"',
    'builtin source ./x',
    // They run a word, or compute one, in which a command may stand.
    "compgen -C 'git push' x",
    "compgen -W '$(git push)' x",
    "mapfile -C 'git push;' -c 1 < x",
    "history -s 'git push'; fc -s",
    'hash -p /usr/bin/git p; p push',
    "let 'a[$(git push)]=1'",
    "x='a[$(git push)]'; let x",
    "declare 'a[$(git push)]=1'",
    'x=\'a[$(git push)]=1\'; declare "$x"',
    "x='a[$(git push)]'; y[x]=1",
    "x='a[$(git push)]'; declare y[x]=1",
    "declare -i x='a[$(git push)]'",
    "declare -n x='a[$(git push)]'; x=1",
    "y='a[$(git push)]'; declare -n x=$y; x=1",
    "declare -a 'a=($(git push))'",
    "export -a 'a=([$(git push)]=1)'",
    "f() { local 'a[$(git push)]=1'; }; f",
    "printf -v 'a[$(git push)]' x",
    "printf '-va[$(git push)]' x",
    'x=\'-va[$(git push)]\'; printf "$x" y',
    "a=(1); unset 'a[$(git push)]'",
    "read 'a[$(git push)]' < x",
    "test -v 'a[$(git push)]'",
    "x='-v a[$(git<push)]'; [ $x ]",
    "x='-v a[$(git<push)]'; [ -f $x ]",
    'x=-v; [ "$x" \'a[$(git push)]\' ]',
    "sleep 0 & wait -n -p 'a[$(git push)]'",
    'exec {a[$(git push)]}>f',
    // Others run what stands in a variable.
    "PS4='$(git push)'; set -x; :",
    'EDITOR="git push" git commit',
    'EDITOR="git  push;:" git commit',
    'EDITOR=\'g"i"t push\' git commit',
    'export PAGER="git push"; git log',
    "LESSOPEN='|git push %s' less x",
    'env EDITOR="git push" git commit',
    'sudo EDITOR="git push" git commit',
    `EDITOR="${'x '.repeat(300)}git push" git commit`,
    // In a script of another shell, or for bash as POSIX has it, these quotes are letters.
    `sh -c 'x=1; echo "\${x-'"'"'}"; git push; echo "\${x-'"'"'}"'`,
    `set -o posix\nx=1; echo "\${x-'}"; git push; echo "\${x-'}"`,
    `POSIXLY_CORRECT=1\nx=1; echo "\${x-'}"; git push; echo "\${x-'}"`,
    // These files are what another command writes.
    'bash /dev/stdin <<< "git push"',
    'printf "git push" | bash /dev/stdin',
    'printf "git push" | bash //dev/./fd/0',
    'printf "git push" | sh ../../../dev/stdin',
    'printf "git push" | bash /proc/self/fd/0',
    'cd /dev/fd; printf "git push" | bash 0',
    'printf "git push" | xargs -0 bash /dev/stdin',
    'printf "git push" | sudo bash',
    'printf "git push" | find . -exec bash {} sh \\;',
  ])('ends one that another starts, in whatever word it stands: %j', (command) => {
    const verdict = bash(command, { ...everything, rules: [rule('deny', 'git push *')] });
    expect(verdict.verdict).toBe('deny');
  });

  test.each([
    'ls',
    'echo rm x',
    'git -c user.name=Ada -c color.ui=false log',
    'timeout 5 git commit -m "rm x"',
    'git rm x',
    'rmdir x',
    'echo $x',
    'for i in a b; do touch "$i"; done',
    'bash -c -e -- "echo rm x"',
    'sh scripts/dev/stdin.sh',
    'bash ./dev/check 2',
    'find . -exec sh -c \'echo "$1"\' sh {} \\;',
    'xargs sh -c \'echo "$@"\' sh',
    'find . -name eval -o -name source',
    'find . -exec cp {} . \\;',
    'sudo cp x .',
    'xargs cp -t .',
    'export PATH=$PWD/bin:$PATH FOO="$x"',
    'declare -A m=(); declare -a l=(a $x)',
    'declare -r x=$y; local z="$y"',
    'a[0]=1; echo "${a[0]}"',
    'printf "%s" "$x"; printf -- "%s" "$x"; printf -v x "%s" "$y"',
    '[ $? -eq 0 ]',
    '[ "$x" ]',
    '[ -n "$x" ]',
    '[ $# -gt 1 ]',
    'test -v name',
    'read -r line; read -p "Go on" answer; unset x "a[0]"',
    'let 1+1; wait; set -euo pipefail; fc -l',
    'EDITOR=true PAGER=cat git commit --amend',
    'MSG="do not rmdir it" URL="http://x.example/?a=1&b=2" npm test',
    'echo "${x:-\'default\'}"',
    'git-lfs rm x',
    "sed -n '1,5p' a",
    "sed -i '3a rm x' a",
    "sed -e '1i\\  rm x' -e '$d' a",
    "sed ':a;N;$!ba;s/\\n/ /g' a",
    "sed -n '/a/w rm x\n/b/r c' a",
    'sed -i s/a/b/ "$x"',
    'tar czf INFO.tgz LICENSE FILES',
    'tar -cfINFO.tar a',
    'tar -xf a.tar --totals --newer-mtime=x',
    'npm rm x',
    'npm run test -- -t "rm x"',
    'npx vitest "$x"',
    'uv run pytest "$x" "$y"',
    'rsync -ae \'ssh -p 22\' "$x" b:c',
    "tmux new -d 'npm run dev'",
    'ssh-agent -s',
  ])('leaves alone what cannot be it: %j', (command) => {
    expect(bash(command, { ...everything, rules: [rule('deny', 'rm *')] }).verdict).toBe('allow');
  });

  test('beats every allowance, with and without a pattern', () => {
    expect(
      bash('git push', { ...everything, rules: [rule('allow'), rule('deny', 'git push *')] }).verdict,
    ).toBe('deny');
    expect(bash('git -C a push', { ...everything, rules: [rule('deny', 'git push *')] }).verdict).toBe(
      'deny',
    );
    expect(bash('git $x', { ...everything, rules: [rule('deny', 'git push *')] }).verdict).toBe('deny');
    expect(bash('git log', { ...everything, rules: [rule('deny', 'git push *')] }).verdict).toBe('allow');
    expect(bash('ls', { ...everything, rules: [rule('deny')] }).verdict).toBe('deny');
    expect(bash('make > a', { ...everything, rules: [rule('deny', '> *')] }).verdict).toBe('deny');
  });

  test('is for other tools, too, needed or not a permission, by every name of a file', () => {
    const rules = [rule('deny', 'src/**', 'view'), rule('deny', 'src/**', 'write')];
    expect(tool('view', null, { file_path: 'src/a.ts' }, { rules }).verdict).toBe('deny');
    expect(tool('view', null, { file_path: 'link' }, { rules }).verdict).toBe('deny');
    expect(tool('view', null, { file_path: './notes.md' }, { rules }).verdict).toBe('allow');
    const need = {
      action: 'write',
      path: join(workspacePath, 'src'),
      file: join(workspacePath, 'src/a.ts'),
    } as const;
    expect(tool('write', need, { file_path: 'link' }, { rules, mode: 'accept_edits' }).verdict).toBe('deny');
    expect(
      tool(
        'mcp_github_push',
        {},
        {},
        { rules: [rule('deny', undefined, 'mcp_github_*')], allowedTools: ['mcp_github_push'] },
      ).verdict,
    ).toBe('deny');
  });
});

describe('patterns for other tools', () => {
  test.each([
    ['src/**', 'src/a.ts', true],
    ['src/**', 'src/b/c.ts', true],
    ['src/*', 'src/b/c.ts', false],
    ['**', 'src/b/c.ts', true],
    ['**', '/etc/hosts', false],
    ['*.md', 'notes.md', true],
    ['*.md', 'src/notes.md', false],
    ['**/*.md', 'notes.md', true],
    ['**/*.md', 'src/b/notes.md', true],
    ['**/a.ts', 'src/ba.ts', false],
    ['src/?.ts', 'src/a.ts', true],
    ['srcs/**', 'src/a.ts', false],
    ['/etc/**', '/etc/hosts', true],
    ['/etc/**', 'etc/hosts', false],
    ['src/[a].ts', 'src/a.ts', false],
  ])('%j covers the file %j: %j', (pattern, file, covered) => {
    const path = join(file.startsWith('/') ? '/' : workspacePath, file);
    const need = { action: 'write', path: join(path, '..'), file: path } as const;
    const verdict = covered ? 'allow' : 'ask';
    expect(tool('edit', need, { file_path: 'x' }, { rules: [rule('allow', pattern, 'edit')] })).toMatchObject(
      { verdict },
    );
    expect(tool('edit', need, { file_path: 'x' }, { allowedTools: [`edit(${pattern})`] })).toMatchObject({
      verdict,
    });
    expect(tool('write', need, { file_path: 'x' }, { allowedTools: [`edit(${pattern})`] }).verdict).toBe(
      'ask',
    );
  });

  test.each([
    ['https://example.org', 'https://example.org/a?b', true],
    ['https://example.org', 'http://example.org/', false],
    ['https://example.org', 'https://example.org:8443/', false],
    ['https://example.org', 'https://example.org.evil.net/', false],
    ['https://example.org', 'https://example.org@evil.net/', false],
    ['example.org', 'http://EXAMPLE.org:81/', true],
    ['example.org', 'https://www.example.org/', false],
    ['*.example.org', 'https://www.example.org/', true],
    ['*.example.org', 'https://example.org/', false],
    ['*.example.org', 'https://badexample.org/', false],
    ['example.org:81', 'https://example.org/', false],
    ['*', 'https://example.org/', true],
    ['https://example.org', 'https://example.org./', true],
    ['https://example.org.', 'https://example.org/', true],
    ['example.org', 'https://example.org./', true],
    ['example.org.', 'https://example.org/', true],
    ['*.example.org', 'https://www.example.org./', true],
    ['bücher.example', 'https://bücher.example/', true],
    ['BÜCHER.example', 'https://xn--bcher-kva.example./', true],
    ['*.bücher.example', 'https://a.bücher.example/', true],
    ['https://bücher.example', 'https://xn--bcher-kva.example/', true],
    ['bücher.example', 'https://bucher.example/', false],
    ['example.org:81', 'http://example.org.:81/', true],
    ['example.org:443', 'https://example.org/', true],
    ['example.org:443', 'http://example.org/', false],
    ['127.1', 'http://127.0.0.1/', true],
    ['[::1]', 'http://[0::1]:81/', true],
    ['[::1]:81', 'http://[::1]/', false],
    ['a@example.org', 'https://example.org/', false],
    ['*.', 'https://example.org./', false],
    ['https://example.org', 'ftp://example.org/', false],
    ['https://example.org', 'nonsense', false],
  ])('%j covers the address %j: %j', (pattern, url, covered) => {
    const verdict = covered ? 'allow' : 'ask';
    expect(
      tool('fetch', { action: 'fetch' }, { url }, { rules: [rule('allow', pattern, 'fetch')] }),
    ).toMatchObject({ verdict });
    expect(
      tool(
        'fetch',
        { action: 'fetch' },
        { url },
        { mode: 'bypass', rules: [rule('deny', pattern, 'fetch')] },
      ),
    ).toMatchObject({ verdict: covered ? 'deny' : 'allow' });
  });

  test.each([
    'https://example.org/a',
    'https://example.org/*',
    'https://example.org/a/../b',
    'https://example.org/?a',
    'https://example.org/#a',
    'https://ada@example.org/',
    'example.org/a',
    'example.org/*',
  ])('%j means less than its origin: it allows nothing, and denies all of that', (pattern) => {
    const need = { action: 'fetch' } as const;
    for (const url of ['https://example.org/a', 'https://example.org/b']) {
      const rules = (decision: 'allow' | 'deny') => ({ rules: [rule(decision, pattern, 'fetch')] });
      expect(tool('fetch', need, { url }, rules('allow')).verdict).toBe('ask');
      expect(tool('fetch', need, { url }, { allowedTools: [`fetch(${pattern})`] }).verdict).toBe('ask');
      expect(tool('fetch', need, { url }, { mode: 'bypass', ...rules('deny') }).verdict).toBe('deny');
    }
  });

  test.each([
    ['mcp_github_*', 'mcp_github_list', true],
    ['mcp_github_*', 'mcp_git', false],
    ['mcp_github_list', 'mcp_github_list_all', false],
    ['*', 'mcp_github_list', false],
  ])('the name %j means the tool %j: %j', (name, called, meant) => {
    expect(tool(called, {}, {}, { rules: [rule('allow', undefined, name)] }).verdict).toBe(
      meant ? 'allow' : 'ask',
    );
    expect(tool(called, {}, {}, { allowedTools: [`${name}:execute`] }).verdict).toBe(meant ? 'allow' : 'ask');
  });

  test('patterns and texts of any kind are compared in little time', async () => {
    const spent = await cpuMsOf(() => {
      const file = join(workspacePath, 'a/'.repeat(1000));
      tool(
        'edit',
        { action: 'write', path: file, file },
        {},
        { rules: [rule('allow', '**/*a'.repeat(200), 'edit')] },
      );
      bash(`make ${'a'.repeat(15_000)}`, { rules: [rule('allow', `make ${'*a'.repeat(900)}b`)] });
      // Each of these took from seconds to hours.
      const rules = [rule('deny', `${'* '.repeat(990)}b`), rule('deny', `${'a '.repeat(500)}b`)];
      for (const command of [
        `echo ${'{a,'.repeat(6000)}`,
        `echo ${'[a'.repeat(9000)}`,
        'make $x '.repeat(2000),
        `make ${'$x a '.repeat(2000)}`,
        `xargs ${'$x '.repeat(6000)}`,
        `${'nohup '.repeat(3000)}x`,
      ])
        bash(command, { rules });
    });
    expect(spent).toBeLessThan(10_000);
  });
});

describe('modes', () => {
  const actions = ['read', 'list', 'write', 'execute', 'fetch', 'download'] as const;
  const cases: readonly [PermissionMode, string][] = [
    ['ask', 'ask ask ask ask ask ask'],
    ['accept_edits', 'ask ask allow ask ask ask'],
    ['read_only', 'ask ask deny deny ask deny'],
    ['deny_unlisted', 'deny deny deny deny deny deny'],
    ['bypass', 'allow allow allow allow allow allow'],
  ];
  test.each(cases)('%s decides about each action', (mode, wanted) => {
    const input = { url: 'https://example.org/' };
    const verdicts = actions.map((action) => tool('some_tool', { action }, input, { mode }).verdict);
    expect(verdicts.join(' ')).toBe(wanted);
  });

  test('read_only denies what a list, a grant or a hook allows', () => {
    const more = {
      mode: 'read_only' as const,
      hookAllows: true,
      allowedTools: ['bash', 'download'],
      grants: granted('make'),
    };
    expect(bash('make', more).verdict).toBe('deny');
    expect(bash('ls', more).verdict).toBe('deny');
    expect(tool('download', { action: 'download' }, { url: 'https://example.org' }, more).verdict).toBe(
      'deny',
    );
  });

  test('accept_edits says nothing about files outside of the workspace', () => {
    expect(
      tool('write', { action: 'write', path: '/etc', file: '/etc/x' }, {}, { mode: 'accept_edits' }).verdict,
    ).toBe('ask');
  });
});

describe('files that programs obey', () => {
  test.each([
    '.git/hooks/pre-commit',
    '.GIT/config',
    'packages/one/.git/hooks/pre-push',
    '.git/modules/one/config',
    'service.json',
    '.service/agents/a.md',
  ])('%s is written by nobody’s leave but one for it', (name) => {
    const file = join(workspacePath, name);
    const need = { action: 'write', path: join(file, '..'), file } as const;
    expect(tool('write', need, {}, { mode: 'accept_edits' }).verdict).toBe('ask');
    const grants = [null, '**', '.git/**', '.git/hooks/**', `${name}/**`].map((pattern) => ({
      toolName: 'write',
      action: 'write',
      pattern,
    }));
    expect(tool('write', need, {}, { grants })).toEqual({ verdict: 'ask', grants: [name] });
    const own = [{ toolName: 'write', action: 'write', pattern: name }];
    expect(tool('write', need, {}, { grants: own }).verdict).toBe('allow');
    const hosts = { rules: [rule('allow', 'example.org', 'download')] };
    const download = { ...need, action: 'download' } as const;
    expect(tool('download', download, { url: 'https://example.org/a' }, hosts).verdict).toBe('ask');
    expect(tool('write', need, {}, { rules: [rule('allow', undefined, 'write')] }).verdict).toBe('allow');
  });

  test.each(['.gitignore', '.github/a.yml', 'src/service.json', 'services/a', '.services'])(
    '%s is a file like others',
    (name) => {
      const file = join(workspacePath, name);
      const need = { action: 'write', path: join(file, '..'), file } as const;
      expect(tool('write', need, {}, { mode: 'accept_edits' }).verdict).toBe('allow');
    },
  );
});

test('the program of a folder is another one in another folder', () => {
  const rules = [rule('allow', './test.sh *'), rule('allow', 'bin/*'), rule('allow', 'cd *')];
  expect(bash('./test.sh a && bin/x', { rules }).verdict).toBe('allow');
  for (const command of [
    'cd evil && ./test.sh',
    'cd evil; A=1 ./test.sh',
    '(cd evil; bin/x)',
    'cd evil && /test.sh',
  ])
    expect(bash(command, { rules }).verdict).toBe('ask');
  expect(bash('cd evil && npm test', { rules: [...rules, rule('allow', 'npm test')] }).verdict).toBe('allow');
});

test('a write by an option is allowed as a redirected one is, and denied as one', () => {
  const rules = [rule('allow', 'git diff *'), rule('allow', '> build/*')];
  expect(bash('git diff --output=build/a', { rules }).verdict).toBe('allow');
  expect(bash('git diff --output build/a', { rules }).verdict).toBe('allow');
  expect(bash('git diff --output=a', { rules }).verdict).toBe('ask');
  expect(bash('git diff --output=build/../a', { rules }).verdict).toBe('ask');
  expect(
    bash('git -C src diff --output=build/a', { rules: [...rules, rule('allow', 'git *')] }).verdict,
  ).toBe('ask');
  expect(
    bash('cd src; git diff --output=build/a', { rules: [...rules, rule('allow', 'cd *')] }).verdict,
  ).toBe('ask');
  const denied = { rules: [rule('deny', '> .git/**')], mode: 'bypass' as const };
  expect(
    bash('git diff --output=.git/x', { rules: [rule('deny', '> .git/*')], mode: 'bypass' }).verdict,
  ).toBe('deny');
  expect(bash('git diff --stat', denied).verdict).toBe('allow');
  expect(bash('git diff --output=a')).toEqual({ verdict: 'ask', grants: ['git diff --output=a'] });
  expect(bash('git diff --output=a', { grants: granted('git diff --output=a') }).verdict).toBe('allow');
});

describe('what only shows', () => {
  test.each([
    'ls',
    'ls -la src',
    'cat src/a.ts notes.md link',
    'cat src/../notes.md ./src/a.ts',
    'cat -n src/a.ts | head -20 | tail -n 5',
    'head -c 10 notes.md; wc -l notes.md',
    'grep -rn "a.*b" src',
    'grep -e a -e b "--include=*.ts" -r src',
    "sed -n '1,20p' src/a.ts",
    'find . -name "*.ts" -type f -maxdepth 2',
    'find src ! -name a -print',
    'echo "$HOME" && pwd && true',
    'echo a 2>&1 > /dev/null',
    'sort -u notes.md | uniq -c | cut -d: -f1',
    'diff -u notes.md src/a.ts',
    'wc -l < notes.md',
    'test -f notes.md && echo yes || echo no',
    '[ "$x" = a ] || [ -d src ]',
    '[ ! -e nothing-there ] && [ -n "$x" ]',
    'test src/a.ts -nt notes.md -o -s notes.md',
    '[[ -f notes.md && "$x" = a ]] && echo yes',
    'LC_ALL=C sort notes.md',
    'TZ=Europe/Berlin date',
    'which node',
    'a=$(cat notes.md); echo "$a"',
    'cat notes.md | while read -r line; do echo "$line"; done',
    'for i in 1 2 3; do echo "$i"; done',
    'set -euo pipefail; ls',
    'cat <<E\n$(pwd)\nE',
    'stat -c %s notes.md',
    'timeout 5 ls',
    "date '+%F %T'",
    'date -u +%s',
    'echo $((1 + 2))',
    'echo "exit: $?"; [ $? -eq 0 ] && echo $?',
    '[ "$x" ] && printf -- "%s" "$x"',
  ])('%j needs nobody', (command) => {
    expect(bash(command).verdict).toBe('allow');
    expect(bash(command, { mode: 'deny_unlisted' }).verdict).toBe('deny');
    expect(bash(command, { mode: 'read_only' }).verdict).toBe('deny');
    expect(bash(command, { rules: [rule('deny')] }).verdict).toBe('deny');
  });

  test.each([
    'cat /etc/passwd',
    'cat ../x',
    '[ -r /etc/shadow ]',
    '[ -e outside/shadow ]',
    '[ -e nowhere/else ]',
    'test /etc/passwd -nt notes.md',
    'test notes.md -ot /etc/passwd',
    '[ a = b -o -r /etc/shadow ]',
    '[ ! -x /root ]',
    '[ ! -nt /etc/passwd ]',
    '[ -d "$y" ]',
    '[ "$x" -a "$y" ]',
    '[[ -r /etc/shadow ]]',
    '[[ ! ( a = b || /etc/passwd -nt notes.md ) ]]',
    '[[ -d $y ]]',
    'which /root/bin/tool',
    'diff src outside',
    'diff src src',
    'LANG=../../x cat notes.md',
    'LANGUAGE=/x ls',
    'LC_MESSAGES=$x ls',
    'TZ=:/etc/shadow date',
    'cat ~/.ssh/id_rsa',
    'cat outside/passwd',
    // Behind a link `..` is the folder above of where it leads.
    'cat outside/../notes.md',
    'wc < outside/../notes.md',
    'find outside/../src -name x',
    '[ -e outside/../notes.md ]',
    'ls outside',
    'ls -L',
    'ls *',
    'cat *',
    'cat $x',
    'cat "$x"',
    'cat nothing-there',
    'cat src/a.ts > b',
    'wc < /etc/passwd',
    'head --lines=1 /etc/passwd',
    'grep -r x outside',
    'grep -R x .',
    'grep -f /etc/passwd notes.md',
    'grep --file=/etc/passwd notes.md',
    'grep $x notes.md',
    'sort -o notes.md notes.md',
    'sort --output=x notes.md',
    'sort --outp=x notes.md',
    'sort --compress-program=./x notes.md',
    'sort -T x notes.md',
    'uniq notes.md out',
    'sed -i s/a/b/ notes.md',
    "sed -n '1e id' notes.md",
    "sed -n 'w x' notes.md",
    "sed '1p' notes.md",
    'find . -delete',
    'find . -exec rm {} +',
    'find . -fprint x',
    'find . -name $x',
    'find / -name x',
    'find outside -name x',
    'find -L . -name x',
    'find . -newer /etc/passwd',
    'date -s 12:00',
    'date 11281200',
    'date +%F 11281200',
    'diff -r notes.md outside',
    'echo *',
    'echo /etc/*',
    'echo $x',
    'echo `cat /etc/passwd`',
    'printf -v a b',
    'git status',
    'git diff --output=x',
    'tail -f notes.md',
    'tee x',
    'awk 1 notes.md',
    'which -a $x',
    './ls',
    'cd outside && cat passwd',
    'cd / && ls',
    'ls; pushd /',
    'LD_PRELOAD=./x.so ls',
    'PATH=. ls',
    'ls -w$x',
    'cat -- -x',
    'toString',
    'constructor x',
  ])('%j is asked about', (command) => {
    expect(bash(command).verdict).toBe('ask');
  });

  test('a program of that name in the workspace is not that program', () => {
    const bin = join(workspacePath, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'ls'), '#!/bin/sh\n', { mode: 0o755 });
    const before = process.env.PATH;
    try {
      for (const path of [`${bin}:${before}`, `.:${before}`, `:${before}`]) {
        process.env.PATH = path;
        expect(bash('ls').verdict).toBe('ask');
        expect(bash('echo a').verdict).toBe('allow');
      }
      process.env.PATH = `${before}:${bin}`;
      expect(bash('ls').verdict).toBe('allow');
    } finally {
      process.env.PATH = before;
    }
  });
});

describe('what a lasting answer remembers', () => {
  test.each([
    ['npm test', ['npm test']],
    ['npm test && npm run "a b"', ['npm test', "npm run 'a b'"]],
    ['npm test; npm test', ['npm test']],
    ['ls; npm test', ['npm test']],
    ["make 'it'\\''s' \"*\"", ["make 'it'\\''s' '*'"]],
    ['A=1 npm test', ['A=1 npm test']],
    ['npm test > out.log 2>&1', ['npm test', '> out.log']],
    ["'>' x", ["'>' x"]],
    ['timeout 5 npm test', ['npm test']],
    // What cannot be remembered without remembering more.
    ['npm test $x', []],
    ['npm test *', []],
    ['echo rm | sh', []],
    ['echo 1 | python3', []],
    ['python3 < a.py', []],
    ['python3 <<E\nx\nE', []],
    ['eval x', []],
    ['npm test && $x', []],
    ['cd src && make > out', []],
    ['cd src && ./make', []],
    ['cd src && A=1 ./make', []],
    ['cd src && /opt/make', ['cd src', '/opt/make']],
    ['sudo npm test', []],
    [Array.from({ length: 30 }, (_, index) => `make ${index}`).join('; '), []],
    [`make ${'a'.repeat(3000)}`, []],
  ])('of %.60j: %j', (command, grants) => {
    expect(bash(command)).toEqual({ verdict: 'ask', grants });
    if (grants.length === 0) return;
    expect(bash(command, { grants: granted(...grants) }).verdict).toBe('allow');
    expect(bash(`${command}; rm x`, { grants: granted(...grants) }).verdict).toBe('ask');
  });

  test('a command that was granted is not granted with an input of its own', () => {
    const grants = granted('python3', 'python3 -', 'psql');
    expect(bash('python3', { grants }).verdict).toBe('allow');
    for (const command of [
      'echo x | python3',
      'python3 <<< x',
      'python3 < notes.md',
      'echo x | { python3 -; }',
      'cat notes.md | (ls; psql)',
    ])
      expect(bash(command, { grants }).verdict).toBe('ask');
  });

  test('a grant for every command, given before there were patterns, counts no more; one for files does, inside', () => {
    expect(bash('make', { grants: granted(null) }).verdict).toBe('ask');
    const grants = [{ toolName: 'write', action: 'write', pattern: null }];
    expect(tool('write', { action: 'write' }, {}, { grants }).verdict).toBe('allow');
    expect(tool('write', { action: 'write', path: '/etc', file: '/etc/x' }, {}, { grants }).verdict).toBe(
      'ask',
    );
  });

  test('of a file its folder, of an address its origin, of another tool the tool', () => {
    const write = {
      action: 'write',
      path: join(workspacePath, 'src'),
      file: join(workspacePath, 'src/a.ts'),
    } as const;
    expect(tool('write', write, {})).toEqual({ verdict: 'ask', grants: ['src/**'] });
    expect(tool('write', { action: 'write' }, {})).toEqual({ verdict: 'ask', grants: ['**'] });
    expect(tool('view', { action: 'read', path: '/etc', file: '/etc/x' }, {})).toEqual({
      verdict: 'ask',
      grants: ['/etc/**'],
    });
    expect(tool('ls', { action: 'list', path: '/' }, {})).toEqual({ verdict: 'ask', grants: ['/**'] });
    expect(tool('fetch', { action: 'fetch' }, { url: 'https://example.org/a' })).toEqual({
      verdict: 'ask',
      grants: ['https://example.org'],
    });
    expect(tool('mcp_a_b', {}, { path: 'x', command: 'y' })).toEqual({ verdict: 'ask', grants: ['*'] });
  });

  test('an address that is allowed may not be saved anywhere on the machine', () => {
    const more = { rules: [rule('allow', 'example.org', 'download')] };
    const url = 'https://example.org/a';
    expect(tool('download', { action: 'download' }, { url }, more).verdict).toBe('allow');
    expect(tool('download', { action: 'download', path: '/etc' }, { url }, more)).toEqual({
      verdict: 'ask',
      grants: [],
    });
  });

  test('letters of a folder that mean more in a pattern mean themselves', () => {
    const path = join(workspacePath, 'a*b?\\');
    const need = { action: 'write', path, file: join(path, 'x') } as const;
    const verdict = tool('write', need, {});
    const grants = (verdict.verdict === 'ask' ? verdict.grants : []).map((pattern) => ({
      toolName: 'write',
      action: 'write',
      pattern,
    }));
    expect(tool('write', need, {}, { grants }).verdict).toBe('allow');
    const other = join(workspacePath, 'aXbY\\');
    expect(tool('write', { ...need, path: other, file: join(other, 'x') }, {}, { grants }).verdict).toBe(
      'ask',
    );
  });
});

test('what a hook allows stands in for a person, and neither for a mode nor against a rule', () => {
  expect(bash('eval x', { hookAllows: true }).verdict).toBe('allow');
  expect(bash('eval x', { hookAllows: true, mode: 'deny_unlisted' }).verdict).toBe('deny');
  expect(bash('eval x', { hookAllows: true, rules: [rule('deny', 'x')] }).verdict).toBe('deny');
});

describe('what an MCP server has to read', () => {
  const need = (server: string, uri: string) =>
    ({ action: 'read', path: resourcePath(server), file: resourcePath(server, uri) }) as const;
  const read = (server: string, uri: string, more: Case = {}) =>
    tool('read_mcp_resource', need(server, uri), { server, uri }, more);

  test('is granted for its server, and for no other', () => {
    expect(read('docs', 'file:///a/b')).toEqual({ verdict: 'ask', grants: ['/mcp/docs/**'] });
    const grants = ['/mcp/docs/**'].map((pattern) => ({
      toolName: 'read_mcp_resource',
      action: 'read',
      pattern,
    }));
    expect(read('docs', 'file:///c', { grants }).verdict).toBe('allow');
    for (const [server, uri] of [
      ['mail', 'file:///a/b'],
      ['docs2', 'x'],
      ['..', 'docs/x'],
      ['mail', '../docs/x'],
    ] as const)
      expect(read(server, uri, { grants }).verdict).toBe('ask');
    // What was remembered before there were such paths.
    const old = ['**', '*', null].map((pattern) => ({
      toolName: 'read_mcp_resource',
      action: 'read',
      pattern,
    }));
    expect(read('docs', 'file:///a/b', { grants: old }).verdict).toBe('ask');
  });

  test.each([
    ['/mcp/docs/**', 'docs', 'file:///a', true],
    ['/mcp/docs/file%3A%2F%2F%2Fa', 'docs', 'file:///a', true],
    ['/mcp/docs/file%3A%2F%2F%2Fa', 'docs', 'file:///b', false],
    ['/mcp/docs/file%3A*', 'docs', 'file:///b', true],
    ['/mcp/docs/*', 'docs', '..', true],
    ['/mcp/*', 'docs', '..', false],
    ['**', 'docs', 'file:///a', false],
  ])('the rule %j covers, of the server %j, %j: %j', (pattern, server, uri, covered) => {
    const rules = (decision: 'allow' | 'deny') => [rule(decision, pattern, 'read_mcp_resource')];
    expect(read(server, uri, { rules: rules('allow') }).verdict).toBe(covered ? 'allow' : 'ask');
    expect(read(server, uri, { rules: rules('deny'), mode: 'bypass' }).verdict).toBe(
      covered ? 'deny' : 'allow',
    );
  });

  test('is listed unless a rule denies that for its server', () => {
    const rules = [rule('deny', '/mcp/mail/**', 'list_mcp_resources')];
    expect(tool('list_mcp_resources', null, { server: 'mail' }, { rules }).verdict).toBe('deny');
    expect(tool('list_mcp_resources', null, { server: 'docs' }, { rules }).verdict).toBe('allow');
  });
});
