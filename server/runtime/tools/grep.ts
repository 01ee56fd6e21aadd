// The tool that searches the content of files, by ripgrep where there is one.
import { z } from 'zod';
import type { Sandbox } from '../processes/sandbox.ts';
import { defineTool, failure, success } from './define-tool.ts';
import { type FoundLines, searchLines } from './line-search.ts';
import { MAX_MATCH_LENGTH, MAX_SEARCHED_BYTES } from './search-job.ts';
import { allowedOf, openScope, roomFor, searchScope, shownPath } from './search-scope.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';
import type { PathRules, ResolvedPath } from './workspace-path.ts';

/** How the `grep` tool searches. */
export interface GrepOptions {
  readonly timeoutMs: number;
  /** The program; null to search without it. */
  readonly ripgrepPath: string | null;
  /** Where ripgrep runs; null to run it as it is. */
  readonly sandbox: Sandbox | null;
}

const MAX_RESULTS = 100;

const input = z.strictObject({
  pattern: z.string().min(1).max(1000).describe('A regular expression, matched line by line'),
  path: z.string().min(1).default('.').describe('The folder or file to search; the workspace by default'),
  include: z
    .string()
    .min(1)
    .max(1000)
    .optional()
    .describe('Only files that fit this glob, such as *.ts or src/**/*.js'),
  literal_text: z.boolean().default(false).describe('Take the pattern as plain text'),
});

type Grep = z.output<typeof input>;

/** Builds the `grep` tool. */
export function grepTool(rules: PathRules, options: GrepOptions): Tool {
  return defineTool({
    name: 'grep',
    description:
      `Searches the lines of files for a regular expression, newest files first, at most ${MAX_RESULTS} lines. ` +
      'What .gitignore and .serviceignore name is left out, unless path leads into it; binary files are, too, and those ' +
      `over ${MAX_SEARCHED_BYTES / 1024 / 1024} MB, which a command can search.`,
    idempotent: true,
    onlyReads: true,
    needsPermission: false,
    input,
    async prepare(call, context) {
      const { path, permission } = await searchScope(rules, call.path, 'read', { ...call }, context);
      return { permission, run: () => find(rules, path, call, options, context) };
    },
  });
}

async function find(
  rules: PathRules,
  path: ResolvedPath,
  call: Grep,
  { sandbox, timeoutMs, ripgrepPath }: GrepOptions,
  context: ToolContext,
): Promise<ToolOutput> {
  const { signal } = context;
  const scope = await openScope(rules, path, true);
  const { pattern, literal_text: literal, include } = call;
  const maxResults = await roomFor(MAX_RESULTS, context);
  const found = await searchLines(
    { scope, pattern, literal, include: include === undefined ? null : relativeGlob(include, path) },
    { timeoutMs, ripgrepPath, sandbox: path.inside ? sandbox : null, maxResults, signal },
  );
  const { shown, note } = await allowedOf(found.matches, (match) => match.path, path, context);
  return render(path, { ...found, matches: shown }, note, timeoutMs);
}

/** Models write whole paths, too. */
function relativeGlob(include: string, { real }: ResolvedPath): string {
  return include.startsWith(`${real}/`) ? include.slice(real.length) : include;
}

function render(
  path: ResolvedPath,
  { matches, ...end }: FoundLines,
  note: readonly string[],
  timeoutMs: number,
): ToolOutput {
  const shown = matches.slice(0, MAX_RESULTS);
  const truncated = end.truncated || shown.length < matches.length;
  const lines = shown.map((match) => `${shownPath(path, match.path)}:${match.line}: ${cut(match.text)}`);
  if (lines.length === 0 && !end.timedOut && !truncated) lines.push('No matches found.');
  lines.push(...note);
  if (truncated) lines.push(`(${endedEarly(shown.length)} Use a narrower pattern, path or include.)`);
  const metadata = { matches: shown.length, truncated: truncated || end.timedOut };
  if (!end.timedOut) return success(lines.join('\n'), metadata);
  lines.push(`(Stopped after ${timeoutMs / 1000} s. Use a simpler pattern, a smaller path or include.)`);
  return failure(lines.join('\n'), { ...metadata, timed_out: true });
}

function endedEarly(shown: number): string {
  return shown === 0
    ? 'The search ended before it came to a line that may be shown.'
    : `Only ${shown} lines are shown.`;
}

function cut(text: string): string {
  return text.length <= MAX_MATCH_LENGTH ? text : `${text.slice(0, MAX_MATCH_LENGTH)}…`;
}
