/** Quotas and usage: how much may be used, and who used what. */
import { type Call, etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';

export const listQuotas: Handler<'listQuotas'> = async ({ principal }, { store }) => {
  const keyId = principal.credential === 'api_key' ? principal.credentialId : null;
  return { status: 200, body: { data: await store.quotas.effective(principal, keyId), next_cursor: null } };
};

export const getQuota: Handler<'getQuota'> = async (call, { store }) => {
  const found = await store.quotas.find(call.principal, subjectOf(call));
  // What is used changes without the limits.
  const ETag = etagWith(found.etag, found.quota.use);
  if (isCurrent(call.headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.quota };
};

export const putQuota: Handler<'putQuota'> = async (call, { store }) => {
  const ifMatch = rowTags(call.headers['If-Match']);
  const { quota, etag } = await store.quotas.put(call.principal, subjectOf(call), call.body.limits, ifMatch);
  return { status: 200, headers: { ETag: etagWith(etag, quota.use) }, body: quota };
};

export const deleteQuota: Handler<'deleteQuota'> = async (call, { store }) => {
  await store.quotas.delete(call.principal, subjectOf(call), rowTags(call.headers['If-Match']));
  return { status: 204 };
};

export const getUsage: Handler<'getUsage'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.usage.sum(principal, query),
});

function subjectOf({ path, query }: Pick<Call<'getQuota'>, 'path' | 'query'>) {
  return { type: path.subject_type, id: path.subject_id, organizationId: query.organization_id };
}
