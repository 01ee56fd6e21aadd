/** The database of an installation: where it is, and how the commands beside the server open it. */
import { access } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import type { ServerSettings } from '../server-settings/server-settings.ts';
import { openStore, type Store } from '../store/store.ts';
import { syncToDisk } from '../sync-to-disk.ts';

/** Where it is; the settings of a server fit. */
export type Installation = Pick<ServerSettings, 'databaseUrl' | 'dataDirectory'> &
  Partial<Pick<ServerSettings, 'databaseMigrationUrl'>>;

/**
 * Opens it as a server does, but migrates nothing: the program may have been replaced while servers of the older one are
 * still at work, who would not know what they write into.
 */
export async function openInstallation(place: Installation): Promise<Store> {
  return openStore(await databaseUrlOf(place), {
    clock: systemClock,
    log: createLog('warn'),
    migrates: false,
    migrationUrl: place.databaseMigrationUrl ?? undefined,
  });
}

/**
 * Has what was committed survive a power cut: SQLite leaves the newest commits to the system. They are in its write-ahead log,
 * or were brought to the disk before that was begun anew. The database itself is not opened here for that: to close it would
 * free the locks that this process has on it.
 */
export async function syncCommits(place: Installation): Promise<void> {
  const url = await databaseUrlOf(place);
  if (!url.startsWith('sqlite:')) return;
  const log = `${url.slice('sqlite:'.length)}-wal`;
  await syncToDisk(log);
  await syncToDisk(dirname(log));
}

/** As the role that may read and replace all of it. */
export async function ownerUrlOf(place: Installation): Promise<string> {
  return place.databaseMigrationUrl ?? (await databaseUrlOf(place));
}

/** A mistyped folder must not become a new and empty installation. */
async function databaseUrlOf(place: Installation): Promise<string> {
  if (place.databaseUrl !== null) return place.databaseUrl;
  const file = sqliteFileOf(place);
  try {
    await access(file);
  } catch (cause) {
    throw new Error(
      `There is no database in ${place.dataDirectory}: start the server there once, or name its folder with SERVICE_DATA_DIR.`,
      { cause },
    );
  }
  return `sqlite:${file}`;
}

export function sqliteFileOf({ dataDirectory }: Pick<Installation, 'dataDirectory'>): string {
  return join(dataDirectory, 'service.db');
}
