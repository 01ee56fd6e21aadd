/** The models of providers: listed, described, discovered, and chosen as defaults. */
import { type Handler, isCurrent } from '../handler.ts';
import { ownerOf } from './asked-setting.ts';

export const getDefaultModels: Handler<'getDefaultModels'> = async (call, services) => {
  const { principal, query, headers } = call;
  const owner = await ownerOf(principal, { scope: 'user', ...query }, 'query', services);
  const { models, etag } = await services.store.defaultModels.find(principal, owner);
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: models };
};

export const putDefaultModels: Handler<'putDefaultModels'> = async (call, services) => {
  const { principal, query, headers } = call;
  const { store, providerSettings, defaultModels } = services;
  const owner = await ownerOf(principal, { scope: 'user', ...query }, 'query', services);
  // Who may not choose learns nothing of what there is to choose from.
  await store.defaultModels.find(principal, owner);
  const chosen = { large: null, small: null, embed: null, ...call.body };
  const [settings, installation] = await Promise.all([
    store.providerSettings.choosable(principal, owner),
    services.installedProviders(),
  ]);
  const own = await providerSettings.forChoice(settings);
  await defaultModels.check(chosen, { own, installation });
  const written = await store.defaultModels.replace(principal, owner, chosen, headers['If-Match']);
  defaultModels.chosen();
  return { status: 200, headers: { ETag: written.etag }, body: written.models };
};
