/** `service mcp list`, `test`, `login` and `logout` with `--server`: the MCP servers that a server keeps. */
import type { ServiceClient } from '@service/client';
import type { McpServer, McpTool } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { openBrowser } from '../browser.ts';
import { withService } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { brief, type Column, counted, notice, print, printable, printJson, printTable } from '../output.ts';

export interface OnServer {
  readonly server: string;
  readonly scope?: McpServer['scope'];
  readonly json?: boolean;
}

/** What only a server keeps; here they stand in files. */
export function requireServer(server: string | undefined, name: string): string {
  if (server !== undefined) return server;
  throw new CommandFailure(
    `This is for what a server keeps: name it with --server. Here MCP servers stand in service.json, as after: service config set --global mcp.${name} '{"type": "http", "url": "https://mcp.example.com/mcp"}'`,
    exitCodes.usage,
  );
}

/** Those that count for whoever is logged in there, and those that the same name of a nearer one covers. */
export async function listKeptMcp({ server, json = false }: OnServer): Promise<void> {
  const servers = await withService(server, keptServers);
  if (servers.length === 0 && !json)
    notice('Nobody keeps an MCP server for you on this server. service mcp add NAME URL adds one.');
  printTable(servers, columns, { json });
}

/**
 * Where it is brief, only how many tools there are, and not each with the name that permission rules know it by. With an id
 * it is that one, and not the nearest of its name.
 */
export async function testKeptMcp(
  name: string,
  {
    server,
    scope,
    json = false,
    isBrief = false,
    id,
  }: OnServer & { readonly isBrief?: boolean; readonly id?: string },
): Promise<void> {
  const { found, tools } = await withService(server, async (client) => {
    const path = { server_id: id ?? (await named(client, name, scope)).id };
    const { data } = await client.POST('/api/v1/mcp/servers/{server_id}/test', { params: { path } });
    const mayList = data.ok && !isBrief;
    return { found: data, tools: mayList ? await Array.fromAsync(toolsOf(client, path)) : [] };
  });
  if (json) printJson({ name, ...found, tools });
  else if (found.ok)
    print(
      printable(
        `${name}: ${found.server ?? 'a server without a name'}, ${counted(found.tool_count ?? 0, 'tool')}`,
      ),
    );
  if (!json && tools.length > 0) printTable(tools, toolColumns);
  if (found.error === null) return;
  const hint =
    found.error.code === 'login_needed'
      ? ` Log in with: service mcp login ${name}${scope ? ` --scope ${scope}` : ''} --server ${server}`
      : '';
  throw new CommandFailure(
    `The MCP server ${name} cannot be used: ${found.error.message}.${hint}`,
    exitCodes.unreachable,
  );
}

function toolsOf(client: ServiceClient, path: { readonly server_id: string }): AsyncGenerator<McpTool> {
  return paginate((page) =>
    client.GET('/api/v1/mcp/servers/{server_id}/tools', { params: { path, query: { ...page, limit: 100 } } }),
  );
}

const toolColumns: readonly Column<McpTool>[] = [
  { title: 'tool', value: ({ name }) => name, style: 'bold' },
  { title: 'state', value: ({ enabled }) => (enabled ? 'enabled' : 'disabled') },
  { title: 'description', value: ({ description }) => brief(description, 80), style: 'dim' },
];

/** The browser comes back to the server, which keeps the login. */
export async function logInToKeptMcp(name: string, { server, scope }: OnServer): Promise<void> {
  const { authorize_url } = await withService(server, async (client) => {
    const path = { server_id: (await named(client, name, scope)).id };
    return (await client.POST('/api/v1/mcp/servers/{server_id}/oauth/start', { params: { path } })).data;
  });
  openBrowser(authorize_url);
  notice(`Open this page to log in to ${name}; it says when you are:\n${authorize_url}`);
}

export async function logOutOfKeptMcp(name: string, { server, scope }: OnServer): Promise<void> {
  await withService(server, async (client) => {
    const path = { server_id: (await named(client, name, scope)).id };
    await client.DELETE('/api/v1/mcp/servers/{server_id}/oauth', { params: { path } });
  });
  notice(`The login to ${name} is forgotten there.`);
}

const columns: readonly Column<McpServer>[] = [
  { title: 'name', value: ({ name }) => name, style: 'bold' },
  { title: 'scope', value: ({ scope }) => scope },
  { title: 'type', value: ({ type }) => type },
  { title: 'command or url', value: ({ url, command, args }) => url ?? [command ?? '', ...args].join(' ') },
  { title: 'state', value: ({ state }) => state },
  { title: 'why', value: ({ detail }) => detail ?? '', style: 'dim' },
];

async function keptServers(client: ServiceClient): Promise<readonly McpServer[]> {
  return await Array.fromAsync(
    paginate((page) => client.GET('/api/v1/mcp/servers', { params: { query: { ...page, limit: 100 } } })),
  );
}

const nearest: readonly McpServer['scope'][] = ['user', 'workspace', 'organization', 'installation'];

/** Of several with one name the one that counts. */
export async function named(
  client: ServiceClient,
  name: string,
  scope?: McpServer['scope'],
): Promise<McpServer> {
  const servers = await keptServers(client);
  const [found] = servers
    .filter((one) => one.name === name && (scope === undefined || one.scope === scope))
    .sort((a, b) => nearest.indexOf(a.scope) - nearest.indexOf(b.scope));
  if (found) return found;
  const names = [...new Set(servers.map((one) => one.name))].join(', ') || 'none';
  throw new CommandFailure(
    `This server keeps no MCP server ${name} for you; there are: ${names}.`,
    exitCodes.usage,
  );
}
