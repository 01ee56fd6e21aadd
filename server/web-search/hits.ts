/** Makes one result of what an engine says of a page: an address that can be fetched, and plain text in one line each. */
import type { WebSearchResult } from '../contract/api.ts';

const maxTitle = 300;
const maxSnippet = 1000;

/** None of what cannot be fetched. */
export function hitOf(url: string, title: string, snippet: string): readonly WebSearchResult[] {
  if (!/^https?:/i.test(url) || !URL.canParse(url)) return [];
  const { href, username, password } = new URL(url);
  if (username || password) return [];
  return [{ url: href, title: oneLine(title || href, maxTitle), snippet: oneLine(snippet, maxSnippet) }];
}

function oneLine(text: string, most: number): string {
  const line = text.toWellFormed().replaceAll('\u0000', '').replace(/\s+/g, ' ').trim();
  return line.length <= most ? line : `${line.slice(0, most).toWellFormed()}…`;
}
