/** Which commands a shell command could run, held against what bash itself runs. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the shell's.
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandPart, commandParts } from './command-parts.ts';

/** A command as its words, `?` for one that is not known yet and `??` for any number of them; files behind `>` and `<`. */
function shown({ kind, words, obscure, fed }: CommandPart): string {
  const sign = { command: '', read: '< ', write: '> ' }[kind];
  const texts = words.map(({ text, many }) => text ?? (many ? '??' : '?'));
  return `${fed ? '| ' : ''}${sign}${texts.join(' ')}${obscure === null ? '' : ' !'}`;
}

const partsOf = (command: string) => commandParts(command).parts.map(shown);

describe('the parts of a command', () => {
  test.each([
    ['ls; rm x', ['ls', 'rm x']],
    ['ls && rm x || id', ['ls', 'rm x', 'id']],
    ['ls & rm x', ['ls', 'rm x']],
    ['ls\nrm x', ['ls', 'rm x']],
    ['ls | rm x', ['ls', '| rm x']],
    ['ls |& rm x', ['ls', '| rm x']],
    ['! rm x', ['rm x']],
    ['time -p rm x', ['rm x']],
    ['ls `rm x`', ['ls ??', 'rm x']],
    ['ls `echo \\`rm x\\``', ['ls ??', 'echo ??', 'rm x']],
    ['echo "a $(rm x) b"', ['echo ?', 'rm x']],
    ['echo "$(echo "$(rm x)")"', ['echo ?', 'echo ?', 'rm x']],
    ['cat <(rm x)', ['cat ?', 'rm x']],
    ['cat > >(rm x)', ['cat', '> ?', '| rm x']],
    ['cat <<E\n$(rm x)\nE', ['| cat', '| rm x']],
    ["cat <<'E'\n$(rm x)\nE", ['| cat']],
    ["cat <<E\n${x:-$(rm x)} it's\nE", ['| cat', '| rm x']],
    ['cat <<-E; rm x\n\tfoo\n\tE', ['| cat', 'rm x']],
    ['cat <<< $(rm x)', ['| cat', '| rm x']],
    ['(rm x)', ['rm x']],
    ['{ rm x; }', ['rm x']],
    ['if a; then b; elif c; then d; else e; fi', ['a', 'b', 'c', 'd', 'e']],
    ['for i in $(rm x); do ls; done', ['rm x', 'ls']],
    ['while rm x; do ls; done', ['rm x', 'ls']],
    ['until rm x; do ls; done', ['rm x', 'ls']],
    ['case $(rm x) in $(id)) ls;; *) pwd;& esac', ['rm x', 'id', 'ls', 'pwd']],
    ['select i in $(rm x); do ls; done', ['rm x', 'ls']],
    ['[[ -n $(rm x) ]]', ['rm x']],
    ['echo ${a:-$(rm x)} ${a/b/`id`}', ['echo ?? ??', 'rm x', 'id']],
    ['a=$(rm x)', ['rm x']],
    ['a=(1 $(rm x))', ['rm x']],
    ['A=$(rm x) ls', ['? ls', 'rm x']],
    ['> $(rm x)', ['> ??', 'rm x']],
    ['ls > ~/.bashrc', ['ls', '> ?']],
    ['ls >> a 2> b &> c', ['ls', '> a', '> b', '> c']],
    ['ls >| a <> b', ['| ls', '> a', '< b', '> b']],
    ['ls >& a', ['ls', '> a']],
    ['ls 2>&1 >/dev/null 2>&-', ['ls']],
    ['cat < /etc/passwd', ['| cat', '< /etc/passwd']],
    ['echo $(< a)', ['echo ??', '< a']],
    ['{ rm x; } > a', ['rm x', '> a']],
    ['a | while read b; do c; done', ['a', '| read b', '| c']],
    ['echo a | { b; (c); }', ['echo a', '| b', '| c']],
    // What the letters hide.
    ["r'm' x", ['rm x']],
    ['r""m x', ['rm x']],
    ['\\rm x', ['rm x']],
    ['r\\\nm x', ['rm x']],
    ["$'\\x72\\155' x", ['rm x']],
    ['"rm" "a b"', ['rm a b']],
    ['/bin/rm x', ['/bin/rm x']],
    ['ls # ; rm x', ['ls']],
    ['ls a#b; rm x', ['ls a#b', 'rm x']],
    ['ls \\# ; rm x', ['ls #', 'rm x']],
    ['ls *.md', ['ls ??']],
    ['ls "*.md"', ['ls *.md']],
    ['ls {a,b}', ['ls ??']],
    ['ls ~/x a=~', ['ls ? ?']],
    ['ls $x "$x" "$@"', ['ls ?? ? ??']],
    ['FOO=1 LANG=C ls', ['FOO=1 ls']],
    ['PATH+=:. ls', ['PATH+=:. ls']],
    ['LD_PRELOAD=./x.so ls', ['LD_PRELOAD=./x.so ls']],
    ['GIT_PAGER=./x git log', ['GIT_PAGER=./x git log']],
    ["printf '%%n %s%%\\n' a", ['printf %%n %s%%\\n a']],
    // What wraps another command.
    ['timeout 5 git status', ['git status']],
    ['nohup nice -n 5 git status', ['git status']],
    ['command git status', ['git status']],
    ['command -v git', ['command -v git']],
    ['env', ['env']],
  ])('%j are %j', (command, parts) => {
    expect(partsOf(command)).toEqual(parts);
    expect(commandParts(command)).toMatchObject({ obscure: null, anything: false });
  });

  test.each([
    '$cmd x',
    '"$cmd" x',
    '{rm,-rf,x}',
    'r* x',
    'rm${IFS}x',
    '~/bin/x',
    '""',
    'eval "rm x"',
    'eval $x',
    'source ./x',
    '. ./x',
    'exec rm x',
    'exec < x',
    'builtin eval x',
    'command -p rm x',
    'env rm x',
    'env -i rm x',
    'sudo rm x',
    'xargs rm',
    'a | xargs',
    'find . -exec rm {} +',
    'find . -name a -ok rm {} \\;',
    'bash -c "rm x"',
    'bash -lc "rm x"',
    'sh',
    'sh -s x',
    'sh -',
    'bash --rcfile x',
    '/bin/sh -c x',
    'busybox rm x',
    'timeout -s KILL 5 rm x',
    'timeout $t rm x',
    'nice -5 rm x',
    '/usr/bin/env rm x',
    'trap "rm x" EXIT',
    'alias ls=rm',
    'set -a',
    'shopt -s expand_aliases',
    'export PATH=.',
    'declare -x A=b',
    'let a=b',
    'read PATH',
    'read -p x y',
    'mapfile -C rm x',
    'unset a',
    'printf -v a b',
    'printf "$x" y',
    "printf 'a%n' PATH",
    "printf '%5%%n' PATH",
    'printf %%%-.3lln PATH',
    "printf $'%\\x6e' PATH",
    'timeout 5 printf x%n PATH',
    'test -v "a[\\$(rm x)]"',
    '[ $x ]',
    '[ "$x" "$y" ]',
    'enable -f ./x.so x',
    'hash -p ./x ls',
    'git -c core.pager=./x log',
    'git -ccore.pager=./x log',
    'git --exec-path=. status',
    'git --config-env=core.pager=X log',
    'git -C . -c a.b=c log',
  ])('%j is covered by no pattern', (command) => {
    expect(commandParts(command).parts.some(({ obscure }) => obscure !== null)).toBe(true);
  });

  test.each([
    'PATH=.; ls',
    'IFS=x; ls',
    'for PATH in .; do ls; done',
    'ls() { rm x; }; ls',
    'function ls { rm x; }; ls',
    'coproc rm x',
    'echo $((a[0]))',
    'echo $((x))',
    'echo $[x]',
    '((x))',
    'for ((i=x;;)); do ls; done',
    'echo ${a[x]}',
    'echo ${!a}',
    'echo ${a@P}',
    'echo ${a:x}',
    'echo ${PATH:=.}',
    'a[x]=1',
    // The value of a variable is read as an expression here, and may hold `$(…)`.
    "x='a[$(rm x)]'; b=([x]=1)",
    'b=(1 ["$x"]=2)',
    "b+=(\n[x]+='a')",
    // A brace of the command does not end the expansion that it stands in.
    'echo ${x:-${y:-<(rm {a,b})}}',
    'case ${x:-${y:->(rm {a,b})}} in a) ls;; esac',
    // Within double quotes `$'` is a letter like others.
    'echo "${x:-$\'$(rm x)\'}"',
    'case a in "${x+${y-$\'`rm x`\'}}") ;; esac',
    'a="b${x:-$\'$(rm x)\'}c"',
    // No quote is one in a here-document, but for the words of commands in it.
    "cat <<E\n${x:-'$(rm x)'}\nE",
    'cat <<E\n"${x:-$\'`rm x`\'}"\nE',
    'echo "$(cat <<-E\n\t${x+\'"$(rm x)"\'}\n\tE\n)"',
    '[[ x -eq 1 ]]',
    '[[ -v a ]]',
    'exec {fd}> x; ls {fd}> x',
    'cat < /dev/tcp/127.0.0.1/1',
    'ls\r',
    'ls\u00a0x',
    'ls\u202ex',
    'ls\u0000x',
    'ls\ud800',
    'ls (',
    'ls "',
    'ls $(',
    'ls $(rm "x)',
    'ls && ',
    'cat <<E\nx',
    'shopt -s extglob; ls @(a)',
    '('.repeat(300),
    '$('.repeat(150) + ')'.repeat(150),
    'ls; '.repeat(10_000),
    'a'.repeat(20_001),
    `xargs ${'a '.repeat(9000)}`,
    `${'nohup '.repeat(3000)}x`,
    `find . ${'-exec a \\; '.repeat(1500)}`,
  ])('%j as a whole is covered by no pattern', (command) => {
    const { obscure, parts } = commandParts(command);
    expect(obscure ?? parts.find((part) => part.obscure !== null)?.obscure).toBeTypeOf('string');
  });

  test.each([
    ['sudo -u root /bin/rm x', 'rm x'],
    ['find . -exec rm {} + -print', 'rm {}'],
    ['git -C a --no-pager push', 'git push'],
    ['FOO=1 timeout 5 rm x', 'rm x'],
    ['xargs -n1 rm', 'rm ??'],
    ['/bin/rm x', 'rm x'],
  ])('among the readings of %j is %j, for rules that deny', (command, reading) => {
    const readings = commandParts(command).parts.flatMap((part) =>
      part.readings.map((words) => words.map(({ text, many }) => text ?? (many ? '??' : '?')).join(' ')),
    );
    expect(readings).toContain(reading);
  });

  test.each(['bash -c "ls; rm x"', 'eval "ls; rm x"', 'sudo sh -c "ls; rm x"', 'xargs bash -c "ls; rm x"'])(
    'the script in %j is taken apart, too',
    (command) => {
      expect(partsOf(command)).toContain('rm x');
    },
  );
});

