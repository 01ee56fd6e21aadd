/** What is done to an installation from the command line, beside a server that may be running. */
import { createHash, randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../clock.ts';
import type { ServerSettings } from '../config/config.ts';
import { createLog } from '../log.ts';
import { openStore } from '../store/store.ts';

/** A token that lets one person register. It cannot be shown again. */
export interface Invitation {
  readonly token: string;
  readonly expiresAt: Date;
}

const invitationDays = 7;

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
