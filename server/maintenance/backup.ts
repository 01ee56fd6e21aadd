/** `service backup`, `restore` and `rotate-master-key`: what an operator does to the data of an installation. */
import { join, resolve } from 'node:path';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { readServerSettings, type ServerSettings } from '../server-settings/server-settings.ts';
import { anchorFile, backUp, type FilesOfBackup, filesOf, refuseStrange, restore } from '../store/store.ts';
import { type Installation, ownerUrlOf, sqliteFileOf } from './installation.ts';
import { rotateMasterKey } from './rotate-master-key.ts';

/** `service backup [FILE] [flags of the server]`. Answers with the file. */
export async function backupCommand(words: readonly string[]): Promise<void> {
  const { name, settings } = read(words, 'Copies the database while its servers are at work.');
  if (!settings) return;
  const { file, files } = await takeBackup(settings, name);
  process.stdout.write(`${file}\n`);
  process.stderr.write(sentencesOf(file, files));
  process.stderr.write(
    'The copy holds the database, with every secret sealed, and neither the master key nor the files of workspaces: ' +
      'without the master key nobody opens the secrets, so keep a copy of it elsewhere.\n',
  );
}

/** `service restore FILE [flags of the server]`. */
export async function restoreCommand(words: readonly string[]): Promise<void> {
  const { name, settings } = read(words, 'Puts a copy in the place of the database. Stop the servers first.');
  if (!settings) return;
  if (name === null) throw new Error('Name the file: service restore FILE');
  const lost = await restoreBackup(settings, name);
  if (lost > 0)
    process.stderr.write(
      `The bytes of ${lost} files are neither beside the copy nor in the data directory.\n`,
    );
  process.stderr.write('The database is as it was then. It needs the master key of that time.\n');
}

/** `service rotate-master-key [flags of the server]`. */
export async function rotateMasterKeyCommand(words: readonly string[]): Promise<void> {
  const { settings } = read(words, 'Makes another master key, while servers are at work.');
  if (!settings) return;
  const { keyFile, resealed } = await rotateMasterKey(settings);
  process.stdout.write(`${keyFile} holds a new master key; ${resealed} secrets were sealed with it.\n`);
  process.stderr.write(
    'The key before it opens nothing that is there now, but what is in backups: keep it as long as those.\n',
  );
}

/** What the copy has of the files that people uploaded. */
function sentencesOf(file: string, { copied, inBuckets, lost }: FilesOfBackup): string {
  const sentences = [
    copied > 0 &&
      `${filesOf(file)} holds the ${copied} files that people uploaded, and belongs to the copy.\n`,
    inBuckets > 0 && `${inBuckets} files lie in a bucket, which needs a backup of its own.\n`,
    lost > 0 && `The bytes of ${lost} files are gone from the data directory.\n`,
  ];
  return sentences.filter((sentence) => sentence !== false).join('');
}

/** Writes a copy, by default into `backups` of the data directory, and answers with its file. */
export async function createBackup(settings: Installation, name: string | null = null): Promise<string> {
  return (await takeBackup(settings, name)).file;
}

async function takeBackup(
  settings: Installation,
  name: string | null,
): Promise<{ readonly file: string; readonly files: FilesOfBackup }> {
  const url = await ownerUrlOf(settings);
  const moment = systemClock
    .now()
    .toISOString()
    .replaceAll(/[-:]|\.\d+/g, '');
  const ending = url.startsWith('sqlite:') ? 'db' : 'dump';
  const file = resolve(name ?? `${settings.dataDirectory}/backups/service-${moment}.${ending}`);
  return { file, files: await backUp(url, file, createLog('warn'), filesDirectoryOf(settings)) };
}

/** As the server has it. */
function filesDirectoryOf({ dataDirectory }: Installation): string {
  return join(dataDirectory, 'files');
}

/**
 * Puts a copy back. A copy of a newer program, a damaged one and a database in use are refused, and nothing changes.
 * Answers with how many files have lost their bytes.
 */
export async function restoreBackup(settings: Installation, name: string): Promise<number> {
  const { databaseMigrationUrl, databaseUrl } = settings;
  const url = databaseMigrationUrl ?? databaseUrl ?? `sqlite:${sqliteFileOf(settings)}`;
  const files = filesDirectoryOf(settings);
  return restore(url, resolve(name), {
    ...{ clock: systemClock, log: createLog('warn'), check: refuseStrange, files },
    anchors: anchorFile(settings.dataDirectory),
  });
}

interface Words {
  readonly name: string | null;
  /** Null where only help was wanted. */
  readonly settings: ServerSettings | null;
}

function read(words: readonly string[], purpose: string): Words {
  const [first] = words;
  const name = first === undefined || first.startsWith('-') ? null : first;
  const flags = name === null ? words : words.slice(1);
  const { settings, helpWanted, help } = readServerSettings(flags, process.env);
  if (!helpWanted) return { name, settings };
  process.stdout.write(`${purpose}\n${help}`);
  return { name, settings: null };
}
