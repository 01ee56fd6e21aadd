/** Decides whether a tool call may run, must not, or needs a person. */
import { existsSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import type { PermissionMode, PermissionRule } from '../../contract/api.ts';
import type { CommandPart, ParsedCommand } from '../commands/command-parts.ts';
import { anyWords, type CommandWord } from '../commands/command-words.ts';
import { isInGitFolder } from '../commands/git-folder.ts';
import { isNamedByGit } from '../commands/git-named-places.ts';
import { onlyShows } from '../commands/read-only-commands.ts';
import type { OptionWrite } from '../commands/writing-options.ts';
import type { PermissionNeed } from '../tools/tool.ts';
import type { Grant } from '../transcript.ts';
import {
  type CommandPattern,
  covers,
  coversPath,
  coversUrl,
  exactPattern,
  isExact,
  isOfAnyFile,
  literalGlob,
  mayMean,
  means,
} from './permission-pattern.ts';
import { allowancesFor, type CallRule, grantsFor, rulesFor } from './permission-rules.ts';
import { coversSubject, type Subject, shown, subjectOf } from './permission-subject.ts';
import { redirectedNames } from './redirected-names.ts';

/** What counts in the decision about one call. */
export interface PermissionContext {
  readonly workspacePath: string;
  readonly mode: PermissionMode;
  /** The rules of the session and of its workspace. */
  readonly rules: readonly PermissionRule[];
  /** `permissions.allowed_tools` of the settings. */
  readonly allowedTools: readonly string[];
  /** Whether a hook allows this very call. */
  readonly hookAllows: boolean;
  /** What people have granted for the session or its workspace. */
  readonly grants: readonly Grant[];
}

/** A call that is to be decided. */
export interface DecidedCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
}

export type Verdict =
  | { readonly verdict: 'allow' }
  /** What a lasting answer would remember; nothing where the call cannot be remembered. */
  | { readonly verdict: 'ask'; readonly grants: readonly string[] }
  /** The reason is told to the model. */
  | { readonly verdict: 'deny'; readonly reason: string };

/**
 * Any deny ends it (those of hooks have ended it before); then come the mode, the lists, what was granted before, what a
 * hook allows; last of all a person is asked. A hook stands in for that person, so it does not loosen a mode.
 */
export function decide(call: DecidedCall, need: PermissionNeed | null, context: PermissionContext): Verdict {
  const { mode, rules, workspacePath } = context;
  const subject = subjectOf(call.name, need, call.input, workspacePath);
  const denied = denialOf(call.name, rulesFor(rules, 'deny', call.name), subject, workspacePath);
  if (denied) return { verdict: 'deny', reason: denied };
  if (!need) return { verdict: 'allow' };
  if (mode === 'read_only' && changing.has(need.action))
    return { verdict: 'deny', reason: 'This run may only read: its permission mode is read_only.' };
  const open = openParts(call, need, subject, context);
  if (open === 'covered') return { verdict: 'allow' };
  if (mode === 'deny_unlisted')
    return {
      verdict: 'deny',
      reason: `No rule allows ${subject.kind === 'command' ? 'all of this command' : `the tool ${call.name}`}, and the permission mode is deny_unlisted.`,
    };
  if (context.hookAllows) return { verdict: 'allow' };
  return { verdict: 'ask', grants: open };
}

/** What rules keep from a call that comes past it: that which the tool must not be called for. Paths as patterns name them, and URLs. */
export function hiddenBy(
  rules: readonly PermissionRule[],
  toolName: string,
): ((name: string) => boolean) | null {
  const patterns = rulesFor(rules, 'deny', toolName).flatMap(({ pattern }) => pattern ?? []);
  if (patterns.length === 0) return null;
  return (name) => {
    // No path has two slashes in a row.
    const isAddress = /^https?:\/\//.test(name);
    return patterns.some((pattern) =>
      isAddress ? coversUrl(pattern, name, 'deny') : coversPath(pattern, name),
    );
  };
}

const changing: ReadonlySet<PermissionNeed['action']> = new Set(['write', 'execute', 'download']);

