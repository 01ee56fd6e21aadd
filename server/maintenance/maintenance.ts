/** What is done to an installation from the command line, beside a server that may be running. */
import { createHash, randomBytes } from 'node:crypto';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../clock.ts';
import { readServerSettings, type ServerSettings } from '../config/config.ts';
import { createLog } from '../log.ts';
import { examineSqlite, openStore, type SchemaVersions } from '../store/store.ts';

/** A token that lets one person register. It cannot be shown again. */
export interface Invitation {
  readonly token: string;
  readonly expiresAt: Date;
}

const invitationDays = 7;

/** Prints a token for one registration, and nothing else, on standard output; the flags are those of the server. */
export async function invite(flags: readonly string[]): Promise<void> {
  const { settings, helpWanted, help } = readServerSettings(flags, process.env);
  if (helpWanted) {
    process.stdout.write(`Prints a one-time invitation token for this installation.\n${help}`);
    return;
  }
  const { token, expiresAt } = await createInvitation(settings);
  process.stdout.write(`${token}\n`);
  process.stderr.write(
    `Whoever registers sends it as invitation_token; it works once, until ${expiresAt.toISOString()}.\n`,
  );
}

/** Makes an invitation in the installation that these settings name; there has to be one. */
export async function createInvitation(
  settings: Pick<ServerSettings, 'databaseUrl' | 'dataDirectory'>,
): Promise<Invitation> {
  const log = createLog('warn');
  const store = await openStore(settings.databaseUrl ?? (await sqliteUrl(settings)), {
    clock: systemClock,
    log,
  });
  try {
    const token = `inv_${randomBytes(32).toString('base64url')}`;
    const expiresAt = new Date(systemClock.now().getTime() + invitationDays * 86_400_000);
    // As identity/ looks it up when somebody registers.
    const hash = createHash('sha256').update(token).digest('hex');
    await store.invitations.add({ kind: 'invitation', hash, expiresAt });
    return { token, expiresAt };
  } finally {
    await store.close();
  }
}

/**
 * Looks at the SQLite database of a data directory without changing it; null where there is none yet. Rejects where
 * the file is no database, or cannot be read.
 */
export async function examineDatabase(dataDirectory: string): Promise<SchemaVersions | null> {
  const file = join(dataDirectory, 'service.db');
  try {
    await access(file, constants.F_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null; // access rejects with nothing else
    throw error;
  }
  return await examineSqlite(file, createLog('silent'));
}

/** A mistyped folder must not become a new and empty installation. */
async function sqliteUrl({ dataDirectory }: Pick<ServerSettings, 'dataDirectory'>): Promise<string> {
  const file = join(dataDirectory, 'service.db');
  try {
    await access(file);
  } catch (cause) {
    throw new Error(
      `There is no database in ${dataDirectory}: start the server there once, or name its folder with SERVICE_DATA_DIR.`,
      { cause },
    );
  }
  return `sqlite:${file}`;
}
