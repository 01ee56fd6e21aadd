/** What every parser answers with: the text of a document, and the blocks that it is made of. */

/** A part of the text that belongs together. Offsets are those of JavaScript strings. */
export interface Block {
  readonly kind: 'heading' | 'paragraph' | 'table' | 'code';
  readonly start: number;
  readonly end: number;
  /** From 1, where the document has pages or slides. */
  readonly page: number | null;
  /** Of a heading: how deep it stands, from 1, and its words. */
  readonly level?: number;
  readonly title?: string;
}

export interface ParsedDocument {
  /** What its first bytes and its structure show it to be. */
  readonly mediaType: string;
  readonly text: string;
  readonly blocks: readonly Block[];
  /** Where each page begins in the text; null where there are none. */
  readonly pages: readonly number[] | null;
}

/** As text is kept: whoever reads it back in whatever language has the same characters in the same places. */
export function cleaned(text: string): string {
  return text.replaceAll(/\r\n?/g, '\n').replaceAll('\0', '').toWellFormed().normalize('NFC');
}

/** Longer texts are refused: they are no documents that somebody reads, and each copy of them costs memory. */
export const mostCharacters = 10_000_000;
