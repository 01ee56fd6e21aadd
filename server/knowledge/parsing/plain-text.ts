/** Plain text: paragraphs between empty lines, at no more cost than its length. */
import { linesOf } from './markdown.ts';
import type { Block } from './parsed-document.ts';

/** Lines that stand together, and what lies between them is blank. */
export function paragraphsOf(text: string, kind: Block['kind'] = 'paragraph'): Block[] {
  const blocks: Block[] = [];
  let start: number | null = null;
  let last = 0;
  const endBlock = (): void => {
    if (start !== null) blocks.push({ kind, start, end: last, page: null });
    start = null;
  };
  for (const line of linesOf(text)) {
    if (line.text.trim() === '') endBlock();
    else [start, last] = [start ?? line.start, line.end];
  }
  endBlock();
  return blocks;
}
