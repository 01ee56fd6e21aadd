/** What loading gives: the settings as they count, and for each value the file that says so. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic, Place } from './diagnostic.ts';

/** Where the files of one working directory are; absolute. Whether they are there is for the reader to find out. */
export interface SettingsPlaces {
  /** Where the command was started, symbolic links resolved. */
  readonly workingDirectory: string;
  /** The root of the git repository, worktree or submodule; outside git the working directory. */
  readonly projectRoot: string;
  readonly globalFile: string;
  /** From the root down to the working directory; in one folder `service.json`, then `.service.json`, which counts more. */
  readonly projectFiles: readonly string[];
  /** Null where there is no project. */
  readonly workspaceFile: string | null;
  /** What belongs to the person and to no project: trust, logins, the master key. */
  readonly dataHome: string;
}

/** The reference's three scopes, from the farthest to the nearest. */
export type SettingsScope = 'global' | 'project' | 'workspace';

/** One file that was found, as it was read, once. */
export interface SettingsLayer {
  readonly scope: SettingsScope;
  /** The path as it was looked for. */
  readonly file: string;
  /** The same with every symbolic link resolved; trust is recorded for this path. */
  readonly realPath: string;
  /** Exactly what was hashed and parsed. */
  readonly bytes: Uint8Array;
  /** Hex SHA-256 of the bytes. */
  readonly sha256: string;
  /** Whether its restricted sections count; always so for the global file. */
  readonly trusted: boolean;
  /** All that the file says, restricted sections included; aliases and deprecated keys under their proper names. */
  readonly written: ClientConfig;
  /** What of it counts. */
  readonly config: ClientConfig;
  /** Where a value of `written` stands in the file; null for a value that stands nowhere. */
  place(pointer: string): Place | null;
  /** The pointer of a value of `written` in the file itself, which may know it by another name. */
  pointerInFile(pointer: string): string;
}

/** A section that does not count, since its file is not trusted; or a value that was confined. */
export interface IgnoredSection {
  readonly file: string;
  readonly place: Place;
  readonly pointer: string;
  /** One sentence: what does not count, and why. */
  readonly reason: string;
}

/** Which file says what a value is. */
export interface Origin {
  readonly scope: SettingsScope;
  readonly place: Place;
}

/** The settings of one working directory. */
export interface LoadedSettings {
  readonly places: SettingsPlaces;
  /** The merged settings, without defaults: what nobody wrote is absent. */
  readonly config: ClientConfig;
  /** From the farthest file to the nearest. */
  readonly layers: readonly SettingsLayer[];
  readonly ignored: readonly IgnoredSection[];
  /** Warnings only: with an error nothing is loaded. */
  readonly diagnostics: readonly Diagnostic[];
  /** Which file the merged value at the pointer comes from; null where it is a default, an object of several, or absent. */
  origin(pointer: string): Origin | null;
}

/** Settings that follow their files. */
export interface LiveSettings {
  /**
   * The settings as the files stand now; the same object as long as no file changed, appeared or went. A file that
   * cannot be used any more leaves what was, but for the restricted sections that nobody trusts in its new bytes.
   */
  current(): Promise<LoadedSettings>;
  /** Called after each change that was noticed, without anybody asking for `current`. */
  onChange(listener: (loaded: LoadedSettings, problems: readonly Diagnostic[]) => void): void;
  close(): void;
}
