/** A list of an MCP server, read page by page, and no further than anybody could use it. */
import { isDeepStrictEqual } from 'node:util';
import { McpFailure } from './failure.ts';

interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextCursor?: string | undefined;
}

/** So many pages may bring nothing that is kept; the others have a bound by what they bring. */
const mostEmptyPages = 64;
/** What is kept of one list, in characters: more than the context of most models takes. */
const longestList = 2_000_000;
/** What is read of one list, kept or not: some pages of the ten megabytes that one answer may have. */
const mostRead = 20_000_000;

/** Asks for page after page until there are as many as anybody is shown; null from `keep` leaves one out. */
export async function gather<Item, Kept>(
  ask: (params: { readonly cursor?: string }) => Promise<Page<Item>>,
  keep: (item: Item) => Kept | null,
  most: number,
): Promise<Kept[]> {
  const gathered: Kept[] = [];
  let [room, unread] = [longestList, mostRead];
  let before: Page<Item> = { items: [] };
  for (let empty = 0; empty < mostEmptyPages; ) {
    const page = await ask(before.nextCursor ? { cursor: before.nextCursor } : {});
    if (isSame(page, before)) return gathered;
    const had = gathered.length;
    for (const item of page.items) {
      unread -= lengthOf(item);
      const kept = keep(item);
      if (kept === null) continue;
      room -= lengthOf(kept);
      if (room < 0 || gathered.length === most) return gathered;
      gathered.push(kept);
    }
    if (!page.nextCursor || unread < 0 || gathered.length === most) return gathered;
    if (gathered.length === had) empty += 1;
    before = page;
  }
  throw new McpFailure('its lists have no end');
}

/** Some servers give the last page again and again. */
function isSame<Item>(page: Page<Item>, before: Page<Item>): boolean {
  return page.nextCursor === before.nextCursor && isDeepStrictEqual(page.items, before.items);
}

function lengthOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}
