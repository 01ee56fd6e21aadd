/** Keeps trust in a settings file that the person changes through us, and says what does not count without trust. */
import { type Diagnostic, SettingsError } from '../diagnostic.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';
import type { Review } from '../trust/trust-review.ts';
import { readTrust, recordTrust } from '../trust/trust-store.ts';

/** A settings file before and after a change of ours. */
export interface TrustedChange {
  readonly realPath: string;
  /** Hex SHA-256 of the bytes; null where there was no file. */
  readonly before: string | null;
  readonly after: string;
  /** Null where the file cannot be used, and so nothing of it counts. */
  readonly review: Review | null;
}

/** Whether the file is trusted as it is now. It stays so if it was, and never becomes so. */
export async function keepTrust(
  { dataHome, projectRoot }: SettingsPlaces,
  { realPath, before, after, review }: TrustedChange,
): Promise<{ readonly trusted: boolean; readonly warnings: readonly Diagnostic[] }> {
  try {
    const trust = await readTrust(dataHome, projectRoot);
    if (trust.isTrusted(realPath, after)) return { trusted: true, warnings: [] };
    if (before === null || review === null || !trust.isTrusted(realPath, before))
      return { trusted: false, warnings: [] };
    await recordTrust(dataHome, projectRoot, [{ realPath, sha256: after, review: review.text }], new Date());
    return { trusted: true, warnings: [] };
  } catch (error) {
    // The file is written; whoever wrote it must learn that what it says may not count.
    const matters = review !== null && review.sections.length > 0;
    return { trusted: false, warnings: matters ? warningsOf(error) : [] };
  }
}

function warningsOf(error: unknown): Diagnostic[] {
  if (error instanceof SettingsError)
    return error.diagnostics.map((diagnostic) => ({ ...diagnostic, severity: 'warning' }));
  const message = `Whether this file is trusted cannot be kept (${error instanceof Error ? error.message : error})`;
  const remedy = 'Run `service trust`.';
  return [{ severity: 'warning', place: null, pointer: '', message, expected: null, remedy }];
}
