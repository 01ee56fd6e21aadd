/** SearXNG: a server of the operator's own, asked through its JSON interface. */
import { z } from 'zod';
import { askEngine, type Refusal, unreadable } from './ask-engine.ts';
import type { Engine, EngineQuery } from './engine.ts';
import { hitOf } from './hits.ts';

const title = 'SearXNG';

// https://docs.searxng.org/dev/search_api.html; what it does not promise may be absent.
const answer = z.object({
  results: z.array(
    z
      .object({ url: z.string(), title: z.string().nullish(), content: z.string().nullish() })
      .loose()
      .catch({ url: '' }),
  ),
});

const safeSearch = { off: '0', moderate: '1', strict: '2' } as const;

/** A server gives ten to thirty results a page. */
const maxPages = 3;

/** More of them make a query that some of the engines behind it cut off. */
const mostSites = 5;

export const searxng: Engine = {
  title,
  needsBaseUrl: true,
  needsApiKey: false,
  async *pages(query, place, signal) {
    for (let page = 1; page <= maxPages; page += 1) {
      const url = urlOf(place.baseUrl ?? '', query, page);
      const body = answer.safeParse(await askEngine({ title, url, refusal }, place, signal));
      if (!body.success) throw unreadable(title);
      yield body.data.results.flatMap(({ url, title, content }) => hitOf(url, title ?? '', content ?? ''));
    }
  },
};

function urlOf(baseUrl: string, query: EngineQuery, page: number): URL {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}/search`);
  url.search = new URLSearchParams({
    q: [query.query, ...sitesOf(query)].join(' '),
    format: 'json',
    pageno: String(page),
    safesearch: safeSearch[query.safeSearch],
  }).toString();
  return url;
}

/** It has no such parameter: what it passes on is understood by most of the engines behind it. */
function sitesOf({ allowDomains }: EngineQuery): readonly string[] {
  if (allowDomains.length === 0 || allowDomains.length > mostSites) return [];
  return [allowDomains.map((domain) => `site:${domain}`).join(' OR ')];
}

function refusal(status: number): Refusal | null {
  if (status !== 403) return null;
  const detail =
    'SearXNG refuses to answer in JSON; its operator has to list json in search.formats of its settings.';
  return { code: 'web_search_refused', detail };
}
