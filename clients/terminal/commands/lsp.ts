/** `service lsp list`. */
import type { LoadedSettings } from '../../../server/config/config.ts';
import { describePlace, ignoredAsJson, ignoredIn, placeOfEntry } from '../origin-of.ts';
import { type Column, notice, printJson, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';
import { noticeIgnored } from '../settings-notices.ts';

/** A language server of the settings, as it is printed. */
interface ListedServer {
  readonly name: string;
  /** With its arguments, as written; null where the service has to know it by the name. */
  readonly command: string | null;
  readonly filetypes: readonly string[];
  readonly root_markers: readonly string[];
  readonly enabled: boolean;
  readonly timeout: number;
  readonly file: string | null;
  readonly line: number | null;
}

const usualTimeout = 30;

/** Lists the language servers that the settings name, and those that do not count. None is started. */
export async function listLanguageServers({ json = false }: { readonly json?: boolean }): Promise<void> {
  const loaded = await currentSettings();
  const servers = Object.keys(loaded.config.lsp ?? {}).map((name) => listed(name, loaded));
  const ignored = ignoredIn(loaded, 'lsp');
  if (json) return printJson({ servers, ignored: ignoredAsJson(ignored) });
  noticeIgnored(ignored);
  if (servers.length === 0) {
    return notice(
      'The settings name no language server. Those that are known set themselves up, unless options.auto_lsp is off.',
    );
  }
  printTable(servers, columns);
}

const columns: readonly Column<ListedServer>[] = [
  { title: 'name', value: ({ name }) => name, style: 'bold' },
  { title: 'command', value: ({ command }) => command ?? '' },
  { title: 'files', value: ({ filetypes }) => filetypes.join(', ') },
  {
    title: 'state',
    value: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
    style: ({ enabled }) => (enabled ? 'green' : 'dim'),
  },
  { title: 'timeout', value: ({ timeout }) => `${timeout}s` },
  {
    title: 'from',
    value: ({ file, line }) => describePlace(file === null || line === null ? null : { file, line }),
    style: 'dim',
  },
];

function listed(name: string, loaded: LoadedSettings): ListedServer {
  const { command, args = [], ...server } = loaded.config.lsp?.[name] ?? {};
  const place = placeOfEntry(loaded, 'lsp', name);
  return {
    name,
    command: command === undefined ? null : [command, ...args].join(' '),
    filetypes: server.filetypes ?? [],
    root_markers: server.root_markers ?? [],
    enabled: !server.disabled,
    timeout: server.timeout ?? usualTimeout,
    file: place?.file ?? null,
    line: place?.line ?? null,
  };
}
