/** The rows of plans, when a plan may be decided on, and how each of its changes is kept and told. */
import type { Knex } from 'knex';
import type { Plan, PlanStatus } from '../contract/api.ts';
import { stepsOf } from '../plan-steps.ts';
import { Problem } from '../problem.ts';
import { timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

export interface PlanRow {
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

/** What a run writes. */
export interface WrittenPlan {
  readonly title: string;
  readonly content: string;
  /** Whether it is not finished: nobody decides about it then. */
  readonly draft?: boolean | undefined;
}

export function requireVersion(row: PlanRow, version: number | undefined): void {
  if (version === undefined || version === row.version) return;
  throw new Problem(
    'already_answered',
    `The plan is now at version ${row.version}, not ${version}: read it again.`,
  );
}

/** Throws where nobody can decide about it any more, or not yet. */
export function requireOpen(row: PlanRow): void {
  if (row.status === 'draft')
    throw new Problem(
      'plan_is_draft',
      'The plan is a draft: it waits until its agent or a person finishes it.',
    );
  if (row.status !== 'proposed' && row.status !== 'failed') throw decided(row);
}

export function isApproved({ status }: PlanRow): boolean {
  return ['approved', 'executing', 'done'].includes(status);
}

export function decided({ status }: PlanRow): Problem {
  return new Problem('already_answered', `The plan is ${status}; the first answer stands.`);
}

export function decisionOn<Verb extends string>(row: PlanRow, saved: PlanRow, verb: Verb) {
  const told = ({ status, version, carried_out_by }: PlanRow) => ({ status, version, carried_out_by });
  return {
    action: `plan.${verb}` as const,
    target: { type: 'plan', id: row.id },
    organizationId: row.organization_id,
    before: told(row),
    after: told(saved),
  };
}

export function textOf({ title, content }: WrittenPlan): Pick<PlanRow, 'title' | 'content' | 'steps'> {
  return { title, content, steps: JSON.stringify(stepsOf(content)) };
}

export async function addVersion(
  sql: Knex.Transaction,
  row: PlanRow,
  written: WrittenPlan,
  runId: string | null,
  now: number,
): Promise<PlanRow> {
  const changes = {
    ...textOf(written),
    // What was done of it is done under another title, too.
    ...(written.content === row.content && { steps: row.steps }),
    run_id: runId,
    version: row.version + 1,
    status: written.draft ? ('draft' as const) : ('proposed' as const),
    comment: null,
  };
  const saved = await savePlan(sql, row, changes, now);
  await insertVersion(sql, saved, now);
  return saved;
}

export async function insertVersion(
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

export async function savePlan(
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

export function toPlan(row: PlanRow): Plan {
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
