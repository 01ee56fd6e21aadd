/** Catalogues of models: what the operator adds to what is known of them. */
import { etagWith, type Handler, isCurrent, rowTags } from '../handler.ts';
import { Problem } from '../problem.ts';

export const listCatalogs: Handler<'listCatalogs'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.modelCatalogs.list(principal, query),
});

export const createCatalog: Handler<'createCatalog'> = async ({ principal, body }, { modelCatalogs }) => {
  const made = await modelCatalogs.create(principal, body);
  const Location = `/api/v1/settings/providers/catalogs/${made.catalog.id}`;
  return { status: 201, headers: { Location, ETag: tagOf(made) }, body: made.catalog };
};

export const getCatalog: Handler<'getCatalog'> = async ({ path, headers }, { store }) => {
  const found = await store.modelCatalogs.find(path.catalog_id);
  if (!found) throw new Problem('not_found', 'There is no such catalogue of models.');
  const ETag = tagOf(found);
  if (isCurrent(headers['If-None-Match'], ETag)) return { status: 304, headers: { ETag } };
  return { status: 200, headers: { ETag }, body: found.catalog };
};

export const putCatalog: Handler<'putCatalog'> = async (call, { modelCatalogs }) => {
  const { principal, path, headers, body } = call;
  const ifMatch = rowTags(headers['If-Match']);
  const written = await modelCatalogs.replace(principal, path.catalog_id, body, ifMatch);
  return { status: 200, headers: { ETag: tagOf(written) }, body: written.catalog };
};

export const deleteCatalog: Handler<'deleteCatalog'> = async (call, { modelCatalogs }) => {
  const { principal, path, headers } = call;
  await modelCatalogs.delete(principal, path.catalog_id, rowTags(headers['If-Match']));
  return { status: 204 };
};

type Tagged = Awaited<ReturnType<Parameters<Handler<'getCatalog'>>[1]['modelCatalogs']['create']>>;

/** What its URL brings changes by itself: a change is held against what the operator has written. */
function tagOf({ catalog, etag }: Tagged): string {
  return etagWith(etag, [catalog.fetched_at, catalog.checked_at, catalog.fault, catalog.model_count]);
}
