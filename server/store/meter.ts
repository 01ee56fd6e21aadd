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
  metered: Metered,
  now: number,
): Promise<void> {
  const client: keyof typeof slots = sql.client.config.client;
  const place = { day: dayOf(now), slot: Math.floor(Math.random() * slots[client]) };
  const row = dayRowOf(spender, metered, place);
  await addToCounters(sql, spender, row);
  await sql.raw(
    addToDay,
    dayColumns.map((column) => row[column]),
  );
}

/** Of everybody whom it concerns, always in the same order: two transactions then never wait for each other. */
async function addToCounters(
  sql: Knex.Transaction,
  spender: Spender,
  { organization_id, day, slot, requests, input_tokens, output_tokens, cost_nanodollars }: DayRow,
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
      ...[organization_id, day, slot, requests, input_tokens + output_tokens, cost_nanodollars],
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
interface DayRow extends Readonly<Record<(typeof measures)[number] | 'day' | 'slot', number>> {
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly user_id: string;
  readonly api_key_id: string;
  readonly model: string;
}

function dayRowOf(
  { organizationId, workspaceId, userId, apiKeyId }: Spender,
  { requests, calls = 1, model, usage, cost }: Metered,
  place: Pick<DayRow, 'day' | 'slot'>,
): DayRow {
  return {
    ...{ ...place, organization_id: organizationId, workspace_id: workspaceId },
    ...{ user_id: userId, api_key_id: apiKeyId ?? '', model, requests },
    input_tokens: countable(usage.input_tokens),
    output_tokens: countable(usage.output_tokens),
    cached_input_tokens: countable(usage.cached_input_tokens),
    cost_nanodollars: countable(toNanodollars(cost) ?? 0),
    unpriced_calls: cost === null ? calls : 0,
  };
}

/** More than calls can use: sums of it stay what a column holds. */
const most = 10 ** 15;

/** A sum that can be taken off, or never added to again, would end every quota: whoever counts here may be wrong. */
function countable(count: number): number {
  return Number.isFinite(count) ? Math.min(Math.max(Math.round(count), 0), most) : 0;
}

const placeholders = `(${dayColumns.map(() => '?').join(', ')})`;

function sums(table: string, columns: readonly string[]): string {
  return columns.map((column) => `${column} = ${table}.${column} + excluded.${column}`).join(', ');
}

/** Written once: to put it together for each call would take longer than to carry it out. */
const addToDay = `insert into usage_days (${dayColumns.join(', ')})
  values ${placeholders}
  on conflict (${dayKey.join(', ')}) do update set ${sums('usage_days', measures)}`;

/** One who has used something, and what. */
export interface Spent {
  readonly spender: Spender;
  readonly metered: Metered;
}

/**
 * For SQLite, where each statement is a turn of a thread: counts in one what `meter` counts in two, and is a transaction by
 * itself. What does it belongs to its connection, and is made where that is new.
 */
export async function meterAlone(sql: Knex, all: readonly Spent[], now: number): Promise<void> {
  const rows = all.map(({ spender, metered }) => dayRowOf(spender, metered, { day: dayOf(now), slot: 0 }));
  const count = () =>
    sql.raw(
      `insert into counted (${dayColumns.join(', ')}) values ${rows.map(() => placeholders).join(', ')}`,
      rows.flatMap((row) => dayColumns.map((column) => row[column])),
    );
  try {
    await count();
  } catch (error) {
    if (!(error instanceof Error && error.message.includes('no such table: counted'))) throw error;
    for (const statement of countingParts) await sql.raw(statement);
    await count();
  }
}

const countingParts = [
  `create temp view if not exists counted (${dayColumns.join(', ')}) as
    select ${dayColumns.map(() => 'null').join(', ')} where false`,
  `create temp trigger if not exists count_each instead of insert on counted begin
    insert into usage_counters (subject_id, organization_id, day, slot, requests, tokens, cost_nanodollars)
      select subject_id, new.organization_id, new.day, new.slot, new.requests,
        new.input_tokens + new.output_tokens, new.cost_nanodollars
      from (select new.organization_id as subject_id union all select new.workspace_id union all select new.user_id
        union all select new.api_key_id where new.api_key_id <> ''
        union all select group_id from group_members
          where user_id = new.user_id and organization_id = new.organization_id)
      where true order by subject_id
      on conflict (subject_id, day, organization_id, slot) do update set
        ${sums('usage_counters', ['requests', 'tokens', 'cost_nanodollars'])};
    insert into usage_days (${dayColumns.join(', ')})
      values (${dayColumns.map((column) => `new.${column}`).join(', ')})
      on conflict (${dayKey.join(', ')}) do update set ${sums('usage_days', measures)};
  end`,
];

/** The groups of the organization that they are in. */
export function groupsOf(sql: Knex, { userId, organizationId }: Spender): Knex.QueryBuilder {
  return sql('group_members').where({ user_id: userId, organization_id: organizationId }).select('group_id');
}
