/** `make invite`: the command that invites, without the rest of `service`. */
import { invite } from './maintenance.ts';

if (import.meta.main) {
  invite(process.argv.slice(2)).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });
}