describe('held against bash', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'service-command-parts-'));
    // Each of them tells its name and its words in one go: bash would write a text of several lines in several.
    const tell =
      '#!/bin/bash\nprintf -v call "%s\\37" "${0##*/}" "$@"\nprintf "%s\\0" "${call//$\'\\n\'/$\'\\1\'}" >> "$CALLS"\n';
    for (const name of programs) writeFileSync(join(folder, name), tell, { mode: 0o755 });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

  /** What bash starts for this command, as far as it is one of our programs. */
  function startedBy(command: string): readonly (readonly string[])[] {
    // What an earlier command left in the background may tell of itself late.
    const calls = join(folder, `calls-${randomUUID()}`);
    writeFileSync(calls, '');
    try {
      // A process substitution goes on after its command: cat waits until all have closed its input.
      execFileSync(
        '/bin/bash',
        ['-c', '{ exec /bin/bash -c "$1"; } 2>&1 | /bin/cat > /dev/null', '_', command],
        {
          cwd: folder,
          env: { PATH: folder, CALLS: calls, LANG: 'C.UTF-8' },
          stdio: ['ignore', 'ignore', 'ignore'],
          timeout: 5000,
        },
      );
    } catch {
      // How it ends does not matter, only what it has started.
    }
    const records = readFileSync(calls, 'utf8').split('\0').filter(Boolean);
    return records.map((record) => record.replaceAll('\u0001', '\n').split('\u001f').slice(0, -1));
  }

  test('the programs of this test are started and tell of it', () => {
    expect(startedBy('p1 a "b c"; p2 | p3')).toEqual(
      expect.arrayContaining([['p1', 'a', 'b c'], ['p2'], ['p3']]),
    );
  });

  test('what bash starts is among the parts, or the command is covered by no pattern', {
    timeout: 1_200_000,
  }, () => {
    let understood = 0;
    fc.assert(
      fc.property(commandArbitrary, (command) => {
        const { parts, obscure } = commandParts(command);
        if (obscure !== null || parts.some((part) => part.obscure !== null)) return;
        understood += 1;
        const heads = parts.map(({ words }) => words.map(({ text }) => text)).map(withoutAssignments);
        for (const call of startedBy(command)) {
          // These very words, or one of them is not known yet.
          const told = heads.some(
            (texts) => texts[0] === call[0] && (texts.includes(null) || texts.join('\0') === call.join('\0')),
          );
          expect(told, `${JSON.stringify(command)} runs ${JSON.stringify(call)}`).toBe(true);
        }
      }),
      { numRuns: Number(process.env.FUZZ_RUNS ?? 100) },
    );
    // About two of five; a hundred of them vary.
    expect(understood).toBeGreaterThan(15);
  });
});

