// SearXNG as the search engine: an installation of the operator's, asked through its JSON interface.
import { z } from 'zod';
import { type Outbound, outboundSentence } from '../../outbound/outbound.ts';
import type { SearchEngine, SearchHit } from './search-engine.ts';
import { ToolInputError } from './tool.ts';

// https://docs.searxng.org/dev/search_api.html; what it does not promise may be absent.
const answer = z.object({
  results: z.array(
    z
      .object({ url: z.string(), title: z.string().nullish(), content: z.string().nullish() })
      .loose()
      .catch({ url: '' }),
  ),
});

const limits = { maxBytes: 8 * 1024 * 1024, totalMs: 20_000 };
const maxTitle = 300;
const maxSnippet = 1000;
/** An installation gives ten to thirty results a page. */
const maxPages = 3;

/** The engine at that address. */
export function searxng(address: string, outbound: Outbound): SearchEngine {
  const fetch = outbound.fetchFor('operator', limits);
  const askPage = async (query: string, page: number, signal: AbortSignal): Promise<readonly SearchHit[]> => {
    const url = new URL(`${address.replace(/\/+$/, '')}/search`);
    url.search = new URLSearchParams({ q: query, format: 'json', pageno: String(page) }).toString();
    const response = await fetch(url, { signal, headers: { accept: 'application/json' } }).catch(failed);
    if (response.ok) return hitsIn(await response.text().catch(failed));
    await response.body?.cancel();
    throw new ToolInputError(refusal(response.status));
  };
  return {
    async search(query, maxResults, signal) {
      const found = new Map<string, SearchHit>();
      for (let page = 1; page <= maxPages && found.size < maxResults; page += 1) {
        const hits = await askPage(query, page, signal);
        const before = found.size;
        for (const hit of hits) if (!found.has(hit.url)) found.set(hit.url, hit);
        if (found.size === before) break;
      }
      return [...found.values()].slice(0, maxResults);
    },
  };
}

function refusal(status: number): string {
  if (status === 403)
    return 'The search engine refuses to answer in JSON; its operator has to list json in search.formats of its settings.';
  if (status === 429) return 'The search engine was asked too often; try again later.';
  return `The search engine failed with status ${status}.`;
}

function hitsIn(text: string): readonly SearchHit[] {
  const parsed = answer.safeParse(jsonOf(text));
  if (!parsed.success) throw new ToolInputError('The search engine gave an answer that nobody can read.');
  return parsed.data.results
    .filter(({ url }) => URL.canParse(url) && /^https?:/i.test(url))
    .map(({ url, title, content }) => ({
      url: new URL(url).href,
      title: oneLine(title || url, maxTitle),
      snippet: oneLine(content ?? '', maxSnippet),
    }));
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function oneLine(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= most ? line : `${line.slice(0, most).toWellFormed()}…`;
}

function failed(cause: unknown): never {
  throw new ToolInputError(`The search engine could not be asked. ${outboundSentence(cause)}`, { cause });
}