/** Why a rule denies the call; null where none does. */
function denialOf(
  toolName: string,
  rules: readonly CallRule[],
  subject: Subject,
  workspacePath: string,
): string | null {
  const meansFile =
    subject.kind === 'command' ? redirectedNames(subject.command, workspacePath) : () => false;
  for (const { pattern, words } of rules) {
    if (pattern === null || !words) return `A rule denies the tool ${toolName}.`;
    if (subject.kind !== 'command') {
      if (isDenied(pattern, subject)) return `A rule denies ${toolName}(${pattern}).`;
      continue;
    }
    const { command } = subject;
    const meant = (part: CommandPart) =>
      part.kind === 'command'
        ? part.readings.some((reading) => mayMean(words, 'command', reading)) ||
          part.written.some((file) => meansFile(words, 'write', file, part))
        : meansFile(words, part.kind, part.words[0] ?? anyWords, part);
    if (command.parts.some(meant))
      return `A rule denies ${toolName}(${pattern}), and a part of this command is or could be that.`;
    const unclear = unclearIn(command);
    if (unclear)
      return `A rule denies ${toolName}(${pattern}), and this command could be that: ${unclear}. Write it plainly, in several calls if need be.`;
  }
  return null;
}

/** Why it may be any command; null where it is none but those that its words name. */
function unclearIn({ anything, obscure, parts }: ParsedCommand): string | null {
  if (anything) return obscure;
  const part = parts.find((one) => one.anything);
  const unclear = part && (part.obscure ?? 'one of its words may hold a command');
  const isAlias = parts.some(({ elsewhere }) => elsewhere === 'any command');
  return unclear ?? (isAlias ? 'another repository may have an alias of that name' : null);
}

/** By each of its names: a link must not lead past a rule. */
function isDenied(pattern: string, subject: Exclude<Subject, { kind: 'command' }>): boolean {
  return coversSubject(pattern, subject, 'deny') || subject.names.some((name) => coversPath(pattern, name));
}

/** `covered` where nobody has to be asked; else what a lasting answer would remember. */
function openParts(
  call: DecidedCall,
  need: PermissionNeed,
  subject: Subject,
  { mode, rules, allowedTools, grants, workspacePath }: PermissionContext,
): 'covered' | readonly string[] {
  if (mode === 'bypass') return 'covered';
  const obeyed = isObeyed(
    subject.kind === 'file' ? subject.path : shown(need.file ?? need.path, workspacePath),
    workspacePath,
  );
  if (mode === 'accept_edits' && need.action === 'write' && !obeyed && !isOutside(need.path, workspacePath))
    return 'covered';
  const listed = [
    ...rulesFor(rules, 'allow', call.name),
    ...allowancesFor(allowedTools, call.name, need.action),
  ];
  if (listed.some(({ pattern }) => pattern === null)) return 'covered';
  const granted = grantsFor(grants, call.name, need.action);
  if (subject.kind === 'command')
    return openCommand(subject.command, { listed, granted, shows: mode !== 'deny_unlisted', workspacePath });
  // An address says nothing about where on the machine its content goes.
  const elsewhere = need.action === 'download' && (obeyed || isOutside(need.path, workspacePath));
  if (elsewhere) return [];
  if (listed.some(({ pattern }) => pattern !== null && coversSubject(pattern, subject, 'allow')))
    return 'covered';
  if (granted.some((rule) => isGranted(rule, subject, need, workspacePath))) return 'covered';
  return lastingPatterns(subject, need, workspacePath);
}

/** A grant of old, without a pattern, is for the workspace and says nothing about the rest of the machine. */
function isGranted(
  { pattern }: CallRule,
  subject: Exclude<Subject, { kind: 'command' }>,
  need: PermissionNeed,
  workspacePath: string,
): boolean {
  const obeyed =
    subject.kind === 'file' && changing.has(need.action) && isObeyed(subject.path, workspacePath);
  if (pattern === null) return subject.kind === 'file' && !obeyed && !isOutside(need.path, workspacePath);
  // Whoever allowed a folder full of sources did not think of what git runs.
  if (obeyed && pattern !== literalGlob(subject.path)) return false;
  return coversSubject(pattern, subject, 'allow');
}

/**
 * Whether programs do what stands in this file: git, of whichever repository, or this one. To change it is more than an
 * edit. Some file systems do not tell capitals from small letters.
 */
function isObeyed(path: string, workspacePath: string): boolean {
  const [top = '', ...below] = path.toLowerCase().split('/');
  const inRoot = top === '.service' || (below.length === 0 && /^\.?service\.json$/.test(top));
  if (inRoot || top === '.git' || below.includes('.git')) return true;
  return (
    isInGitFolder(path, workspacePath) ||
    // Without a workspace there is no file of it either.
    (existsSync(workspacePath) && isNamedByGit(path, workspacePath))
  );
}