/** The parts show those that matter, and programs are not given them as words. */
function withoutAssignments(texts: readonly (string | null)[]): readonly (string | null)[] {
  const first = texts.findIndex((text) => text !== null && !/^[Abc]=/.test(text));
  return texts.slice(Math.max(first, 0));
}

const programs = ['p1', 'p2', 'p3', 'p4'] as const;

const name = fc.constantFrom(...programs, "p'1'", 'p\\2', '"p3"', "$'p\\x34'", 'p\\\n1');
const text = fc.constantFrom(
  'a',
  'b#c',
  "'x; p4'",
  '"y | p3"',
  '\\;',
  "'$(p1)'",
  '$x',
  '"$x"',
  '{a,b}',
  '-n',
  '~',
  "$'\\n'",
  '#',
  '*',
  '!',
  '=',
  'a=b',
  '[[',
  '\\',
  'é',
);
const { command: commandArbitrary } = fc.letrec<{
  command: string;
  word: string;
  simple: string;
  list: string;
}>((tie) => ({
  word: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    text,
    tie('command').map((inner) => `$(${inner})`),
    tie('command').map((inner) => `"$(${inner})"`),
    tie('simple').map((inner) => (inner.includes('`') ? inner : `\`${inner}\``)),
    tie('command').map((inner) => `<(${inner})`),
    tie('word').map((inner) => `\${x:-${inner}}`),
    tie('word').map((inner) => `"\${x:-${inner}}"`),
    tie('word').map((inner) => `"\${x:-$'${inner}'}"`),
  ),
  simple: fc
    .tuple(
      fc.option(fc.constantFrom('A=1', 'b=$(p2)', 'LANG=C'), { nil: '' }),
      name,
      fc.array(tie('word'), { maxLength: 2 }),
    )
    .map(([before, program, words]) => [before, program, ...words].filter(Boolean).join(' ')),
  list: fc
    .tuple(
      tie('command'),
      fc.constantFrom('; ', ' && ', ' || ', ' | ', ' & ', '\n', ' |& ', '&&', '|', ';'),
      tie('command'),
    )
    .map((three) => three.join('')),
  command: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    tie('simple'),
    tie('list'),
    tie('command').map((inner) => `(${inner})`),
    tie('command').map((inner) => `{ ${inner}\n}`),
    tie('command').map((inner) => `! ${inner}`),
    fc.tuple(tie('command'), tie('command')).map(([a, b]) => `if ${a}\nthen ${b}\nfi`),
    fc.tuple(tie('word'), tie('command')).map(([a, b]) => `for i in ${a}\ndo ${b}\ndone`),
    fc.tuple(tie('word'), tie('command')).map(([a, b]) => `case ${a} in a) p1;; *) ${b}\n;; esac`),
    fc.tuple(tie('simple'), tie('command')).map(([a, b]) => `${a} <<E\n$(${b})\nE\n`),
    fc.tuple(tie('simple'), tie('command')).map(([a, b]) => `${a} <<'E'\n$(${b})\nE\n`),
    fc.tuple(tie('simple'), tie('word')).map(([a, b]) => `${a} <<E\n"\${x:-'${b}'}" ${b}\nE\n`),
    fc.tuple(tie('simple'), tie('word')).map(([a, b]) => `${a} <<< ${b}`),
    fc.tuple(tie('word'), tie('word')).map(([a, b]) => `c=(${a} [${b}]=${a})`),
    tie('simple').map((inner) => `${inner} # p4`),
    tie('simple').map((inner) => `${inner} > /dev/null 2>&1`),
    tie('word').map((inner) => `[[ -n ${inner} ]]`),
    tie('word').map((inner) => `c=${inner}`),
    fc
      .array(
        fc.constantFrom(
          'p1',
          'p2',
          ' ',
          '\n',
          ';',
          '&',
          '|',
          '(',
          ')',
          '{',
          '}',
          '<',
          '>',
          '"',
          "'",
          '`',
          '$',
          '\\',
          '#',
          'E',
          '<<',
          '$(',
          '!',
          '*',
          '=',
          'if',
          'then',
          'fi',
          'case',
          'in',
          'esac',
        ),
        { maxLength: 14 },
      )
      .map((signs) => signs.join('')),
  ),
}));
