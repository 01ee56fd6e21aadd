/** What keeps files from being written, and what a person can do about it. */
import { CommandFailure } from './failures.ts';

const codes = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOSPC', 'EDQUOT']);

/** Whether it is the folder, or its disk, that the file system does not write to. */
export function isUnwritable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && codes.has(String(error.code));
}

/** @param dataHome - The folder of what belongs to the person and to no project. */
export function unwritableHome(dataHome: string, message: string): CommandFailure {
  return new CommandFailure(
    `What service keeps for you cannot be kept in ${dataHome}: ${message}.\n` +
      'Let the variable XDG_DATA_HOME name a folder that can be written to.',
  );
}
