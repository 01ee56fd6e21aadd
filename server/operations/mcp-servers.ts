/** MCP servers: what agents reach through the Model Context Protocol, as people, admins and the operator keep it on the server. */
import { createHash } from 'node:crypto';
import type { McpServer } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, type Principal, rowTags, type Services } from '../handler.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { askerIn } from './asked-session.ts';
import { ownerOrInstallation } from './asked-setting.ts';
import { connectedPage } from './pages/connected-page.ts';
import { pageReply } from './pages/page.ts';

export const listMcpServers: Handler<'listMcpServers'> = async ({ principal, query }, services) => {
  const { data, next_cursor } = await services.store.mcpServers.list(principal, query);
  const shown = await Promise.all(data.map((stored) => show(stored, principal, services)));
  return { status: 200, body: { data: shown, next_cursor } };
};

export const createMcpServer: Handler<'createMcpServer'> = async ({ principal, body }, services) => {
  const { store, mcpServers } = services;
  const owner = await ownerOrInstallation(principal, body, services);
  const id = newId('mcpServer');
  const content = mcpServers.write(id, body, writerOf(principal));
  const stored = await store.mcpServers.create(principal, owner, { ...content, id });
  const shown = await show(stored, principal, services);
  const headers = { Location: `/api/v1/mcp/servers/${id}`, ETag: tagOf(stored, shown) };
  return { status: 201, headers, body: shown };
};

export const getMcpServer: Handler<'getMcpServer'> = async (call, services) => {
  const stored = await found(call, services);
  const body = await show(stored, call.principal, services);
  const headers = { ETag: tagOf(stored, body) };
  if (isCurrent(call.headers['If-None-Match'], headers.ETag)) return { status: 304, headers };
  return { status: 200, headers, body };
};

export const updateMcpServer: Handler<'updateMcpServer'> = async (call, services) => {
  const { principal, headers, body } = call;
  const { store, mcpServers, runtime } = services;
  // What is checked and sealed is what was read: who comes in between is heard first.
  for (;;) {
    const read = await found(call, services);
    const content = mcpServers.change(read, body, writerOf(principal));
    const stored = await store.mcpServers.replace(principal, read, content, rowTags(headers['If-Match']));
    if (!stored) continue;
    if (content.reconnects) await runtime.mcp.end(stored.id);
    const shown = await show(stored, principal, services);
    return { status: 200, headers: { ETag: tagOf(stored, shown) }, body: shown };
  }
};

export const deleteMcpServer: Handler<'deleteMcpServer'> = async (
  { principal, path, headers },
  { store, runtime },
) => {
  await store.mcpServers.delete(principal, path.server_id, rowTags(headers['If-Match']));
  await runtime.mcp.end(path.server_id);
  return { status: 204 };
};

export const testMcpServer: Handler<'testMcpServer'> = async (call, services) => {
  const { own, workspaceId } = await asked(call, services);
  return { status: 200, body: await services.runtime.mcp.test(own, workspaceId) };
};

export const reconnectMcpServer: Handler<'reconnectMcpServer'> = async ({ principal, path }, services) => {
  const stored = await services.store.mcpServers.reconnect(principal, path.server_id);
  await services.runtime.mcp.end(stored.id);
  const shown = await show(stored, principal, services);
  return { status: 202, headers: { ETag: tagOf(stored, shown) }, body: shown };
};

export const listMcpTools: Handler<'listMcpTools'> = async (call, services) => {
  const { own, workspaceId } = await asked(call, services);
  const around = workspaceId ?? (await services.store.workspaces.defaultOf(call.principal))?.id;
  const beside = around === undefined ? [] : await services.mcpServers.of(askerIn(call.principal, around));
  const { tools } = await services.runtime.mcp.listing(own, workspaceId, beside);
  return { status: 200, body: pageOf(tools, call.query, ({ tool }) => tool) };
};

export const listMcpResources: Handler<'listMcpResources'> = async (call, services) => {
  const { own, workspaceId } = await asked(call, services);
  const resources = await services.runtime.mcp.resources(own, workspaceId, call.signal);
  return { status: 200, body: pageOf(resources, call.query, ({ uri }) => uri) };
};

export const listMcpPrompts: Handler<'listMcpPrompts'> = async (call, services) => {
  const { own, workspaceId } = await asked(call, services);
  const { prompts } = await services.runtime.mcp.listing(own, workspaceId, []);
  return { status: 200, body: pageOf(prompts, call.query, ({ name }) => name) };
};

