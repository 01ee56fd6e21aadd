/** The master key: where it lies, how it is made at the first start, and when it is refused. */
import { randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { link, mkdir, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { syncToDisk } from '../sync-to-disk.ts';

/** What decides where the master key lies. */
export interface MasterKeyPlace {
  /** SERVICE_MASTER_KEY_FILE; null or absent where it is not set. */
  readonly masterKeyFile?: string | null | undefined;
  readonly dataDirectory: string;
  readonly database: 'sqlite' | 'postgresql';
}

export interface MasterKey {
  /** The first one seals; while another takes over, a second one still opens. */
  readonly keys: readonly Buffer[];
  /** For the start summary. */
  readonly path: string;
  /** Whether this start made it. */
  readonly created: boolean;
}

const keyBytes = 32;
const recipe = `head -c ${keyBytes} /dev/urandom | base64`;

/** Reads the key; only the file in the data directory is made where it is missing. */
export async function loadMasterKey(place: MasterKeyPlace): Promise<MasterKey> {
  if (place.masterKeyFile) return { ...(await existing(place.masterKeyFile)), created: false };
  if (place.database === 'postgresql') throw new Error(missingBesidePostgresql);
  const path = join(resolve(place.dataDirectory), 'master.key');
  const created = await makeIfMissing(path);
  return { ...(await existing(path)), created };
}

/** Several servers may share the database, and none of their data directories is the one that lasts. */
const missingBesidePostgresql = `With PostgreSQL the master key is not made by itself: set SERVICE_MASTER_KEY_FILE to a file that every server of this database can read. Make it once with: umask 077; ${recipe} > master.key`;

async function existing(path: string): Promise<{ keys: readonly Buffer[]; path: string }> {
  return { keys: keysIn(await readPrivate(path), path), path: resolve(path) };
}

function keysIn(text: string, path: string): readonly Buffer[] {
  if (!holdsMasterKey(text))
    throw new Error(
      `${path} does not hold a master key: ${keyBytes} bytes in base64, as "${recipe}" writes them.`,
    );
  return linesIn(text).map((line) => Buffer.from(line, 'base64'));
}

/** One key a line; two while it is changed for another one. */
export function holdsMasterKey(text: string): boolean {
  const lines = linesIn(text);
  return lines.length <= 2 && lines.every(isKey);
}

function isKey(line: string): boolean {
  const key = Buffer.from(line, 'base64');
  return key.length === keyBytes && key.toString('base64') === line;
}

function linesIn(text: string): readonly string[] {
  return text.trim().split(/\s*\n\s*/);
}

/**
 * The keys of a file that may be replaced while the server is at work: each time they are wanted, it is looked whether
 * it was. A file that is away or broken for a moment changes nothing.
 */
export function followMasterKey({ keys, path }: Pick<MasterKey, 'keys' | 'path'>): {
  readonly current: () => readonly Buffer[];
} {
  let held = { mark: '', keys };
  return {
    current() {
      try {
        const { mtimeMs, ino, size } = statSync(path);
        const mark = `${mtimeMs} ${ino} ${size}`;
        if (mark !== held.mark) held = { mark, keys: keysIn(readFileSync(path, 'utf8'), path) };
      } catch {
        return held.keys;
      }
      return held.keys;
    },
  };
}

/**
 * Makes another key the one that seals; the one before it still opens. One that has begun to take over goes on. Of
 * those who begin at once one waits for the other (`rotate-master-key.ts`): each would replace the other's new key.
 */
export async function beginRotation(path: string): Promise<readonly Buffer[]> {
  const { keys } = await existing(path);
  if (keys.length === 2) return keys;
  await replaceKeys(path, [randomBytes(keyBytes), ...keys]);
  return (await existing(path)).keys;
}

/** Forgets the key that only opened, unless somebody else has done so, and may have made another one the first. */
export async function endRotation(path: string, [first]: readonly Buffer[]): Promise<void> {
  const { keys } = await existing(path);
  if (first && keys.length === 2 && keys[0]?.equals(first)) await replaceKeys(path, [first]);
}

/** The file is whole, old or new, whatever is interrupted; what it belongs to, and who may read it, stays. */
async function replaceKeys(path: string, keys: readonly Buffer[]): Promise<void> {
  const place = await realpath(path);
  const { mode, uid, gid } = await stat(place);
  const draft = `${place}.${randomBytes(6).toString('hex')}`;
  await writeDurably(draft, keys.map((key) => `${key.toString('base64')}\n`).join(''));
  try {
    const file = await open(draft, 'r+');
    try {
      await file.chmod(mode & 0o770);
      const own = await file.stat();
      if (own.uid !== uid || own.gid !== gid) await file.chown(uid, gid);
    } finally {
      await file.close();
    }
    await rename(draft, place);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  // Before anything is sealed with a key of which a power cut would leave no trace.
  await syncToDisk(dirname(place));
}

/** Checks the opened file itself, so that nothing can be put in its place between check and read. */
async function readPrivate(path: string): Promise<string> {
  const file = await openToRead(path);
  try {
    const facts = await file.stat();
    if (!facts.isFile()) throw new Error(`The master key ${path} is not a file.`);
    if ((facts.mode & 0o007) !== 0) {
      throw new Error(
        `Everybody on this machine can get at the master key ${path}: chmod 600 it, then start again.`,
      );
    }
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

async function openToRead(path: string): ReturnType<typeof open> {
  try {
    return await open(path, 'r');
  } catch (cause) {
    throw new Error(
      `The master key ${path} cannot be read: SERVICE_MASTER_KEY_FILE names a file that "${recipe}" made.`,
      {
        cause,
      },
    );
  }
}

/** Complete or absent, and the first of several starting servers wins: a hard link never replaces a file. */
async function makeIfMissing(path: string): Promise<boolean> {
  if (await exists(path)) return false;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  await writeDurably(draft, `${randomBytes(keyBytes).toString('base64')}\n`);
  try {
    const created = await linkIfMissing(draft, path);
    await syncToDisk(dirname(path));
    return created;
  } finally {
    await rm(draft);
  }
}

async function linkIfMissing(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (await exists(path)) return false;
    throw error;
  }
}

async function writeDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== null;
}

function absent(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null;
  throw error;
}
