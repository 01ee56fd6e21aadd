/** Plans of sessions: written by runs in versions, decided on by people, and ended with the run that carries them out. */
import type { Knex } from 'knex';
import type {
  operations,
  Plan,
  PlanRejection,
  PlanStatus,
  PlanStepStatus,
  PlanUpdate,
  PlanVersion,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { stepsOf, withStep } from '../plan-steps.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { etagOf, requireMatch } from './etag.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Origin, partsWithin, type Reach, requireRole, within } from './reach.ts';
import type { RunRow } from './runs.ts';
import { timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

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

/** What a run writes. */
export interface WrittenPlan {
  readonly title: string;
  readonly content: string;
  /** Whether it is not finished: nobody decides about it then. */
  readonly draft?: boolean | undefined;
}

/** The approval of a plan, which begins a run. */
export interface Approval {
  readonly planId: string;
  readonly version: number;
  readonly comment: string | null;
  /** Where the approval came from. */
  readonly origin?: Origin | undefined;
}

interface PlanRow {
  id: string;
  organization_id: string;
  workspace_id: string;
  session_id: string;
  run_id: string | null;
  version: number;
  title: string;
  content: string;
  /** JSON. */
  steps: string;
  status: PlanStatus;
  comment: string | null;
  carried_out_by: string | null;
  decided_by: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
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

/** As a version of the session's plan while a person has not approved that; else as a new plan. */
export async function writePlan(
  sql: Knex.Transaction,
  run: Pick<RunRow, 'id' | 'organization_id' | 'workspace_id' | 'session_id'>,
  written: WrittenPlan,
  now: number,
): Promise<Plan> {
  const newest = await newestPlan(sql, run.session_id).forUpdate();
  if (newest && !isApproved(newest)) return toPlan(await addVersion(sql, newest, written, run.id, now));
  const row: PlanRow = {
    id: newId('plan'),
    organization_id: run.organization_id,
    workspace_id: run.workspace_id,
    session_id: run.session_id,
    run_id: run.id,
    version: 1,
    ...textOf(written),
    status: written.draft ? 'draft' : 'proposed',
    comment: null,
    carried_out_by: null,
    decided_by: null,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
  await sql('plans').insert(row);
  await insertVersion(sql, row, now);
  return toPlan(row);
}

export async function readPlan(sql: Knex, sessionId: string): Promise<Plan | null> {
  const row = await newestPlan(sql, sessionId);
  return row ? toPlan(row) : null;
}

/** In the transaction that begins the run, so that of two approvals one begins none. */
export async function approvePlan(
  sql: Knex.Transaction,
  run: { readonly id: string; readonly session_id: string; readonly user_id: string },
  { planId, version, comment, origin }: Approval,
  now: number,
): Promise<void> {
  const row = await sql<PlanRow>('plans')
    .where({ id: planId, session_id: run.session_id })
    .forUpdate()
    .first();
  if (!row) throw notFound('plan');
  requireVersion(row, version);
  requireOpen(row);
  const changes = { status: 'approved', comment, decided_by: run.user_id, carried_out_by: run.id } as const;
  const saved = await savePlan(sql, row, changes, now);
  recordAudit(sql, { userId: run.user_id, origin }, decisionOn(row, saved, 'approve'));
}

function decisionOn<Verb extends string>(row: PlanRow, saved: PlanRow, verb: Verb) {
  const told = ({ status, version, carried_out_by }: PlanRow) => ({ status, version, carried_out_by });
  return {
    action: `plan.${verb}` as const,
    target: { type: 'plan', id: row.id },
    organizationId: row.organization_id,
    before: told(row),
    after: told(saved),
  };
}

/** The run that is to carry out a plan has begun. */
export async function beginPlan(sql: Knex.Transaction, runId: string, now: number): Promise<void> {
  const row = await carriedOutBy(sql, runId, ['approved']);
  if (row) await savePlan(sql, row, { status: 'executing' }, now);
}

/** How far the run is with a step of the plan that it carries out; null where that has no such step. */
export async function markStep(
  sql: Knex.Transaction,
  runId: string,
  { id, status }: { readonly id: string; readonly status: PlanStepStatus },
  now: number,
): Promise<Plan | null> {
  const row = await carriedOutBy(sql, runId, underWay);
  const steps = row && withStep(JSON.parse(row.steps), id, status);
  if (!row || !steps) return null;
  return toPlan(await savePlan(sql, row, { steps: JSON.stringify(steps) }, now));
}

const underWay = ['approved', 'executing'] as const;

async function carriedOutBy(
  sql: Knex.Transaction,
  runId: string,
  statuses: readonly PlanStatus[],
): Promise<PlanRow | undefined> {
  const ofRun = sql<PlanRow>('plans').where({ carried_out_by: runId });
  return await ofRun
    .whereIn('status', [...statuses])
    .forUpdate()
    .first();
}

/** What becomes of the plan that a run has carried out. */
export async function endPlan(
  sql: Knex.Transaction,
  run: { readonly runId: string; readonly status: string },
  now: number,
): Promise<void> {
  const row = await carriedOutBy(sql, run.runId, underWay);
  const status = run.status === 'completed' ? 'done' : 'failed';
  if (row) await savePlan(sql, row, { status }, now);
}

function newestPlan(sql: Knex, sessionId: string) {
  return sql<PlanRow>('plans')
    .where({ session_id: sessionId })
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .first();
}

async function lockPlan(sql: Knex.Transaction, reach: Reach, id: string): Promise<PlanRow> {
  const row = await within(sql<PlanRow>('plans').where({ id }), reach).forUpdate().first();
  if (!row) throw notFound('plan');
  requireRole(reach, row);
  return row;
}

function requireVersion(row: PlanRow, version: number | undefined): void {
  if (version === undefined || version === row.version) return;
  throw new Problem(
    'already_answered',
    `The plan is now at version ${row.version}, not ${version}: read it again.`,
  );
}

/** Throws where nobody can decide about it any more, or not yet. */
function requireOpen(row: PlanRow): void {
  if (row.status === 'draft')
    throw new Problem(
      'plan_is_draft',
      'The plan is a draft: it waits until its agent or a person finishes it.',
    );
  if (row.status !== 'proposed' && row.status !== 'failed') throw decided(row);
}

function isApproved({ status }: PlanRow): boolean {
  return ['approved', 'executing', 'done'].includes(status);
}

function textOf({ title, content }: WrittenPlan): Pick<PlanRow, 'title' | 'content' | 'steps'> {
  return { title, content, steps: JSON.stringify(stepsOf(content)) };
}

function decided({ status }: PlanRow): Problem {
  return new Problem('already_answered', `The plan is ${status}; the first answer stands.`);
}

async function addVersion(
  sql: Knex.Transaction,
  row: PlanRow,
  written: WrittenPlan,
  runId: string | null,
  now: number,
): Promise<PlanRow> {
  const changes = {
    ...textOf(written),
    run_id: runId,
    version: row.version + 1,
    status: written.draft ? ('draft' as const) : ('proposed' as const),
    comment: null,
  };
  const saved = await savePlan(sql, row, changes, now);
  await insertVersion(sql, saved, now);
  return saved;
}

async function insertVersion(
  sql: Knex.Transaction,
  { organization_id, id, version, run_id, title, content }: PlanRow,
  now: number,
): Promise<void> {
  await sql('plan_versions').insert({
    organization_id,
    plan_id: id,
    version,
    run_id,
    title,
    content,
    created_at: now,
  });
}

async function savePlan(
  sql: Knex.Transaction,
  row: PlanRow,
  changes: Partial<PlanRow>,
  now: number,
): Promise<PlanRow> {
  const marks = { revision: row.revision + 1, updated_at: now };
  await sql<PlanRow>('plans')
    .where({ id: row.id })
    .update({ ...changes, ...marks });
  const saved = { ...row, ...changes, ...marks };
  // What an agent writes is told by its run.
  if (changes.run_id == null) tellPlan(sql, saved, now);
  return saved;
}

function tellPlan(
  sql: Knex.Transaction,
  { id, session_id, version, status, ...row }: PlanRow,
  now: number,
): void {
  const steps = readSteps(row).map(({ id, status }) => ({ id, status }));
  const event = { type: 'plan_changed', plan_id: id, session_id, version, status, steps } as const;
  tellWorkspace(
    sql,
    { workspaceId: row.workspace_id, sessionId: session_id },
    [{ type: event.type, event }],
    now,
  );
}

function tagged(row: PlanRow): TaggedPlan {
  return { plan: toPlan(row), etag: etagOf(row) };
}

function toPlan(row: PlanRow): Plan {
  return {
    id: row.id,
    session_id: row.session_id,
    run_id: row.run_id,
    version: row.version,
    title: row.title,
    content: row.content,
    steps: readSteps(row),
    status: row.status,
    comment: row.comment,
    carried_out_by: row.carried_out_by,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

function readSteps({ steps }: Pick<PlanRow, 'steps'>): Plan['steps'] {
  return JSON.parse(steps);
}

function toVersion({ version, run_id, title, content, created_at }: VersionRow): PlanVersion {
  return { version, run_id, title, content, created_at: timestamp(created_at) };
}
