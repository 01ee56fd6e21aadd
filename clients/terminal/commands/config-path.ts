/** `service config path`: where settings files are looked for here, and what became of each. */
import type { Diagnostic, SettingsPlaces } from '../../../server/config/config.ts';
import { displayPath, printTable, type Style } from '../output.ts';
import { currentPlaces, isThere, placesOfFiles } from '../places.ts';
import { noticeDiagnostics } from '../settings-notices.ts';

type State = 'there' | 'absent' | 'not trusted' | 'cannot be used' | 'not read';

const styles: Record<State, Style> = {
  there: 'green',
  absent: 'dim',
  'not trusted': 'yellow',
  'cannot be used': 'red',
  'not read': 'yellow',
};

/** Prints every place, from the farthest to the nearest. */
export async function printConfigPaths({ json }: { readonly json?: boolean }): Promise<void> {
  const places = await currentPlaces();
  const { stateOf, diagnostics } = await look(places);
  const rows = await Promise.all(
    placesOfFiles(places).map(async ({ scope, file }) => ({ scope, file, state: await stateOf(file) })),
  );
  printTable(
    rows,
    [
      { title: 'scope', value: ({ scope }) => scope },
      { title: 'file', value: ({ file }) => displayPath(file) },
      { title: 'state', value: ({ state }) => state, style: ({ state }) => styles[state] },
    ],
    { json },
  );
  if (!json) noticeDiagnostics(diagnostics);
}

/** Loads the settings, and takes what keeps them from being used as an answer, too. */
async function look(places: SettingsPlaces) {
  const { loadSettings, SettingsError } = await import('../../../server/config/config.ts');
  try {
    const { layers, ignored, diagnostics } = await loadSettings(places);
    const untrusted = new Set(ignored.map(({ file }) => file));
    const read = new Set(layers.map(({ file }) => file));
    const stateOf = async (file: string): Promise<State> => {
      if (untrusted.has(file)) return 'not trusted';
      if (read.has(file)) return 'there';
      return (await isThere(file)) ? 'not read' : 'absent';
    };
    return { stateOf, diagnostics: diagnostics.filter(({ place }) => !read.has(place?.file ?? '')) };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const { diagnostics }: { diagnostics: readonly Diagnostic[] } = error;
    const broken = new Set(diagnostics.map(({ place }) => place?.file));
    const stateOf = async (file: string): Promise<State> => {
      if (broken.has(file)) return 'cannot be used';
      return (await isThere(file)) ? 'there' : 'absent';
    };
    return { stateOf, diagnostics };
  }
}
