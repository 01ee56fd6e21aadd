// Makes text of what a server answered: its type, its character set, its markup.
import { charsetOf, isLegible, markedEncoding, readAs, readAsClaimed } from '../../text-encoding.ts';
import { convertHtml } from './html-conversion.ts';
import type { ThreadAsker } from './kept-threads.ts';
import { ToolInputError } from './tool.ts';
import { mediaTypeIn } from './web-request.ts';

export type PageFormat = 'markdown' | 'text' | 'html';

/** An answer as it came in. */
export interface Page {
  readonly body: Buffer;
  /** The whole header; empty where the server did not say. */
  readonly type: string;
  readonly format: PageFormat;
  readonly url: URL;
}

export interface PageText {
  readonly text: string;
  readonly type: string;
}

const textTypes =
  /^(text\/|application\/(json|xml|javascript|ecmascript|yaml|x-yaml|toml|sql|graphql|x-sh|x-httpd-php|x-ndjson|x-www-form-urlencoded|rtf|rss|atom|manifest)|image\/svg)|[+](json|xml|yaml|text)$/;
const htmlTypes = /^(text\/html|application\/xhtml\+xml)$/;

/** Refuses what is no text. */
export async function pageText(page: Page, asker: ThreadAsker): Promise<PageText> {
  const type = mediaTypeIn(page.type) ?? guessedType(page.body);
  const text = textTypes.test(type) ? decoded(page, type) : null;
  if (text === null || text.slice(0, 8192).includes('\0'))
    throw new ToolInputError(`${page.url.href} is ${type}, no text. Use download to save it.`);
  if (!htmlTypes.test(type) || page.format === 'html') return { text, type };
  return { text: await convertHtml({ html: text, base: page.url.href, format: page.format }, asker), type };
}

/** For servers that do not say. */
function guessedType(body: Buffer): string {
  const start = body.subarray(0, 1024).toString('latin1').trimStart().toLowerCase();
  if (start.startsWith('<!doctype html') || start.startsWith('<html')) return 'text/html';
  return !markedEncoding(body) && body.subarray(0, 8192).includes(0)
    ? 'application/octet-stream'
    : 'text/plain';
}

/**
 * Who says nothing, or what nobody knows, is taken to write UTF-8, whose last character may be cut in two; a page that is no
 * UTF-8, what browsers take it for.
 */
function decoded({ body, type }: Page, media: string): string {
  const isPage = htmlTypes.test(media);
  const claimed = readAsClaimed(body, { charset: charsetOf(type), isPage });
  if (claimed) return claimed.text;
  const read = readAs('utf-8', body);
  return isPage && !isLegible(read, body) ? readAs('windows-1252', body).text : read.text;
}
