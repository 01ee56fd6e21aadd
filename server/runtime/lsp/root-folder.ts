/** Finds the folder of the project that a file belongs to, never above its workspace. */
import { readdirSync } from 'node:fs';
import { dirname, relative } from 'node:path';

/** The nearest folder from the file up to the workspace that holds one of the markers; null where none does. */
export function rootFolderOf(path: string, workspacePath: string, markers: readonly string[]): string | null {
  if (relative(workspacePath, path).startsWith('..')) return null;
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if (holdsMarker(folder, markers)) return folder;
    if (folder === workspacePath || folder === dirname(folder)) return null;
  }
}

/** Whether the folder holds one of the markers; a marker may begin with a star. */
function holdsMarker(folder: string, markers: readonly string[]): boolean {
  const names = namesIn(folder);
  return markers.some((marker) =>
    marker.startsWith('*')
      ? names.some((name) => name.endsWith(marker.slice(1)))
      : names.includes(marker.replace(/\/$/, '')),
  );
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Gone, or not for us to see: it marks nothing.
    return [];
  }
}
