// The tool that lists a folder as a tree.
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { search } from './search.ts';
import type { WalkEntry } from './search-job.ts';
import { allowedOf, displayName, openScope, searchScope } from './search-scope.ts';
import type { Tool, ToolContext, ToolOutput } from './tool.ts';
import type { PathRules, ResolvedPath } from './workspace-path.ts';

/** The limits of a listing, as the settings file names them. */
export interface LsLimits {
  /** 0 means no limit. */
  readonly max_depth: number;
  /** 0 means the hard limit of 10,000. */
  readonly max_items: number;
}

const TIMEOUT_MS = 30_000;
/** Keeps the answer in bounds whatever the settings say. */
const HARD_MAX_ITEMS = 10_000;

const input = z.strictObject({
  path: z.string().min(1).default('.').describe('The folder; the workspace by default'),
  depth: z.int().min(0).optional().describe('How many levels to show; 0 for all that the settings allow'),
  ignore: z.array(z.string().min(1)).max(50).default([]).describe('Glob patterns of names to leave out'),
});

/** Builds the `ls` tool. */
export function lsTool(rules: PathRules, limits: LsLimits): Tool {
  return defineTool({
    name: 'ls',
    description:
      'Lists a folder as a tree, without what .gitignore and .serviceignore name. Links are shown and not followed. ' +
      'Says so when there is more than it may show.',
    idempotent: true,
    onlyReads: true,
    needsPermission: false,
    input,
    async prepare(call, context) {
      const { path, permission } = await searchScope(rules, call.path, 'list', { ...call }, context);
      const maxDepth = smallerLimit(call.depth ?? 0, limits.max_depth);
      return {
        permission,
        run: () => list(rules, path, { ...limits, max_depth: maxDepth }, call.ignore, context),
      };
    },
  });
}

/** Of two limits in which 0 means none, the one that holds. */
function smallerLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}

async function list(
  rules: PathRules,
  path: ResolvedPath,
  limits: LsLimits,
  ignore: readonly string[],
  context: ToolContext,
): Promise<ToolOutput> {
  const scope = await openScope(rules, path);
  const maxItems = smallerLimit(limits.max_items, HARD_MAX_ITEMS);
  const job = { kind: 'list', scope, maxDepth: limits.max_depth, maxItems, ignore } as const;
  const { entries, truncated, timedOut } = await search(job, TIMEOUT_MS, context.signal);
  const { shown, note } = await allowedOf(entries, (entry) => entry.path, path, context);
  const lines = [`${path.shown}/`, ...treeLines(shown), ...note];
  if (entries.length === 0) lines.push('  (empty)');
  if (truncated)
    lines.push(`(Cut at ${maxItems} entries. List a folder further down, or fewer levels with depth.)`);
  if (timedOut) lines.push(`(Stopped after ${TIMEOUT_MS / 1000} s; the list is not complete.)`);
  return success(lines.join('\n'), {
    path: path.shown,
    entries: shown.length,
    truncated: truncated || timedOut,
  });
}

/** The walk goes level by level; the tree wants each folder's content below it. */
function treeLines(entries: readonly WalkEntry[]): readonly string[] {
  const byFolder = Map.groupBy(entries, (entry) => dirname(entry.path));
  const below = (folder: string): readonly string[] =>
    (byFolder.get(folder) ?? []).flatMap((entry) => [
      lineOf(entry),
      ...(entry.type === 'folder' ? below(entry.path) : []),
    ]);
  return below('.');
}

const MARKS: Readonly<Record<WalkEntry['type'], string>> = {
  file: '',
  folder: '/',
  link: ' (link)',
  other: ' (special)',
};

function lineOf(entry: WalkEntry): string {
  return `${'  '.repeat(entry.depth)}${displayName(basename(entry.path))}${MARKS[entry.type]}`;
}
