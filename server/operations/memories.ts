/** What people and agents want to be known in later conversations. */
import { type Handler, isCurrent, type Principal } from '../handler.ts';
import { Problem } from '../problem.ts';
import { quotaNotice } from './quota-notice.ts';

export const listMemories: Handler<'listMemories'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.memories.list(principal, query),
});

export const createMemory: Handler<'createMemory'> = async ({ principal, body }, { store }) => {
  const { memory, etag, notices } = await store.memories.create(principal, body, writerOf(principal));
  const headers = { Location: `/api/v1/memories/${memory.id}`, ETag: etag, ...quotaNotice(notices) };
  return { status: 201, headers, body: memory };
};

export const searchMemories: Handler<'searchMemories'> = async ({ principal, body }, { store }) => ({
  status: 200,
  body: await store.memories.search(principal, body),
});

export const getMemory: Handler<'getMemory'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.memories.find(principal, path.memory_id);
  if (!found) throw missing();
  if (isCurrent(headers['If-None-Match'], found.etag)) return { status: 304, headers: { ETag: found.etag } };
  return { status: 200, headers: { ETag: found.etag }, body: found.memory };
};

export const updateMemory: Handler<'updateMemory'> = async (
  { principal, path, headers, body },
  { store },
) => {
  const { memory_id } = path;
  const ifMatch = headers['If-Match'];
  const changed = await store.memories.update(principal, memory_id, body, writerOf(principal), ifMatch);
  return {
    status: 200,
    headers: { ETag: changed.etag, ...quotaNotice(changed.notices) },
    body: changed.memory,
  };
};

export const deleteMemory: Handler<'deleteMemory'> = async ({ principal, path, headers }, { store }) => {
  await store.memories.delete(principal, path.memory_id, headers['If-Match']);
  return { status: 204 };
};

export const listMemoryVersions: Handler<'listMemoryVersions'> = async (
  { principal, path, query },
  { store },
) => ({ status: 200, body: await store.memories.versions(principal, path.memory_id, query) });

/** The person themselves, whichever credential they came with. */
function writerOf({ credential, credentialId }: Principal) {
  return { runId: null, apiKeyId: credential === 'api_key' ? credentialId : null };
}

function missing(): Problem {
  return new Problem('not_found', 'No memory has this id, or it is not yours.');
}
