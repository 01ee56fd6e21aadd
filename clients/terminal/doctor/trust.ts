/** Checks of trust: what does not count, and whether the store of what is trusted can be believed. */
import { join } from 'node:path';
import { counted } from '../output.ts';
import type { Finding, Scene, SettledScene } from './examination.ts';
import { findingOf } from './settings.ts';

/** Sections that do not count, since nobody trusts their file. */
export function examineTrust({ loaded }: SettledScene): Finding[] {
  const findings = loaded.ignored.map(({ reason, place }): Finding => {
    return {
      level: 'warning',
      message: `${reason}.`,
      remedy: 'Look at it, and decide: service trust',
      place,
    };
  });
  return findings.length > 0 ? findings : [{ level: 'ok', message: 'Everything in the files counts.' }];
}

/** With a store that cannot be believed nothing is trusted. */
export async function examineTrustStore({ places }: Scene): Promise<Finding[]> {
  const { readTrust, SettingsError } = await import('../../../server/config/config.ts');
  const file = join(places.dataHome, 'trust.json');
  try {
    const trusted = (await readTrust(places.dataHome, places.projectRoot)).all().size;
    const message =
      trusted === 0 ? 'No file is trusted so far.' : `${file} lists ${counted(trusted, 'trusted file')}.`;
    return [{ level: 'ok', message }];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.diagnostics.map(findingOf);
  }
}
