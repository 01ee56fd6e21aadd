// Search engines of the web: SearXNG's JSON interface and the Brave Search API, which find the same pages about anything.
import type { IncomingHttpHeaders } from 'node:http';

export interface SearchAnswer {
  readonly status: number;
  readonly body: object;
}

/** Null where the path is none of theirs. */
export function searchAnswer(url: URL, headers: IncomingHttpHeaders): SearchAnswer | null {
  if (url.pathname === '/search') return searxngAnswer(url.searchParams);
  if (url.pathname === '/res/v1/web/search') return braveAnswer(url.searchParams, headers);
  return null;
}

const mostOnPage = 10;

function searxngAnswer(query: URLSearchParams): SearchAnswer {
  const text = query.get('q');
  if (text === null || query.get('format') !== 'json') return { status: 403, body: {} };
  const first = (Number(query.get('pageno') ?? 1) - 1) * mostOnPage;
  const results = pagesAbout(text, first, mostOnPage).map(({ title, url, text }) => ({
    ...{ title, url, content: text, engine: 'scripted', engines: ['scripted'], positions: [1] },
    ...{ score: 1, category: 'general', publishedDate: null },
  }));
  const nothing = { answers: [], corrections: [], infoboxes: [], suggestions: [], unresponsive_engines: [] };
  return { status: 200, body: { query: text, number_of_results: 0, results, ...nothing } };
}

function braveAnswer(query: URLSearchParams, headers: IncomingHttpHeaders): SearchAnswer {
  const text = query.get('q') ?? '';
  const count = Number(query.get('count') ?? 20);
  if (headers['x-subscription-token'] === undefined) return braveFailure('SUBSCRIPTION_TOKEN_INVALID');
  if (text === '' || text.length > 400 || text.split(/\s+/).length > 50 || !(count >= 1 && count <= 20))
    return braveFailure('VALIDATION');
  const results = pagesAbout(text, 0, count).map(({ title, url, text }) => ({
    title,
    url,
    description: text,
  }));
  const about = { original: text, more_results_available: true };
  return { status: 200, body: { type: 'search', query: about, web: { type: 'search', results } } };
}

function braveFailure(code: string): SearchAnswer {
  return { status: 422, body: { type: 'ErrorResponse', error: { code, status: 422, detail: 'As played.' } } };
}

function pagesAbout(text: string, first: number, count: number) {
  return Array.from({ length: count }, (_, index) => {
    const number = first + index + 1;
    const url = `https://page-${number}.example.com/`;
    return { title: `Page ${number}`, url, text: `What page ${number} has about ${text}` };
  });
}
