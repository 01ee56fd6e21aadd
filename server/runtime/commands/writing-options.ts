/** Options by which commands that mostly show or compute write files after all, or start programs. */
import type { CommandWord } from './command-words.ts';
import { gitStartsPrograms } from './git-options.ts';

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
      ],
    ],
    nameless: ['O', 'J', 'K', 'output-dir', 'remote-name', 'remote-name-all', 'remote-header-name', 'config'],
  },
  sed: { letters: 'i', valued: 'efl', long: ['in-place'], nameless: ['i', 'in-place'] },
  tree: { letters: 'o', valued: 'LPIHT' },
  iconv: { letters: 'o', valued: 'ft', long: ['output'] },
  less: { letters: 'oO', valued: 'bhjkpPtTxyz', long: ['log-file', 'LOG-FILE'] },
  yq: { letters: 'i', long: ['inplace', 'in-place'], nameless: ['i', 'inplace', 'in-place'] },
};

/** What all of git's commands that show know, and two that write into what this option names. */
const git: Writer = { long: ['output', 'output-directory'] };
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
  return writer ? optionsOf(writer, args).map(({ at, file }) => ({ at: at + 1, file })) : [];
}

/** Behind `-C folder` a name is that of a file elsewhere. */
function writtenByGit(args: readonly CommandWord[]): readonly OptionWrite[] {
  const at = args.findIndex(({ text }) => text !== null && !text.startsWith('-'));
  const named = args[at]?.text ?? '';
  const writer = Object.hasOwn(gitCommands, named) ? gitCommands[named] : git;
  const found = writer ? optionsOf(writer, args) : [];
  return at === 0 ? found : found.map((one) => ({ ...one, file: unknown }));
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
  const target = (name: string, given: string | undefined) => {
    if (writer.nameless?.includes(name)) return unknown;
    return given === undefined ? next : { text: given, many: false };
  };
  if (writer.single?.includes(option.slice(1)) && option.startsWith('-'))
    return target(option.slice(1), value);
  if (option.startsWith('--')) {
    const meant = writer.long?.find((name) => option.length > 2 && name.startsWith(option.slice(2)));
    return meant === undefined ? null : target(meant, value);
  }
  if (!/^-[^-]/.test(text)) return null;
  for (const [index, letter] of [...text.slice(1)].entries()) {
    if (writer.letters?.includes(letter)) return target(letter, text.slice(index + 2) || undefined);
    if (writer.valued?.includes(letter)) return null;
  }
  return null;
}

function splitAt(text: string, sign: string): readonly [string, string | undefined] {
  const at = text.indexOf(sign);
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Options that name programs: what runs then stands in no word that a pattern compares. */
const starters: Readonly<Record<string, RegExp>> = {
  sort: /^--comp[a-z-]*(=|$)/,
  tar: /^(--(use-compress-program|to-command|checkpoint-action|rsh-command|info-script|new-volume-script)(=|$)|-I|-[A-Za-z]*F)/,
  rg: /^--(pre|hostname-bin)(=|$)/,
  go: /^--?(exec|toolexec|vettool)(=|$)/,
  man: /^(-[PH]|--(pager|html)(=|$))/,
  curl: /^--?engine(=|$)/,
};

/** Whether one of the words has the command start what it names. */
export function startsPrograms(name: string, args: readonly CommandWord[]): boolean {
  if (name === 'git') return gitStartsPrograms(args);
  const starter = Object.hasOwn(starters, name) ? starters[name] : undefined;
  return starter !== undefined && args.some(({ text }) => text !== null && starter.test(text));
}
