/** The Brave Search API: https://api-dashboard.search.brave.com/api-reference/web/search/get. */
import { z } from 'zod';
import { askEngine, type Refusal, unreadable } from './ask-engine.ts';
import type { Engine, EngineQuery } from './engine.ts';
import { hitOf } from './hits.ts';

const title = 'Brave Search';

// What is not promised may be absent: where nothing is found there is no `web`.
const answer = z.object({
  type: z.literal('search'),
  web: z
    .object({
      results: z.array(
        z
          .object({ url: z.string(), title: z.string().nullish(), description: z.string().nullish() })
          .loose()
          .catch({ url: '' }),
      ),
    })
    .nullish(),
});

/** Its errors: `{"type":"ErrorResponse","error":{"code":"SUBSCRIPTION_TOKEN_INVALID","status":422,…}}`. */
const failure = z.object({ error: z.object({ code: z.string() }).loose() }).loose();

export const brave: Engine = {
  title,
  needsBaseUrl: false,
  needsApiKey: true,
  /** One page has the most results that anybody may ask for, and each costs. */
  async *pages(query, place, signal) {
    const headers = { 'x-subscription-token': place.apiKey ?? '' };
    const url = urlOf(place.baseUrl ?? 'https://api.search.brave.com', query);
    const body = answer.safeParse(await askEngine({ title, url, headers, refusal }, place, signal));
    if (!body.success) throw unreadable(title);
    const { parseDocument } = await import('htmlparser2');
    /** Titles and descriptions may have entities in them, and marks of what was found. */
    const plain = (html: string) => (/[<&]/.test(html) ? textOf(parseDocument(html)) : html);
    yield (body.data.web?.results ?? []).flatMap(({ url, title, description }) =>
      hitOf(url, plain(title ?? ''), plain(description ?? '')),
    );
  },
};

function urlOf(baseUrl: string, query: EngineQuery): URL {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}/res/v1/web/search`);
  const goggles = gogglesOf(query);
  url.search = new URLSearchParams({
    q: query.query,
    count: String(goggles === null ? query.maxResults : most),
    safesearch: query.safeSearch,
    result_filter: 'web',
    text_decorations: 'false',
    ...(goggles !== null && { goggles }),
  }).toString();
  return url;
}

const most = 20;

/** Rules about domains in its own words, one a line: all is discarded but what is named, or what is named is. */
function gogglesOf({ allowDomains, denyDomains }: EngineQuery): string | null {
  const allowed = allowDomains.map((domain) => `$site=${domain}`);
  const denied = denyDomains.map((domain) => `$discard,site=${domain}`);
  const rules = [...(allowed.length > 0 ? ['$discard', ...allowed] : []), ...denied];
  return rules.length === 0 ? null : rules.join('\n');
}

interface Node {
  readonly data?: unknown;
  readonly children?: readonly Node[];
}

function textOf({ data, children = [] }: Node): string {
  return typeof data === 'string' ? data : children.map(textOf).join('');
}

function refusal(status: number, body: unknown): Refusal | null {
  const code = failure.safeParse(body).data?.error.code ?? '';
  // It says so with the status 422, as it says that a parameter is wrong.
  if (status === 401 || status === 403 || code.includes('SUBSCRIPTION_TOKEN'))
    return { code: 'web_search_refused', detail: keyRefused };
  return null;
}

const keyRefused =
  'Brave Search refuses the key: an operator has to set another by PATCH /api/v1/web/search/settings.';
