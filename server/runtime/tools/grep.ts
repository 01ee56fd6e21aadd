// The tool that searches the content of files, by ripgrep where there is one.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Sandbox } from '../processes/sandbox.ts';
import { defineTool, failure, success } from './define-tool.ts';
import { ripgrep } from './ripgrep.ts';
import { search } from './search.ts';
import { type LineMatch, MAX_MATCH_LENGTH } from './search-job.ts';
import { openScope, searchScope, shownPath } from './search-scope.ts';
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
      'What .gitignore and .serviceignore name, and binary files, are left out.',
    idempotent: true,
    onlyReads: true,
    needsPermission: false,
    input,
    async prepare(call, context) {
      const { path, permission } = await searchScope(rules, call.path, 'read', { ...call }, context);
      return { permission, run: () => searchLines(path, call, options, context) };
    },
  });
}

async function searchLines(
  path: ResolvedPath,
  call: Grep,
  options: GrepOptions,
  context: ToolContext,
): Promise<ToolOutput> {
  const scope = await openScope(path, true);
  const query = { scope, pattern: call.pattern, literal: call.literal_text, include: call.include ?? null };
  const { timeoutMs, ripgrepPath } = options;
  const sandbox = path.inside ? options.sandbox : null;
  const found = ripgrepPath
    ? await ripgrep(query, { ripgrepPath, sandbox, timeoutMs, signal: context.signal })
    : await search({ kind: 'grep', ...query, maxResults: MAX_RESULTS }, timeoutMs, context.signal);
  const ordered = ripgrepPath ? await newestFirst(scope.start, found.matches) : found.matches;
  return render(path, ordered, { ...found, timeoutMs });
}

async function newestFirst(start: string, matches: readonly LineMatch[]): Promise<readonly LineMatch[]> {
  const byFile = [...Map.groupBy(matches, (match) => match.path)];
  const files = await Promise.all(
    byFile.map(async ([path, lines]) => ({ lines, mtimeMs: await mtimeOf(join(start, path)) })),
  );
  return files.sort((one, other) => other.mtimeMs - one.mtimeMs).flatMap((file) => file.lines);
}

async function mtimeOf(path: string): Promise<number> {
  return stat(path).then(
    (stats) => stats.mtimeMs,
    // Gone since the search: it matched, so it is shown, last.
    () => 0,
  );
}

function render(
  path: ResolvedPath,
  matches: readonly LineMatch[],
  end: { truncated: boolean; timedOut: boolean; timeoutMs: number },
): ToolOutput {
  const shown = matches.slice(0, MAX_RESULTS);
  const truncated = end.truncated || shown.length < matches.length;
  const lines = shown.map((match) => `${shownPath(path, match.path)}:${match.line}: ${cut(match.text)}`);
  if (lines.length === 0 && !end.timedOut) lines.push('No matches found.');
  if (truncated)
    lines.push(`(Only ${shown.length} lines are shown. Use a narrower pattern, path or include.)`);
  const metadata = { matches: shown.length, truncated: truncated || end.timedOut };
  if (!end.timedOut) return success(lines.join('\n'), metadata);
  lines.push(`(Stopped after ${end.timeoutMs / 1000} s. Use a simpler pattern, a smaller path or include.)`);
  return failure(lines.join('\n'), { ...metadata, timed_out: true });
}

function cut(text: string): string {
  return text.length <= MAX_MATCH_LENGTH ? text : `${text.slice(0, MAX_MATCH_LENGTH)}…`;
}
