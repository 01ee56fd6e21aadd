/** The one meter: whatever a model was used for is counted here, in the transaction that stores it. */
import type { Knex } from 'knex';
import type { Message, Usage } from '../contract/api.ts';
import { toNanodollars } from './costs.ts';

/** For whom something is used. */
export interface Spender {
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly userId: string;
  /** Null where a login asked. */
  readonly apiKeyId: string | null;
}

/** What is counted at once. */
export interface Metered {
  /** 1 where somebody asked for something, 0 where it was part of what they asked for. */
  readonly requests: 0 | 1;
  readonly model: string;
  readonly usage: Usage;
  /** Dollars; null where the model's price is not known. */
  readonly cost: Message['cost'];
}

/**
 * On PostgreSQL, hundreds of streams of one person commit side by side: each counts in one of so many rows, picked by
 * chance, instead of waiting for the others at a single one. SQLite has one writer.
 */
const slots = { pg: 16, sqlite3: 1 } as const;

const dayMs = 86_400_000;

/** The day in UTC, counted from 1970. */
export function dayOf(milliseconds: number): number {
  return Math.floor(milliseconds / dayMs);
}

/** When a day begins, in milliseconds. */
export function startOfDay(day: number): number {
  return day * dayMs;
}

/** Comes last in its transaction, so that the rows it holds are held briefly. */
export async function meter(
  sql: Knex.Transaction,
  spender: Spender,
  { requests, model, usage, cost }: Metered,
  now: number,
): Promise<void> {
  const cost_nanodollars = toNanodollars(cost) ?? 0;
  const client: keyof typeof slots = sql.client.config.client;
  const place = {
    organization_id: spender.organizationId,
    day: dayOf(now),
    slot: Math.floor(Math.random() * slots[client]),
  };
  const tokens = usage.input_tokens + usage.output_tokens;
  await addTo(
    sql,
    'usage_counters',
    ['subject_id', 'day', 'organization_id', 'slot'],
    (await subjectsOf(sql, spender)).map((subject_id) => ({ subject_id, ...place })),
    { requests, tokens, cost_nanodollars },
  );
  const { workspaceId: workspace_id, userId: user_id, apiKeyId } = spender;
  await addTo(
    sql,
    'usage_days',
    ['organization_id', 'day', 'workspace_id', 'user_id', 'api_key_id', 'model', 'slot'],
    [{ ...place, workspace_id, user_id, api_key_id: apiKeyId ?? '', model }],
    {
      requests,
      input_tokens: usage.input_tokens,
      output_tokens: usage.output_tokens,
      cached_input_tokens: usage.cached_input_tokens,
      cost_nanodollars,
      unpriced_calls: cost === null ? 1 : 0,
    },
  );
}

/** Everything whose counters rise, always in the same order: two transactions then never wait for each other. */
async function subjectsOf(sql: Knex.Transaction, spender: Spender): Promise<string[]> {
  const { organizationId, workspaceId, userId, apiKeyId } = spender;
  const groups: string[] = await groupsOf(sql, spender).pluck('group_id');
  return [organizationId, workspaceId, userId, ...(apiKeyId === null ? [] : [apiKeyId]), ...groups].sort();
}

/** The groups of the organization that they are in. */
export function groupsOf(sql: Knex, { userId, organizationId }: Spender): Knex.QueryBuilder {
  return sql('group_members').where({ user_id: userId, organization_id: organizationId }).select('group_id');
}

async function addTo(
  sql: Knex.Transaction,
  table: string,
  key: readonly string[],
  places: readonly Readonly<Record<string, unknown>>[],
  added: Readonly<Record<string, number>>,
): Promise<void> {
  const sums = Object.keys(added).map((column) => [
    column,
    sql.raw(`?? + excluded.??`, [`${table}.${column}`, column]),
  ]);
  await sql(table)
    .insert(places.map((place) => ({ ...place, ...added })))
    .onConflict([...key])
    .merge(Object.fromEntries(sums));
}
