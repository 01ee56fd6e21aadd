/** What runs do with the plans of their sessions: they write them, begin by an approval, mark steps, and end them. */
import type { Knex } from 'knex';
import type { Plan, PlanStatus, PlanStepStatus, StopReason } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { withStep } from '../plan-steps.ts';
import { recordAudit } from './audit.ts';
import {
  addVersion,
  decisionOn,
  insertVersion,
  isApproved,
  type PlanRow,
  requireOpen,
  requireVersion,
  savePlan,
  textOf,
  toPlan,
  type WrittenPlan,
} from './plan-rows.ts';
import { notFound, type Origin } from './reach.ts';
import type { RunRow } from './runs.ts';

/** The approval of a plan, which begins a run. */
export interface Approval {
  readonly planId: string;
  readonly version: number;
  readonly comment: string | null;
  /** Where the approval came from. */
  readonly origin?: Origin | undefined;
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

/** Whether the run was begun to carry out a plan, which need not be the newest of its session any more. */
export async function carriesOutPlan(sql: Knex, runId: string): Promise<boolean> {
  return (await sql<PlanRow>('plans').where({ carried_out_by: runId }).first('id')) !== undefined;
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
  run: { readonly runId: string; readonly status: string; readonly stopReason: StopReason },
  now: number,
): Promise<void> {
  const row = await carriedOutBy(sql, run.runId, underWay);
  // A limit ends a run that has completed, too, and then there is more to be done.
  const isDone = run.status === 'completed' && run.stopReason === 'end_turn';
  const status = isDone ? 'done' : 'failed';
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
