/** Where files lie, for the operator. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';

export const getStorage: Handler<'getStorage'> = async ({ headers }, { store }) => {
  const { settings, etag } = await store.storageSettings.read();
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: settings };
};

export const updateStorage: Handler<'updateStorage'> = async ({ principal, headers, body }, { store }) => {
  const ifMatch = headers['If-Match'];
  if (ifMatch === undefined)
    throw new Problem(
      'precondition_required',
      'Send the ETag of the settings that you have read as If-Match.',
    );
  const { settings, etag } = await store.storageSettings.update(principal, body, ifMatch);
  return { status: 200, headers: { ETag: etag }, body: settings };
};

export const testStorage: Handler<'testStorage'> = async ({ principal }, { store }) => ({
  status: 200,
  body: await store.storageSettings.test(principal),
});
