/** Looks at a database without changing it: nothing is made, nothing is migrated. */
import { pathToFileURL } from 'node:url';
import type { Log } from '../log.ts';
import { connect } from './database.ts';
import { schemaVersion } from './migrate.ts';

/** The number of a database's schema, beside the one that this program would bring it to. */
export interface SchemaVersions {
  /** 0 where nothing was ever stored. */
  readonly found: number;
  readonly known: number;
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
    if (tables.length === 0) return { found: 0, known: schemaVersion };
    const newest = await sql<{ version: number }>('schema_versions').max({ version: 'version' }).first();
    return { found: newest?.version ?? 0, known: schemaVersion };
  } finally {
    await sql.destroy();
  }
}
