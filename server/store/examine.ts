/** Looks at a database without changing it: nothing is made, nothing is migrated. */
import { pathToFileURL } from 'node:url';
import type { Log } from '../log.ts';
import { connect } from './database.ts';
import { type AppliedStep, refuseStrange, schemaVersion, versionOf } from './migrate.ts';

/** The number of a database's schema, beside the one that this program would bring it to. */
export interface SchemaVersions {
  /** 0 where nothing was ever stored. */
  readonly found: number;
  readonly known: number;
  /** Why this program does not open it; null where it does. */
  readonly refusal: string | null;
}

/** Reads the version of an SQLite file. Rejects with what SQLite says where that is no database, or out of reach. */
export async function examineSqlite(file: string, log: Log): Promise<SchemaVersions> {
  const sql = connect(
    {
      client: 'sqlite3',
      // Knex opens every database for writing; only the address can say otherwise.
      connection: { filename: `${pathToFileURL(file).href}?mode=ro`, flags: ['OPEN_URI'] },
      pool: { min: 0, max: 1 },
    },
    log,
  );
  try {
    // Reads the header, which a file that is no database does not have.
    const tables = await sql('sqlite_master').where({ name: 'schema_versions' });
    if (tables.length === 0) return { found: 0, known: schemaVersion, refusal: null };
    const steps: AppliedStep[] = await sql('schema_versions').orderBy('version').select('version', 'name');
    return { found: versionOf(steps), known: schemaVersion, refusal: refusalOf(steps) };
  } finally {
    await sql.destroy();
  }
}

function refusalOf(steps: readonly AppliedStep[]): string | null {
  try {
    refuseStrange(steps);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
