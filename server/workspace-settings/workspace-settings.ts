/** The settings files in the folders of workspaces: what they say, who trusts them, and how they are changed. */
import { createHash } from 'node:crypto';
import { lchown, lstat, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import {
  type Diagnostic,
  flattenSettings,
  type LoadedSettings,
  loadUsable,
  needsTrustAt,
  type PatchedFile,
  patchSettings,
  pointerKeys,
  RestrictedSettings,
  readTrust,
  recordTrust,
  reviewLayer,
  revokeTrust,
  SettingsError,
  type SettingsLayer,
  type SettingsPlaces,
  type Trust,
} from './config/config.ts';
import type { WorkspaceConfig, WorkspaceTrust, WorkspaceTrustRequest } from './contract/api.ts';
import type { ClientConfig } from './contract/config.ts';
import { Problem } from './problem.ts';

/** A file that is trusted, by its path below the folder. */
interface TrustedFile {
  readonly file: string;
  readonly sha256: string;
  readonly review: string;
  readonly trustedAt: Date;
}

/** What is done to the files of a workspace, for the record. */
interface FilesChange {
  readonly action: 'workspace_config.update' | 'workspace_trust.create' | 'workspace_trust.delete';
  /** All that is trusted from now on; as it was if absent. */
  readonly trusted?: readonly Omit<TrustedFile, 'trustedAt'>[];
  readonly before: Readonly<Record<string, unknown>>;
  readonly after: Readonly<Record<string, unknown>>;
}

/** What is done, and what the caller is told; nothing to record where nothing was done. */
interface Outcome<Result> {
  readonly change: FilesChange | null;
  readonly result: Result;
}

/** How a caller sees the settings. */
export interface SettingsView {
  /** Whether they run the installation, whose own settings are then shown in full. */
  readonly operator: boolean;
}

export interface ConfigWithTag {
  readonly config: WorkspaceConfig;
  readonly etag: string;
}

export interface WorkspaceSettings {
  /** The merged settings, and what tells these from any others. Throws `workspace_unavailable`. */
  read(workspaceId: string, view: SettingsView): Promise<ConfigWithTag>;
  /**
   * Merges a patch into the workspace file. `trusted` are the files that are trusted. Throws `precondition_failed`,
   * `restricted_section` or `invalid_request`, and changes nothing then.
   */
  patch(
    workspaceId: string,
    view: SettingsView,
    given: { readonly patch: Readonly<Record<string, unknown>>; readonly ifMatch: string },
    trusted: readonly TrustedFile[],
  ): Promise<Outcome<ConfigWithTag>>;
  trust(workspaceId: string): Promise<WorkspaceTrust>;
  /** Trusts the files as they were looked at. Throws `trust_conflict` where one of them is another by now. */
  addTrust(
    workspaceId: string,
    files: WorkspaceTrustRequest['files'],
    trusted: readonly TrustedFile[],
  ): Promise<Outcome<WorkspaceTrust>>;
  removeTrust(workspaceId: string, trusted: readonly TrustedFile[]): Promise<Outcome<null>>;
  /** The settings of the installation as they count for runs in the workspace. */
  forRuns(workspaceId: string, installation: ClientConfig): Promise<ClientConfig>;
}

export interface WorkspaceSettingsParts {
  /** Where the files of a workspace are, and where trust of this person is kept where this is their own command. */
  readonly placesOf: (workspaceId: string) => Promise<SettingsPlaces>;
  /** Trust is kept in the files of the person who has this server in their command; else in the records. */
  readonly own: boolean;
  readonly records: (workspaceId: string) => Promise<readonly TrustedFile[]>;
  readonly now: () => Date;
}

/** More than one person's trust counts nowhere at once: it is that of the command's person, or of the operator. */
export function createWorkspaceSettings(parts: WorkspaceSettingsParts): WorkspaceSettings {
  const open = async (workspaceId: string, records?: readonly TrustedFile[]) => {
    const places = await parts.placesOf(workspaceId);
    const known = await trustIn(parts, places, workspaceId, records);
    return { places, known, ...(await loadUsable(places, known.trust)) };
  };
  type Opened = Awaited<ReturnType<typeof open>>;

  const configOf = (workspaceId: string, { loaded, broken }: Opened, view: SettingsView): ConfigWithTag => ({
    config: {
      workspace_id: workspaceId,
      settings: settingsSeen(loaded, view),
      files: [...filesOf(loaded), ...broken.flatMap((file) => brokenFile(loaded.places, file))],
      notices: noticesOf(loaded),
    },
    etag: tagOf(loaded, broken, view),
  });

  const trustOf = async (workspaceId: string, opened: Opened): Promise<WorkspaceTrust> => {
    const { loaded, broken, known } = opened;
    const files = await Promise.all(
      workspaceLayers(loaded).map((layer) => trustedFile(layer, loaded, known)),
    );
    const unusable = broken.flatMap((file) => brokenFile(loaded.places, file));
    return {
      workspace_id: workspaceId,
      files: [...files, ...unusable.map((file) => ({ ...file, review: '', diff: null, trusted_at: null }))],
    };
  };

  return {
    read: async (workspaceId, view) => configOf(workspaceId, await open(workspaceId), view),
    trust: async (workspaceId) => trustOf(workspaceId, await open(workspaceId)),
    async patch(workspaceId, view, { patch, ifMatch }, records) {
      const opened = await open(workspaceId, records);
      requireTag(ifMatch, tagOf(opened.loaded, opened.broken, view));
      const seen = workspaceFileOf(opened.loaded)?.sha256 ?? null;
      const patched = await refusals(() =>
        patchSettings(opened.places, {
          patch: { ...patch },
          mayRestrict: view.operator,
          isTrusted: opened.known.trust.isTrusted,
          // Between the look and the lock somebody may have written it by hand.
          check: (sha256) => {
            if (opened.broken.length === 0 && sha256 !== seen) throw changedMeanwhile();
          },
        }),
      );
      if (patched.created) await giveToOwner(opened.places.projectRoot, patched.realPath);
      const trusted = await keepTrust(parts, opened, patched, view);
      const rows = trusted?.map((file) => ({ ...file, trustedAt: parts.now() })) ?? records;
      return {
        change: configChange(opened.places, patched, trusted),
        result: configOf(workspaceId, await open(workspaceId, rows), view),
      };
    },
    async addTrust(workspaceId, files, records) {
      const opened = await open(workspaceId, records);
      const chosen = files.map((file) => chosenLayer(opened.loaded, file));
      const reviewed = await Promise.all(
        chosen.map(async (layer) => ({
          file: keyOf(opened.places, layer.realPath),
          realPath: layer.realPath,
          sha256: layer.sha256,
          review: (await reviewLayer(layer, opened.places, null)).text,
        })),
      );
      const names = new Set(reviewed.map(({ file }) => file));
      const all = [...records.filter(({ file }) => !names.has(file)), ...reviewed].map(plainFile);
      if (parts.own) await recordTrust(dataHomeOf(opened), opened.places.projectRoot, reviewed, parts.now());
      const rows = all.map((file) => ({ ...file, trustedAt: parts.now() }));
      return {
        change: {
          action: 'workspace_trust.create',
          ...(!parts.own && { trusted: all }),
          before: {},
          after: { files: files.map(({ path, sha256 }) => ({ path, sha256 })) },
        },
        result: await trustOf(workspaceId, await open(workspaceId, rows)),
      };
    },
    async removeTrust(workspaceId, records) {
      const opened = await open(workspaceId, records);
      const paths = workspaceLayers(opened.loaded).map(({ realPath }) => realPath);
      const revoked = parts.own
        ? await revokeTrust(dataHomeOf(opened), opened.places.projectRoot, paths)
        : records.map(({ file }) => file);
      if (revoked.length === 0) return { change: null, result: null };
      const files = revoked.map((path) => (parts.own ? keyOf(opened.places, path) : path));
      return {
        change: {
          action: 'workspace_trust.delete',
          ...(!parts.own && { trusted: [] }),
          before: { files },
          after: { files: [] },
        },
        result: null,
      };
    },
    async forRuns(workspaceId, installation) {
      // The settings of the command are those of its project already.
      if (parts.own) return installation;
      const places = await parts.placesOf(workspaceId);
      if (!(await hasFiles(places))) return installation;
      const { trust } = await trustIn(parts, places, workspaceId, undefined);
      return countingForRuns(installation, (await loadUsable(places, trust)).loaded.config);
    },
  };
}

/** What is trusted, and what was shown then. */
interface KnownTrust {
  readonly trust: Trust;
}

async function trustIn(
  parts: WorkspaceSettingsParts,
  places: SettingsPlaces,
  workspaceId: string,
  given: readonly TrustedFile[] | undefined,
): Promise<KnownTrust> {
  if (parts.own) return { trust: await readTrust(places.dataHome, places.projectRoot) };
  const records = given ?? (await parts.records(workspaceId));
  const entries = new Map(
    records.map(({ file, sha256, review, trustedAt }) => [
      join(places.projectRoot, file),
      { sha256, review, trustedAt: trustedAt.toISOString() },
    ]),
  );
  return {
    trust: {
      isTrusted: (realPath, sha256) => entries.get(realPath)?.sha256 === sha256,
      entry: (realPath) => entries.get(realPath) ?? null,
      all: () => entries,
    },
  };
}

function dataHomeOf({ places }: { readonly places: SettingsPlaces }): string {
  return places.dataHome;
}

function plainFile({ file, sha256, review }: Omit<TrustedFile, 'trustedAt'>) {
  return { file, sha256, review };
}

/** The path of a file as callers and records name it; the folder is a real path, too. */
function keyOf({ projectRoot }: SettingsPlaces, path: string): string {
  return relative(projectRoot, path);
}

function workspaceLayers({ layers }: LoadedSettings): SettingsLayer[] {
  return layers.filter(({ scope }) => scope !== 'global');
}

function workspaceFileOf({ layers }: LoadedSettings): SettingsLayer | undefined {
  return layers.find(({ scope }) => scope === 'workspace');
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

function brokenFile(places: SettingsPlaces, file: string): WorkspaceConfig['files'] {
  if (file === places.globalFile) return [];
  return [{ path: keyOf(places, file), sha256: null, state: 'unusable', restricted_keys: [] }];
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

function tagOf(loaded: LoadedSettings, broken: readonly string[], view: SettingsView): string {
  const layers = loaded.layers.map(({ file, sha256, trusted }) => [file, sha256, trusted]);
  const text = JSON.stringify([layers, broken, view.operator]);
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 27)}"`;
}

function requireTag(ifMatch: string, etag: string): void {
  const tags: readonly string[] = ifMatch.match(/(W\/)?"[^"]*"/g) ?? [];
  if (ifMatch.trim() !== '*' && !tags.includes(etag)) throw changedMeanwhile();
}

function changedMeanwhile(): Problem {
  return new Problem(
    'precondition_failed',
    'The settings have changed since they were read. Read them again, then repeat the change.',
  );
}

async function trustedFile(
  layer: SettingsLayer,
  loaded: LoadedSettings,
  { trust }: KnownTrust,
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

/** All that is trusted where that changes; a file that was trusted stays so where the operator has changed it. */
async function keepTrust(
  parts: WorkspaceSettingsParts,
  { places, known }: { readonly places: SettingsPlaces; readonly known: KnownTrust },
  { realPath, before, after, review }: PatchedFile,
  view: SettingsView,
): Promise<readonly Omit<TrustedFile, 'trustedAt'>[] | null> {
  const wasTrusted = before !== null && known.trust.isTrusted(realPath, before);
  if (!wasTrusted || !view.operator || review === null) return null;
  const file = { file: keyOf(places, realPath), realPath, sha256: after, review: review.text };
  if (parts.own) await recordTrust(places.dataHome, places.projectRoot, [file], parts.now());
  if (parts.own) return null;
  const others = [...known.trust.all()].flatMap(([path, entry]) =>
    path === realPath ? [] : [{ file: keyOf(places, path), sha256: entry.sha256, review: entry.review }],
  );
  return [...others, plainFile(file)];
}

function configChange(
  places: SettingsPlaces,
  { realPath, before, after, pointers }: PatchedFile,
  trusted: FilesChange['trusted'] | null,
): FilesChange | null {
  if (before === after) return null;
  const file = keyOf(places, realPath);
  return {
    action: 'workspace_config.update',
    ...(trusted && { trusted }),
    before: { sha256: before },
    // The names of what was set or removed, never the values: some of them are secrets.
    after: { file, sha256: after, changed: pointers, trusted: Boolean(trusted) },
  };
}

/** What is wrong with a change, as callers are told. */
async function refusals<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RestrictedSettings)
      throw new Problem(
        'restricted_section',
        `Only the operator may change what needs trust, or a file that is trusted for it: ${error.pointers.join(', ')}.`,
      );
    if (!(error instanceof SettingsError)) throw error;
    throw new Problem('invalid_request', 'The settings would not be right after this change.', {
      errors: error.diagnostics.map(({ pointer, message, remedy }) => ({
        in: 'body' as const,
        pointer,
        message: `${message}. ${remedy}`,
        code: 'settings',
      })),
    });
  }
}

