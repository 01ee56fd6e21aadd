/** How the command ends: its exit codes, and what it says when something fails. */

/** Documented in the README and in `service run --help`. */
export const exitCodes = {
  done: 0,
  /** The run, or what was asked for, failed. */
  failed: 1,
  /** The command line or the settings cannot be used. */
  usage: 2,
  /** `--require-trust`: a file of the project is not trusted. */
  untrusted: 3,
  /** The server cannot be reached, or refuses the credential. */
  unreachable: 4,
  /** Ctrl+C, as shells have it: 128 + SIGINT. */
  interrupted: 130,
} as const;

/** A failure that a person can mend: the message says how. */
export class CommandFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = exitCodes.failed) {
    super(message);
    this.name = 'CommandFailure';
    this.exitCode = exitCode;
  }
}

/** What a person reads. A stack helps only whoever debugs. */
export function explainFailure(error: unknown): string {
  if (!(error instanceof Error)) return `service: ${String(error)}`;
  if (process.env.SERVICE_DEBUG) return error.stack ?? error.message;
  // SettingsError's lines say themselves where they come from.
  return error.name === 'SettingsError' ? error.message : `service: ${error.message}`;
}