export const startMcpOauth: Handler<'startMcpOauth'> = async (call, services) => {
  const { principal, body = {} } = call;
  const { userId } = principal;
  const server = await services.mcpServers.open(await found(call, services), userId);
  return { status: 201, body: await services.mcpLogins.start(principal, server, userId, body) };
};

export const completeMcpOauth: Handler<'completeMcpOauth'> = async ({ query }, services) => {
  const { location, serverId, userId } = await services.mcpLogins.complete(query);
  await services.runtime.mcp.end(serverId, userId);
  // The address of such a page holds what no other site is to learn.
  const headers = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer', Location: location };
  return { status: 302, headers };
};

export const revokeMcpOauth: Handler<'revokeMcpOauth'> = async (call, services) => {
  const { principal } = call;
  const { id } = await found(call, services);
  await services.mcpLogins.revoke(principal, id, principal.userId);
  await services.runtime.mcp.end(id, principal.userId);
  return { status: 204 };
};

export const getMcpConnectedPage: Handler<'getMcpConnectedPage'> = async ({ headers }) =>
  pageReply(connectedPage, headers['If-None-Match']);

type Stored = NonNullable<Awaited<ReturnType<Services['store']['mcpServers']['find']>>>;

interface OfServer {
  readonly principal: Principal;
  readonly path: { readonly server_id: string };
}

async function found({ principal, path }: OfServer, { store }: Services): Promise<Stored> {
  const stored = await store.mcpServers.find(principal, path.server_id);
  if (stored) return stored;
  throw new Problem('not_found', 'No MCP server has this id, or it is not yours.');
}

/** The server as the caller uses it, and where it is to work; null for one that is remote. */
async function asked(
  call: OfServer & { readonly query: { readonly workspace_id?: string | undefined } },
  services: Services,
) {
  const stored = await found(call, services);
  const { principal, query } = call;
  const workspaceId = await workspaceFor(stored, query.workspace_id, principal, services);
  return { own: await services.mcpServers.open(stored, principal.userId), workspaceId };
}

async function workspaceFor(
  { entry, workspaceId }: Stored,
  named: string | undefined,
  principal: Principal,
  { store }: Services,
): Promise<string | null> {
  if (named === undefined && entry.type !== 'stdio') return null;
  const wanted = named ?? workspaceId ?? undefined;
  const workspace =
    wanted === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, wanted);
  if (workspace) return workspace.id;
  throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
}

async function show(stored: Stored, principal: Principal, services: Services): Promise<McpServer> {
  const { mcpServers, runtime, store } = services;
  const workspaceId = await workspaceFor(stored, undefined, principal, services);
  const state = await runtime.mcp.stateOf(await mcpServers.open(stored, principal.userId), workspaceId);
  const { operator } = writerOf(principal);
  return mcpServers.show(stored, {
    operator,
    mayChange: store.mcpServers.mayChange(principal, stored),
    state,
  });
}

/** How a server is changes by itself: a change is held against what somebody has written. */
function tagOf({ etag }: Stored, shown: McpServer): string {
  return etagWith(etag, shown);
}

function writerOf({ operator = false }: Principal) {
  return { operator };
}

interface AskedPage {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/** What a server lists has its own order: a page begins behind what the one before ended with. */
function pageOf<One>(all: readonly One[], { limit = 20, cursor }: AskedPage, keyOf: (one: One) => string) {
  const cursors = cursorsOf(all.map(keyOf));
  const start = cursor === undefined ? 0 : cursors.indexOf(cursor) + 1;
  if (cursor !== undefined && start === 0)
    throw new Problem('invalid_cursor', 'This cursor does not belong to the list; begin again without it.');
  const end = start + limit;
  return { data: all.slice(start, end), next_cursor: end < all.length ? (cursors[end - 1] ?? null) : null };
}

/** What is listed many times under one key is told apart by its turn: else the cursor would lead back to the first. */
function cursorsOf(keys: readonly string[]): string[] {
  const turns = new Map<string, number>();
  return keys.map((key) => {
    const turn = (turns.get(key) ?? 0) + 1;
    turns.set(key, turn);
    return createHash('sha256').update(`${turn} ${key}`).digest('base64url');
  });
}
