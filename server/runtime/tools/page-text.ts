// Makes text of what a server answered: its type, its character set, its markup.
import { isUtf8 } from 'node:buffer';
import { convertHtml } from './html-conversion.ts';
import { ToolInputError } from './tool.ts';

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
export async function pageText(page: Page, signal: AbortSignal): Promise<PageText> {
  const type = mediaType(page) || guessedType(page.body);
  const text = textTypes.test(type) ? decoded(page, type) : null;
  if (text === null || text.slice(0, 8192).includes('\0'))
    throw new ToolInputError(`${page.url.href} is ${type}, no text. Use download to save it.`);
  if (!htmlTypes.test(type) || page.format === 'html') return { text, type };
  return { text: await convertHtml({ html: text, base: page.url.href, format: page.format }, signal), type };
}

function mediaType({ type }: Page): string {
  return type.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** For servers that do not say. */
function guessedType(body: Buffer): string {
  const start = body.subarray(0, 1024).toString('latin1').trimStart().toLowerCase();
  if (start.startsWith('<!doctype html') || start.startsWith('<html')) return 'text/html';
  return !markedCharset(body) && body.subarray(0, 8192).includes(0)
    ? 'application/octet-stream'
    : 'text/plain';
}

function decoded({ body, type }: Page, media: string): string {
  const named = /charset\s*=\s*["']?([\w:.-]+)/i.exec(type)?.[1];
  // As browsers do, a page may say it itself, near its beginning; UTF-8 is recognised for whoever says nothing.
  const start = body.subarray(0, 1024).toString('latin1');
  const said =
    /<meta[^>]+charset\s*=\s*["']?([\w:.-]+)/i.exec(start)?.[1] ??
    /<\?xml[^>]+encoding=["']([\w:.-]+)/.exec(start)?.[1];
  const marked = markedCharset(body);
  const silent = isUtf8(body) || !htmlTypes.test(media) ? 'utf-8' : 'windows-1252';
  return decoderOf(marked ?? named ?? said ?? silent).decode(body);
}

function markedCharset(body: Buffer): string | null {
  if (body[0] === 0xff && body[1] === 0xfe) return 'utf-16le';
  if (body[0] === 0xfe && body[1] === 0xff) return 'utf-16be';
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 'utf-8' : null;
}

function decoderOf(charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset);
  } catch (error) {
    // A character set that nobody knows: most of the letters are the same in all.
    if (error instanceof RangeError) return new TextDecoder();
    throw error;
  }
}
