/** How diagnostics and places in files are put to the model: short, bounded, with paths of the workspace. */
import { relative } from 'node:path';
import type { Diagnostic, FileReport } from './diagnostics.ts';
import { isInside } from './server-choice.ts';

/** What a server names need be no path. */
const longestPath = 1000;

/** Relative inside the workspace, absolute elsewhere. */
export function shownPath(path: string, workspacePath: string): string {
  const shown = isInside(workspacePath, path) ? relative(workspacePath, path) || '.' : path;
  return shown.length > longestPath ? `${shown.slice(0, longestPath)}…` : shown;
}

/** One line for each, the worst first, at most so many. */
export function diagnosticLines(diagnostics: readonly Diagnostic[], total: number, most: number): string {
  const lines = diagnostics.slice(0, most).map(diagnosticLine);
  if (total > lines.length) lines.push(`… and ${total - lines.length} more`);
  return lines.join('\n');
}

function diagnosticLine({ severity, line, column, message, source }: Diagnostic): string {
  return `${severity} ${line}:${column} ${message}${source ? ` [${source}]` : ''}`;
}

/** "2 errors, 1 warning". */
export function countsOf({ errors, warnings }: FileReport): string {
  const parts = [counted(errors, 'error'), counted(warnings, 'warning')].filter(Boolean);
  return parts.join(', ') || 'no errors';
}

export function counted(count: number, noun: string): string {
  if (count === 0) return '';
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}
