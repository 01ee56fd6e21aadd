/** What is wrong with settings, told so that the reader can mend it. */

/** A place in a file, as editors count: the first line and the first column are 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One thing to mend. It never holds a value from the file: that may be a secret. */
export interface Diagnostic {
  /** With an error the settings cannot be used; with a warning they can. */
  readonly severity: 'error' | 'warning';
  /** Null for what stands in no file. */
  readonly place: Place | null;
  /** The JSON pointer of the value; empty for the whole file. */
  readonly pointer: string;
  /** What is wrong. */
  readonly message: string;
  /** What should stand there; null where the message says it all. */
  readonly expected: string | null;
  /** What to write or do. */
  readonly remedy: string;
}

/** One line for a person: `file:line:column: error: /pointer: what is wrong; what was expected. What to do.` */
export function formatDiagnostic({
  severity,
  place,
  pointer,
  message,
  expected,
  remedy,
}: Diagnostic): string {
  const where = place ? `${place.file}:${place.line}:${place.column}: ` : '';
  const what = expected === null ? message : `${message}; expected ${expected}`;
  return `${where}${severity}: ${pointer ? `${pointer}: ` : ''}${what}. ${remedy}`;
}

/** Thrown where settings cannot be used: everything that is wrong, at once. */
export class SettingsError extends Error {
  readonly diagnostics: readonly Diagnostic[];

  constructor(diagnostics: readonly Diagnostic[]) {
    super(diagnostics.map(formatDiagnostic).join('\n'));
    this.name = 'SettingsError';
    this.diagnostics = diagnostics;
  }
}
