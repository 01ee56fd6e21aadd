/** Checks of what the command keeps: the data directory, its database, the person's own folder, the master key. */
import { constants, type Stats } from 'node:fs';
import { access, readFile, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Finding, Scene, SettledScene } from './examination.ts';

/** Less than this is soon used up. */
const scarceBytes = 200 * 1024 ** 2;
/** Less than this may not hold the next session. */
const leastBytes = 10 * 1024 ** 2;

/** The data directory: whether it can be written, and has room; whether its database stays out of the repository. */
export async function examineDataDirectory({ loaded }: SettledScene): Promise<Finding[]> {
  const { dataDirectory, knownDataFolder } = await import('../../../server/config/config.ts');
  const folder = dataDirectory(loaded);
  const facts = await factsOf(folder);
  const kept = await knownDataFolder(loaded);
  if (facts && !facts.isDirectory())
    return [
      {
        level: 'problem',
        message: `The data directory ${folder} is no folder.`,
        remedy: 'Move it away, or set options.data_directory.',
      },
    ];
  const base = await nearestFolder(folder);
  if (!(await isWritable(base)))
    return [
      {
        level: 'problem',
        message: `Nothing can be written to ${base}, where the data directory ${folder} is.`,
        remedy: `Run: chmod u+rwx '${base}', or set options.data_directory.`,
      },
    ];
  const { bavail, bsize } = await statfs(base);
  return [
    spaceFinding(folder, bavail * bsize),
    ...(kept && facts ? await exposureFindings(kept, facts, loaded.places.projectRoot) : []),
  ];
}

/** Whether there is room. */
export function spaceFinding(folder: string, freeBytes: number): Finding {
  const free = `${Math.floor(freeBytes / 1024 ** 2)} MiB are free in ${folder}`;
  if (freeBytes >= scarceBytes) return { level: 'ok', message: `${free}.` };
  const level = freeBytes < leastBytes ? 'problem' : 'warning';
  return { level, message: `Only ${free}.`, remedy: 'Make room, or set options.data_directory.' };
}

async function exposureFindings(folder: string, facts: Stats, projectRoot: string): Promise<Finding[]> {
  const findings: Finding[] = [];
  const file = join(folder, 'service.db');
  const database = await factsOf(file);
  if (database && (database.mode & 0o077) !== 0 && (facts.mode & 0o077) !== 0)
    findings.push({
      level: 'warning',
      message: `Others can read the sessions in ${folder}.`,
      remedy: `Run: chmod 600 '${file}'`,
    });
  const inProject = folder.startsWith(`${projectRoot}/`) && (await factsOf(join(projectRoot, '.git')));
  if (database && inProject && !(await factsOf(join(folder, '.gitignore'))))
    findings.push({
      level: 'warning',
      message: `Nothing keeps the sessions in ${folder} out of the repository.`,
      remedy: `Write "*" into ${join(folder, '.gitignore')}.`,
    });
  return findings;
}

/** The database of the project, without starting a server, and without changing it. */
export async function examineDatabase({ loaded }: SettledScene): Promise<Finding[]> {
  const { knownDataFolder } = await import('../../../server/config/config.ts');
  const folder = await knownDataFolder(loaded);
  const none: Finding = { level: 'ok', message: 'There is no database yet; the first run makes it.' };
  if (folder === null) return [none];
  const file = join(folder, 'service.db');
  // The driver takes long to load.
  if (!(await factsOf(file))) return [none];
  const { examineDatabase: examine } = await import('../../../server/maintenance/maintenance.ts');
  try {
    const versions = await examine(folder);
    if (!versions) return [none];
    if (versions.refusal === null) return [{ level: 'ok', message: `${file} can be read.` }];
    const remedy = 'Use the version that wrote it.';
    return [{ level: 'problem', message: `${file}: ${versions.refusal}`, remedy }];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const remedy =
      'Let it be readable for you; if it is damaged, move it away, and the next run makes a new one.';
    return [{ level: 'problem', message: `${file} cannot be read (${reason}).`, remedy }];
  }
}

/** The folder with trust, logins and the master key. */
export async function examineDataHome({ places }: Scene): Promise<Finding[]> {
  const folder = places.dataHome;
  const facts = await factsOf(folder);
  if (!facts) {
    const base = await nearestFolder(folder);
    if (await isWritable(base)) return [{ level: 'ok', message: `${folder} is not there yet.` }];
    return [
      {
        level: 'problem',
        message: `${folder} cannot be made: nothing can be written to ${base}.`,
        remedy: 'Let XDG_DATA_HOME name a folder of yours.',
      },
    ];
  }
  if (!facts.isDirectory())
    return [{ level: 'problem', message: `${folder} is no folder.`, remedy: 'Move it away.' }];
  if (facts.uid !== process.getuid?.())
    return [
      {
        level: 'problem',
        message: `${folder} belongs to somebody else.`,
        remedy: 'Let XDG_DATA_HOME name a folder of yours.',
      },
    ];
  if ((facts.mode & 0o077) !== 0)
    return [
      {
        level: 'problem',
        message: `${folder} is open to others, and holds secrets.`,
        remedy: `Run: chmod 700 '${folder}'`,
      },
    ];
  if (!(await isWritable(folder)))
    return [
      {
        level: 'problem',
        message: `Nothing can be written to ${folder}.`,
        remedy: `Run: chmod 700 '${folder}'`,
      },
    ];
  return [{ level: 'ok', message: `${folder} is yours alone.` }];
}

/** The key that seals what is secret in the database. Its bytes are looked at, and never shown. */
export async function examineMasterKey({ places }: Scene): Promise<Finding[]> {
  const file = join(places.dataHome, 'master.key');
  const facts = await factsOf(file);
  if (!facts) return [{ level: 'ok', message: 'There is no master key yet; the first run makes it.' }];
  if ((facts.mode & 0o077) !== 0)
    return [
      {
        level: 'problem',
        message: `Others can read the master key ${file}.`,
        remedy: `Run: chmod 600 '${file}'`,
      },
    ];
  // That it cannot be read is told below.
  const text = await readFile(file, 'utf8').catch(() => null);
  const { holdsMasterKey } = await import('../../../server/maintenance/maintenance.ts');
  if (text !== null && holdsMasterKey(text)) return [{ level: 'ok', message: `${file} is yours alone.` }];
  const message = `${file} ${text === null ? 'cannot be read' : 'holds no master key'}.`;
  const remedy =
    'Put back a copy. Without one, remove it: a new one is made, and what the old one sealed is lost.';
  return [{ level: 'problem', message, remedy }];
}

async function factsOf(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // stat rejects with nothing else
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}

/** The folder itself, or the one in which it would be made. */
async function nearestFolder(folder: string): Promise<string> {
  return (await factsOf(folder)) || folder === dirname(folder)
    ? folder
    : await nearestFolder(dirname(folder));
}

async function isWritable(folder: string): Promise<boolean> {
  return await access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false, // whatever the reason, nothing can be written
  );
}
