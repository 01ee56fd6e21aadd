// Searches with ripgrep and reads its answer in bounded memory.
import { join, relative, resolve } from 'node:path';
import { type CommandEnd, runCommand } from '../commands/command.ts';
import type { Sandbox, WrappedCommand } from '../processes/sandbox.ts';
import { type LineMatch, MAX_MATCH_LENGTH, MAX_SEARCHED_BYTES, type WalkScope } from './search-job.ts';

/** What to look for, and where. */
export interface RipgrepQuery {
  readonly scope: WalkScope;
  readonly pattern: string;
  readonly literal: boolean;
  readonly include: string | null;
  /** The ignore files that count from the top on, the farthest first. */
  readonly ignoreFiles: readonly string[];
}

/** How to run it. */
export interface RipgrepOptions {
  readonly ripgrepPath: string;
  readonly sandbox: Sandbox | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Enough to choose the newest files' lines from; a broader answer helps nobody. */
const MAX_COLLECTED = 10_000;
const MAX_COMPLAINT_LENGTH = 2000;

/** The matching lines, in no order of files, or what ripgrep has against the expression. */
export async function ripgrep(
  query: RipgrepQuery,
  options: RipgrepOptions,
): Promise<{ matches: readonly LineMatch[]; truncated: boolean; timedOut: boolean } | { refused: string }> {
  const enough = new AbortController();
  const reader = new MatchReader(query.scope, () => enough.abort());
  let complaint = '';
  const command = await wrapped([options.ripgrepPath, ...argumentsFor(query)], query.scope, options);
  const end = await runCommand({
    ...command,
    cwd: query.scope.top,
    env: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
    timeoutMs: options.timeoutMs,
    signal: AbortSignal.any([options.signal, enough.signal]),
    onOutput: (chunk, from) => {
      if (from === 'stdout') reader.push(chunk);
      else if (complaint.length < MAX_COMPLAINT_LENGTH) complaint += chunk.toString('utf8');
    },
  }).finally(command.release);
  options.signal.throwIfAborted();
  const refused = enough.signal.aborted ? null : refusal(end, complaint);
  if (refused !== null) return { refused };
  return { matches: reader.finish(), truncated: enough.signal.aborted, timedOut: end.reason === 'timed_out' };
}

type Started = Pick<WrappedCommand, 'file' | 'args' | 'release'> & { wrapped: boolean };

async function wrapped(
  command: readonly [string, ...string[]],
  scope: WalkScope,
  options: RipgrepOptions,
): Promise<Started> {
  const [file, ...args] = command;
  if (!options.sandbox) return { file, args, release: () => undefined, wrapped: false };
  const visiblePaths = /^\/(usr|bin)\//.test(file) ? [] : [file];
  const inside = await options.sandbox.wrap(command, {
    // A runtime that puts it into one is shared, and its top is no folder above the workspace.
    workspacePath: scope.top,
    network: false,
    readOnly: true,
    isOwnProgram: true,
    visiblePaths,
  });
  return { ...inside, wrapped: true };
}

function argumentsFor(query: RipgrepQuery): readonly string[] {
  const { start, top } = query.scope;
  return [
    ...[
      '--no-config',
      '--color=never',
      '--no-heading',
      '--with-filename',
      '--line-number',
      '--null',
      '--no-messages',
      '--no-ignore-messages',
      '--crlf',
    ],
    ...[
      '--hidden',
      '--glob=!.git',
      '--no-require-git',
      '--no-ignore-global',
      '--no-ignore-exclude',
      '--no-ignore-parent',
      '--no-ignore-dot',
    ],
    // It would look for them above the top, too; so it looks nowhere above its start, and gets them by name.
    ...query.ignoreFiles.map((path) => `--ignore-file=${path}`),
    ...[
      `--max-columns=${4 * MAX_MATCH_LENGTH}`,
      '--max-columns-preview',
      '--max-count=101',
      `--max-filesize=${MAX_SEARCHED_BYTES}`,
    ],
    ...(query.include === null ? [] : includeArguments(query.include, relative(top, start))),
    ...(query.literal ? ['--fixed-strings'] : []),
    // Behind `--` a pattern such as `-rf` is a pattern. With a whole path no rule would fit that means one from the top on.
    ...['--', query.pattern, `./${relative(top, start)}`],
  ];
}

/** A glob of ripgrep's overrides ignore files, a type does not, but a type knows only names; so names are types. */
function includeArguments(include: string, folder: string): readonly string[] {
  const [not, glob] = include.startsWith('!') ? (['!', include.slice(1)] as const) : (['', include] as const);
  if (glob.includes('/')) {
    const below = join(folder, '/').replaceAll(/[*?[\]{}!\\]/g, '\\$&');
    return [`--glob=${not}${below}${glob.replace(/^(\.?\/)+/, '')}`];
  }
  if (not || glob.includes(':')) return [`--glob=${not}${glob}`];
  return [`--type-add=included:${glob}`, '--type=included'];
}

/**
 * Null where the search was made. 1 means no match, and 2 without a word an unreadable file; a sandbox that cannot start it
 * ends with 1, too, and says why. What was killed has not seen everything.
 */
function refusal({ reason, exitCode, signalName }: CommandEnd, complaint: string): string | null {
  const said = complaint.trim().slice(0, MAX_COMPLAINT_LENGTH);
  if (reason === 'timed_out' || (reason === 'exited' && exitCode === 0)) return null;
  if (reason === 'exited' && (exitCode === 1 || exitCode === 2) && said === '') return null;
  return said || `ripgrep ended with ${signalName ?? exitCode}.`;
}

/** What ripgrep says of a file in which it has found a NUL after some matches: without a NUL of its own before it. */
const BINARY_NOTE =
  /^(.*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found [^\n]*\)\n/s;

/** Reads `path NUL line:text LF`, so that no character of a path can be mistaken for a separator. */
class MatchReader {
  readonly matches: LineMatch[] = [];
  readonly #scope: WalkScope;
  readonly #onEnough: () => void;
  readonly #binary = new Set<string>();
  #rest = Buffer.alloc(0);

