/** The settings of the database: where it is, who migrates it, and whether it is copied before. */
import { Fault, type SettingSource } from './setting-source.ts';
import { wholeNumber, yesOrNo } from './value-forms.ts';

export interface DatabaseSettings {
  /** Null takes SQLite in the data directory. */
  readonly databaseUrl: string | null;
  /** The same database as the role that owns its tables; null where `databaseUrl` is both. */
  readonly databaseMigrationUrl: string | null;
  /** How many connections each of the two pools to PostgreSQL may have. */
  readonly databaseConnections: number;
  /** Whether an older database is copied before it is migrated. */
  readonly migrationBackup: boolean;
}

export function readDatabase(source: SettingSource): DatabaseSettings {
  const settings = {
    databaseUrl: source.read<string | null>({
      variable: 'DATABASE_URL',
      meaning:
        'postgres://user:password@host/database; without it, SQLite in the data directory. DATABASE_URL_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: databaseUrl,
    }),
    databaseMigrationUrl: source.read<string | null>({
      variable: 'DATABASE_MIGRATION_URL',
      meaning:
        'The same database as the role that owns its tables, for migrations and backups; that of DATABASE_URL then needs no right but to the rows. DATABASE_MIGRATION_URL_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: databaseUrl,
    }),
    databaseConnections: source.read({
      variable: 'SERVICE_DATABASE_CONNECTIONS',
      flag: 'database-connections',
      meaning:
        'How many connections to PostgreSQL each of the two pools of this server may have; it has to allow twice as many, of each server.',
      fallback: 10,
      parse: wholeNumber(2, 1000, 10),
    }),
    migrationBackup: source.read({
      variable: 'SERVICE_MIGRATION_BACKUP',
      flag: 'migration-backup',
      meaning: 'Copies an older database into backups of the data directory before it is migrated.',
      fallback: true,
      parse: yesOrNo,
    }),
  };
  if (settings.databaseMigrationUrl !== null && settings.databaseUrl === null)
    source.fault('DATABASE_MIGRATION_URL needs DATABASE_URL: it is the same database, for another role.');
  return settings;
}

function databaseUrl(text: string): string | Fault {
  if (!/^postgres(ql)?:\/\/./.test(text))
    return new Fault('must begin with postgres://, as postgres://user:password@host/database.');
  return isReadable(text) ? text : new Fault(unreadable);
}

/** Shows nothing of what is there: it holds the password. */
const unreadable =
  'cannot be read as postgres://user:password@host/database: within the user and the password write % as %25, # as %23, / as %2F and ? as %3F.';

function isReadable(text: string): boolean {
  // Without a host, as a socket is named by the parameter of that name.
  const withHost = text.replace(/^(\w+:\/\/[^@]*@)(?=\/[^@]*$)/, '$1localhost');
  const url = [text, withHost].find((one) => URL.canParse(one));
  if (url === undefined) return false;
  const { username, password, pathname, hash } = new URL(url);
  // What stands in front of a # or a / of the password is else taken for the host and its port.
  if (hash !== '' || (username === '' && pathname.includes('@'))) return false;
  return [username, password, pathname].every(isDecodable);
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
