/** The command that invites: prints a token for one registration, and nothing else, on standard output. */
import { readServerSettings } from '../config/config.ts';
import { createInvitation } from './maintenance.ts';

async function invite(): Promise<void> {
  const { settings, helpWanted, help } = readServerSettings(process.argv.slice(2), process.env);
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

if (import.meta.main) {
  invite().catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });
}
