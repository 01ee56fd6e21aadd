/** Which language servers there are under these settings: those that they name, and those that set themselves up. */
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative } from 'node:path';
import type { ClientConfig, LanguageServer as LanguageServerEntry } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import { isOfType } from './file-types.ts';
import { genericCommands, type KnownServer, knownServers } from './known-servers.ts';
import { rootFolderOf } from './root-folder.ts';
import { findOnPath } from './search-path.ts';

/** A language server as it is to be started. */
export interface ServerDefinition {
  readonly name: string;
  /** Its entry of the settings; its templates are replaced when it is started. Null where nobody named it. */
  readonly entry: LanguageServerEntry | null;
  /** What is known of it without its entry. */
  readonly known: KnownServer | null;
  readonly filetypes: readonly string[];
  readonly rootMarkers: readonly string[];
  readonly timeoutMs: number;
  /** Changes whenever the server has to be started anew to be what the settings say. */
  readonly fingerprint: string;
}

const defaultTimeoutS = settingDefaults['lsp.*.timeout'];

/** The servers of the settings that are not disabled, those named first. */
export function namedServers(config: ClientConfig): readonly ServerDefinition[] {
  return Object.entries(config.lsp ?? {}).flatMap(([name, entry]) =>
    entry.disabled ? [] : [namedServer(name, entry)],
  );
}

/** The servers that may set themselves up: neither named nor disabled by name. */
export function automaticServers(config: ClientConfig): readonly ServerDefinition[] {
  if (config.options?.auto_lsp === false) return [];
  const named = Object.entries(config.lsp ?? {}).map(([name, entry]) => knownAs(name, entry));
  return knownServers
    .filter((known) => !named.includes(known) && !genericCommands.has(known.command))
    .map((known) => ({
      name: known.name,
      entry: null,
      known,
      filetypes: known.filetypes,
      rootMarkers: known.root_markers,
      timeoutMs: defaultTimeoutS * 1000,
      fingerprint: `automatic ${known.name}`,
    }));
}

/** A server for one file, and the folder of the project that it is started for. */
export interface ChosenServer {
  readonly definition: ServerDefinition;
  readonly root: string;
}

/** The servers for a file: all that are named for its type, else the first that may set itself up. */
export function serversFor(
  path: string,
  workspacePath: string,
  config: ClientConfig,
  sandboxed: boolean,
): readonly ChosenServer[] {
  const named = namedServers(config).filter(({ filetypes }) => isOfType(path, filetypes));
  if (named.length > 0)
    return named.flatMap((definition) => {
      const root = namedRoot(definition, path, workspacePath);
      return root === null ? [] : [{ definition, root }];
    });
  for (const definition of automaticServers(config)) {
    if (!isOfType(path, definition.filetypes)) continue;
    const root = rootFolderOf(path, workspacePath, definition.rootMarkers);
    if (root !== null && startsUnnamed(definition, workspacePath, sandboxed)) return [{ definition, root }];
  }
  return [];
}

/** Whether a server that nobody named may be started here. */
export function startsUnnamed(
  { known }: ServerDefinition,
  workspacePath: string,
  sandboxed: boolean,
): boolean {
  if (!known || (known.needs_naming !== undefined && !sandboxed)) return false;
  const found = findOnPath(known.command, workspacePath);
  if (found === null) return false;
  return (
    known.name !== 'typescript-language-server' || sandboxed || ownTypeScript(found, workspacePath) !== null
  );
}

/**
 * The TypeScript that is installed beside the language server. Unless it is told of one, the server loads that of the
 * project, which is code of the project.
 */
export function ownTypeScript(command: string, workspacePath: string): string | null {
  // From <folder>/node_modules/typescript-language-server/lib/cli.mjs to <folder>/node_modules.
  const real = realpathSync(command);
  const beside = dirname(dirname(dirname(real)));
  const candidate = join(beside, 'typescript', 'lib', 'tsserver.js');
  if (!existsSync(candidate)) return null;
  const place = realpathSync(candidate);
  return isInside(workspacePath, place) ? null : place;
}

/** Whether the path is the folder or lies in it. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return isAbsolute(path) && !way.startsWith('..') && !isAbsolute(way);
}

function namedServer(name: string, entry: LanguageServerEntry): ServerDefinition {
  const known = knownAs(name, entry);
  return {
    name,
    entry,
    known,
    filetypes: entry.filetypes ?? known?.filetypes ?? [],
    rootMarkers: entry.root_markers ?? known?.root_markers ?? [],
    timeoutMs: (entry.timeout ?? defaultTimeoutS) * 1000,
    fingerprint: JSON.stringify([name, entry]),
  };
}

/** By the name, else by the name of the command. */
function knownAs(name: string, { command }: LanguageServerEntry): KnownServer | null {
  const program = command === undefined ? null : basename(command);
  return (
    knownServers.find((known) => known.name === name) ??
    knownServers.find((known) => known.command === name) ??
    knownServers.find((known) => known.command === program && !genericCommands.has(program)) ??
    null
  );
}

/** Markers that the person wrote are a condition; those that are only known are a hint. */
function namedRoot(
  { entry, rootMarkers }: ServerDefinition,
  path: string,
  workspacePath: string,
): string | null {
  const found = rootFolderOf(path, workspacePath, rootMarkers);
  return found ?? (entry?.root_markers?.length ? null : workspacePath);
}
