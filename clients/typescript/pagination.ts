/** Walks through a list, page after page. */

/** A page, as every list of the API answers. */
interface Page<Item> {
  readonly data: readonly Item[];
  readonly next_cursor: string | null;
}

/**
 * Every entry of a list, in order; the next page is fetched when it is reached. The call is the caller's, so that all
 * of its types hold: `paginate((page) => client.GET('/api/v1/sessions', { params: { query: { ...page, tag } } }))`.
 * @param fetchPage - Fetches the page of the cursor, the first one without.
 */
export async function* paginate<Item>(
  fetchPage: (page: { cursor?: string }) => Promise<{ readonly data: Page<Item> }>,
): AsyncGenerator<Item, void, undefined> {
  const seen = new Set<string>();
  let page: { cursor?: string } = {};
  for (;;) {
    const { data, next_cursor: cursor } = (await fetchPage(page)).data;
    yield* data;
    if (cursor === null) return;
    if (seen.has(cursor))
      throw new Error('The list has come back to a page that was read already; reading stops.');
    seen.add(cursor);
    page = { cursor };
  }
}
