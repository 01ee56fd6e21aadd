/** `service serve`, `service invite` and `service audit verify`: the server of this machine. */
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
