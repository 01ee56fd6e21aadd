/** What people and agents want to be known in later conversations. */
import type { Memory, MemoryCreate, MemorySearch } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, type Principal, rowTags, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askedReranker } from './asked-reranker.ts';
import { askerIn, searcher } from './asked-session.ts';
import { importLines } from './memory-lines.ts';
import { quotaNotice } from './quota-notice.ts';

export const listMemories: Handler<'listMemories'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.memories.list(principal, query),
});

export const createMemory: Handler<'createMemory'> = async ({ principal, body }, services) => {
  const { store } = services;
  await profileCheck(principal, services)(body);
  const created = await store.memories.create(principal, body, writerOf(principal));
  const { memory, notices } = created;
  const Location = `/api/v1/memories/${memory.id}`;
  return { status: 201, headers: { Location, ETag: tagOf(created), ...quotaNotice(notices) }, body: memory };
};

export const searchMemories: Handler<'searchMemories'> = async ({ principal, body, signal }, services) => {
  const { rerank, ...search } = body;
  const reranker = await askedReranker(principal, rerank, services);
  const asking = searcher(principal, await placeOf(principal, search, services));
  return { status: 200, body: await services.memorySearches.find(asking, search, signal, reranker) };
};

export const getMemory: Handler<'getMemory'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.memories.find(principal, path.memory_id);
  if (!found) throw missing();
  const ETag = tagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.memory };
};

export const updateMemory: Handler<'updateMemory'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const { memory_id } = path;
  const ifMatch = rowTags(headers['If-Match']);
  const changed = await store.memories.update(principal, memory_id, body, writerOf(principal), ifMatch);
  return {
    status: 200,
    headers: { ETag: tagOf(changed), ...quotaNotice(changed.notices) },
    body: changed.memory,
  };
};

export const deleteMemory: Handler<'deleteMemory'> = async ({ principal, path, headers }, { store }) => {
  await store.memories.delete(principal, path.memory_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

export const listMemoryVersions: Handler<'listMemoryVersions'> = async (
  { principal, path, query },
  { store },
) => ({ status: 200, body: await store.memories.versions(principal, path.memory_id, query) });

export const exportMemories: Handler<'exportMemories'> = async ({ principal, query }, { store }) => {
  const pages = await store.memories.export(principal, query);
  const headers = { 'Content-Disposition': 'attachment; filename="memories.jsonl"' };
  return { status: 200, type: 'application/x-ndjson', headers, body: linesOf(pages) };
};

export const importMemories: Handler<'importMemories'> = async ({ principal, body }, services) => {
  const { store } = services;
  const { file, workspace_id } = body;
  // Said once, and not of every line.
  if (workspace_id !== undefined) await store.memories.requirePlace(principal, workspace_id);
  const requireProfile = profileCheck(principal, services);
  const create = async (input: MemoryCreate) => {
    await requireProfile(input);
    return store.memories.create(principal, input, writerOf(principal));
  };
  return { status: 200, body: await importLines(file.content, workspace_id, create) };
};

export const purgeMemories: Handler<'purgeMemories'> = async ({ principal, body }, { store }) => {
  const { confirm: _confirm, ...owner } = body;
  return { status: 202, body: { purged: await store.memories.purge(principal, owner) } };
};

/** Where the memories are that are asked for; null where they may be anywhere. */
async function placeOf(
  principal: Principal,
  { workspace_id, session_id }: Pick<MemorySearch, 'workspace_id' | 'session_id'>,
  { store }: Pick<Services, 'store'>,
) {
  const ofSession = session_id === undefined ? null : await store.sessions.find(principal, session_id);
  const id = workspace_id ?? ofSession?.session.workspace_id;
  const found = id === undefined ? null : await store.workspaces.find(principal, id);
  return found && { organizationId: found.organizationId, workspaceId: found.id };
}

async function* linesOf(pages: AsyncIterable<readonly Memory[]>): AsyncGenerator<string> {
  for await (const page of pages)
    if (page.length > 0) yield page.map((memory) => `${JSON.stringify(memory)}\n`).join('');
}

/** Throws `agent_not_found`. Of many lines for one profile the first one looks; who may not write, the store tells. */
function profileCheck(principal: Principal, { store, runtime }: Pick<Services, 'store' | 'runtime'>) {
  const looks = new Map<string, Promise<void>>();
  const look = async (agentSlug: string, id: string | undefined) => {
    const place =
      id === undefined
        ? await store.workspaces.defaultOf(principal)
        : await store.workspaces.find(principal, id);
    if (place) await runtime.check({ agentSlug }, askerIn(principal, place.id));
  };
  return async ({ scope, agent_slug, workspace_id }: NamedAgent): Promise<void> => {
    if (scope !== 'agent' || agent_slug === undefined) return;
    const key = `${agent_slug} ${workspace_id ?? ''}`;
    const looking = looks.get(key) ?? look(agent_slug, workspace_id);
    looks.set(key, looking);
    await looking;
  };
}

type NamedAgent = Pick<MemoryCreate, 'scope' | 'agent_slug' | 'workspace_id'>;

/** A session that is deleted is the source no more, and writes no memory by that. */
function tagOf({ memory, etag }: { readonly memory: Memory; readonly etag: string }): string {
  return etagWith(etag, [memory.source]);
}

/** The person themselves, whichever credential they came with. */
function writerOf({ credential, credentialId }: Principal) {
  return { runId: null, apiKeyId: credential === 'api_key' ? credentialId : null };
}

function missing(): Problem {
  return new Problem('not_found', 'No memory has this id, or it is not yours.');
}
