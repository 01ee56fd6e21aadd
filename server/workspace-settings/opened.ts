/** The settings files of a workspace as they are now, and what is trusted of them. */
import { join, relative } from 'node:path';
import {
  type LoadedSettings,
  loadUsable,
  readTrust,
  type SettingsLayer,
  type SettingsPlaces,
  type Trust,
} from '../config/config.ts';

/** A file that is trusted, by its path below the folder. */
export interface TrustedFile {
  readonly file: string;
  readonly sha256: string;
  readonly review: string;
  readonly trustedAt: Date;
}

/** What is done to the files of a workspace, for the record. */
export interface FilesChange {
  readonly action: 'workspace_config.update' | 'workspace_trust.create' | 'workspace_trust.delete';
  /** All that is trusted from now on; as it was if absent. */
  readonly trusted?: readonly Omit<TrustedFile, 'trustedAt'>[];
  readonly before: Readonly<Record<string, unknown>>;
  readonly after: Readonly<Record<string, unknown>>;
}

/** What is done, and what the caller is told; nothing to record where nothing was done. */
export interface Outcome<Result> {
  readonly change: FilesChange | null;
  readonly result: Result;
}

export interface WorkspaceSettingsParts {
  /** Where the files of a workspace are, and where trust of this person is kept where this is their own command. */
  readonly placesOf: (workspaceId: string) => Promise<SettingsPlaces>;
  /** Trust is kept in the files of the person who has this server in their command; else in the records. */
  readonly own: boolean;
  readonly records: (workspaceId: string) => Promise<readonly TrustedFile[]>;
  readonly now: () => Date;
}

/** What was read, with the trust that it was read by. */
export interface OpenedSettings {
  readonly places: SettingsPlaces;
  readonly trust: Trust;
  readonly loaded: LoadedSettings;
  /** Files that cannot be used. */
  readonly broken: readonly string[];
}

/** `records` are the files that are trusted, where the caller holds them already. */
export async function openSettings(
  parts: WorkspaceSettingsParts,
  workspaceId: string,
  records?: readonly TrustedFile[],
): Promise<OpenedSettings> {
  const places = await parts.placesOf(workspaceId);
  const trust = await trustIn(parts, places, workspaceId, records);
  return { places, trust, ...(await loadUsable(places, trust)) };
}

export async function trustIn(
  parts: WorkspaceSettingsParts,
  places: SettingsPlaces,
  workspaceId: string,
  given?: readonly TrustedFile[],
): Promise<Trust> {
  if (parts.own) return readTrust(places.dataHome, places.projectRoot);
  const records = given ?? (await parts.records(workspaceId));
  const entries = new Map(
    records.map(({ file, sha256, review, trustedAt }) => [
      join(places.projectRoot, file),
      { sha256, review, trustedAt: trustedAt.toISOString() },
    ]),
  );
  return {
    isTrusted: (realPath, sha256) => entries.get(realPath)?.sha256 === sha256,
    entry: (realPath) => entries.get(realPath) ?? null,
    all: () => entries,
  };
}

export function plainFile({ file, sha256, review }: Omit<TrustedFile, 'trustedAt'>) {
  return { file, sha256, review };
}

/** The path of a file as callers and records name it; the folder is a real path, too. */
export function keyOf({ projectRoot }: SettingsPlaces, path: string): string {
  return relative(projectRoot, path);
}

export function workspaceLayers({ layers }: LoadedSettings): SettingsLayer[] {
  return layers.filter(({ scope }) => scope !== 'global');
}
