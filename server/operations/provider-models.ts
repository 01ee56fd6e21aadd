/** The models of providers: listed, described, discovered, and chosen as defaults. */
import { type Call, etagWith, type Handler, isCurrent, rowTags, type Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { foundSetting, ownerOf } from './asked-setting.ts';

export const listProviderModels: Handler<'listProviderModels'> = async (call, services) => {
  const { limit, cursor, source } = call.query;
  const stored = await foundSetting(call, services);
  const { all, describe, discovery } = await services.providerSettings.models(stored);
  const binding = `${stored.id} ${source ?? ''}`;
  const after = cursor === undefined ? '' : idIn(cursor, binding);
  const left = all.filter(({ id, sources }) => id > after && (!source || sources.includes(source)));
  const page = left.slice(0, limit);
  const last = page.at(-1);
  const next_cursor = last && left.length > limit ? cursorOf(last.id, binding) : null;
  return { status: 200, body: { data: await Promise.all(page.map(describe)), next_cursor, discovery } };
};

export const getProviderModel: Handler<'getProviderModel'> = async (call, services) => {
  const stored = await foundSetting(call, services);
  const model = await modelOf(stored, call.path.model_id, services);
  if (!model) throw new Problem('not_found', 'The provider setting has no such model.');
  const ETag = etagWith(stored.etag, model);
  if (isCurrent(call.headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: model };
};

export const putCustomModel: Handler<'putCustomModel'> = async (call, services) => {
  const { path, body } = call;
  const { providerSettings } = services;
  const { before, stored } = await changed(call, services, async (read) => {
    await requireSeen(call, read, services);
    return providerSettings.describe(read, path.model_id, body);
  });
  const model = await modelOf(stored, path.model_id, services);
  if (!model) throw new Error(`The model ${path.model_id} is not there after it was written`);
  const headers = { ETag: etagWith(stored.etag, model) };
  if (before.entry.models?.some(({ id }) => id === path.model_id))
    return { status: 200, headers, body: model };
  const Location = `/api/v1/settings/providers/${stored.id}/models/${encodeURIComponent(model.id)}`;
  return { status: 201, headers: { ...headers, Location }, body: model };
};

export const deleteCustomModel: Handler<'deleteCustomModel'> = async (call, services) => {
  await changed(call, services, (read) => services.providerSettings.undescribe(read, call.path.model_id));
  return { status: 204 };
};

export const refreshProviderModels: Handler<'refreshProviderModels'> = async (call, services) => {
  const stored = await foundSetting(call, services);
  const body = await services.providerAsking.refresh(stored);
  return { status: 202, headers: { Location: `/api/v1/settings/providers/${stored.id}/models` }, body };
};

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

type Stored = Awaited<ReturnType<typeof foundSetting>>;
type Content = Parameters<Services['store']['providerSettings']['replace']>[2];

/** What is checked and sealed is what was read: who comes in between is heard first. */
async function changed(
  call: Call<'deleteCustomModel'> | Call<'putCustomModel'>,
  services: Services,
  change: (read: Stored) => Promise<Content>,
): Promise<{ readonly before: Stored; readonly stored: Stored }> {
  const { principal, headers } = call;
  for (;;) {
    const before = await foundSetting(call, services);
    const content = await change(before);
    const ifMatch = rowTags(headers['If-Match']);
    const stored = await services.store.providerSettings.replace(principal, before, content, ifMatch);
    if (stored) return { before, stored };
  }
}

/** Nobody has read a model that is not there. */
async function requireSeen(
  { path, headers }: Call<'putCustomModel'>,
  read: Stored,
  services: Services,
): Promise<void> {
  if (headers['If-Match'] === undefined || (await modelOf(read, path.model_id, services))) return;
  throw new Problem('precondition_failed', 'There is nothing yet that the If-Match could match.');
}

async function modelOf(stored: Stored, modelId: string, { providerSettings }: Services) {
  const { all, describe } = await providerSettings.models(stored);
  const found = all.find(({ id }) => id === modelId);
  return found ? await describe(found) : null;
}

/** Models are listed by id, so an id is the cursor, made opaque like every other, and bound to its list. */
function cursorOf(id: string, binding: string): string {
  return Buffer.from(JSON.stringify([binding, id])).toString('base64url');
}

function idIn(cursor: string, binding: string): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  const prefix = `[${JSON.stringify(binding)},`;
  if (!text.startsWith(`${prefix}"`) || !text.endsWith('"]')) throw strangeCursor();
  try {
    const [, id] = JSON.parse(text);
    if (typeof id === 'string' && cursorOf(id, binding) === cursor) return id;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw strangeCursor();
}

function strangeCursor(): Problem {
  return new Problem(
    'invalid_cursor',
    'The cursor does not belong to this list with these filters; begin again without a cursor.',
    { errors: [{ in: 'query', name: 'cursor', message: 'A next_cursor of the same list.', code: 'cursor' }] },
  );
}
