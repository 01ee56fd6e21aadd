/** Cuts from a file that is not trusted what must not count, by the schema's marks. */
import { lstat, realpath } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import type { ClientConfig } from '../../contract/config.ts';
import { isWithin } from '../files/read-once.ts';
import { pointerTo, without } from '../pointer.ts';
import { type MarkedValue, markedValues, needsTrust } from '../schema-marks.ts';

/** What a file says that counts only when it is trusted: the outermost sections, as they stand there. */
export function restrictedPointers(written: ClientConfig): string[] {
  const found = [...markedValues(written)].filter(({ schema }) => needsTrust(schema));
  return found.map(({ keys }) => pointerTo(keys));
}

/** What counts of a file that is not trusted. */
export function withoutRestricted(written: ClientConfig): ClientConfig {
  return cut(written, ({ schema }) => needsTrust(schema));
}

/** The paths in the settings that lead out of the project; they do not count where nobody trusts the file. */
export async function escapingPaths(
  written: ClientConfig,
  { workingDirectory, projectRoot }: { readonly workingDirectory: string; readonly projectRoot: string },
): Promise<string[]> {
  const confined = [...markedValues(written)].filter(({ schema }) => schema['x-confined']);
  const judged = await Promise.all(
    confined.map(async ({ keys, value }) => {
      const stays = await staysWithin(resolve(workingDirectory, String(value)), projectRoot);
      return stays ? [] : [pointerTo(keys)];
    }),
  );
  return judged.flat();
}

/** The settings without what stands at the pointers. */
export function withoutPointers(written: ClientConfig, pointers: readonly string[]): ClientConfig {
  return cut(written, ({ keys }) => pointers.includes(pointerTo(keys)));
}

function cut(written: ClientConfig, condemned: (value: MarkedValue) => boolean): ClientConfig {
  const values = [...markedValues(written)].filter(condemned);
  const left = values.reduce<unknown>((rest, { keys }) => without(rest, keys), written);
  return left as ClientConfig; // every section is optional
}

/**
 * Whether a path that may not be there yet would lie in the folder, whatever links lead there. The repository's own
 * data is no place for anybody's files: what git finds there, it may run.
 */
export async function staysWithin(path: string, folder: string): Promise<boolean> {
  if (path.includes('\0') || !isWithin(path, folder) || isGitData(path, folder)) return false;
  const real = await realPathOf(path);
  return real !== null && isWithin(real, folder) && !isGitData(real, folder);
}

function isGitData(path: string, folder: string): boolean {
  // Some file systems do not tell capitals from small letters.
  return path.slice(folder.length).toLowerCase().split(sep).includes('.git');
}

/** Where the nearest folder that is there really lies; null where a link on the way leads nowhere. */
async function realPathOf(path: string): Promise<string | null> {
  try {
    return await realpath(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // realpath rejects with nothing else
    // Below what is no folder there is nothing, either.
    if (code !== 'ENOENT' && code !== 'ENOTDIR') return null;
    const found = await lstat(path).catch(() => null);
    if (found === null) return realPathOf(dirname(path));
    // What is no link has been made since: several commands may begin in one folder.
    return found.isSymbolicLink() ? null : realPathOf(path);
  }
}