  constructor(scope: WalkScope, onEnough: () => void) {
    this.#scope = scope;
    this.#onEnough = onEnough;
  }

  push(chunk: Buffer): void {
    if (this.matches.length >= MAX_COLLECTED) return;
    const bytes = Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (let end = lineEnd(bytes, from); end !== -1; end = lineEnd(bytes, from)) {
      this.#add(bytes.subarray(from, end));
      from = end + 1;
    }
    this.#rest = bytes.subarray(from);
    if (this.matches.length >= MAX_COLLECTED) this.#onEnough();
  }

  /** What was found, without the files that proved to be binary. */
  finish(): readonly LineMatch[] {
    this.#withoutNotes(this.#rest.toString('utf8'));
    return this.matches.filter(({ path }) => !this.#binary.has(path));
  }

  /** The text behind what is said of binary files. */
  #withoutNotes(text: string): string {
    const [note, path = ''] = BINARY_NOTE.exec(text) ?? [];
    if (note === undefined) return text;
    this.#binary.add(this.#found(path));
    return this.#withoutNotes(text.slice(note.length));
  }

  /** It names paths from the top, where it runs. */
  #found(path: string): string {
    return relative(this.#scope.start, resolve(this.#scope.top, path));
  }

  #add(record: Buffer): void {
    const nul = record.indexOf(0);
    const path = this.#withoutNotes(record.subarray(0, nul).toString('utf8'));
    const rest = record.subarray(nul + 1).toString('utf8');
    const colon = rest.indexOf(':');
    const text = rest
      .slice(colon + 1)
      .replace(/\r$/, '')
      .slice(0, MAX_MATCH_LENGTH + 1);
    this.matches.push({ path: this.#found(path), line: Number(rest.slice(0, colon)), text });
  }
}

function lineEnd(bytes: Buffer, from: number): number {
  const nul = bytes.indexOf(0, from);
  return nul === -1 ? -1 : bytes.indexOf(10, nul);
}
