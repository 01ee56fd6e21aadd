/** Where entries of the settings come from, told briefly. */
import type { LoadedSettings, Place } from '../../server/config/config.ts';
import { displayPath, notice } from './output.ts';

/** Where the nearest file that counts writes the entry of a section. An entry may be put together from several files. */
export function placeOfEntry({ layers }: LoadedSettings, section: Section, name: string): Place | null {
  const pointer = `/${section}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const layer = layers.findLast(({ config }) => Object.hasOwn(config[section] ?? {}, name));
  return layer?.place(pointer) ?? null;
}

/** The sections whose entries have names. */
export type Section = 'providers' | 'mcp' | 'lsp';

/** `service.json:12`, as editors open it. */
export function describePlace(place: Pick<Place, 'file' | 'line'> | null): string {
  return place ? `${displayPath(place.file)}:${place.line}` : '';
}

/** Entries of a section that do not count, since nobody trusts their file. */
export interface IgnoredEntry {
  readonly file: string;
  readonly line: number;
  readonly reason: string;
}

/** What does not count of a section, and why. */
export function ignoredIn({ ignored }: LoadedSettings, section: Section): IgnoredEntry[] {
  return ignored
    .filter(({ pointer }) => pointer === `/${section}` || pointer.startsWith(`/${section}/`))
    .map(({ file, place, reason }) => ({ file, line: place.line, reason }));
}

/** Says on standard error what does not count. */
export function tellIgnored(ignored: readonly IgnoredEntry[]): void {
  for (const { file, line, reason } of ignored)
    notice(`${displayPath(file, process.stderr)}:${line}: ${reason}.`);
}
