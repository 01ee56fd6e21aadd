/** What is done to an installation from the command line, beside a server that may be running. */
import { createHash, randomBytes } from 'node:crypto';
import { access, constants } from 'node:fs/promises';
import { systemClock } from '../clock.ts';
import type { AuditVerification } from '../contract/api.ts';
import { createLog } from '../log.ts';
import { readServerSettings } from '../server-settings/server-settings.ts';
import { type Anchor, anchorFile, examineSqlite, readAnchors, type SchemaVersions } from '../store/store.ts';
import { type Installation, openInstallation, sqliteFileOf } from './installation.ts';

export { holdsMasterKey } from '../identity/identity.ts';
export {
  backupCommand,
  createBackup,
  restoreBackup,
  restoreCommand,
  rotateMasterKeyCommand,
} from './backup.ts';
export { installEmbedderCommand } from './embedder.ts';
export { rotateMasterKey } from './rotate-master-key.ts';

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

/**
 * Holds the audit log of this installation against its chain, the heads that the server has written down, and those that
 * are given as `--anchor <sequence>:<hash>`. Answers with whether it holds; the flags are else those of the server.
 */
export async function verifyAudit(given: readonly string[]): Promise<boolean> {
  const { anchors, flags } = takeAnchors(given);
  const { settings, helpWanted, help } = readServerSettings(flags, process.env);
  if (helpWanted) {
    process.stdout.write(
      `Reads the audit log of this installation, and says whether anything in it was changed or cut off.\n` +
        `  --anchor <sequence>:<hash>   a head that was written down elsewhere; may be given several times\n${help}`,
    );
    return true;
  }
  const found = await verifyAuditChain(settings, anchors);
  process.stdout.write(sentenceOf(found));
  return found.valid;
}

/** The same, for whoever has the settings in hand. */
export async function verifyAuditChain(
  settings: Installation,
  anchors: readonly Anchor[] = [],
): Promise<AuditVerification> {
  const store = await openInstallation(settings);
  try {
    const written = await readAnchors(anchorFile(settings.dataDirectory));
    return await store.auditLogs.verify('installation', [...written, ...anchors]);
  } finally {
    await store.close();
  }
}

function takeAnchors(given: readonly string[]): { anchors: Anchor[]; flags: string[] } {
  const flags = [...given];
  const anchors: Anchor[] = [];
  for (let at = flags.indexOf('--anchor'); at >= 0; at = flags.indexOf('--anchor')) {
    const [, text = ''] = flags.splice(at, 2);
    const [, sequence, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
    if (!sequence || !hash)
      throw new Error('--anchor takes <sequence>:<hash>, as the log of the server has them.');
    anchors.push({ sequence: Number(sequence), hash });
  }
  return { anchors, flags };
}

function sentenceOf({ entries, pruned_through, head, first_broken: broken }: AuditVerification): string {
  if (!broken) {
    const kept =
      pruned_through === 0 ? '' : ` behind entry ${pruned_through}, up to which none is kept any more`;
    return `The audit log holds: ${entries} entries${kept}, the last one ${head?.sequence}:${head?.hash}\n`;
  }
  const entry = broken.entry_id === null ? '' : ` (${broken.entry_id})`;
  return `The audit log is broken at entry ${broken.sequence}${entry}: ${broken.fault}. Before it ${entries} entries hold.\n`;
}

/** Makes an invitation in the installation that these settings name; there has to be one. */
export async function createInvitation(settings: Installation): Promise<Invitation> {
  const store = await openInstallation(settings);
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
  const file = sqliteFileOf({ dataDirectory });
  try {
    await access(file, constants.F_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null; // access rejects with nothing else
    throw error;
  }
  return await examineSqlite(file, createLog('silent'));
}
