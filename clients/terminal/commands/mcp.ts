/** `service mcp list`. */
import type { LoadedSettings } from '../../../server/config/config.ts';
import { describePlace, ignoredAsJson, ignoredIn, placeOfEntry } from '../origin-of.ts';
import { type Column, notice, printJson, printTable } from '../output.ts';
import { currentSettings } from '../places.ts';
import { noticeIgnored } from '../settings-notices.ts';

/** An MCP server of the settings, as it is printed. */
interface ListedServer {
  readonly name: string;
  readonly type: string;
  /** The command with its arguments, or the URL; as written, variables included. */
  readonly target: string;
  readonly enabled: boolean;
  readonly timeout: number;
  /** Null where the agent gets every tool. */
  readonly enabled_tools: readonly string[] | null;
  readonly disabled_tools: readonly string[];
  readonly file: string | null;
  readonly line: number | null;
}

const usualTimeout = 15;

/** Lists the MCP servers that the settings name, and those that do not count. None is started. */
export async function listMcpServers({ json = false }: { readonly json?: boolean }): Promise<void> {
  const { withoutSecrets } = await import('../../../server/config/config.ts');
  const loaded = await currentSettings();
  const servers = Object.keys(loaded.config.mcp ?? {}).map((name) => listed(name, loaded, withoutSecrets));
  const ignored = ignoredIn(loaded, 'mcp');
  if (json) return printJson({ servers, ignored: ignoredAsJson(ignored) });
  noticeIgnored(ignored);
  if (servers.length === 0)
    return notice('The settings name no MCP server. Add one to "mcp" in service.json.');
  printTable(servers, columns);
  notice('To see whether one works: service mcp test NAME.');
}

const columns: readonly Column<ListedServer>[] = [
  { title: 'name', value: ({ name }) => name, style: 'bold' },
  { title: 'type', value: ({ type }) => type },
  { title: 'command or url', value: ({ target }) => target },
  {
    title: 'state',
    value: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
    style: ({ enabled }) => (enabled ? 'green' : 'dim'),
  },
  { title: 'timeout', value: ({ timeout }) => `${timeout}s` },
  { title: 'tools', value: describeTools },
  {
    title: 'from',
    value: ({ file, line }) => describePlace(file === null || line === null ? null : { file, line }),
    style: 'dim',
  },
];

function listed(name: string, loaded: LoadedSettings, withoutSecrets: (url: string) => string): ListedServer {
  const server = loaded.config.mcp?.[name] ?? {};
  const { type = 'stdio', command, args = [], url = '', disabled_tools = [], enabled_tools } = server;
  const place = placeOfEntry(loaded, 'mcp', name);
  return {
    name,
    type,
    target: type === 'stdio' ? [command ?? '', ...args].join(' ') : withoutSecrets(url),
    enabled: !server.disabled,
    timeout: server.timeout ?? usualTimeout,
    // What is disabled is not among them, whatever the list of enabled ones says.
    enabled_tools: enabled_tools?.filter((tool) => !disabled_tools.includes(tool)) ?? null,
    disabled_tools,
    file: place?.file ?? null,
    line: place?.line ?? null,
  };
}

function describeTools({ enabled_tools, disabled_tools }: ListedServer): string {
  if (enabled_tools !== null) return enabled_tools.length > 0 ? `only ${enabled_tools.join(', ')}` : 'none';
  return disabled_tools.length > 0 ? `all but ${disabled_tools.join(', ')}` : 'all';
}
