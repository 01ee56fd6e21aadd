/** Finds the folder in a project that only this person's own service can have filled, whatever a repository brings along. */
import { createHash, randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SettingsError } from '../diagnostic.ts';
import type { LoadedSettings } from '../loaded-settings.ts';
import { staysWithin } from '../trust/restrict.ts';
import { dataDirectory } from './data-directory.ts';
import { makeFolder } from './make-folder.ts';
import { writeProjectIgnore } from './project-ignore.ts';
import { isWithin } from './read-once.ts';

type Located = Pick<LoadedSettings, 'places' | 'config'>;

/**
 * Where the sessions and the log of this folder are, or will be. A repository could bring a database with permissions
 * that nobody gave, a write-ahead log that changes ours, or links to files elsewhere. So within a project the data is
 * in a folder below the data directory, whose name only this person knows: it stands in their own files, and is made
 * when it is first asked for. Throws SettingsError where a link leads out of the project.
 */
export async function localDataFolder({ places, config }: Located): Promise<string> {
  const known = await knownDataFolder({ places, config });
  return known ?? join(dataDirectory({ places, config }), await newName(places.dataHome));
}

/** The same where nothing is made for the sake of looking; null as long as this person has kept no data anywhere. */
export async function knownDataFolder({ places, config }: Located): Promise<string | null> {
  const folder = dataDirectory({ places, config });
  // Whoever names a folder elsewhere is the person, or somebody they trust.
  if (!isWithin(folder, places.projectRoot)) return join(folder, nameOf(places.projectRoot));
  await refuseLinks(folder, places.projectRoot);
  const name = await knownName(places.dataHome);
  return name === null ? null : join(folder, name);
}

/** Makes the folder, and keeps it out of the repository. */
export async function makeDataFolder(located: Located): Promise<string> {
  const folder = await localDataFolder(located);
  // Another folder may be one with the project's own files, which git must not lose.
  if (located.config.options?.data_directory === undefined) await writeProjectIgnore(dataDirectory(located));
  // What the repository itself says may let git take everything: the nearer file counts.
  await writeProjectIgnore(folder);
  return folder;
}

/** Projects may share a folder, but what is allowed in one of them is not allowed in another. */
function nameOf(projectRoot: string): string {
  return `data-${createHash('sha256').update(projectRoot).digest('hex').slice(0, 20)}`;
}

async function refuseLinks(folder: string, projectRoot: string): Promise<void> {
  if (await staysWithin(folder, projectRoot)) return;
  throw new SettingsError([
    {
      severity: 'error',
      place: { file: folder, line: 1, column: 1 },
      pointer: '/options/data_directory',
      message: 'The data directory leads out of the project, or into the data of git',
      expected: null,
      remedy: 'Remove the link, or name another folder: service config set --global options.data_directory.',
    },
  ]);
}

const nameFile = 'data-name';
const form = /^data-[0-9a-f]{20}$/;

async function knownName(dataHome: string): Promise<string | null> {
  const file = join(dataHome, nameFile);
  try {
    const name = (await readFile(file, 'utf8')).trim();
    if (form.test(name)) return name;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // the file system rejects with nothing else
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
  const place = { file, line: 1, column: 1 };
  const message = 'This file does not hold the name of a data folder';
  const remedy = 'Put back a copy. Without one, remove it: sessions of before are then no longer found.';
  throw new SettingsError([{ severity: 'error', place, pointer: '', message, expected: null, remedy }]);
}

/** Of several commands that start at once the first decides: a hard link never replaces a file. */
async function newName(dataHome: string): Promise<string> {
  const name = `data-${randomBytes(10).toString('hex')}`;
  await makeFolder(dataHome);
  const file = join(dataHome, nameFile);
  const draft = `${file}.${randomBytes(8).toString('hex')}`;
  await writeFile(draft, `${name}\n`, { flag: 'wx', mode: 0o600 });
  try {
    await link(draft, file);
    return name;
  } catch (error) {
    const known = await knownName(dataHome);
    if (known === null) throw error;
    return known;
  } finally {
    await rm(draft, { force: true });
  }
}
