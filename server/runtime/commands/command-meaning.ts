/** What a command's words come to: what wraps another command is taken off, what nobody can tell from its words is named. */
import { type CommandWord, known } from './command-words.ts';
import { type OptionWrite, startsPrograms, writtenByOptions } from './writing-options.ts';

/** What the words of one command mean. */
export interface Meaning {
  /** What is compared with the patterns that allow. */
  readonly words: readonly CommandWord[];
  /** All that is compared with the patterns that deny. */
  readonly readings: readonly (readonly CommandWord[])[];
  /** Why nothing but a permission for every command can cover it; null where its words say what runs. */
  readonly obscure: string | null;
  /** Whether it may turn out to be any command at all. */
  readonly anything: boolean;
  /** Further scripts that it gives to a shell. */
  readonly scripts: readonly string[];
  /** The files that it may write by one of its options. */
  readonly writes: readonly OptionWrite[];
}

/** Reads the words of a command, the assignments in front of it among them. */
export function meaningOf(assignments: readonly CommandWord[], command: readonly CommandWord[]): Meaning {
  const inner = command.length === 0 ? { ...plain, words: [] } : unwrap(command, []);
  const words = [...assignments, ...inner.words];
  const writes = writtenByOptions(inner.words).map(({ at, file }) => ({ at: at + assignments.length, file }));
  return { ...inner, words, writes, readings: [words, command, ...inner.readings] };
}

const plain = { readings: [], obscure: null, anything: false, scripts: [], writes: [] } as const;

/** Each word behind a wrapper may begin a command of its own: more would take time and memory by the square. */
const mostWords = 200;
const mostReadings = 40;

function unwrap(
  command: readonly CommandWord[],
  outer: readonly (readonly CommandWord[])[],
): Omit<Meaning, 'writes'> {
  const name = command[0]?.text ?? null;
  if (!name)
    return {
      ...plain,
      words: command,
      readings: outer,
      obscure: 'its name is only known when it runs',
      anything: true,
    };
  if (outer.length > mostReadings || (command.length > mostWords && (wrappers.has(name) || name === 'find')))
    return { ...plain, words: command, readings: outer, obscure: 'it is too complicated', anything: true };
  const readings = [...outer, command, [known(baseOf(name)), ...command.slice(1)]];
  const wrapped = wrappedCommand(name, command);
  if (wrapped) return unwrap(wrapped, readings);
  if (name.includes('/'))
    return {
      ...fateOf(baseOf(name), command),
      words: command,
      readings: [...readings, ...suffixes(baseOf(name), command)],
    };
  return { ...fateOf(name, command), words: command, readings: [...readings, ...suffixes(name, command)] };
}

