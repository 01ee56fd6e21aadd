/** Puts the text of a document together from blocks that a parser finds one after the other. */
import { ParseFailure } from './parse-failure.ts';
import { type Block, cleaned, mostCharacters, type ParsedDocument } from './parsed-document.ts';

export interface TextBuilder {
  /** Text between two blocks is an empty line; what is blank is left out. */
  add(kind: Exclude<Block['kind'], 'heading'>, text: string): void;
  heading(level: number, text: string): void;
  /** What comes from now on stands on the next page. */
  nextPage(): void;
  build(mediaType: string): ParsedDocument;
}

export function textBuilder(): TextBuilder {
  let text = '';
  let page: number | null = null;
  const blocks: Block[] = [];
  const pages: number[] = [];

  const append = (words: string): { start: number; end: number } | null => {
    const clean = cleaned(words).trim();
    if (clean === '') return null;
    if (text.length + clean.length > mostCharacters) throw tooLong();
    if (text !== '') text += '\n\n';
    const start = text.length;
    text += clean;
    return { start, end: text.length };
  };

  return {
    add(kind, words) {
      const place = append(words);
      if (place) blocks.push({ kind, ...place, page });
    },
    heading(level, words) {
      const title = words.replaceAll(/\s+/g, ' ').trim();
      const place = append(title);
      if (place) blocks.push({ kind: 'heading', ...place, page, level, title: text.slice(place.start) });
    },
    nextPage() {
      page = (page ?? 0) + 1;
      pages.push(text === '' ? 0 : text.length + 2);
    },
    build: (mediaType) => ({
      mediaType,
      text,
      blocks,
      // Of pages at the end there may be nothing in the text.
      pages: page === null ? null : pages.map((start) => Math.min(start, text.length)),
    }),
  };
}

export function tooLong(): ParseFailure {
  return new ParseFailure(
    'too_large',
    `The document has more than ${mostCharacters} characters; split it into several.`,
  );
}
