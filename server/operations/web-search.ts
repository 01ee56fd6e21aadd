/** Searching the web: how, for the operator, and the search itself. */
import { type Handler, isCurrent } from '../handler.ts';
import { Problem } from '../problem.ts';
import { asker } from './asked-session.ts';
import { quotaNotice } from './quota-notice.ts';

export const getWebSearchSettings: Handler<'getWebSearchSettings'> = async ({ headers }, { webSearch }) => {
  const { settings, etag } = await webSearch.read();
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  return { status: 200, headers: { ETag: etag }, body: settings };
};

export const updateWebSearchSettings: Handler<'updateWebSearchSettings'> = async (call, { webSearch }) => {
  const { principal, headers, body } = call;
  const ifMatch = headers['If-Match'];
  if (ifMatch === undefined)
    throw new Problem(
      'precondition_required',
      'Send the ETag of the settings that you have read as If-Match.',
    );
  const { settings, etag } = await webSearch.change(principal, body, ifMatch);
  return { status: 200, headers: { ETag: etag }, body: settings };
};

export const listWebSearchEngines: Handler<'listWebSearchEngines'> = async (_call, { webSearch }) => ({
  status: 200,
  body: { data: await webSearch.engines() },
});

/** Counted when it begins; what it costs is between the operator and the engine. */
export const webSearch: Handler<'webSearch'> = async (call, { store, webSearch, draining }) => {
  const { principal, body, signal } = call;
  if (draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  const { query, max_results, workspace_id } = body;
  const workspace = await (workspace_id === undefined
    ? store.workspaces.defaultOf(principal)
    : store.workspaces.find(principal, workspace_id));
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  const engine = await webSearch.engine();
  if (!engine) throw notConfigured();
  const { apiKeyId = null } = asker(principal);
  const counted = `web_search:${engine.name}`;
  const metered = await store.meteredCalls.begin(principal, counted, apiKeyId, workspace);
  try {
    const results = await engine.search(query, max_results, signal);
    return { status: 200, headers: quotaNotice(metered.notices), body: { engine: engine.name, results } };
  } finally {
    await store.meteredCalls.end(metered);
  }
};

function notConfigured(): Problem {
  return new Problem(
    'web_search_not_configured',
    'No search engine is set: an operator names one by PATCH /api/v1/web/search/settings or in SERVICE_WEB_SEARCH_URL.',
  );
}
