/** Keeps trust in a settings file that the person changes through us, and says what does not count without trust. */
import { type Diagnostic, SettingsError } from '../diagnostic.ts';
import type { SettingsPlaces } from '../loaded-settings.ts';
import type { Review } from '../trust/trust-review.ts';
import { forgetNext, readTrust, recordTrust, trustNext } from '../trust/trust-store.ts';

/** A settings file before and after a change of ours. */
export interface TrustedChange {
  readonly realPath: string;
  /** Hex SHA-256 of the bytes; null where there was no file. */
  readonly before: string | null;
  readonly after: string;
  /** Null where the file cannot be used, and so nothing of it counts. */
  readonly review: Review | null;
}

/**
 * Trusts what is about to be written, if what is there is trusted: a run at work that looked between the writing and the
 * trusting would lose its hooks and servers. What cannot be recorded is told by `keepTrust`, which tries again.
 */
export async function announceTrust(
  { dataHome, projectRoot }: SettingsPlaces,
  { realPath, before, after, review }: TrustedChange,
): Promise<void> {
  if (before === null || review === null) return;
  try {
    if (!(await readTrust(dataHome, projectRoot)).isTrusted(realPath, before)) return;
    await trustNext(dataHome, projectRoot, { realPath, sha256: after, review: review.text }, before);
  } catch {
    // As said above.
  }
}

/** Ends what was announced, where the file stays as it was. Why it does so is what is told, and not a failure here. */
export async function withdrawTrust(
  { dataHome, projectRoot }: SettingsPlaces,
  { realPath, after }: TrustedChange,
): Promise<void> {
  try {
    const entry = (await readTrust(dataHome, projectRoot)).entry(realPath);
    if (entry?.next) await forgetNext(dataHome, projectRoot, { realPath, sha256: after });
  } catch {
    // As said above.
  }
}

/** Whether the file is trusted as it is now. It stays so if it was, and never becomes so. */
export async function keepTrust(
  { dataHome, projectRoot }: SettingsPlaces,
  { realPath, before, after, review }: TrustedChange,
): Promise<{ readonly trusted: boolean; readonly warnings: readonly Diagnostic[] }> {
  try {
    const trust = await readTrust(dataHome, projectRoot);
    if (trust.entry(realPath)?.sha256 === after) return { trusted: true, warnings: [] };
    const kept = before !== null && trust.isTrusted(realPath, before);
    if (review === null || !(kept || trust.isTrusted(realPath, after)))
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
