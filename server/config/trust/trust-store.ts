/** Remembers which settings files this person trusts: their real paths, and exactly the bytes they had. */
import { constants } from 'node:fs';
import { type FileHandle, open, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { SettingsError } from '../diagnostic.ts';
import { withLock } from '../files/file-lock.ts';
import { futurePath } from '../files/future-path.ts';
import { makeFolder } from '../files/make-folder.ts';
import { closeToOthers } from '../files/private-folder.ts';
import { isWithin } from '../files/read-once.ts';
import { replaceFile } from '../files/replace-file.ts';

/** What is remembered of one file. */
export interface TrustEntry {
  /** Hex SHA-256 of the bytes that are trusted. */
  readonly sha256: string;
  /** When, as an ISO 8601 time. */
  readonly trustedAt: string;
  /** What was shown when it was trusted, for the difference next time. */
  readonly review: string;
  /** What the command is about to put in their place, trusted beside them: nobody sees the file untrusted in between. */
  readonly next?: NextBytes;
}

/** Bytes that are trusted before they are written. */
export interface NextBytes {
  readonly sha256: string;
  readonly review: string;
}

/** The files that are trusted. Trust is for one real path and its exact bytes; there is none for folders. */
export interface Trust {
  isTrusted(realPath: string, sha256: string): boolean;
  /** What was last trusted under this path, whatever its bytes are now. */
  entry(realPath: string): TrustEntry | null;
  /** Every entry by its real path, in the order of paths. */
  all(): ReadonlyMap<string, TrustEntry>;
}

/** A file that becomes trusted. */
export interface TrustedFile {
  readonly realPath: string;
  readonly sha256: string;
  readonly review: string;
}

/** Thrown where the trust store cannot be believed. Nothing is trusted then. */
export class TrustStoreError extends SettingsError {
  constructor(file: string, message: string, remedy: string) {
    const place = { file, line: 1, column: 1 };
    super([{ severity: 'error', place, pointer: '', message, expected: null, remedy }]);
    this.name = 'TrustStoreError';
  }
}

/** The file as it lies on the disk. */
interface StoredTrust {
  readonly version: 1;
  readonly files: Readonly<Record<string, StoredEntry>>;
}

interface StoredEntry {
  readonly sha256: string;
  readonly trusted_at: string;
  readonly review: string;
  readonly next?: NextBytes;
}

type Entries = ReadonlyMap<string, TrustEntry>;

/** Reviews are short; what is larger is no trust store. */
const maximumBytes = 64 * 1024 * 1024;

/**
 * Reads what this person trusts. Throws TrustStoreError where the store lies in the project or others could have
 * written it; a store that is not there trusts nothing.
 */
export async function readTrust(dataHome: string, projectRoot: string): Promise<Trust> {
  const entries = await readEntries(dataHome, projectRoot);
  return {
    isTrusted: (realPath, sha256) => counting(entries.get(realPath), sha256) !== null,
    entry: (realPath) => entries.get(realPath) ?? null,
    all: () => entries,
  };
}

/** Trusts the files, each with exactly these bytes. Other processes may do the same at the same time. */
export async function recordTrust(
  dataHome: string,
  projectRoot: string,
  files: readonly TrustedFile[],
  now: Date,
): Promise<void> {
  if (!files.length) return;
  await changeEntries(dataHome, projectRoot, (entries) => {
    for (const { realPath, sha256, review } of files)
      entries.set(realPath, { sha256, trustedAt: now.toISOString(), review });
  });
}

/**
 * Trusts bytes that are about to be written in the place of trusted ones, beside those; does nothing where they are not
 * trusted. `recordTrust` ends that when they are written, `forgetNext` when they are not. Were neither to happen, both
 * would stay trusted until the next change: the person has asked for both.
 */
export async function trustNext(
  dataHome: string,
  projectRoot: string,
  { realPath, ...next }: TrustedFile,
  before: string,
): Promise<void> {
  await changeEntries(dataHome, projectRoot, (entries) => {
    const entry = entries.get(realPath);
    const standing = counting(entry, before);
    if (entry && standing) entries.set(realPath, { ...entry, ...standing, next });
  });
}

/** Takes back what `trustNext` did. */
export async function forgetNext(
  dataHome: string,
  projectRoot: string,
  { realPath, sha256 }: Pick<TrustedFile, 'realPath' | 'sha256'>,
): Promise<void> {
  await changeEntries(dataHome, projectRoot, (entries) => {
    const { next, ...entry } = entries.get(realPath) ?? {};
    if ('sha256' in entry && next?.sha256 === sha256) entries.set(realPath, entry);
  });
}

/** What of the entry is for these bytes. */
function counting(entry: TrustEntry | undefined, sha256: string): NextBytes | null {
  if (entry?.sha256 === sha256) return { sha256, review: entry.review };
  return entry?.next?.sha256 === sha256 ? entry.next : null;
}

/** Trusts the files no longer, whatever their bytes. Returns those that were trusted. */
export async function revokeTrust(
  dataHome: string,
  projectRoot: string,
  realPaths: readonly string[],
): Promise<string[]> {
  const known = await readEntries(dataHome, projectRoot);
  if (!realPaths.some((realPath) => known.has(realPath))) return [];
  let revoked: string[] = [];
  await changeEntries(dataHome, projectRoot, (entries) => {
    revoked = realPaths.filter((realPath) => entries.delete(realPath));
  });
  return revoked;
}

async function changeEntries(
  dataHome: string,
  projectRoot: string,
  change: (entries: Map<string, TrustEntry>) => void,
): Promise<void> {
  await refuseInside(projectRoot, dataHome, (await futurePath(dataHome)) ?? dataHome);
  await makeFolder(dataHome);
  const folder = await trustedFolder(dataHome, projectRoot);
  await withLock(join(folder, 'locks'), 'trust', async () => {
    const entries = new Map(await readEntries(dataHome, projectRoot));
    change(entries);
    await replaceFile(join(folder, 'trust.json'), serialize(entries), { mode: 0o600 });
  });
}

function serialize(entries: Entries): Uint8Array {
  const files = [...entries].map(([realPath, { sha256, trustedAt, review, next }]) => {
    const entry: StoredEntry = { sha256, trusted_at: trustedAt, review, ...(next && { next }) };
    return [realPath, entry] as const;
  });
  const stored: StoredTrust = { version: 1, files: Object.fromEntries(files.sort(byPath)) };
  return new TextEncoder().encode(`${JSON.stringify(stored, null, 2)}\n`);
}

/** By code units: the order must not depend on the language of the person. */
function byPath([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : Number(one > other);
}

async function readEntries(dataHome: string, projectRoot: string): Promise<Entries> {
  const file = join(dataHome, 'trust.json');
  const handle = await openStore(file);
  if (!handle) return new Map();
  try {
    await trustedFolder(dataHome, projectRoot);
    await checkFile(handle, file);
    return parse(await handle.readFile('utf8'), file);
  } finally {
    await handle.close();
  }
}

/** The real path of the store's folder, if only this person can change what is in it. */
async function trustedFolder(dataHome: string, projectRoot: string): Promise<string> {
  const folder = await realpath(dataHome);
  await refuseInside(projectRoot, dataHome, folder);
  const facts = await stat(folder);
  if (!isOurs(facts.uid)) {
    const remedy = 'Let XDG_DATA_HOME name a folder of your own.';
    throw new TrustStoreError(dataHome, 'The folder that keeps trust belongs to somebody else', remedy);
  }
  if (!(await closeToOthers(folder, facts))) {
    const message = 'Others than you may read or write in the folder that keeps trust';
    throw new TrustStoreError(dataHome, message, `Run: chmod 700 ${quoted(folder)}`);
  }
  return folder;
}

async function refuseInside(projectRoot: string, dataHome: string, folder: string): Promise<void> {
  const root = await realpath(projectRoot);
  if (!isWithin(folder, root)) return;
  const remedy = 'Let XDG_DATA_HOME name a folder outside the project.';
  throw new TrustStoreError(dataHome, `Trust cannot be kept inside the project ${root}`, remedy);
}

/** Opens the store itself and nothing that a link leads to; null where there is none. */
async function openStore(file: string): Promise<FileHandle | null> {
  try {
    // Without O_NONBLOCK a pipe in its place would never open.
    return await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'; // open rejects with nothing else
    if (code === 'ENOENT') return null;
    if (code === 'ELOOP') {
      const remedy = 'Put a copy of the file it points to in its place, if that is yours, or remove it.';
      throw new TrustStoreError(file, 'The trust store is a symbolic link', remedy);
    }
    const remedy = 'Let it be a file that this user may read, or remove it.';
    throw new TrustStoreError(file, `The trust store cannot be read (${code})`, remedy);
  }
}

/** Looks at the file that was opened, so that nothing can take its place in between. */
async function checkFile(handle: FileHandle, file: string): Promise<void> {
  const facts = await handle.stat();
  if (!facts.isFile()) throw new TrustStoreError(file, 'The trust store is not a file', 'Remove it.');
  if (!isOurs(facts.uid)) {
    const remedy = 'Remove it, and trust your projects anew.';
    throw new TrustStoreError(file, 'The trust store belongs to somebody else', remedy);
  }
  if (facts.mode & 0o077) {
    const message = 'Others than you may read or write the trust store';
    const remedy = `Look whether all that it names is yours; if so, run: chmod 600 ${quoted(file)}`;
    throw new TrustStoreError(file, message, remedy);
  }
  if (facts.size > maximumBytes)
    throw new TrustStoreError(file, `The trust store is larger than ${maximumBytes} bytes`, 'Remove it.');
}

/** A broken store is told and never mended: what it said would be forgotten silently. */
function parse(text: string, file: string): Entries {
  const stored = parseJson(text);
  if (!isStoredTrust(stored)) {
    const remedy =
      'Mend it, or remove it and run "service trust" in your projects again. Until then nothing is trusted.';
    throw new TrustStoreError(file, 'This is not a trust store, or a damaged one', remedy);
  }
  return new Map(
    Object.entries(stored.files).map(([realPath, { sha256, trusted_at: trustedAt, review, next }]) => [
      realPath,
      { sha256, trustedAt, review, ...(next && { next: { sha256: next.sha256, review: next.review } }) },
    ]),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return undefined;
  }
}

function isStoredTrust(value: unknown): value is StoredTrust {
  if (!isRecord(value) || value.version !== 1 || !isRecord(value.files)) return false;
  return Object.entries(value.files).every(([path, entry]) => isAbsolute(path) && isStoredEntry(entry));
}

function isStoredEntry(value: unknown): value is StoredEntry {
  if (!isReviewedBytes(value) || !('trusted_at' in value) || typeof value.trusted_at !== 'string')
    return false;
  return !('next' in value) || isReviewedBytes(value.next);
}

function isReviewedBytes(value: unknown): value is NextBytes {
  return (
    isRecord(value) &&
    typeof value.sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(value.sha256) &&
    typeof value.review === 'string'
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isOurs(owner: number): boolean {
  // Windows has no such numbers; there the person's folders are theirs by other means.
  return process.getuid === undefined || process.getuid() === owner;
}

/** As a shell takes it. */
function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
