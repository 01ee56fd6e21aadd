/** `service serve`, and what is done to the data of an installation on this machine. */
import { CommandFailure } from '../failures.ts';

/** Serves until it is told to stop. */
export async function serve(flags: readonly string[]): Promise<void> {
  const server = await import('../../../server/main.ts');
  try {
    await server.serve(flags);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException; // whatever is thrown there is an Error
    if (code !== 'EADDRINUSE') throw error;
    throw new CommandFailure(`The port is taken: ${message}. Choose another with --port.`);
  }
}

/** Prints a token that lets one person register. */
export async function invite(flags: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  await maintenance.invite(flags);
}

/** Says whether the audit log is what was recorded. */
export async function verifyAudit(flags: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  if (!(await maintenance.verifyAudit(flags)))
    throw new CommandFailure('The audit log is not what was recorded.');
}

/** Copies the database to a file. */
export async function backup(words: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  await maintenance.backupCommand(words);
}

/** Puts a copy in the place of the database. */
export async function restore(words: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  await maintenance.restoreCommand(words);
}

/** Seals all that is stored with a new master key. */
export async function rotateMasterKey(words: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  await maintenance.rotateMasterKeyCommand(words);
}

/** Puts the embedding model on this machine. */
export async function installEmbedder(words: readonly string[]): Promise<void> {
  const maintenance = await import('../../../server/maintenance/maintenance.ts');
  await maintenance.installEmbedderCommand(words);
}
