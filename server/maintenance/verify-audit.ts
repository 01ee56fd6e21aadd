/** Verifies the audit log without the rest of `service`; ends with 1 where it does not hold. */
import { verifyAudit } from './maintenance.ts';

if (import.meta.main) {
  verifyAudit(process.argv.slice(2)).then(
    (holds) => {
      process.exitCode = holds ? 0 : 1;
    },
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = 2;
    },
  );
}
