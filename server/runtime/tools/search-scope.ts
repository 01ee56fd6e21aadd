// Which folder a listing or search tool may walk, and how it is shown.
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { projectFolders } from '../guidance/project-folders.ts';
import { missingError } from './missing-path.ts';
import { MAX_SEARCHED_BYTES, type WalkScope } from './search-job.ts';
import { type PermissionNeed, type ToolContext, ToolInputError } from './tool.ts';
import { type PathRules, type ResolvedPath, readNeed, resolveAgain, resolvePath } from './workspace-path.ts';

/** A folder (or, for grep, a file) that a call may search. */
export interface SearchScope {
  readonly path: ResolvedPath;
  readonly permission: PermissionNeed | null;
}

/** Resolves the place to search and says what it takes to go there. */
export async function searchScope(
  rules: PathRules,
  given: string,
  action: 'read' | 'list',
  params: Record<string, unknown>,
  context: ToolContext,
): Promise<SearchScope> {
  const path = await resolvePath(given, context.workspacePath);
  return { path, permission: readNeed(rules, path, { action, folder: path.real, params }, context) };
}

/** Checks the place again, just before it is walked. */
export async function openScope(rules: PathRules, path: ResolvedPath, filesToo = false): Promise<WalkScope> {
  await resolveAgain(path);
  const stats = await stat(path.real).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (!stats) throw await missingError(path, 'Use ls to see what there is.');
  const fits = stats.isDirectory() || (filesToo && stats.isFile());
  if (!fits) throw new ToolInputError(`${path.shown} is not a folder. Use view to read a file.`);
  if (stats.isFile() && stats.size > MAX_SEARCHED_BYTES)
    throw new ToolInputError(
      `${path.shown} is too large to be searched here (${stats.size} bytes; at most ${MAX_SEARCHED_BYTES}). Use a command, such as grep.`,
    );
  const base = path.inside ? path.workspace : stats.isDirectory() ? path.real : dirname(path.real);
  // What lies above a workspace of many people's may be another tenant's.
  const [top = base] = await projectFolders(base, rules.requireSandbox);
  return { start: path.real, workspace: path.workspace, base, top };
}

/** A found path as the other tools take it: relative to the workspace, absolute outside of it. */
export function shownPath(path: ResolvedPath, found: string): string {
  return displayName(placeOf(path, found));
}

function placeOf({ shown }: ResolvedPath, found: string): string {
  return shown === '.' ? found : join(shown, found);
}

/** How much is looked for so that it is enough also where a rule keeps most of it from being shown. */
export async function roomFor(shown: number, context: ToolContext): Promise<number> {
  return (await context.hidden()) ? Math.max(shown, mostFound) : shown;
}

const mostFound = 10_000;

/** What may be shown of what was found, and a line about what may not; the line is empty where all may. */
export async function allowedOf<Found>(
  found: readonly Found[],
  pathOf: (one: Found) => string,
  path: ResolvedPath,
  context: ToolContext,
): Promise<{ readonly shown: readonly Found[]; readonly note: readonly string[] }> {
  const isHidden = await context.hidden();
  if (!isHidden) return { shown: found, note: [] };
  const shown = found.filter((one) => !isHidden(placeOf(path, pathOf(one))));
  return { shown, note: shown.length < found.length ? ['(What a rule denies is left out.)'] : [] };
}

/** Names may hold line breaks and control characters; quoted, they cannot pass for another line of the output. */
export function displayName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  return /[\u0000-\u001f\u007f]/.test(name) ? JSON.stringify(name) : name;
}
