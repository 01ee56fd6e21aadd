/** A document of no more blocks than its text is worth: each is an object for whoever reads it, and there may be millions. */
import { ParseFailure } from './parse-failure.ts';
import type { Block, ParsedDocument } from './parsed-document.ts';

/** Of more, neighbours that are short become one: no document that somebody reads has so many. */
const manyBlocks = 100_000;
/** About a third of a passage. */
const joinedCharacters = 200;
const mostBlocks = 200_000;

/** Throws `ParseFailure`. */
export function withBoundedBlocks(document: ParsedDocument): ParsedDocument {
  if (document.blocks.length <= manyBlocks) return document;
  const blocks = joined(document.blocks);
  if (blocks.length <= mostBlocks) return { ...document, blocks };
  throw new ParseFailure(
    'too_large',
    `The document has more than ${mostBlocks} headings, paragraphs and rows; split it into several.`,
  );
}

/** Headings stay: what is below them is cited by them. */
function joined(blocks: readonly Block[]): Block[] {
  const all: Block[] = [];
  let open: (Block & { end: number }) | null = null;
  for (const block of blocks) {
    if (open && belong(open, block)) {
      open.end = block.end;
      continue;
    }
    open = { ...block };
    all.push(open);
  }
  return all;
}

function belong(open: Block, { kind, page, end }: Block): boolean {
  return (
    kind !== 'heading' && kind === open.kind && page === open.page && end - open.start <= joinedCharacters
  );
}
