/** Plans of sessions as people read them, edit them and turn them down; what runs do with them: `run-plans.ts`. */
import type { Knex } from 'knex';
import type { operations, Plan, PlanRejection, PlanUpdate, PlanVersion } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch } from './etag.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import {
  addVersion,
  decided,
  decisionOn,
  isApproved,
  type PlanRow,
  requireOpen,
  requireVersion,
  savePlan,
  toPlan,
} from './plan-rows.ts';
import { notFound, partsWithin, type Reach, requireRole, within } from './reach.ts';
import { timestamp } from './timestamps.ts';

/** `limit`, `cursor` and the filters of the contract. */
export type PlanQuery = Partial<NonNullable<operations['listPlans']['parameters']['query']>>;

export interface TaggedPlan {
  readonly plan: Plan;
  readonly etag: string;
}

export interface Plans {
  /** The newest first. */
  list(reach: Reach, query: PlanQuery): Promise<Page<Plan>>;
  find(reach: Reach, id: string): Promise<TaggedPlan | null>;
  /** The newest first. Throws `not_found`. */
  versions(reach: Reach, id: string, query: PageQuery): Promise<Page<PlanVersion>>;
  /** As a new version. Throws `not_found`, `precondition_failed`, or `already_answered` for one that was approved. */
  update(reach: Reach, id: string, patch: PlanUpdate, ifMatch?: string | undefined): Promise<TaggedPlan>;
  /** Throws `not_found`, or `already_answered` for one that is not proposed, or has a newer version. */
  reject(reach: Reach, id: string, rejection: PlanRejection): Promise<Plan>;
  /** Throws `not_found` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
}

interface VersionRow {
  organization_id: string;
  plan_id: string;
  version: number;
  run_id: string | null;
  title: string;
  content: string;
  created_at: number;
}

export function planRepository({ database, clock, cursors }: StoreParts): Plans {
  const now = (): number => clock.now().getTime();
  return {
    list: (reach, query) =>
      database.read(reach, async (sql) => {
        const { session_id, status } = query;
        const filters = { ...(session_id && { session_id }), ...(status && { status }) };
        const listing = {
          name: 'plans',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: 'desc',
          parts: partsWithin(reach, (place) => sql('plans').where({ ...place, ...filters })),
        } as const;
        const { data, next_cursor } = await readPage<PlanRow>(sql, cursors, listing, query);
        return { data: data.map(toPlan), next_cursor };
      }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await within(sql<PlanRow>('plans').where({ id }), reach).first();
        if (row) requireRole(reach, row);
        return row ? tagged(row) : null;
      }),
    versions: (reach, id, query) =>
      database.read(reach, async (sql) => {
        if (!(await within(sql('plans').where({ id }), reach).first('id'))) throw notFound('plan');
        const listing = {
          name: 'plan_versions',
          reach,
          filters: { id },
          columns: ['version'],
          direction: 'desc',
          parts: [sql('plan_versions').where({ plan_id: id })],
        } as const;
        const { data, next_cursor } = await readPage<VersionRow>(sql, cursors, listing, query);
        return { data: data.map(toVersion), next_cursor };
      }),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockPlan(sql, reach, id);
        requireMatch(ifMatch, row);
        if (isApproved(row)) throw decided(row);
        const { title = row.title, content = row.content } = patch;
        return tagged(await addVersion(sql, row, { title, content }, null, now()));
      }),
    reject: (reach, id, { version, comment = null }) =>
      database.write(reach, async (sql) => {
        const row = await lockPlan(sql, reach, id);
        requireVersion(row, version);
        requireOpen(row);
        const changes = { status: 'rejected', comment, decided_by: reach.userId } as const;
        const saved = await savePlan(sql, row, changes, now());
        recordAudit(sql, reach, decisionOn(row, saved, 'reject'));
        return toPlan(saved);
      }),
    delete: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        requireMatch(ifMatch, await lockPlan(sql, reach, id));
        await sql<PlanRow>('plans').where({ id }).delete();
      }),
  };
}

async function lockPlan(sql: Knex.Transaction, reach: Reach, id: string): Promise<PlanRow> {
  const row = await within(sql<PlanRow>('plans').where({ id }), reach).forUpdate().first();
  if (!row) throw notFound('plan');
  requireRole(reach, row);
  return row;
}

function tagged(row: PlanRow): TaggedPlan {
  return { plan: toPlan(row), etag: etagOf(row) };
}

function toVersion({ version, run_id, title, content, created_at }: VersionRow): PlanVersion {
  return { version, run_id, title, content, created_at: timestamp(created_at) };
}
