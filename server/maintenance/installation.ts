/** Where the database of an installation is. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServerSettings } from '../config/config.ts';

type Place = Pick<ServerSettings, 'databaseUrl' | 'dataDirectory'>;

/** A mistyped folder must not become a new and empty installation. */
export async function databaseUrlOf(place: Place): Promise<string> {
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

export function sqliteFileOf({ dataDirectory }: Pick<Place, 'dataDirectory'>): string {
  return join(dataDirectory, 'service.db');
}
