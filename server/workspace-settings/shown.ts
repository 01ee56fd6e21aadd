/** What callers are shown of the settings files of a workspace, and by which tag they know it again. */
import { createHash } from 'node:crypto';
import {
  type Diagnostic,
  flattenSettings,
  type LoadedSettings,
  needsTrustAt,
  pointerKeys,
  type SettingsLayer,
  type SettingsPlaces,
} from '../config/config.ts';
import type { WorkspaceConfig } from '../contract/api.ts';
import { keyOf, type OpenedSettings, workspaceLayers } from './opened.ts';

/** How a caller sees the settings. */
export interface SettingsView {
  /** Whether they run the installation, whose own settings are then shown in full. */
  readonly operator: boolean;
}

export interface ConfigWithTag {
  readonly config: WorkspaceConfig;
  readonly etag: string;
}

export function configOf(
  workspaceId: string,
  { loaded, broken }: OpenedSettings,
  view: SettingsView,
): ConfigWithTag {
  return {
    config: {
      workspace_id: workspaceId,
      settings: settingsSeen(loaded, view),
      files: [...filesOf(loaded), ...brokenFiles(loaded, broken)],
      notices: noticesOf(loaded),
    },
    etag: tagOf(loaded, broken, view),
  };
}

export function tagOf(loaded: LoadedSettings, broken: readonly string[], view: SettingsView): string {
  const layers = loaded.layers.map(({ file, sha256, trusted }) => [file, sha256, trusted]);
  const text = JSON.stringify([layers, broken, view.operator]);
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 27)}"`;
}

export function brokenFiles({ places }: LoadedSettings, broken: readonly string[]): WorkspaceConfig['files'] {
  return broken
    .filter((file) => file !== places.globalFile)
    .map((file) => ({ path: keyOf(places, file), sha256: null, state: 'unusable', restricted_keys: [] }));
}

/** Every value; of the installation's own only what a stranger's file could say without trust, but for its operator. */
function settingsSeen(loaded: LoadedSettings, { operator }: SettingsView): WorkspaceConfig['settings'] {
  const isHidden = (pointer: string, scope: string | undefined) =>
    !operator && (scope ?? 'global') === 'global' && needsTrustAt(pointerKeys(pointer));
  return flattenSettings(loaded)
    .filter(({ pointer, origin }) => !isHidden(pointer, origin?.scope))
    .map(({ key, pointer, value, origin }) => ({
      key,
      pointer,
      value,
      origin: origin && {
        scope: origin.scope,
        ...(origin.scope === 'global'
          ? { path: null, line: null }
          : { path: keyOf(loaded.places, origin.place.file), line: origin.place.line }),
      },
    }));
}

function filesOf(loaded: LoadedSettings): WorkspaceConfig['files'] {
  return workspaceLayers(loaded).map((layer) => ({
    path: keyOf(loaded.places, layer.file),
    sha256: layer.sha256,
    state: layer.trusted ? 'trusted' : 'untrusted',
    restricted_keys: restrictedIn(loaded, layer),
  }));
}

/** Of a trusted file what is restricted counts, and is not among what is ignored. */
function restrictedIn(loaded: LoadedSettings, layer: SettingsLayer): string[] {
  const own = { ...loaded, config: layer.written, layers: [layer], origin: () => null };
  const restricted = flattenSettings(own).filter(({ pointer }) => needsTrustAt(pointerKeys(pointer)));
  return [...new Set(restricted.map(({ pointer }) => outermost(pointer)))];
}

/** The section that a restricted value stands in. */
function outermost(pointer: string): string {
  const keys = pointerKeys(pointer);
  const depth = keys.findIndex((_, index) => needsTrustAt(keys.slice(0, index + 1)));
  return `/${keys.slice(0, depth + 1).join('/')}`;
}

/** What is odd in the files of the workspace; those of the installation are its operator's affair. */
function noticesOf({ places, ignored, diagnostics }: LoadedSettings): string[] {
  const own = diagnostics.filter(({ place }) => place && place.file !== places.globalFile);
  const untrusted = ignored.map(
    ({ file, pointer }) =>
      `${keyOf(places, file)}: ${pointer} does not count, since the file is not trusted.`,
  );
  return [...untrusted, ...own.map((diagnostic) => sentence(places, diagnostic))];
}

function sentence(places: SettingsPlaces, { place, pointer, message, remedy }: Diagnostic): string {
  const where = place ? `${keyOf(places, place.file)}:${place.line}: ` : '';
  const what = `${where}${pointer ? `${pointer}: ` : ''}${message}. ${remedy}`;
  return what.replaceAll(`${places.projectRoot}/`, '').replaceAll(places.projectRoot, 'the workspace');
}
