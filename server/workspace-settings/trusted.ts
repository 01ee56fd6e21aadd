/** What is trusted of the settings files of a workspace: shown, given and taken back. */
import {
  type LoadedSettings,
  recordTrust,
  reviewLayer,
  revokeTrust,
  type SettingsLayer,
  type Trust,
} from '../config/config.ts';
import type { WorkspaceTrust, WorkspaceTrustRequest } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import {
  keyOf,
  type OpenedSettings,
  type Outcome,
  openSettings,
  plainFile,
  type TrustedFile,
  type WorkspaceSettingsParts,
  workspaceLayers,
} from './opened.ts';
import { brokenFiles } from './shown.ts';

export async function trustOf(
  workspaceId: string,
  { loaded, broken, trust }: OpenedSettings,
): Promise<WorkspaceTrust> {
  const layers = workspaceLayers(loaded);
  const files = await Promise.all(layers.map((layer) => trustedFile(layer, loaded, trust)));
  const unusable = brokenFiles(loaded, broken);
  return {
    workspace_id: workspaceId,
    files: [...files, ...unusable.map((file) => ({ ...file, review: '', diff: null, trusted_at: null }))],
  };
}

export async function addTrust(
  parts: WorkspaceSettingsParts,
  workspaceId: string,
  files: WorkspaceTrustRequest['files'],
  records: readonly TrustedFile[],
): Promise<Outcome<WorkspaceTrust>> {
  const { places, loaded } = await openSettings(parts, workspaceId, records);
  const chosen = files.map((file) => chosenLayer(loaded, file));
  const reviewed = await Promise.all(
    chosen.map(async (layer) => ({
      file: keyOf(places, layer.realPath),
      realPath: layer.realPath,
      sha256: layer.sha256,
      review: (await reviewLayer(layer, places, null)).text,
    })),
  );
  const names = new Set(reviewed.map(({ file }) => file));
  const all = [...records.filter(({ file }) => !names.has(file)), ...reviewed].map(plainFile);
  if (parts.own) await recordTrust(places.dataHome, places.projectRoot, reviewed, parts.now());
  const rows = all.map((file) => ({ ...file, trustedAt: parts.now() }));
  return {
    change: {
      action: 'workspace_trust.create',
      ...(!parts.own && { trusted: all }),
      before: {},
      after: { files: files.map(({ path, sha256 }) => ({ path, sha256 })) },
    },
    result: await trustOf(workspaceId, await openSettings(parts, workspaceId, rows)),
  };
}

export async function removeTrust(
  parts: WorkspaceSettingsParts,
  workspaceId: string,
  records: readonly TrustedFile[],
): Promise<Outcome<null>> {
  const { places, loaded } = await openSettings(parts, workspaceId, records);
  const paths = workspaceLayers(loaded).map(({ realPath }) => realPath);
  const revoked = parts.own
    ? await revokeTrust(places.dataHome, places.projectRoot, paths)
    : records.map(({ file }) => file);
  if (revoked.length === 0) return { change: null, result: null };
  const files = revoked.map((path) => (parts.own ? keyOf(places, path) : path));
  return {
    change: {
      action: 'workspace_trust.delete',
      ...(!parts.own && { trusted: [] }),
      before: { files },
      after: { files: [] },
    },
    result: null,
  };
}

async function trustedFile(
  layer: SettingsLayer,
  loaded: LoadedSettings,
  trust: Trust,
): Promise<WorkspaceTrust['files'][number]> {
  const entry = trust.entry(layer.realPath);
  const { text, sections, diff } = await reviewLayer(layer, loaded.places, entry?.review ?? null);
  return {
    path: keyOf(loaded.places, layer.file),
    sha256: layer.sha256,
    state: layer.trusted ? 'trusted' : 'untrusted',
    restricted_keys: sections.map(({ pointer }) => layer.pointerInFile(pointer)),
    review: text,
    diff,
    trusted_at: layer.trusted ? (entry?.trustedAt ?? null) : null,
  };
}

function chosenLayer(loaded: LoadedSettings, { path, sha256 }: WorkspaceTrustRequest['files'][number]) {
  const layer = workspaceLayers(loaded).find(({ file }) => keyOf(loaded.places, file) === path);
  if (layer?.sha256 === sha256) return layer;
  throw new Problem(
    'trust_conflict',
    `${JSON.stringify(path)} ${layer ? 'has changed since you looked at it' : 'is no settings file of this workspace that can be used'}; look again.`,
  );
}
