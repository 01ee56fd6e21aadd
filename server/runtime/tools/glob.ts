// The tool that finds files by their names.
import { isAbsolute, join } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { search } from './search.ts';
import { allowedOf, openScope, roomFor, searchScope, shownPath } from './search-scope.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';
import type { PathRules, ResolvedPath } from './workspace-path.ts';

const MAX_RESULTS = 100;
const TIMEOUT_MS = 30_000;

const input = z.strictObject({
  pattern: z
    .string()
    .min(1)
    .max(1000)
    .describe('A glob such as **/*.ts; without a slash it means a name at any depth'),
  path: z.string().min(1).default('.').describe('The folder to search; the workspace by default'),
});

/** Builds the `glob` tool. */
export function globTool(rules: PathRules): Tool {
  return defineTool({
    name: 'glob',
    description:
      `Finds files whose path fits a glob pattern, newest first, at most ${MAX_RESULTS}. The pattern is relative to ` +
      'the folder searched. What .gitignore and .serviceignore name is left out, unless path leads into it; names that ' +
      'begin with a dot have to be named in the pattern.',
    idempotent: true,
    onlyReads: true,
    needsPermission: false,
    input,
    async prepare(call, context) {
      const { folder, pattern } = placed(call);
      const { path, permission } = await searchScope(rules, folder, 'list', { ...call }, context);
      return { permission, run: () => find(rules, path, pattern, context) };
    },
  });
}

/** The folders that lead a whole path, or one that goes up, say where to search; the pattern begins behind them. */
function placed({ path, pattern }: z.output<typeof input>): { folder: string; pattern: string } {
  const parts = pattern.split('/');
  if (!isAbsolute(pattern) && !parts.includes('..')) return { folder: path, pattern };
  const wild = parts.findIndex((part) => /[*?[\]{}()!]/.test(part));
  const from = wild === -1 ? parts.length - 1 : wild;
  const lead = parts.slice(0, from).join('/');
  return {
    folder: isAbsolute(pattern) ? lead || '/' : join(path, lead),
    pattern: parts.slice(from).join('/'),
  };
}

async function find(
  rules: PathRules,
  path: ResolvedPath,
  pattern: string,
  context: ToolContext,
): Promise<ToolOutput> {
  const scope = await openScope(rules, path);
  const job = { kind: 'glob', scope, pattern, maxResults: await roomFor(MAX_RESULTS, context) } as const;
  const { paths, timedOut, ...end } = await search(job, TIMEOUT_MS, context.signal);
  const { shown: allowed, note } = await allowedOf(paths, (found) => found, path, context);
  const shown = allowed.slice(0, MAX_RESULTS);
  const truncated = end.truncated || shown.length < allowed.length;
  const lines = shown.map((found) => shownPath(path, found));
  if (timedOut)
    lines.push(`(Stopped after ${TIMEOUT_MS / 1000} s. Search a smaller folder or use a simpler pattern.)`);
  else if (lines.length === 0 && !truncated) lines.push(nothing(pattern));
  lines.push(...note);
  if (truncated) lines.push(`(${endedEarly(shown.length)} Use a narrower pattern.)`);
  return {
    ...success(lines.join('\n'), { files: shown.length, truncated: truncated || timedOut }),
    is_error: timedOut,
  };
}

function endedEarly(shown: number): string {
  return shown === 0
    ? 'The search ended before it came to a file that may be shown.'
    : `Only the ${MAX_RESULTS} newest are shown.`;
}

function nothing(pattern: string): string {
  return pattern.endsWith('/') ? 'No files found: glob finds files; use ls for folders.' : 'No files found.';
}
