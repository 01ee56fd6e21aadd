/** Provider settings: where models are reached, and with which key, as people and admins keep it on the server. */
import { type Handler, isCurrent } from '../handler.ts';
import { newId } from '../ids.ts';
import { foundSetting, ownerOf } from './asked-setting.ts';

export const listProviderSettings: Handler<'listProviderSettings'> = async (
  { principal, query },
  { store, providerSettings },
) => {
  const { data, next_cursor } = await store.providerSettings.list(principal, query);
  return { status: 200, body: { data: await Promise.all(data.map(providerSettings.show)), next_cursor } };
};

export const createProviderSetting: Handler<'createProviderSetting'> = async (
  { principal, body },
  services,
) => {
  const { store, providerSettings } = services;
  const owner = await ownerOf(principal, body, 'body', services);
  const id = newId('providerSetting');
  const content = await providerSettings.write(id, body);
  const stored = await store.providerSettings.create(principal, owner, {
    ...{ ...content, id },
    providerId: body.provider_id,
  });
  return {
    status: 201,
    headers: { Location: `/api/v1/settings/providers/${id}`, ETag: stored.etag },
    body: await providerSettings.show(stored),
  };
};

export const getProviderSetting: Handler<'getProviderSetting'> = async (call, services) => {
  const stored = await foundSetting(call, services);
  const headers = { ETag: stored.etag };
  if (isCurrent(call.headers['If-None-Match'], stored.etag)) return { status: 304, headers };
  return { status: 200, headers, body: await services.providerSettings.show(stored) };
};

export const updateProviderSetting: Handler<'updateProviderSetting'> = async (call, services) => {
  const { principal, headers, body } = call;
  const { store, providerSettings } = services;
  // What is checked and sealed is what was read: who comes in between is heard first.
  for (;;) {
    const read = await foundSetting(call, services);
    const content = await providerSettings.change(read, body);
    const stored = await store.providerSettings.replace(principal, read, content, headers['If-Match']);
    if (stored)
      return { status: 200, headers: { ETag: stored.etag }, body: await providerSettings.show(stored) };
  }
};

export const deleteProviderSetting: Handler<'deleteProviderSetting'> = async (
  { principal, path, headers },
  { store, providerOauth },
) => {
  const takeBack = await providerOauth.revocation(path.setting_id);
  await store.providerSettings.delete(principal, path.setting_id, headers['If-Match']);
  await takeBack();
  return { status: 204 };
};

export const startProviderOauth: Handler<'startProviderOauth'> = async (call, services) => {
  const { id } = await foundSetting(call, services);
  return { status: 201, body: await services.providerOauth.start(call.principal, id, call.body) };
};

export const completeProviderOauth: Handler<'completeProviderOauth'> = async (call, services) => {
  const { id } = await foundSetting(call, services);
  return { status: 200, body: await services.providerOauth.complete(call.principal, id, call.body) };
};

export const getProviderOauth: Handler<'getProviderOauth'> = async (call, services) => {
  const { id } = await foundSetting(call, services);
  return { status: 200, body: await services.providerOauth.show(id) };
};

export const revokeProviderOauth: Handler<'revokeProviderOauth'> = async (call, services) => {
  const { id } = await foundSetting(call, services);
  await services.providerOauth.revoke(call.principal, id);
  return { status: 204 };
};

export const testProviderSetting: Handler<'testProviderSetting'> = async (call, services) => {
  const stored = await foundSetting(call, services);
  return { status: 200, body: await services.providerAsking.test(stored, call.signal) };
};
