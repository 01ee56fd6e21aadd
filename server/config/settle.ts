/** Makes of the files that were read the settings that count: what is trusted, merged, and told of. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic } from './diagnostic.ts';
import { serverWarnings, takenBack } from './layer-warnings.ts';
import type {
  IgnoredSection,
  LoadedSettings,
  Origin,
  SettingsLayer,
  SettingsPlaces,
} from './loaded-settings.ts';
import { type MergedSettings, merge, sourceOf } from './merge.ts';
import { pointerKeys, valueAt } from './pointer.ts';
import type { FileContent } from './read-layers.ts';
import { escapingPaths, restrictedPointers, withoutPointers, withoutRestricted } from './trust/restrict.ts';

/** A file that counts, and whether its restricted sections do. */
export interface JudgedFile {
  readonly content: FileContent;
  readonly trusted: boolean;
}

/** Cuts, merges and looks at the whole. `diagnostics` are the warnings so far. */
export async function settle(
  places: SettingsPlaces,
  files: readonly JudgedFile[],
  diagnostics: readonly Diagnostic[],
): Promise<LoadedSettings> {
  const judged = await Promise.all(files.map((file) => layerOf(file, places)));
  const layers = judged.map(({ layer }) => layer);
  const merged = merge(layers.map(({ config }) => config));
  return {
    places,
    config: merged.config,
    layers,
    ignored: judged.flatMap(({ ignored }) => ignored),
    diagnostics: [...diagnostics, ...takenBack(layers), ...serverWarnings(merged.config, layers)],
    origin: (pointer) => originOf(pointer, merged, layers),
  };
}

async function layerOf(
  { content, trusted }: JudgedFile,
  places: SettingsPlaces,
): Promise<{ readonly layer: SettingsLayer; readonly ignored: readonly IgnoredSection[] }> {
  const { scope, file, realPath, bytes, sha256, normalized } = content;
  const written = normalized.config;
  const escaping = trusted ? [] : await escapingPaths(written, places);
  const { pointerInFile } = normalized;
  const layer: SettingsLayer = {
    ...{ scope, file, realPath, bytes, sha256, trusted, written, pointerInFile },
    config: trusted ? written : withoutPointers(withoutRestricted(written), escaping),
    place: (pointer) => (isThere(written, pointer) ? content.placeInFile(pointerInFile(pointer)) : null),
  };
  return { layer, ignored: trusted ? [] : ignoredOf(content, escaping) };
}

function isThere(written: ClientConfig, pointer: string): boolean {
  return valueAt(written, pointerKeys(pointer)) !== undefined;
}

function ignoredOf(content: FileContent, escaping: readonly string[]): IgnoredSection[] {
  const { file, raw, normalized } = content;
  const restricted = restrictedPointers(raw).map((pointer) => ({
    pointer,
    reason: `${nameOf(pointer)} does not count: the file is not trusted; run \`service trust\``,
  }));
  const confined = escaping.map((pointer) => ({
    pointer: normalized.pointerInFile(pointer),
    reason: `${nameOf(pointer)} does not count: it leads out of the project, and the file is not trusted; run \`service trust\``,
  }));
  return [...restricted, ...confined].map(({ pointer, reason }) => {
    const place = content.placeInFile(pointer) ?? { file, line: 1, column: 1 };
    return { file, place, pointer, reason };
  });
}

function nameOf(pointer: string): string {
  return pointerKeys(pointer).join('.');
}

function originOf(
  pointer: string,
  { config, sources }: MergedSettings,
  layers: readonly SettingsLayer[],
): Origin | null {
  const keys = pointerKeys(pointer);
  const value = valueAt(config, keys);
  if (value === undefined) return null;
  const source = sourceOf(sources, pointer);
  if (source) return originIn(layers[source.layer], source.pointer);
  if (typeof value !== 'object') return null;
  const [only, another] = layers.filter((layer) => valueAt(layer.config, keys) !== undefined);
  return another ? null : originIn(only, pointer);
}

function originIn(layer: SettingsLayer | undefined, pointer: string): Origin | null {
  const place = layer?.place(pointer);
  return layer && place ? { scope: layer.scope, place } : null;
}
