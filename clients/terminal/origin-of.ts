/** Where entries of the settings come from, told briefly. */
import type { IgnoredSection, LoadedSettings, Place } from '../../server/config/config.ts';
import { displayPath } from './output.ts';

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

/** What does not count of a section, since nobody trusts its file. */
export function ignoredIn({ ignored }: LoadedSettings, section: Section): readonly IgnoredSection[] {
  return ignored.filter(({ pointer }) => pointer === `/${section}` || pointer.startsWith(`/${section}/`));
}

/** The same for programs. */
export function ignoredAsJson(ignored: readonly IgnoredSection[]) {
  return ignored.map(({ file, place, reason }) => ({ file, line: place.line, reason }));
}
