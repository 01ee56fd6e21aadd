/** Completion: the shells that are here complete for real; every script holds all that can be typed. */
import { symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { buildProgram } from '../command-line/program.ts';
import { nodesOf } from '../completion/tree.ts';
import { findProgram } from '../search-path.ts';
import { launcher, type TestHome, testHome } from '../test-command.ts';
import { runToEnd } from '../test-process.ts';
import { openTestTerminal } from '../test-terminal.ts';

/** What bash offers for the last word of a line, in a shell that has loaded the script as the help says. */
async function completed({ project, environment }: TestHome, ...lines: readonly (readonly string[])[]) {
  const script = `
    PATH="$(dirname "$1"):$PATH"; shift
    source <(service completion bash)
    function_name=$(complete -p service | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    words=()
    for word in "$@" ';'; do
      if [[ $word == ';' ]]; then
        COMP_WORDS=(service "\${words[@]}") COMP_CWORD=\${#words[@]} COMP_LINE="service \${words[*]}" COMPREPLY=()
        "$function_name"
        printf '%s\\t' "\${COMPREPLY[@]}"; echo
        words=()
      else words+=("$word"); fi
    done`;
  const words = lines.flatMap((line, index) => (index > 0 ? [';', ...line] : line));
  const { stdout, stderr } = await runToEnd('bash', ['-c', script, 'bash', launcher, ...words], {
    cwd: project,
    environment,
  });
  expect(stderr).toBe('');
  return stdout
    .replace(/\n$/, '')
    .split('\n')
    .map((line) => line.split('\t').filter(Boolean));
}

test('bash completes commands, options and their values, each where it may stand', async () => {
  const person = testHome();
  const [commands, below, options, shells, afterFolder, nothing, help] = await completed(
    person,
    ['co'],
    ['config', ''],
    ['trust', '--'],
    ['completion', ''],
    ['-C', '/tmp', 'run', '--mo'],
    ['run', '--model', ''],
    ['help', 'con'],
  );
  expect(commands).toEqual(['corpora', 'config', 'completion']);
  expect(below).toEqual(['show', 'explain', 'set', 'unset', 'check', 'path']);
  expect(options).toEqual(['--yes', '--list', '--show', '--revoke', '--json', '--help']);
  expect(shells).toEqual(['bash', 'zsh', 'fish']);
  expect(afterFolder).toEqual(['--model']);
  expect(nothing).toEqual([]);
  expect(help).toEqual(['config']);
});

test('bash completes settings keys, names of the user’s choice among them, and the values of a key', async () => {
  const [keys, names, below, values, types, booleans, global] = await completed(
    testHome(),
    ['config', 'explain', 'options.tui.'],
    ['config', 'set', 'provid'],
    ['config', 'set', 'providers.mine.ba'],
    ['config', 'set', 'options.tui.diff_mode', ''],
    ['config', 'set', 'providers.mine.type', 'a'],
    ['config', 'set', 'options.debug', ''],
    ['config', 'set', '--global', 'options.tui.diff_mode', 's'],
  );
  expect(keys).toContain('options.tui.diff_mode');
  expect(new Set(names)).toEqual(new Set(['providers', 'providers.']));
  expect(below).toEqual(['providers.mine.base_url']);
  expect(values).toEqual(['unified', 'split']);
  expect(types).toEqual(['anthropic', 'azure']);
  expect(booleans).toEqual(['true', 'false']);
  expect(global).toEqual(['split']);
});

test('bash completes files and folders, however their names are quoted, and nothing where neither may stand', async () => {
  const { write, project, environment } = testHome();
  write('project/my settings.json', {});
  write("project/it's mine.json", {});
  write('project/my folder/deep one/service.json', {});
  const rc = write('rc', `PS1='$ '; source <(service completion bash); echo loaded\n`);
  const variables = {
    ...environment,
    INPUTRC: '/dev/null',
    PATH: `${dirname(launcher)}:${environment.PATH}`,
  };
  const bash = ['bash', '--noprofile', '--rcfile', rc, '-i'];
  const terminal = await openTestTerminal(bash, { cwd: project, environment: variables });
  await terminal.shows('loaded');
  const completes = async (typed: string, line: string) => {
    await terminal.press(typed, 'Tab', '|');
    await terminal.shows(`$ ${line}|`);
    await terminal.press('C-u');
  };
  await completes('service config check my\\ se', 'service config check my\\ settings.json ');
  await completes('service config check "my se', 'service config check "my settings.json" ');
  await completes('service config check "it\'s', 'service config check "it\'s mine.json" ');
  await completes("service config check 'my folder/d", "service config check 'my folder/deep one'/");
  await completes('service -C my', 'service -C my\\ folder/');
  await completes('service -C my\\ folder/de', 'service -C my\\ folder/deep\\ one/');
  await completes('service -C "my f', 'service -C "my folder"/');
  await completes('service run --model my', 'service run --model my');
  // Bash hands over an address in pieces.
  await completes(
    'service corpora list --server https://agents.example.com:8090 --js',
    'service corpora list --server https://agents.example.com:8090 --json ',
  );
  await completes('service -C a:b: conf', 'service -C a:b: config ');
});

test('the command is completed under the name that it was linked as', async () => {
  const { home, environment, project } = testHome();
  const link = join(home, 'my-agent');
  symlinkSync(launcher, link);
  const { stdout } = await runToEnd(link, ['completion', 'bash'], { cwd: project, environment });
  expect(stdout).toMatch(/^complete .*-F _my_agent_complete my-agent$/m);
});

test.for(['bash', 'zsh', 'fish'])(
  'the script for %s holds every command, every option and every key',
  async (shell) => {
    const { stdout } = await testHome().service(['completion', shell]);
    for (const { at, commands, options } of nodesOf(buildProgram())) {
      expect(stdout).toContain(`'${at}`);
      for (const { word } of commands) expect(stdout).toContain(word);
      for (const name of options.flatMap(({ names }) => names)) expect(stdout).toContain(name);
    }
    for (const key of ['models.large.model', 'options.tui.diff_mode', 'mcp.*.command', 'tools.grep.timeout'])
      expect(stdout).toContain(key);
    expect(stdout).not.toContain('disable_notifications');
  },
);

test.for([
  ['zsh', '#compdef service', 'compdef _service service'],
  ['fish', 'complete -c service -f', '\tHow many levels'],
] as const)('the script for %s names the command, and closes every quote', async ([shell, ...parts]) => {
  const { stdout } = await testHome().service(['completion', shell]);
  for (const part of parts) expect(stdout.replaceAll("'\\t'", '\t')).toContain(part);
  // Every quote that is opened is closed: what is quoted holds none but escaped ones.
  const quotes = stdout.replaceAll(String.raw`'\''`, '').replaceAll(String.raw`\'`, '').split("'").length - 1;
  expect(quotes % 2).toBe(0);
});

const having = (shell: string) => test.skipIf(!findProgram(shell, process.env.PATH, '/'));

// A question mark is a wildcard in older releases of fish, and none in newer ones.
having('fish').for(['', 'qmark-noglob'])(
  'fish completes commands, options, keys and the values of a key, with the features %j',
  async (features) => {
    const { project, environment } = testHome();
    const lines = [
      'config e',
      'run --m',
      'config explain options.debug_',
      'config set options.tui.diff_mode ',
      'config set providers.mine.ba',
    ];
    const asked = lines.map((line) => `complete -C 'service ${line}'`).join('; ');
    const script = `set -p PATH (path dirname ${launcher}); service completion fish | source; ${asked}`;
    const { stdout, stderr } = await runToEnd('fish', ['-N', '--features', features, '-c', script], {
      cwd: project,
      environment,
    });
    expect(stderr).toBe('');
    const offered = stdout.trimEnd().split('\n');
    expect(offered.map((line) => line.split('\t')[0])).toEqual([
      'explain',
      '--model',
      'options.debug_lsp',
      'unified',
      'split',
      'providers.mine.base_url',
    ]);
  },
);

having('zsh')('zsh takes the script, and registers it', async () => {
  const { project, environment } = testHome();
  const script = `
    PATH="$(dirname "$1"):$PATH"; autoload -U compinit; compinit -u -D
    source <(service completion zsh); print -r -- $_comps[service] $+functions[_service]`;
  const { stdout, stderr } = await runToEnd('zsh', ['-f', '-c', script, 'zsh', launcher], {
    cwd: project,
    environment,
  });
  expect(stderr).toBe('');
  expect(stdout).toBe('_service 1\n');
});
