/** What a person should know of the settings beside the answer, on standard error: what is odd, and what does not count. */
import type { Diagnostic, IgnoredSection, LoadedSettings } from '../../server/config/config.ts';
import { describeDiagnostic, displayPath, notice, write } from './output.ts';

/** Says what is odd, and which files are not trusted. */
export function noticeSettings(loaded: Pick<LoadedSettings, 'diagnostics' | 'ignored'>): void {
  noticeDiagnostics(loaded.diagnostics);
  noticeIgnored(loaded.ignored);
}

/** One line each. */
export function noticeDiagnostics(diagnostics: readonly Diagnostic[]): void {
  for (const diagnostic of diagnostics) write(describeDiagnostic(diagnostic, process.stderr), process.stderr);
}

/** What is found of the settings as a whole, at the place of the file that says so. */
export function withPlaces(
  diagnostics: readonly Diagnostic[],
  { origin }: Pick<LoadedSettings, 'origin'>,
): readonly Diagnostic[] {
  return diagnostics.map((one) => ({ ...one, place: one.place ?? origin(one.pointer)?.place ?? null }));
}

/** What does not count for want of trust, one line each. */
export function noticeIgnored(ignored: readonly IgnoredSection[]): void {
  for (const section of ignored) notice(describeIgnored(section));
}

/** Where it stands, and why it does not count. */
export function describeIgnored({ place, reason }: IgnoredSection): string {
  return `${displayPath(place.file, process.stderr)}:${place.line}:${place.column}: ${reason}.`;
}
