/** Memories by their id, or by enough of its end. */
import type { ServiceClient } from '@service/client';
import type { Memory, operations } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from './failures.ts';
import { brief } from './output.ts';

export type MemoryFilters = Omit<
  Partial<NonNullable<operations['listMemories']['parameters']['query']>>,
  'limit' | 'cursor' | 'sort'
>;

const wholeId = /^mem_[0-9a-hjkmnp-tv-z]{26}$/;

/** The one memory that is meant. */
export async function findMemory(client: ServiceClient, given: string): Promise<Memory> {
  const end = given.trim().toLowerCase();
  if (wholeId.test(end)) {
    const params = { path: { memory_id: end } };
    return (await client.GET('/api/v1/memories/{memory_id}', { params })).data;
  }
  const all = await Array.fromAsync(memoriesOf(client, {}));
  const found = all.filter(({ id }) => end !== '' && id.endsWith(end));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw found.length === 0 ? noSuchMemory(given) : new CommandFailure(ambiguous(given, found));
}

/** The latest first. */
export function memoriesOf(client: ServiceClient, filters: MemoryFilters): AsyncGenerator<Memory> {
  return paginate((page) =>
    client.GET('/api/v1/memories', { params: { query: { ...page, ...filters, limit: 100 } } }),
  );
}

/** Says how to find one that there is. */
export function noSuchMemory(given: string): CommandFailure {
  return new CommandFailure(
    `There is no memory whose id is or ends with ${JSON.stringify(given)}. service memories list shows those that are there.`,
  );
}

function ambiguous(given: string, found: readonly Memory[]): string {
  const lines = found.slice(0, 10).map(({ id, content }) => `  ${id}  ${brief(content, 60)}`);
  const more = found.length > lines.length ? [`  and ${found.length - lines.length} more`] : [];
  return [
    `${found.length} memories end with ${JSON.stringify(given)}. Name more of the id:`,
    ...lines,
    ...more,
  ].join('\n');
}
