/** Loads the settings of one working directory: find, read once, parse, validate, trust, merge. */
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import type { LoadedSettings, SettingsPlaces } from './loaded-settings.ts';
import { isError } from './parse.ts';
import { type FileContent, type FoundLayer, readLayers } from './read-layers.ts';
import { settle } from './settle.ts';
import { restrictedPointers } from './trust/restrict.ts';
import { readTrust, type Trust } from './trust/trust-store.ts';

/** Loads the settings once. Throws SettingsError with everything that is wrong in any of the files. */
export async function loadSettings(places: SettingsPlaces): Promise<LoadedSettings> {
  const found = await readLayers(places);
  const broken = found.filter(isBroken);
  if (broken.length > 0) throw new SettingsError(broken.flatMap(({ diagnostics }) => diagnostics));
  const contents = found.flatMap(({ content }) => (content ? [content] : []));
  const { isTrusted, diagnostics } = await askTrust(places, contents);
  const files = contents.map((content) => ({ content, trusted: isTrusted(content) }));
  return settle(places, files, [...found.flatMap((layer) => layer.diagnostics), ...diagnostics]);
}

/**
 * As `loadSettings`, but what cannot be used is left out, and the diagnostics say so. `trust` is asked instead of the
 * person's own.
 */
export async function loadUsable(
  places: SettingsPlaces,
  trust: Trust,
): Promise<{ readonly loaded: LoadedSettings; readonly broken: readonly string[] }> {
  const found = await readLayers(places);
  const files = found.flatMap((layer) =>
    layer.content && !isBroken(layer)
      ? [{ content: layer.content, trusted: layer.scope === 'global' || trusts(trust, layer.content) }]
      : [],
  );
  const told = found.flatMap(({ diagnostics }) => diagnostics.map(asWarning));
  return {
    loaded: await settle(places, files, told),
    broken: found.filter(isBroken).map(({ file }) => file),
  };
}

/** Whether the file is there and cannot be used. */
export function isBroken({ diagnostics }: FoundLayer): boolean {
  return diagnostics.some(isError);
}

/** What is trusted of the files; with a store that cannot be believed nothing is, and the diagnostics say so. */
export async function askTrust(
  { dataHome, projectRoot }: SettingsPlaces,
  contents: readonly FileContent[],
): Promise<{ isTrusted(content: FileContent): boolean; diagnostics: readonly Diagnostic[] }> {
  const nothing = ({ scope }: FileContent) => scope === 'global';
  const others = contents.filter(({ scope }) => scope !== 'global');
  if (others.length === 0) return { isTrusted: nothing, diagnostics: [] };
  try {
    const trust = await readTrust(dataHome, projectRoot);
    return { isTrusted: (content) => nothing(content) || trusts(trust, content), diagnostics: [] };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const matters = others.some(({ raw }) => restrictedPointers(raw).length > 0);
    return { isTrusted: nothing, diagnostics: matters ? error.diagnostics.map(asWarning) : [] };
  }
}

/** What would be an error elsewhere, but here only leaves something out. */
export function asWarning(diagnostic: Diagnostic): Diagnostic {
  return { ...diagnostic, severity: 'warning' };
}

function trusts(trust: Trust, { realPath, sha256 }: FileContent): boolean {
  return trust.isTrusted(realPath, sha256);
}
