/** Options by which commands that mostly show or compute write files after all, or start programs. */
import type { CommandWord } from './command-words.ts';
import { hasToBeNamed } from './git-commands.ts';
import { behindGitOptions, gitStartsPrograms } from './git-options.ts';
import { powerfulScripts } from './sed-script.ts';

/** A file that an option makes a command write. */
export interface OptionWrite {
  /** Which word of the command the option is. */
  readonly at: number;
  /** What it names; unknown where the words do not tell which file that is. */
  readonly file: CommandWord;
}

/** How a command is told to write. */
interface Writer {
  /** Options of one letter that write, and those that take a value without writing. */
  readonly letters?: string;
  readonly valued?: string;
  /** Options in full, without the dashes; shortened ones are meant, too. */
  readonly long?: readonly string[];
  /** Options in full that begin with one dash. */
  readonly single?: readonly string[];
  /** Those among all of them that name no file themselves. */
  readonly nameless?: readonly string[];
  /** Options, nameless too, that write only with such a value. */
  readonly byValue?: { readonly options: readonly string[]; readonly value: RegExp };
  /** What may stand in front of an option in full, and has its value computed. */
  readonly computing?: string;
}

/** Left out is what is there to write: whoever allows `cp *` or `tar *` knows that. */
const writers: Readonly<Record<string, Writer>> = {
  sort: { letters: 'oT', valued: 'ktSL', long: ['output', 'temporary-directory'] },
  find: {
    single: ['fprint', 'fprint0', 'fprintf', 'fls', 'delete'],
    nameless: ['delete'],
  },
  curl: {
    letters: 'oODcKJ',
    valued: 'AbCdeEFhHmPQrtTuUwxXyYz',
    // A format may come from a file, or name one.
    byValue: { options: ['w', 'write-out'], value: /^@|%output\{/ },
    computing: 'expand-',
    long: [
      ...['output', 'output-dir', 'remote-name', 'remote-name-all', 'remote-header-name', 'dump-header'],
      ...[
        'cookie-jar',
        'config',
        'trace',
        'trace-ascii',
        'stderr',
        'libcurl',
        'etag-save',
        'hsts',
        'alt-svc',
        'ssl-sessions',
      ],
    ],
    nameless: ['O', 'J', 'K', 'output-dir', 'remote-name', 'remote-name-all', 'remote-header-name', 'config'],
  },
  // The large letter is macOS's.
  sed: { letters: 'iI', valued: 'efl', long: ['in-place'], nameless: ['i', 'I', 'in-place'] },
  tree: { letters: 'o', valued: 'LPIHT' },
  iconv: { letters: 'o', valued: 'ft', long: ['output'] },
  less: { letters: 'oO', valued: 'bhjkpPtTxyz', long: ['log-file', 'LOG-FILE'] },
  // Split, each document goes into a file that an expression names.
  yq: {
    letters: 'is',
    valued: 'opI',
    long: ['inplace', 'in-place', 'split-exp'],
    nameless: ['i', 's', 'inplace', 'in-place', 'split-exp'],
  },
};

/** What git's commands that show know, and `fast-export`; and two that write into what this option names. */
const git: Writer = { long: ['output', 'output-directory', 'export-marks'] };
const gitCommands: Readonly<Record<string, Writer>> = {
  archive: { ...git, letters: 'o' },
  'format-patch': { ...git, letters: 'o', valued: 'nvUMCSGlO' },
};

const unknown: CommandWord = { text: null, many: false };

/** Of the words of a command, its name first. A word that is not known yet could be any option. */
export function writtenByOptions(command: readonly CommandWord[]): readonly OptionWrite[] {
  const [name, ...args] = command;
  const base = name?.text?.slice(name.text.lastIndexOf('/') + 1) ?? '';
  if (base === 'git') return writtenByGit(args).map(({ at, file }) => ({ at: at + 1, file }));
  const writer = Object.hasOwn(writers, base) ? writers[base] : undefined;
  const byOptions = writer ? optionsOf(writer, args) : [];
  const byScripts = base === 'sed' ? powerfulScripts(args).map((at) => ({ at, file: unknown })) : [];
  return [...byOptions, ...byScripts].map(({ at, file }) => ({ at: at + 1, file }));
}

/** Behind `-C folder` a name is that of a file elsewhere. */
function writtenByGit(args: readonly CommandWord[]): readonly OptionWrite[] {
  const at = args.findIndex(({ text }) => text !== null && !text.startsWith('-'));
  const named = args[at]?.text ?? '';
  const writer = Object.hasOwn(gitCommands, named) ? gitCommands[named] : git;
  const found = writer ? optionsOf(writer, args) : [];
  const written = at === 0 ? found : found.map((one) => ({ ...one, file: unknown }));
  const [command] = behindGitOptions(args);
  if (!command?.text || !hasToBeNamed(command.text)) return written;
  return [...written, { at: args.indexOf(command), file: unknown }];
}

function optionsOf(writer: Writer, args: readonly CommandWord[]): readonly OptionWrite[] {
  const end = args.findIndex(({ text }) => text === '--');
  return (end === -1 ? args : args.slice(0, end)).flatMap(({ text }, at): readonly OptionWrite[] => {
    const file = text === null ? unknown : fileOf(writer, text, args[at + 1] ?? unknown);
    return file ? [{ at, file }] : [];
  });
}

/** What the option writes; null for any other word. */
function fileOf(writer: Writer, text: string, next: CommandWord): CommandWord | null {
  const [option, value] = splitAt(text, '=');
  if (writer.single?.includes(option.slice(1)) && option.startsWith('-'))
    return written(writer, option.slice(1), value, next);
  if (option.startsWith('--')) return writtenInFull(writer, option.slice(2), value, next);
  if (!/^-[^-]/.test(text)) return null;
  for (const [index, letter] of [...text.slice(1)].entries()) {
    const given = text.slice(index + 2) || undefined;
    if (writer.letters?.includes(letter)) return written(writer, letter, given, next);
    if (writer.valued?.includes(letter)) return writtenByValue(writer, letter, given, next);
  }
  return null;
}

function writtenInFull(
  writer: Writer,
  option: string,
  value: string | undefined,
  next: CommandWord,
): CommandWord | null {
  const { long = [], byValue, computing } = writer;
  const computed = computing !== undefined && option.startsWith(computing);
  const asked = computed ? option.slice(computing.length) : option;
  const known = [...long, ...(byValue?.options.filter((name) => name.length > 1) ?? [])];
  const meant = known.find((name) => asked !== '' && name.startsWith(asked));
  if (meant === undefined) return null;
  if (computed) return unknown;
  return long.includes(meant)
    ? written(writer, meant, value, next)
    : writtenByValue(writer, meant, value, next);
}

/** By an option that is there to write. */
function written(writer: Writer, name: string, given: string | undefined, next: CommandWord): CommandWord {
  if (writer.nameless?.includes(name)) return unknown;
  return given === undefined ? next : { text: given, many: false };
}

/** By one that has a value without writing, as a rule. */
function writtenByValue(
  { byValue }: Writer,
  name: string,
  given: string | undefined,
  next: CommandWord,
): CommandWord | null {
  if (!byValue?.options.includes(name)) return null;
  const value = given ?? next.text;
  return value === null || byValue.value.test(value) ? unknown : null;
}

function splitAt(text: string, sign: string): readonly [string, string | undefined] {
  const at = text.indexOf(sign);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/**
 * Options that name programs: what runs then stands in no word that a pattern compares. Among letters in front of them are
 * none that take the rest of the word, and names in full are shortened to what no other begins with.
 */
const starters: Readonly<Record<string, RegExp>> = {
  sort: /^--co[a-z-]*(=|$)/,
  // Its keys may name what it opens files through; the letters before are those without a value.
  less: /^(-[^-bhjpPtTxyz=]*k|--lesskey)/,
  tar: /^(--(use|to-c|checkpoint-|rs|rm|inf|new-)[a-z-]*(=|$)|-[^-bCfgHKLNTVX]*[IF])/,
  rg: /^--(pre|hostname-bin)(=|$)/,
  go: /^--?(exec|toolexec|vettool)(=|$)/,
  man: /^(-[^-CRLmMSserEpTXZ]*[PH]|--(pag|ht)[a-z]*(=|$))/,
  curl: /^--?engine(=|$)/,
};

/** Whether one of the words has the command start what it names. */
export function startsPrograms(name: string, args: readonly CommandWord[]): boolean {
  if (name === 'git') return gitStartsPrograms(args);
  // Its letters of old stand without a dash, and their values behind them.
  if (name === 'tar' && /^[A-Za-z]*[IF]/.test(args[0]?.text ?? '')) return true;
  const starter = Object.hasOwn(starters, name) ? starters[name] : undefined;
  return starter !== undefined && args.some(({ text }) => text !== null && starter.test(text));
}
