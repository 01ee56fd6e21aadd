/** How the command ends: its exit codes, and what it says when something fails. */
import type { Diagnostic } from '../../server/config/config.ts';
import { describeDiagnostic, paint, printable } from './output.ts';

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

/** The exit code of what was thrown. */
export function exitCodeOf(error: unknown): number {
  if (isOfCommandLine(error)) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  if (error instanceof CommandFailure) return error.exitCode;
  const isOfSettings =
    hasDiagnostics(error) || (error instanceof Error && error.name === 'ServerSettingsError');
  return isOfSettings ? exitCodes.usage : exitCodes.failed;
}

/** What a person reads; null where it was said already. A stack helps only whoever debugs. */
export function explainFailure(error: unknown): string | null {
  if (isOfCommandLine(error)) return null;
  if (process.env.SERVICE_DEBUG && error instanceof Error)
    return printable(error.stack ?? error.message, { lines: true });
  if (hasDiagnostics(error))
    return error.diagnostics.map((diagnostic) => describeDiagnostic(diagnostic, process.stderr)).join('\n');
  const message = error instanceof Error ? error.message : String(error);
  return `${paint('red', 'service:', process.stderr)} ${printable(message, { lines: true })}`;
}

/** What commander throws has been said by commander, help included. It is known by its code, without loading it. */
function isOfCommandLine(error: unknown): error is Error & { exitCode: number } {
  return (
    error instanceof Error &&
    'exitCode' in error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('commander.')
  );
}

/** SettingsError and what is made of it. */
function hasDiagnostics(error: unknown): error is Error & { diagnostics: readonly Diagnostic[] } {
  return error instanceof Error && 'diagnostics' in error && Array.isArray(error.diagnostics);
}
