/** Who used what: sums over days, within the reach of who asks. */
import type { Knex } from 'knex';
import type { operations, UsageEntry } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { toCost } from './costs.ts';
import type { Cursors } from './cursor.ts';
import { dayOf, startOfDay } from './meter.ts';
import type { Page } from './page.ts';
import type { StoreParts } from './parts.ts';
import { firstDay } from './quota-rows.ts';
import type { QuotaAdmin } from './quota-subjects.ts';
import { covers, wholeOrganizations } from './reach.ts';
import { sweepTable } from './sweeps.ts';
import { timestamp } from './timestamps.ts';

export type UsageQuery = Partial<NonNullable<operations['getUsage']['parameters']['query']>>;

export interface UsageReports {
  /** In the order of what it is grouped by. Throws `invalid_request` for a period that cannot be. */
  sum(reach: QuotaAdmin, query: UsageQuery): Promise<Page<UsageEntry>>;
  /** Forgets the days that end before; answers with how many rows there were. */
  prune(before: Date): Promise<number>;
}

const columns = { day: 'day', model: 'model', user: 'user_id', key: 'api_key_id' } as const;

type GroupBy = keyof typeof columns;

interface UsageRow {
  group: string | number;
  requests: number;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
  cost_nanodollars: number;
  unpriced_calls: number;
}

/** As many days as are added up at once. */
const mostDays = 366;

export function usageRepository({ database, clock, cursors }: StoreParts): UsageReports {
  return {
    sum: (reach, query) =>
      database.read(reach.operator ? 'installation' : reach, (sql) =>
        readUsage(sql, cursors, reach, query, clock.now().getTime()),
      ),
    prune: async (before) => {
      const day = dayOf(before.getTime());
      // What quotas are checked by says the same, and goes with it.
      await sweepTable(database, 'usage_counters', 'day', day);
      return sweepTable(database, 'usage_days', 'day', day);
    },
  };
}

async function readUsage(
  sql: Knex,
  cursors: Cursors,
  reach: QuotaAdmin,
  query: UsageQuery,
  now: number,
): Promise<Page<UsageEntry>> {
  const { group_by = 'day', organization_id, workspace_id, limit = 20, cursor } = query;
  const period = periodOf(query, now);
  const column = columns[group_by];
  const filters = { group_by, organization_id, workspace_id, from: query.from, to: query.to };
  const binding = ['usage', reach.userId, filters];
  const found: Knex.QueryBuilder<object, UsageRow[]> = sql('usage_days')
    .where((seen) => within(seen, reach, period))
    .groupBy(column)
    .orderBy(column)
    .limit(limit + 1)
    .select({ group: column }, ...sums(sql));
  if (organization_id !== undefined) found.where({ organization_id });
  if (workspace_id !== undefined) found.where({ workspace_id });
  if (cursor !== undefined) found.where(column, '>', cursors.decode(binding, cursor)[0] ?? '');
  const rows = await found;
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    data: page.map((row) => toEntry(group_by, row)),
    next_cursor: rows.length > limit && last ? cursors.encode(binding, [last.group]) : null,
  };
}

/** What they used themselves, and all of what they administer; each way in walks an index of its own. */
function within(seen: Knex.QueryBuilder, reach: QuotaAdmin, period: Period): void {
  if (reach.operator) return void seen.whereBetween('day', period);
  const workspaces = reach.workspaces.filter(({ role }) => covers(role, 'admin')).map(({ id }) => id);
  seen
    .where((own) =>
      own
        .where({ user_id: reach.userId })
        .whereIn('organization_id', [...reach.organizationIds])
        .whereBetween('day', period),
    )
    .orWhere((whole) =>
      whole.whereIn('organization_id', wholeOrganizations(reach)).whereBetween('day', period),
    )
    .orWhere((given) => given.whereIn('workspace_id', workspaces).whereBetween('day', period));
}

function sums(sql: Knex): Knex.Raw[] {
  return (
    [
      'requests',
      'input_tokens',
      'output_tokens',
      'cached_input_tokens',
      'cost_nanodollars',
      'unpriced_calls',
    ] as const
  ).map((column) => sql.raw('sum(??) as ??', [column, column]));
}

type Period = readonly [number, number];

/** The first and the last day. */
function periodOf({ from, to }: UsageQuery, now: number): Period {
  const first = from === undefined ? firstDay('month', now) : readDay(from, 'from');
  const last = to === undefined ? dayOf(now) : readDay(to, 'to');
  if (from !== undefined && to !== undefined && last < first)
    throw invalidPeriod('to', 'A day that is not before the first.');
  if (last - first >= mostDays) throw invalidPeriod('from', `At most ${mostDays} days up to the last.`);
  return [first, last];
}

/** The contract has no way to say that February has no 30th. */
function readDay(text: string, name: 'from' | 'to'): number {
  const milliseconds = Date.parse(`${text}T00:00:00.000Z`);
  if (Number.isNaN(milliseconds) || timestamp(milliseconds).slice(0, 10) !== text)
    throw invalidPeriod(name, 'A day of the calendar, as 2026-11-21.');
  return dayOf(milliseconds);
}

function invalidPeriod(name: 'from' | 'to', message: string): Problem {
  return new Problem(
    'invalid_request',
    `The period cannot be: ${name} has to be ${message.charAt(0).toLowerCase()}${message.slice(1)}`,
    {
      errors: [{ in: 'query', name, message, code: 'period' }],
    },
  );
}

function toEntry(groupBy: GroupBy, row: UsageRow): UsageEntry {
  const group = String(row.group);
  return {
    day: groupBy === 'day' ? timestamp(startOfDay(Number(row.group))).slice(0, 10) : null,
    model: groupBy === 'model' ? group : null,
    user_id: groupBy === 'user' ? group : null,
    api_key_id: groupBy === 'key' && group !== '' ? group : null,
    requests: Number(row.requests),
    usage: {
      input_tokens: Number(row.input_tokens),
      output_tokens: Number(row.output_tokens),
      cached_input_tokens: Number(row.cached_input_tokens),
    },
    cost: toCost({
      cost_nanodollars: Number(row.cost_nanodollars),
      unpriced: Number(row.unpriced_calls) > 0,
    }),
  };
}
