/** The one meter: whatever a model was used for is counted here, in the transaction that stores it. */
import type { Knex } from 'knex';
import type { Message, Usage } from '../contract/api.ts';
import { toNanodollars } from './costs.ts';
import { toUsage } from './session-rows.ts';

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
  /** How often somebody asked for something; 0 where it was part of what they asked for. */
  readonly requests: number;
  /** How many model calls it is the sum of; one if absent. */
  readonly calls?: number;
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
  { requests, calls = 1, model, usage, cost }: Metered,
  now: number,
): Promise<void> {
  const cost_nanodollars = toNanodollars(cost) ?? 0;
  const client: keyof typeof slots = sql.client.config.client;
  const place = {
    organization_id: spender.organizationId,
    day: dayOf(now),
    slot: Math.floor(Math.random() * slots[client]),
  };
  await addToCounters(sql, spender, place, {
    requests,
    tokens: usage.input_tokens + usage.output_tokens,
    cost_nanodollars,
  });
  await addToDays(sql, spender, place, {
    model,
    requests,
    ...toUsage(usage),
    cost_nanodollars,
    unpriced_calls: cost === null ? calls : 0,
  });
}

interface CounterPlace {
  readonly organization_id: string;
  readonly day: number;
  readonly slot: number;
}

/** Of everybody whom it concerns, always in the same order: two transactions then never wait for each other. */
async function addToCounters(
  sql: Knex.Transaction,
  spender: Spender,
  { organization_id, day, slot }: CounterPlace,
  added: { readonly requests: number; readonly tokens: number; readonly cost_nanodollars: number },
): Promise<void> {
  const { workspaceId, userId, apiKeyId } = spender;
  const ids = [organization_id, workspaceId, userId, ...(apiKeyId === null ? [] : [apiKeyId])];
  await sql.raw(
    `insert into usage_counters (subject_id, organization_id, day, slot, requests, tokens, cost_nanodollars)
     select subject_id, ?, cast(? as integer), cast(? as integer), cast(? as bigint), cast(? as bigint), cast(? as bigint)
     from (${ids.map(() => 'select cast(? as text) as subject_id').join(' union all ')}
       union all select group_id from group_members where user_id = ? and organization_id = ?) as subjects
     where true order by subject_id
     on conflict (subject_id, day, organization_id, slot) do update set
       requests = usage_counters.requests + excluded.requests,
       tokens = usage_counters.tokens + excluded.tokens,
       cost_nanodollars = usage_counters.cost_nanodollars + excluded.cost_nanodollars`,
    [
      ...[organization_id, day, slot, added.requests, added.tokens, added.cost_nanodollars],
      ...ids,
      ...[userId, organization_id],
    ],
  );
}

const dayKey = [
  ...(['organization_id', 'day', 'workspace_id', 'user_id', 'api_key_id', 'model', 'slot'] as const),
];
const measures = [
  ...(['requests', 'input_tokens', 'output_tokens', 'cached_input_tokens'] as const),
  ...(['cost_nanodollars', 'unpriced_calls'] as const),
];
const dayColumns = [...dayKey, ...measures];
type DayRow = Readonly<Record<(typeof dayColumns)[number], string | number>>;

/** Written once: to put it together for each call would take longer than to carry it out. */
const addToDay = `insert into usage_days (${dayColumns.join(', ')})
  values (${dayColumns.map(() => '?').join(', ')})
  on conflict (${dayKey.join(', ')}) do update set
    ${measures.map((column) => `${column} = usage_days.${column} + excluded.${column}`).join(', ')}`;

async function addToDays(
  sql: Knex.Transaction,
  { workspaceId: workspace_id, userId: user_id, apiKeyId }: Spender,
  place: CounterPlace,
  added: Pick<DayRow, 'model' | (typeof measures)[number]>,
): Promise<void> {
  const row: DayRow = { ...place, workspace_id, user_id, api_key_id: apiKeyId ?? '', ...added };
  await sql.raw(
    addToDay,
    dayColumns.map((column) => row[column]),
  );
}

/** The groups of the organization that they are in. */
export function groupsOf(sql: Knex, { userId, organizationId }: Spender): Knex.QueryBuilder {
  return sql('group_members').where({ user_id: userId, organization_id: organizationId }).select('group_id');
}
