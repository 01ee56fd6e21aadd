/** Changes the settings file of a workspace by a merge patch, within what the caller may. */
import { lchown, lstat, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type LoadedSettings,
  type PatchedFile,
  patchSettings,
  RestrictedSettings,
  recordTrust,
  SettingsError,
  type SettingsLayer,
  type SettingsPlaces,
} from '../config/config.ts';
import { Problem } from '../problem.ts';
import {
  type FilesChange,
  keyOf,
  type OpenedSettings,
  type Outcome,
  openSettings,
  plainFile,
  type TrustedFile,
  type WorkspaceSettingsParts,
} from './opened.ts';
import { type ConfigWithTag, configOf, type SettingsView, tagOf } from './shown.ts';

export interface SettingsChange {
  readonly patch: Readonly<Record<string, unknown>>;
  readonly ifMatch: string;
}

export async function changeSettings(
  parts: WorkspaceSettingsParts,
  workspaceId: string,
  view: SettingsView,
  { patch, ifMatch }: SettingsChange,
  records: readonly TrustedFile[],
): Promise<Outcome<ConfigWithTag>> {
  const opened = await openSettings(parts, workspaceId, records);
  requireTag(ifMatch, tagOf(opened.loaded, opened.broken, view));
  const seen = workspaceFileOf(opened.loaded)?.sha256 ?? null;
  const patched = await refusals(() =>
    patchSettings(opened.places, {
      patch: { ...patch },
      mayRestrict: view.operator,
      isTrusted: opened.trust.isTrusted,
      keepsOwnTrust: parts.own && view.operator,
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
    result: configOf(workspaceId, await openSettings(parts, workspaceId, rows), view),
  };
}

function workspaceFileOf({ layers }: LoadedSettings): SettingsLayer | undefined {
  return layers.find(({ scope }) => scope === 'workspace');
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

/** All that is trusted where that changes; a file that was trusted stays so where the operator has changed it. */
async function keepTrust(
  parts: WorkspaceSettingsParts,
  { places, trust }: OpenedSettings,
  { realPath, before, after, review }: PatchedFile,
  view: SettingsView,
): Promise<readonly Omit<TrustedFile, 'trustedAt'>[] | null> {
  const wasTrusted = before !== null && trust.isTrusted(realPath, before);
  if (!wasTrusted || !view.operator || review === null) return null;
  const file = { file: keyOf(places, realPath), realPath, sha256: after, review: review.text };
  if (parts.own) await recordTrust(places.dataHome, places.projectRoot, [file], parts.now());
  if (parts.own) return null;
  const others = [...trust.all()].flatMap(([path, entry]) =>
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
