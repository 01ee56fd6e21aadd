/** Reads the settings files of one working directory: finds which are there, and takes each from bytes to settings. */
import type { ClientConfig } from '../contract/config.ts';
import type { Diagnostic, Place } from './diagnostic.ts';
import { maximumBytes, type SettingsDocument } from './document.ts';
import { type ReadFile, type ReadResult, readOnce } from './files/read-once.ts';
import type { SettingsPlaces, SettingsScope } from './loaded-settings.ts';
import { type NormalizedSettings, normalize } from './normalize.ts';
import { isError, parseSettings } from './parse.ts';

/** A path where a settings file may be. */
interface Candidate {
  readonly scope: SettingsScope;
  readonly file: string;
}

/** What a settings file says. */
export interface FileContent extends Candidate, ReadFile {
  /** Under the names that stand there. */
  readonly raw: ClientConfig;
  readonly normalized: NormalizedSettings;
  /** Where the value at a pointer of the file stands; null where nothing does. */
  placeInFile(pointer: string): Place | null;
}

/** What was found at a path. Without content there is no file, or a diagnostic says why it is not used. */
export interface FoundLayer extends Candidate {
  readonly content: FileContent | null;
  readonly diagnostics: readonly Diagnostic[];
}

/** Every path where a settings file of the places may be, from the farthest to the nearest. */
export function candidatesOf({ globalFile, projectFiles, workspaceFile }: SettingsPlaces): Candidate[] {
  return [
    { scope: 'global', file: globalFile },
    ...projectFiles.map((file) => ({ scope: 'project', file }) as const),
    ...(workspaceFile === null ? [] : [{ scope: 'workspace', file: workspaceFile } as const]),
  ];
}

/** Reads every settings file of the places, from the farthest to the nearest. */
export async function readLayers(places: SettingsPlaces): Promise<FoundLayer[]> {
  const read = await readAll(places);
  const layers = await Promise.all(
    read.map(async ({ candidate, result }, index): Promise<FoundLayer[]> => {
      if (result === null) return [];
      if ('severity' in result) return [{ ...candidate, content: null, diagnostics: [result] }];
      const others = read.filter((_, other) => other > index || (other === 0 && index > 0));
      const again = others.some(
        ({ result: one }) => one && 'realPath' in one && one.realPath === result.realPath,
      );
      // The person's own file is that wherever else it is found; of another that is found twice the nearest counts.
      if (again && candidate.scope !== 'global') return [];
      return [await understood(candidate, result)];
    }),
  );
  return layers.flat();
}

interface ReadCandidate {
  readonly candidate: Candidate;
  readonly result: ReadResult;
}

/** Each file may be large, but not all of them: a repository may have as many folders as a path can hold. */
const maximumBytesInAll = 4 * maximumBytes;

async function readAll(places: SettingsPlaces): Promise<ReadCandidate[]> {
  const read: ReadCandidate[] = [];
  let left = maximumBytesInAll;
  for (const candidate of candidatesOf(places)) {
    const boundary = candidate.scope === 'global' ? null : places.projectRoot;
    const result = await readOnce(candidate.file, boundary);
    if (result && 'bytes' in result) left -= result.bytes.length;
    read.push({ candidate, result: left < 0 ? tooMuch(candidate.file) : result });
    if (left < 0) break;
  }
  return read;
}

function tooMuch(file: string): Diagnostic {
  return {
    severity: 'error',
    place: { file, line: 1, column: 1 },
    pointer: '',
    message: `With this one the settings files that count here are together larger than ${maximumBytesInAll} bytes`,
    expected: null,
    remedy: 'Are they settings files?',
  };
}

/** What is wrong with one file by itself; nothing if it can be used as it is. */
export async function checkFile(file: string): Promise<readonly Diagnostic[]> {
  const result = await readOnce(file, null);
  if (result === null) return [missing(file)];
  if ('severity' in result) return [result];
  return (await understood({ scope: 'global', file }, result)).diagnostics;
}

function missing(file: string): Diagnostic {
  const place = { file, line: 1, column: 1 };
  const message = 'There is no such file';
  return {
    severity: 'error',
    place,
    pointer: '',
    message,
    expected: null,
    remedy: 'Name one that is there.',
  };
}

async function understood(candidate: Candidate, read: ReadFile): Promise<FoundLayer> {
  const { written, document, diagnostics } = await parseSettings(read.bytes, candidate.file);
  if (!written || !document || diagnostics.some(isError)) return { ...candidate, content: null, diagnostics };
  const normalized = normalize(written, document);
  const placeInFile = (pointer: string) => placeOf(pointer, document);
  const content = { ...candidate, ...read, raw: written, normalized, placeInFile };
  return { ...candidate, content, diagnostics: [...diagnostics, ...normalized.diagnostics] };
}

function placeOf(pointer: string, document: SettingsDocument): Place | null {
  const node = document.node(pointer);
  if (!node) return null;
  // Of a value with a name the place is the name, which is what one looks for.
  return document.place(node.parent?.type === 'property' ? node.parent.offset : node.offset);
}