function baseOf(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

/** The command behind a wrapper whose own words are simple enough to be sure. */
function wrappedCommand(name: string, command: readonly CommandWord[]): readonly CommandWord[] | null {
  const [, first, second] = command;
  if (typeof first?.text !== 'string') return null;
  switch (name) {
    case 'command':
    case 'nohup':
      return first.text.startsWith('-') ? null : command.slice(1);
    case 'nice':
      if (first.text === '-n' && /^-?\d+$/.test(second?.text ?? '') && command.length > 3)
        return command.slice(3);
      return first.text.startsWith('-') ? null : command.slice(1);
    case 'timeout':
      return /^\d+(\.\d+)?[smhd]?$/.test(first.text) && command.length > 2 ? command.slice(2) : null;
    default:
      return null;
  }
}

/** What would run if one of the words were the beginning of a command of its own. */
function suffixes(name: string, command: readonly CommandWord[]): readonly (readonly CommandWord[])[] {
  if (name === 'git') return [[known('git'), ...behindGitOptions(command.slice(1))]];
  if (!wrappers.has(name) && name !== 'find') return [];
  const all = command.map((_, index) => command.slice(index)).slice(1);
  // What feeds `xargs` adds words that nobody knows yet.
  const fed = name === 'xargs' || name === 'parallel' ? [{ text: null, many: true }] : [];
  return all.flatMap((words) => {
    const ended = words.slice(0, endOf(words));
    const [head, ...rest] = ended;
    const based = typeof head?.text === 'string' ? [[known(baseOf(head.text)), ...rest, ...fed]] : [];
    return [[...ended, ...fed], ...based];
  });
}

/** `find -exec` ends its command with `;` or `+`. */
function endOf(words: readonly CommandWord[]): number {
  const end = words.findIndex(({ text }) => text === ';' || text === '+');
  return end === -1 ? words.length : end;
}

function behindGitOptions(words: readonly CommandWord[]): readonly CommandWord[] {
  let at = 0;
  while (words[at]?.text?.startsWith('-'))
    at += /^(-[cC]|--(git-dir|work-tree|namespace|config-env))$/.test(words[at]?.text ?? '') ? 2 : 1;
  return words.slice(at);
}

type Fate = Pick<Meaning, 'obscure' | 'anything' | 'scripts'>;

const clear: Fate = plain;

function fateOf(name: string, command: readonly CommandWord[]): Fate {
  const args = command.slice(1);
  if (shells.has(name)) return shellFate(name, args);
  if (name === 'eval') return evalFate(args);
  if (wrappers.has(name)) return wrapperFate(name, args);
  if (stateful.has(name)) return statefulFate(name, args);
  if (name === 'find' && args.some(({ text }) => text !== null && /^-(exec|execdir|ok|okdir)$/.test(text)))
    return { ...plain, obscure: 'find starts other commands with it', anything: !args.every(isKnown) };
  if (startsPrograms(name, args))
    return { ...plain, obscure: `${name} is given programs to start by its options` };
  if (name === 'git' && overridesGit(args))
    return { ...plain, obscure: 'git is given settings that can start programs' };
  if (name === 'printf' && (mayBeOption(args[0]) || setsVariable(args[0])))
    return { ...plain, obscure: 'printf -v and %n set a variable' };
  if ((name === 'test' || name === '[') && !isSoundTest(args))
    return { ...plain, obscure: 'what is tested is only known when it runs' };
  return clear;
}

/** `-c` and its like, which name programs that git starts. */
function overridesGit(args: readonly CommandWord[]): boolean {
  const leading = args.slice(0, args.length - behindGitOptions(args).length);
  return (
    leading.some(({ text }) => text === null || text.startsWith('-c')) ||
    args.some(({ text }) => text !== null && /^--(exec-path|config-env)(=|$)/.test(text))
  );
}

function shellFate(name: string, args: readonly CommandWord[]): Fate {
  const [first, script] = args;
  const obscure = `${name} is given commands that are not its own words`;
  if (first && isKnown(first) && first.text && !/^[-+]/.test(first.text)) return clear;
  if (first?.text && /^-[a-z]*c$/.test(first.text) && script?.text)
    return { obscure, anything: false, scripts: [script.text] };
  return { obscure, anything: true, scripts: [] };
}

function evalFate(args: readonly CommandWord[]): Fate {
  const obscure = 'eval runs what its words become';
  if (!args.every(isKnown)) return { obscure, anything: true, scripts: [] };
  return { obscure, anything: false, scripts: [args.map(({ text }) => text).join(' ')] };
}

function wrapperFate(name: string, args: readonly CommandWord[]): Fate {
  if (name === 'command' && args[0]?.text === '-v' && args.every(isKnown)) return clear;
  if (args.length === 0 && name !== 'xargs' && name !== 'parallel') return clear;
  const scripts = args.flatMap(({ text }, index) => {
    const shell = text === null ? '' : baseOf(text);
    const [flag, script] = args.slice(index + 1);
    return shells.has(shell) && flag?.text?.endsWith('c') && script?.text ? [script.text] : [];
  });
  const anything =
    !args.every(isKnown) ||
    (args.some(({ text }) => text !== null && shells.has(baseOf(text))) && scripts.length === 0);
  return { obscure: `${name} starts another command`, anything, scripts };
}

function statefulFate(name: string, args: readonly CommandWord[]): Fate {
  if (name === 'set' && args.length > 0 && args.every(isHarmlessSet)) return clear;
  if (name === 'read' && args.every(isHarmlessRead)) return clear;
  const anything =
    name === 'source' ||
    name === '.' ||
    name === 'alias' ||
    name === 'trap' ||
    name === 'enable' ||
    name === 'exec';
  return {
    ...plain,
    obscure: `${name} changes what later commands mean, or runs what its words become`,
    anything: anything && !(name === 'exec' && args.length === 0),
  };
}

function isHarmlessSet({ text }: CommandWord): boolean {
  return text !== null && /^(-[eux]+o?|\+[eux]+|pipefail|-o)$/.test(text);
}

/** Names in small letters mean nothing to the shell itself. */
function isHarmlessRead({ text }: CommandWord): boolean {
  return text === '-r' || (text !== null && isHarmlessName(text));
}

/** Whether a variable of this name changes nothing but what is read of it. */
export function isHarmlessName(name: string): boolean {
  return (
    /^[a-z_][a-z0-9_]*$/.test(name) &&
    name !== '_' &&
    name !== 'histchars' &&
    !name.endsWith('_proxy') &&
    name !== 'auto_resume'
  );
}

/**
 * Whether this variable, given to one command, changes no more than how it writes its output. Of a language with a slash
 * the C library makes the path of a file that it loads; of a time zone, too, but then below its own folder.
 */
export function isHarmlessForCommand(name: string, { text }: CommandWord): boolean {
  const value = text?.slice(name.length + 1) ?? '/';
  if (name === 'TZ') return /^[\w+-]*(\/[\w+-]+)*$/.test(value) && !value.startsWith('/');
  return (
    /^(LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CI|COLUMNS|LINES)$/.test(name) && /^[^/\\]*$/.test(value)
  );
}

function isKnown({ text }: CommandWord): boolean {
  return text !== null;
}

function mayBeOption(word: CommandWord | undefined): boolean {
  return word !== undefined && (word.text === null || word.text.startsWith('-'));
}

/** `%n` puts a number into the variable that the word names: as search path, it is a folder of the workspace. */
function setsVariable(format: CommandWord | undefined): boolean {
  return /%[^A-Za-z%]*[hjlLtz]*n/.test((format?.text ?? '').replaceAll('%%', ''));
}

/** `-v` and `-R` look into arrays, whose index may hold a command. */
function isSoundTest(args: readonly CommandWord[]): boolean {
  if (args.some(({ text, many }) => many || text === '-v' || text === '-R')) return false;
  const words = args.at(-1)?.text === ']' ? args.slice(0, -1) : args;
  const rest = words[0]?.text === '!' ? words.slice(1) : words;
  if (rest.every(isKnown)) return true;
  if (rest.length === 2) return rest[0]?.text?.startsWith('-') ?? false;
  return rest.length === 3 && /^(=|==|!=|<|>|-(eq|ne|lt|le|gt|ge|nt|ot|ef))$/.test(rest[1]?.text ?? '');
}

const shells = new Set([
  'sh',
  'bash',
  'dash',
  'zsh',
  'ksh',
  'mksh',
  'ash',
  'fish',
  'csh',
  'tcsh',
  'rbash',
  'pwsh',
]);

/** Commands that start what their further words name. */
const wrappers = new Set([
  ...[
    'sudo',
    'doas',
    'su',
    'runuser',
    'xargs',
    'parallel',
    'env',
    'nohup',
    'nice',
    'ionice',
    'chrt',
    'taskset',
  ],
  ...[
    'timeout',
    'time',
    'stdbuf',
    'setsid',
    'unshare',
    'nsenter',
    'chroot',
    'fakeroot',
    'strace',
    'ltrace',
    'gdb',
  ],
  ...[
    'valgrind',
    'watch',
    'script',
    'flock',
    'busybox',
    'toybox',
    'ssh',
    'command',
    'builtin',
    'setpriv',
    'prlimit',
  ],
  ...[
    'systemd-run',
    'at',
    'batch',
    'entr',
    'expect',
    'unbuffer',
    'rlwrap',
    'faketime',
    'catchsegv',
    'sg',
    'newgrp',
  ],
  ...[
    'setarch',
    'linux32',
    'linux64',
    'i386',
    'x86_64',
    'uname26',
    'cgexec',
    'firejail',
    'bwrap',
    'proot',
    'eatmydata',
  ],
]);

/** Builtins that change the shell for what follows, or take their words for more than words. */
const stateful = new Set([
  ...[
    'source',
    '.',
    'exec',
    'trap',
    'alias',
    'unalias',
    'enable',
    'hash',
    'set',
    'shopt',
    'export',
    'declare',
  ],
  ...['typeset', 'local', 'readonly', 'let', 'read', 'mapfile', 'readarray', 'unset', 'compgen', 'complete'],
  ...[
    'compopt',
    'bind',
    'fc',
    'getopts',
    'wait',
    'history',
    'coproc',
    'function',
    'select',
    'disown',
    'caller',
  ],
]);
