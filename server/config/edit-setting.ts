/** Changes one setting in a file that people write by hand: all the rest of it stays as it is. */
import type { SettingsPlaces } from './loaded-settings.ts';

/** Which setting is changed, and in which file. */
export interface SettingEdit {
  readonly scope: 'global' | 'workspace';
  /** The JSON pointer of the setting. */
  readonly pointer: string;
}

/** What is written: text as a person types it, read by the type of the key; or a value as it is. */
export type SettingValue = { readonly text: string } | { readonly value: unknown };

/** What became of a change. */
export interface SettingChange {
  readonly file: string;
  /** Whether the file was made by this change. */
  readonly created: boolean;
  /** Where it stands now; another name than asked for where the file uses an alias. */
  readonly pointer: string;
  /** What stood there before; undefined where nothing did. */
  readonly previous: unknown;
  /** What stands there now; undefined where nothing does. */
  readonly value: unknown;
  /** Whether all that the file says counts: the global file always, another when it was trusted before. */
  readonly trusted: boolean;
  /** The sections of the file that do not count until it is trusted. */
  readonly ignored: readonly string[];
}

/** Sets one setting. Throws SettingsError, and writes nothing, where the file would not be right afterwards. */
export async function setSetting(
  places: SettingsPlaces,
  edit: SettingEdit & SettingValue,
): Promise<SettingChange> {
  throw new Error(`Not yet: ${places.workspaceFile} ${edit.pointer}`);
}

/** Removes one setting, and the objects that would be left empty. */
export async function unsetSetting(places: SettingsPlaces, edit: SettingEdit): Promise<SettingChange> {
  throw new Error(`Not yet: ${places.workspaceFile} ${edit.pointer}`);
}
