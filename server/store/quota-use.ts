/** What is used of a quota: counters added up over its windows, and what there is at this time. */
import type { Knex } from 'knex';
import type { QuotaResource, QuotaUse } from '../contract/api.ts';
import { countedCalls } from './calls-at-work.ts';
import { toDollars } from './costs.ts';
import { dayOf, groupsOf, type Spender } from './meter.ts';
import { type Counted, firstDay, limitsOf, type QuotaRow, toUse } from './quota-rows.ts';

/** The quotas that bind somebody, those that hold everywhere among them. */
export function quotasOf(sql: Knex, spender: Spender): Knex.QueryBuilder<QuotaRow, QuotaRow[]> {
  const { organizationId, workspaceId, userId, apiKeyId } = spender;
  const ids = [organizationId, workspaceId, userId, ...(apiKeyId === null ? [] : [apiKeyId])];
  return sql<QuotaRow>('quotas')
    .where((bound) => bound.whereIn('subject_id', ids).orWhereIn('subject_id', groupsOf(sql, spender)))
    .whereIn('scope', ['', organizationId])
    .select<QuotaRow[]>();
}

/** Each limit of a quota with what is used of it. */
export async function usesOf(
  sql: Knex,
  row: QuotaRow,
  now: number,
  only?: readonly QuotaResource[],
): Promise<QuotaUse[]> {
  const limits = limitsOf(row).filter(({ resource }) => !only || only.includes(resource));
  const count = counters(sql, row, now);
  const uses: QuotaUse[] = [];
  for (const limit of limits) {
    const { resource, window } = limit;
    const used =
      window === null ? await atPresent(sql, row, resource, now) : await count(window, resource as Counted); // has a window
    uses.push(toUse(row, limit, used, now));
  }
  return uses;
}

interface Totals {
  requests: number;
  tokens: number;
  cost_nanodollars: number;
}

/** Reads the counters of a window once, whichever of its limits ask. */
function counters(sql: Knex, { subject_id, organization_id }: QuotaRow, now: number) {
  const read = new Map<string, Promise<Totals>>();
  const totals = async (window: 'day' | 'month'): Promise<Totals> => {
    const rows: Totals[] = await sql('usage_counters')
      .where({ subject_id, ...(organization_id !== null && { organization_id }) })
      .whereBetween('day', [firstDay(window, now), dayOf(now)])
      .select(
        sql.raw(`coalesce(sum(requests), 0) as requests, coalesce(sum(tokens), 0) as tokens,
          coalesce(sum(cost_nanodollars), 0) as cost_nanodollars`),
      );
    return rows[0] ?? { requests: 0, tokens: 0, cost_nanodollars: 0 };
  };
  return async (window: 'day' | 'month', resource: Counted): Promise<number> => {
    const reading = read.get(window) ?? totals(window);
    read.set(window, reading);
    const found = await reading;
    return resource === 'cost' ? toDollars(found.cost_nanodollars) : found[resource];
  };
}

async function atPresent(sql: Knex, row: QuotaRow, resource: QuotaResource, now: number): Promise<number> {
  if (resource === 'storage') return storedBytes(sql, row, now);
  // A job that has no times left takes no place.
  if (resource === 'jobs') return countOf(sql, row, sql('scheduled_jobs').whereNot({ status: 'completed' }));
  // The index of runs holds those that have not ended, which are few; those of agents belong to the run that started them.
  const runs = sql('runs').whereNull('ended_at').whereNot({ trigger: 'agent' });
  return (await countOf(sql, row, runs)) + (await countOf(sql, row, countedCalls(sql, now)));
}

/** Those of whoever the quota is about. */
async function countOf(sql: Knex, row: QuotaRow, active: Knex.QueryBuilder): Promise<number> {
  active.count<{ count: number }[]>({ count: '*' });
  const [found] = await ofSubject(sql, row, active);
  return Number(found?.count ?? 0);
}

/**
 * Those of files, memories and skills, each as large as it is, what is reserved for uploads under way, what documents are made
 * from that is no file, and what sessions keep of files: that belongs to their people, and to no API key.
 */
async function storedBytes(sql: Knex, row: QuotaRow, now: number): Promise<number> {
  const uploads = sql('stored_objects').where({ state: 'uploading' }).where('expires_at', '>', now);
  const resumable = sql('file_uploads').whereNull('file_id').where('expires_at', '>', now);
  const documents = sql('documents').whereNot({ source: 'file' });
  const sum = (query: Knex.QueryBuilder, column: string) => ofSubject(sql, row, query).sum(column);
  // One statement: between two, what was uploaded may become a file, and be in neither sum.
  const [found] = await sql.select({
    files: sum(sql('files'), 'size'),
    memories: sum(sql('memories'), 'size'),
    skills: sum(sql('skills'), 'size'),
    uploads: sum(uploads, 'size'),
    resumable: sum(resumable, 'size'),
    documents: sum(documents, 'bytes'),
    ...(row.api_key_id === null && { sessions: sum(sql('sessions'), 'kept_bytes') }),
  });
  return Object.values(found).reduce<number>((bytes, part) => bytes + Number(part ?? 0), 0);
}

function ofSubject<Query extends Knex.QueryBuilder>(sql: Knex, row: QuotaRow, active: Query): Query {
  if (row.organization_id !== null) active.where({ organization_id: row.organization_id });
  if (row.workspace_id !== null) active.where({ workspace_id: row.workspace_id });
  if (row.user_id !== null) active.where({ user_id: row.user_id });
  if (row.api_key_id !== null) active.where({ api_key_id: row.api_key_id });
  if (row.group_id !== null)
    active.whereIn('user_id', sql('group_members').where({ group_id: row.group_id }).select('user_id'));
  return active;
}
