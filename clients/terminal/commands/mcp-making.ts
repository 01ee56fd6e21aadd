/** `service mcp add` and `remove`: the MCP servers that a server keeps, for a person, a workspace, an organization or all. */
import type { McpServer, McpServerCreate } from '@service/client/api';
import { askYesNo, canAsk } from '../ask.ts';
import { withService } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { keyed, unless } from '../lost-answers.ts';
import { notice, print, printable } from '../output.ts';
import { secretsOf } from '../secrets.ts';
import { named, requireServer, testKeptMcp } from './mcp-kept.ts';

interface Where {
  readonly server?: string;
  readonly scope?: McpServer['scope'];
}

interface Wishes extends Where {
  readonly type?: 'http' | 'sse';
  readonly header?: readonly string[];
  readonly env?: readonly string[];
}

/** It is tried at once; one that cannot be used yet, for want of a login perhaps, is kept all the same. */
export async function addKeptMcp(
  name: string,
  [target = '', ...args]: readonly string[],
  wishes: Wishes,
): Promise<void> {
  const { server, scope = 'user', type = 'http', header, env } = wishes;
  const url = requireServer(server, name);
  const isRemote = /^https?:\/\//i.test(target);
  if (isRemote) refuseForAddress(args, wishes);
  else refuseForCommand(wishes);
  const secrets = secretsOf();
  const body: McpServerCreate = {
    ...{ scope, name },
    ...(isRemote ? { type, url: target } : { type: 'stdio', command: target, args }),
    ...(header && { headers: await pairsIn(header, ':', secrets) }),
    ...(env && { env: await pairsIn(env, '=', secrets) }),
  };
  const { data } = await withService(url, (client) =>
    client.POST('/api/v1/mcp/servers', { body, params: { header: keyed() } }),
  );
  print(printable(`Added ${data.name} for ${forWhom(data.scope)} (${data.id})`));
  await testKeptMcp(name, { server: url, id: data.id, isBrief: true, ...(wishes.scope && { scope }) }).catch(
    (error: unknown) => {
      if (!(error instanceof CommandFailure)) throw error;
      notice(error.message);
    },
  );
}

function refuseForAddress(more: readonly string[], { env }: Wishes): void {
  if (more.length > 0)
    throw new CommandFailure(
      `An MCP server with an address takes no further words, and these follow it: ${more.join(' ')}. What it is to be told goes into the address, or into --header.`,
      exitCodes.usage,
    );
  if (env)
    throw new CommandFailure(
      '--env is for an MCP server that is a command; one with an address is told by --header.',
      exitCodes.usage,
    );
}

function refuseForCommand({ type, header }: Wishes): void {
  if (type !== undefined || header)
    throw new CommandFailure(
      `${header ? '--header' : '--type'} is for an MCP server with an address, as https://mcp.example.com/mcp; a command is told by --env and by its words.`,
      exitCodes.usage,
    );
}

/** After a question. */
export async function removeKeptMcp(
  name: string,
  { server, scope, yes }: Where & { readonly yes?: boolean },
): Promise<void> {
  const url = requireServer(server, name);
  if (!yes && !canAsk())
    throw new CommandFailure(
      'There is no terminal to ask at: --yes removes without asking.',
      exitCodes.usage,
    );
  await withService(url, async (client) => {
    const { id: server_id, scope: its } = await named(client, name, scope);
    const sure = yes || (await askYesNo(`Remove ${printable(name)} from ${forWhom(its)}, with its secrets?`));
    if (!sure) return notice('Nothing was removed.');
    const params = { path: { server_id } };
    const { response } = await client.GET('/api/v1/mcp/servers/{server_id}', { params });
    const header = { 'If-Match': response.headers.get('ETag') ?? '' };
    await client
      .DELETE('/api/v1/mcp/servers/{server_id}', { params: { ...params, header } })
      .catch(unless(404));
    print(printable(`Removed ${name} (${server_id})`));
  });
}

/** Whose runs have it, in words. */
function forWhom(scope: McpServer['scope']): string {
  if (scope === 'user') return 'your own runs';
  return scope === 'installation' ? 'all runs' : `all runs of the ${scope}`;
}

/** Values that stand beside the names, and those that are read because they do not: others see the command line. */
async function pairsIn(
  lines: readonly string[],
  sign: ':' | '=',
  secrets: ReturnType<typeof secretsOf>,
): Promise<Record<string, string>> {
  const pairs: Record<string, string> = {};
  for (const line of lines) {
    const [name = '', ...rest] = line.split(sign);
    pairs[name.trim()] =
      rest.length > 0 ? rest.join(sign).trim() : await secrets(`${name}: `, `value of ${name}`);
  }
  return pairs;
}
