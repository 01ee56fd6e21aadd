/** In which encoding a text is written: by its first bytes, by what its sender says, or by what it says itself. */
import { isUtf8 } from 'node:buffer';

export interface EncodingClaims {
  /** What the sender says, as `charsetOf` has it. */
  readonly charset: string | null;
  /** Only a page says it in a `<meta>`: other texts may tell of one. */
  readonly isPage: boolean;
}

export interface ReadText {
  readonly encoding: string;
  readonly text: string;
}

/** Null where nothing is said, or nothing that the bytes bear out. */
export function readAsClaimed(bytes: Uint8Array, { charset, isPage }: EncodingClaims): ReadText | null {
  const marked = markedEncoding(bytes);
  if (marked !== null) return readAs(marked, bytes);
  for (const encoding of [charset, declaredEncoding(bytes, isPage)]) {
    const read = encoding === null ? null : readAs(encoding, bytes);
    if (read && isLegible(read, bytes)) return read;
  }
  return null;
}

export function readAs(encoding: string, bytes: Uint8Array): ReadText {
  return { encoding, text: new TextDecoder(encoding).decode(bytes) };
}

/** Of a Content-Type; null where it names none, or one that nobody knows. */
export function charsetOf(contentType: string): string | null {
  return encodingOf(/\bcharset\s*=\s*["']?([\w:.+-]+)/i.exec(contentType)?.[1]);
}

/** By the mark at the beginning. */
export function markedEncoding([first, second, third]: Uint8Array): string | null {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  return first === 0xef && second === 0xbb && third === 0xbf ? 'utf-8' : null;
}

/** As browsers do, near the beginning: https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding */
function declaredEncoding(bytes: Uint8Array, isPage: boolean): string | null {
  const start = Buffer.from(bytes.subarray(0, 1024)).toString('latin1');
  const shown = start.replaceAll(/<!--[\s\S]*?(-->|$)/g, '');
  const meta = isPage ? /<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([\w:.+-]+)/i.exec(shown)?.[1] : undefined;
  const xml = /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w:.+-]+)/.exec(shown)?.[1];
  const encoding = encodingOf(meta) ?? encodingOf(xml);
  // It would not have been found so, in single bytes: programs that wrote UTF-16 in memory leave that in files of UTF-8.
  return encoding?.startsWith('utf-16') ? null : encoding;
}

/** One of many names of an encoding becomes the one that all share. */
function encodingOf(label: string | undefined): string | null {
  if (label === undefined) return null;
  try {
    return new TextDecoder(label).encoding;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/**
 * Servers and templates say UTF-8 of whatever they are given. Where more letters beyond ASCII break than come out whole, it
 * is something else; a few broken ones are a fault of the text.
 */
export function isLegible({ encoding, text }: ReadText, bytes: Uint8Array): boolean {
  if (!text.includes('\ufffd') || (encoding === 'utf-8' && isUtf8(bytes))) return true;
  let broken = 0;
  let whole = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === 0xfffd) broken += 1;
    else if (unit > 0x7f) whole += 1;
  }
  return broken <= whole;
}
