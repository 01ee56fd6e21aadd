/** Plain text: paragraphs between empty lines. */
import type { Block } from './parsed-document.ts';

/** Lines that stand together, and what lies between them is blank. */
export function paragraphsOf(text: string, kind: Block['kind'] = 'paragraph'): Block[] {
  const blocks: Block[] = [];
  for (const { 0: words, index } of text.matchAll(/[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*/g))
    blocks.push({ kind, start: index, end: index + words.length, page: null });
  return blocks;
}
