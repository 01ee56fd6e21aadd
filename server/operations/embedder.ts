/** What turns texts into vectors, for the operator. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';

export const getEmbedder: Handler<'getEmbedder'> = async ({ headers }, { embedderChoice }) => {
  const { settings, etag } = await embedderChoice.read();
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: settings };
};

export const updateEmbedder: Handler<'updateEmbedder'> = async (call, { embedderChoice }) => {
  const { principal, headers, query, body, signal } = call;
  const ifMatch = headers['If-Match'];
  if (ifMatch === undefined)
    throw new Problem(
      'precondition_required',
      'Send the ETag of the settings that you have read as If-Match.',
    );
  const terms = { ifMatch, reindex: query.reindex ?? false, signal };
  const { settings, etag } = await embedderChoice.change(principal, body, terms);
  return { status: settings.corpora.stale > 0 ? 202 : 200, headers: { ETag: etag }, body: settings };
};

export const testEmbedder: Handler<'testEmbedder'> = async ({ signal }, { embedderChoice }) => {
  const began = performance.now();
  const tested = await embedderChoice.test(signal);
  return { status: 200, body: { ok: true, ...tested, latency_ms: Math.round(performance.now() - began) } };
};
