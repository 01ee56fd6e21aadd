/** API keys: what programs log in with. */
import type { ApiKey } from '../contract/api.ts';
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listApiKeys: Handler<'listApiKeys'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.apiKeys.list(principal, query),
});

export const createApiKey: Handler<'createApiKey'> = async ({ principal, body }, { identity }) => {
  const created = await identity.createApiKey(principal, body);
  return { status: 201, headers: { Location: `/api/v1/auth/api-keys/${created.api_key.id}` }, body: created };
};

export const getApiKey: Handler<'getApiKey'> = async ({ principal, path, headers }, { store }) => {
  const found = await store.apiKeys.find(principal, path.key_id);
  if (!found) throw new Problem('not_found', 'No API key has this id, or it is not yours.');
  const ETag = etagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.apiKey };
};

export const updateApiKey: Handler<'updateApiKey'> = async (call, { identity }) => {
  const { principal, path, headers, body } = call;
  const changed = await identity.updateApiKey(principal, path.key_id, body, rowTags(headers['If-Match']));
  return { status: 200, headers: { ETag: etagOf(changed) }, body: changed.apiKey };
};

export const revokeApiKey: Handler<'revokeApiKey'> = async ({ principal, path, headers }, { identity }) => {
  await identity.revokeApiKey(principal, path.key_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

export const rotateApiKey: Handler<'rotateApiKey'> = async (call, { identity }) => {
  const { principal, path, headers, body } = call;
  const { created, etag } = await identity.rotateApiKey(
    principal,
    path.key_id,
    body ?? { grace_seconds: 0 },
    rowTags(headers['If-Match']),
  );
  const { api_key: apiKey } = created;
  const Location = `/api/v1/auth/api-keys/${apiKey.id}`;
  return { status: 201, headers: { Location, ETag: etagOf({ apiKey, etag }) }, body: created };
};

/** The last use is shown too, but a key that is in use can still be changed with the ETag that was read. */
function etagOf({ apiKey, etag }: { readonly apiKey: ApiKey; readonly etag: string }): string {
  return etagWith(etag, [apiKey.last_used_at, apiKey.usage, apiKey.old_secret_expires_at]);
}
