/** `service memories`: what people and agents want to be known in later conversations, one by one. */
import type { ServiceClient } from '@service/client';
import type { Memory, MemoryHit, MemorySearchResult } from '@service/client/api';
import { askYesNo, canAsk } from '../ask.ts';
import { withService, withSessions } from '../connection.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { localTime, momentIn } from '../local-time.ts';
import { keyed, unless } from '../lost-answers.ts';
import { findMemory, type MemoryFilters, memoriesOf, noSuchMemory } from '../memory-ids.ts';
import {
  brief,
  type Column,
  columnsOf,
  isTerminal,
  notice,
  paint,
  print,
  printable,
  printJson,
  printTable,
} from '../output.ts';
import { findSession, shortIds } from '../session-ids.ts';

interface Where {
  /** A remote server instead of the one inside this process. */
  readonly server?: string;
}

interface Asked extends Where {
  readonly limit: string;
  readonly json?: boolean;
}

/** As the command line names whose a memory is, and of which kind. */
export interface MemoryOptions {
  readonly scope?: Memory['scope'];
  readonly kind?: Memory['kind'];
  readonly tag?: string;
  readonly session?: string;
  readonly agent?: string;
}

/** The latest first. On a terminal ids are as short as they may be. */
export async function listMemories(options: Asked & MemoryOptions): Promise<void> {
  const limit = readLimit(options.limit, 100_000);
  const memories = await withSessions<readonly Memory[]>(
    options.server,
    async (client) => {
      const filters = await filtersOf(client, options);
      return await Array.fromAsync(firstOf(memoriesOf(client, filters), limit));
    },
    () => [],
  );
  if (memories.length === 0 && !options.json)
    return notice('Nothing like that is remembered here. service memories add "…" remembers something.');
  printTable(memories, isTerminal() ? columnsForPeople(memories) : columnsForPrograms, {
    json: options.json,
  });
}

/** What shares words with the question, or means the like, the best first. */
export async function searchMemories(
  words: readonly string[],
  options: Asked & MemoryOptions & { readonly rerank?: string },
): Promise<void> {
  const query = words.join(' ').trim();
  if (query === '') throw new CommandFailure('The question is empty.', exitCodes.usage);
  const top_k = readLimit(options.limit, 100);
  const found = await withSessions<MemorySearchResult>(
    options.server,
    async (client) => {
      const { scope, kind, tag: _tag, ...names } = await filtersOf(client, options);
      const narrowed = { ...(scope && { scopes: [scope] }), ...(kind && { kinds: [kind] }), ...names };
      const { rerank: model } = options;
      const body = { query, top_k, ...narrowed, ...(model !== undefined && { rerank: { model } }) };
      return (await client.POST('/api/v1/memories/search', { body })).data;
    },
    () => ({ data: [], mode: 'keyword', notice: null }),
  );
  if (options.json) return printJson(found);
  if (found.notice !== null) notice(found.notice);
  if (found.data.length === 0) return notice(`Nothing is remembered about ${JSON.stringify(query)}.`);
  const memories = found.data.map(({ memory }: MemoryHit) => memory);
  printTable(memories, isTerminal() ? columnsForPeople(memories) : columnsForPrograms);
}

/** Remembers something for later conversations. */
export async function addMemory(
  words: readonly string[],
  options: Where & Omit<MemoryOptions, 'tag'> & { readonly tag?: string[]; readonly expires?: string },
): Promise<void> {
  const content = words.join(' ').trim();
  if (content === '') throw new CommandFailure('There is nothing to remember.', exitCodes.usage);
  const { scope = 'user', kind, tag: tags, session, agent, expires } = options;
  await withService(options.server, async (client) => {
    const body = {
      ...{ content, scope },
      ...(kind && { kind }),
      ...(tags && { tags: [...new Set(tags)] }),
      ...(session !== undefined && { session_id: (await findSession(client, session)).id }),
      ...(agent !== undefined && { agent_slug: agent }),
      ...(expires !== undefined && { expires_at: momentIn('--expires', expires) }),
    };
    const { data } = await client.POST('/api/v1/memories', { body, params: { header: keyed() } });
    print(`Remembered as ${printable(data.id)}, ${forWhom(data)}`);
  });
}

/** Forgets one memory for good, after a question. */
export async function forgetMemory(
  given: string,
  options: Where & { readonly yes?: boolean },
): Promise<void> {
  requireSomebody(options);
  await withSessions(
    options.server,
    async (client) => {
      const { id, content } = await findMemory(client, given);
      const sure = options.yes || (await askYesNo(`Forget “${brief(content, 60)}”?`));
      if (!sure) return notice('Nothing was forgotten.');
      const params = { path: { memory_id: id } };
      await client.DELETE('/api/v1/memories/{memory_id}', { params }).catch(unless(404));
      print(printable(`Forgot ${id}`));
    },
    () => {
      throw noSuchMemory(given);
    },
  );
}

/** What cannot be brought back is not done unasked. */
export function requireSomebody({ yes }: { readonly yes?: boolean }): void {
  if (yes || canAsk()) return;
  throw new CommandFailure('There is no terminal to ask at: --yes forgets without asking.', exitCodes.usage);
}

/** Which memories are meant, with the session by its whole id. */
export async function filtersOf(client: ServiceClient, options: MemoryOptions): Promise<MemoryFilters> {
  const { scope, kind, tag, session, agent } = options;
  return {
    ...(scope && { scope }),
    ...(kind && { kind }),
    ...(tag !== undefined && { tag }),
    ...(session !== undefined && { session_id: (await findSession(client, session)).id }),
    ...(agent !== undefined && { agent_slug: agent }),
  };
}

const columnsForPrograms: readonly Column<Memory>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'scope', value: ({ scope }) => scope },
  { title: 'kind', value: ({ kind }) => kind },
  { title: 'updated', value: ({ updated_at }) => updated_at },
  { title: 'tags', value: ({ tags }) => tags.join(' ') },
  { title: 'content', value: ({ content }) => content },
];

function columnsForPeople(memories: readonly Memory[]): readonly Column<Memory>[] {
  const short = shortIds(memories.map(({ id }) => id));
  const width = Math.max(20, columnsOf() - 50);
  return [
    { title: 'id', value: ({ id }) => short(id), style: 'cyan' },
    { title: 'updated', value: ({ updated_at }) => localTime(updated_at), style: 'dim' },
    { title: 'scope', value: ({ scope }) => scope },
    { title: 'kind', value: ({ kind }) => kind },
    { title: 'content', value: ({ content }) => brief(content, width) },
  ];
}

function forWhom({ scope, agent_slug }: Memory): string {
  if (scope === 'user') return 'for you alone';
  if (scope === 'workspace') return 'for all who work here';
  return scope === 'session'
    ? 'for that session'
    : `for the agent ${paint('bold', printable(agent_slug ?? ''))}`;
}

async function* firstOf<Item>(items: AsyncIterable<Item>, most: number): AsyncGenerator<Item> {
  let left = most;
  for await (const item of items) {
    yield item;
    left -= 1;
    if (left === 0) return;
  }
}

function readLimit(text: string, most: number): number {
  const limit = /^[1-9]\d{0,5}$/.test(text) ? Number(text) : 0;
  if (limit > 0 && limit <= most) return limit;
  throw new CommandFailure(
    `--limit takes a number up to ${most}, as 20, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}
