/** Loads the settings of one working directory: find, read once, parse, validate, trust, merge. */
import { type Diagnostic, SettingsError } from './diagnostic.ts';
import { readOnce } from './files/read-once.ts';
import type { LoadedSettings, SettingsPlaces } from './loaded-settings.ts';
import { isError } from './parse.ts';
import { type FileContent, type FoundLayer, readLayers } from './read-layers.ts';
import { type JudgedFile, settle } from './settle.ts';
import { restrictedPointers } from './trust/restrict.ts';
import { readTrust, type Trust } from './trust/trust-store.ts';

/** Loads the settings once. Throws SettingsError with everything that is wrong in any of the files. */
export async function loadSettings(places: SettingsPlaces): Promise<LoadedSettings> {
  const { found, files, diagnostics } = await readTrusted(places);
  const broken = found.filter(isBroken);
  if (broken.length > 0) throw new SettingsError(broken.flatMap((layer) => layer.diagnostics));
  return settle(places, files, [...found.flatMap((layer) => layer.diagnostics), ...diagnostics]);
}

/** The files, and whether each is trusted as it was read. */
export interface TrustedLayers {
  readonly found: readonly FoundLayer[];
  readonly files: readonly (JudgedFile & {
    /** Whether the file cannot be used as it is now, so that this is what it said before. */
    readonly broken: boolean;
  })[];
  /** Why what is trusted cannot be known. */
  readonly diagnostics: readonly Diagnostic[];
}

/** Whoever changes a file this often while we read is a program in a loop. */
const maximumAttempts = 5;

/**
 * Reads every file, and asks for trust. What the command itself changes in between is read again: its new bytes are
 * trusted, and the old ones no longer. What was trusted right before a file was read again counts for it as well.
 *
 * @param lastGood - What a file said before it broke.
 */
export async function readTrusted(
  places: SettingsPlaces,
  lastGood: ReadonlyMap<string, FileContent> = new Map(),
): Promise<TrustedLayers> {
  let before = (_content: FileContent) => false;
  for (let left = maximumAttempts; ; left--) {
    const found = await readLayers(places);
    const contents = found.flatMap((layer) => {
      if (!isBroken(layer)) return layer.content ? [{ content: layer.content, broken: false }] : [];
      const content = lastGood.get(layer.file);
      return content ? [{ content, broken: true }] : [];
    });
    const { isTrusted: now, diagnostics } = await askTrust(
      places,
      contents.map(({ content }) => content),
    );
    const isTrusted = (content: FileContent) => now(content) || before(content);
    const files = contents.map(({ content, broken }) => ({
      content,
      broken,
      trusted: content.scope === 'global' || (!broken && isTrusted(content)),
    }));
    if (left === 0 || !(await wasReplaced(places, files))) return { found, files, diagnostics };
    before = now;
  }
}

/** Whether one that is not trusted, and says what needs trust, is another one by now. */
async function wasReplaced({ projectRoot }: SettingsPlaces, files: TrustedLayers['files']): Promise<boolean> {
  for (const { content, trusted, broken } of files) {
    if (trusted || broken || restrictedPointers(content.raw).length === 0) continue;
    const now = await readOnce(content.file, projectRoot);
    if (now && 'sha256' in now && now.sha256 !== content.sha256) return true;
  }
  return false;
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
async function askTrust(
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