/** Where the server is root, what it makes in somebody's folder belongs to whoever owns that. */
async function giveToOwner(folder: string, file: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(folder);
  const beside = dirname(file);
  for (const made of [beside, file, join(beside, '.gitignore'), join(beside, 'service.schema.json')])
    if ((await lstat(made).catch(() => null))?.uid === 0) await lchown(made, uid, gid);
}

async function hasFiles({ projectFiles, workspaceFile }: SettingsPlaces): Promise<boolean> {
  const files = [...projectFiles, ...(workspaceFile === null ? [] : [workspaceFile])];
  const there = await Promise.all(
    files.map((file) =>
      lstat(file).then(
        () => true,
        () => false,
      ),
    ),
  );
  return there.includes(true);
}

/** Providers, servers and what else the installation keeps running for all are its own alone. */
function countingForRuns(installation: ClientConfig, merged: ClientConfig): ClientConfig {
  const { models, hooks, permissions, options } = merged;
  const { limits, disabled_tools, disable_auto_summarize } = options ?? {};
  return {
    ...installation,
    ...(models && { models }),
    ...(hooks && { hooks }),
    ...(permissions && { permissions }),
    options: {
      ...installation.options,
      ...(limits && { limits }),
      ...(disabled_tools && { disabled_tools }),
      ...(disable_auto_summarize !== undefined && { disable_auto_summarize }),
    },
  };
}
