/** The file of a scope, as it is changed: read once, replaced as a whole, and never through a link out of the project. */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SettingsError } from '../diagnostic.ts';
import { LockError, withLock } from '../files/file-lock.ts';
import { futurePath } from '../files/future-path.ts';
import { isWithin, readOnce } from '../files/read-once.ts';
import { replaceFile } from '../files/replace-file.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';

/** A file that can be changed. */
export interface EditableFile {
  /** The path as people know it. */
  readonly file: string;
  /** Where the file itself is, or will be made. */
  readonly realPath: string;
  /** Null where it is yet to be made. */
  readonly bytes: Uint8Array | null;
  readonly sha256: string | null;
}

/** What is to become of a file. */
export interface FileChange<Result> {
  /** Null where it stays as it is. */
  readonly bytes: Uint8Array | null;
  /** Called before they are written. */
  announce?(): Promise<void>;
  /** Called where they were announced and then could not be written. */
  withdraw?(): Promise<void>;
  /** Called when they are written, before anybody else may change the file. */
  finish(): Promise<Result>;
}

/** Who may change what: only a file of the scope, and none outside the boundary. */
interface Target {
  readonly file: string;
  readonly boundary: string | null;
}

/** Thrown where somebody else changed the file between our reading and our writing. */
class ChangedMeanwhile extends Error {}

/** Somebody who saves this often while we write is a program in a loop. */
const maximumAttempts = 20;

/**
 * Reads the file of the scope and writes what `change` makes of it. Other changes of ours wait; where an editor saves
 * in between, its text is read and changed anew.
 */
export async function changeFile<Result>(
  places: SettingsPlaces,
  scope: 'global' | 'workspace',
  change: (before: EditableFile) => Promise<FileChange<Result>>,
): Promise<Result> {
  const target = targetOf(places, scope);
  try {
    const { realPath } = await read(target);
    const name = createHash('sha256').update(realPath).digest('hex').slice(0, 32);
    return await withLock(join(places.dataHome, 'locks'), name, () => attempt(target, change));
  } catch (error) {
    throw error instanceof Error ? explained(error, target.file) : error;
  }
}

function targetOf({ globalFile, workspaceFile, projectRoot }: SettingsPlaces, scope: string): Target {
  if (scope === 'global') return { file: globalFile, boundary: null };
  if (workspaceFile === null)
    throw refusal(null, 'There is no project here', 'Go into one, or use --global.');
  return { file: workspaceFile, boundary: projectRoot };
}

async function attempt<Result>(
  target: Target,
  change: (before: EditableFile) => Promise<FileChange<Result>>,
): Promise<Result> {
  for (let left = maximumAttempts; ; left--) {
    const before = await read(target);
    const made = await change(before);
    try {
      await writeAnnounced(target, before, made);
      return await made.finish();
    } catch (error) {
      if (!(error instanceof ChangedMeanwhile) || left === 0) throw error;
    }
  }
}

async function read({ file, boundary }: Target): Promise<EditableFile> {
  const found = await readOnce(file, boundary);
  if (found && 'severity' in found) throw new SettingsError([{ ...found, severity: 'error' }]);
  if (found) return { file, ...found };
  const realPath = await futurePath(file);
  if (realPath === null) throw refusal(file, 'This is a symbolic link to nothing', 'Remove it.');
  if (boundary !== null && !isWithin(realPath, boundary)) {
    const message = `The folder ${dirname(file)} is a symbolic link to outside the project`;
    throw refusal(file, message, 'Remove the link.');
  }
  return { file, realPath, bytes: null, sha256: null };
}

async function writeAnnounced(
  target: Target,
  before: EditableFile,
  { bytes, announce, withdraw }: FileChange<unknown>,
): Promise<void> {
  if (!bytes) return;
  await announce?.();
  try {
    await write(target, before, bytes);
  } catch (error) {
    await withdraw?.();
    throw error;
  }
}

async function write(target: Target, before: EditableFile, bytes: Uint8Array): Promise<void> {
  const { realPath } = before;
  const isOurs = target.boundary !== null;
  const facts = before.bytes ? await stat(realPath) : null;
  await replaceFile(realPath, bytes, {
    // Either file may come to hold keys. The workspace file is ours to write, whatever git checked it out with; the
    // person's own keeps the permissions that they gave it.
    mode: facts && !isOurs ? facts.mode & 0o777 : 0o600,
    ...(facts && { owner: facts }),
    lastLook: async () => {
      const now = await read(target);
      if (now.sha256 !== before.sha256 || now.realPath !== realPath) throw new ChangedMeanwhile();
    },
  });
}

function explained(error: Error, file: string): Error {
  if (error instanceof ChangedMeanwhile)
    return refusal(file, 'Something else changes the file all the time', 'Find out what, and try again.');
  if (error instanceof LockError)
    return refusal(error.file, error.message, 'If nothing else is changing settings, remove that file.');
  const { code, path = file } = error as NodeJS.ErrnoException; // an error of another kind has no code
  if (error instanceof SettingsError || code === undefined) return error;
  return refusal(
    file,
    `The file cannot be written (${code}: ${path})`,
    remedies[code] ?? 'Mend that, and try again.',
  );
}

const remedies: Readonly<Record<string, string>> = {
  EACCES: 'Let this user write in that folder.',
  EPERM: 'Let the file and its folder belong to this user.',
  EROFS: 'Choose a place that can be written to.',
  ENOSPC: 'Make room on the disk.',
  ENOTDIR: 'Remove the file that is where a folder should be.',
  EEXIST: 'Remove the file that is where a folder should be.',
};

function refusal(file: string | null, message: string, remedy: string): SettingsError {
  const place = file === null ? null : { file, line: 1, column: 1 };
  return new SettingsError([{ severity: 'error', place, pointer: '', message, expected: null, remedy }]);
}