interface Coverage {
  readonly listed: readonly CallRule[];
  readonly granted: readonly CallRule[];
  /** Whether what only shows needs nobody's leave. */
  readonly shows: boolean;
  readonly workspacePath: string;
}

function openCommand(command: ParsedCommand, coverage: Coverage): 'covered' | readonly string[] {
  const open = command.parts.filter((part) => !isCovered(part, command, coverage));
  if (command.obscure !== null) return [];
  if (open.length === 0) return 'covered';
  const patterns = open.map((part) => patternOf(part, command));
  const lasting = patterns.filter((pattern) => pattern !== null);
  return lasting.length < patterns.length || lasting.length > mostGrants ? [] : [...new Set(lasting)];
}

/** More than that nobody reads before saying yes to all of them. */
const mostGrants = 20;
const longestGrant = 2000;

function isCovered(
  part: CommandPart,
  command: ParsedCommand,
  { listed, granted, shows, workspacePath }: Coverage,
): boolean {
  if (part.obscure !== null) return false;
  const words = command.movesAbout ? unplaced(part) : part.words;
  // What a person saw and allowed was this command with that input, or with none.
  const rules = part.fed ? listed : [...listed, ...granted];
  const covering = rules.flatMap(({ words: pattern }) =>
    pattern !== null && coversPart(pattern, part.kind, words) && (!part.elsewhere || isExact(pattern))
      ? [pattern]
      : [],
  );
  const mayWrite = ({ file }: OptionWrite) =>
    !command.movesAbout &&
    rules.some(({ words: pattern }) => pattern !== null && coversPart(pattern, 'write', [file]));
  if (covering.some((pattern) => part.writes.every((one) => means(pattern, one.at) || mayWrite(one))))
    return true;
  return shows && !command.movesAbout && onlyShows(part, workspacePath);
}

/** In another folder the same name is another file, be it of what is redirected or of the program. */
function unplaced({ kind, words }: CommandPart): readonly CommandWord[] {
  if (kind !== 'command') return [{ text: null, many: false }];
  const at = words.findIndex(({ text }) => !/^\w+\+?=/.test(text ?? ''));
  if (!/^[^/].*\//s.test(words[at]?.text ?? '')) return words;
  return words.with(at, { text: null, many: false });
}

/** Whoever allowed `> build/*` did not think of `build/../.git/config`. */
function coversPart(
  pattern: CommandPattern,
  kind: CommandPart['kind'],
  words: readonly CommandWord[],
): boolean {
  if (!covers(pattern, kind, words)) return false;
  return kind === 'command' || isExact(pattern) || isOfAnyFile(pattern) || !words.some(climbs);
}

function climbs({ text }: CommandWord): boolean {
  return text?.split('/').includes('..') ?? false;
}

/** The pattern of this very part; null where none could be true to it. */
function patternOf(part: CommandPart, { movesAbout }: ParsedCommand): string | null {
  const { kind, words, obscure, fed } = part;
  const texts = words.flatMap(({ text }) => (text === null ? [] : [text]));
  if (obscure !== null || fed || texts.length < words.length || (movesAbout && unplaced(part) !== words))
    return null;
  const pattern = exactPattern(kind, texts);
  return pattern.length > longestGrant ? null : pattern;
}

/** For a file its folder, for an address its origin, for anything else every call of the tool. */
function lastingPatterns(
  subject: Exclude<Subject, { kind: 'command' }>,
  need: PermissionNeed,
  workspacePath: string,
): readonly string[] {
  switch (subject.kind) {
    case 'file': {
      if (changing.has(need.action) && isObeyed(subject.path, workspacePath) && isStorable(subject.path))
        return [literalGlob(subject.path)];
      const folder = shown(need.path, workspacePath);
      if (!isStorable(folder)) return [];
      return [folder === '.' ? '**' : `${literalGlob(folder === '/' ? '' : folder)}/**`];
    }
    case 'address':
      return URL.canParse(subject.url) ? [new URL(subject.url).origin] : [];
    default:
      return ['*'];
  }
}

/** A database does not take every name that a file can have. */
function isStorable(path: string): boolean {
  return path.isWellFormed() && !path.includes('\0');
}

function isOutside(path: string, workspacePath: string): boolean {
  return isAbsolute(shown(path, workspacePath));
}
