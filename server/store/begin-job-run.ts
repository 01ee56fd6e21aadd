/** Begins the run of a job, in the transaction that stores the run: a process that has lost it stores neither. */
import type { Knex } from 'knex';
import type { PermissionRule } from '../contract/api.ts';
import type { JobRow, JobRunRow } from './job-rows.ts';
import { type Claim, held } from './job-work.ts';
import type { RunRow } from './runs.ts';
import { indexNewTitle } from './search-index.ts';
import { freshSession, type SessionRow, tellNewSession } from './session-rows.ts';
import { timestamp } from './timestamps.ts';
import { tellWorkspace } from './workspace-events.ts';

/** The run of a job that a run is begun for. */
export interface Occurrence extends Claim {
  /** The session that is made for it; null where it goes on with one. */
  readonly session: {
    readonly title: string;
    readonly permissionRules: readonly PermissionRule[];
    /** The one that the job had when it was claimed, and which is gone; null where it had none. */
    readonly replaces: string | null;
  } | null;
}

/** Both rows are held from here on. Throws an error named `LeaseLost`. */
export interface HeldJobRun {
  readonly job: JobRow;
  readonly row: JobRunRow;
  /** Whether the job goes on with the session that was made for it: its owner may have given it another meanwhile. */
  readonly keepsSession: boolean;
}

/** Comes first: where the run is another's by now, nothing else is written. */
export async function holdJobRun(
  sql: Knex.Transaction,
  { sessionId, occurrence }: { readonly sessionId: string; readonly occurrence: Occurrence },
  now: number,
): Promise<HeldJobRun> {
  const found = await held(sql, occurrence);
  const { session } = occurrence;
  if (!session) return { ...found, keepsSession: false };
  await insertJobSession(sql, found.job, sessionId, session, now);
  const { session_mode, session_id } = found.job;
  const isAsClaimed = session_id === null || session_id === session.replaces;
  return { ...found, keepsSession: session_mode === 'reuse' && isAsClaimed };
}

async function insertJobSession(
  sql: Knex.Transaction,
  job: JobRow,
  id: string,
  { title, permissionRules }: NonNullable<Occurrence['session']>,
  now: number,
): Promise<void> {
  const row: SessionRow = {
    ...freshSession(now),
    ...{ id, organization_id: job.organization_id, workspace_id: job.workspace_id },
    ...{ user_id: job.user_id, parent_id: null, title, agent_slug: job.agent_slug, model: job.model },
    system_prompt: null,
    permission_rules: JSON.stringify(permissionRules),
  };
  await sql('sessions').insert(row);
  await indexNewTitle(sql, row);
  tellNewSession(sql, row, now);
}

export async function startJobRun(
  sql: Knex.Transaction,
  run: RunRow,
  { job, row, keepsSession }: HeldJobRun,
  now: number,
): Promise<void> {
  const { id: run_id, session_id } = run;
  const attempts = row.attempts + 1;
  await sql<JobRunRow>('job_runs')
    .where({ id: row.id })
    .update({
      ...{ status: 'running', worker: null, run_id, session_id, attempts, error: null },
      started_at: row.started_at ?? now,
      deadline_at: now + job.timeout_s * 1000,
    });
  if (keepsSession)
    await sql<JobRow>('scheduled_jobs').where({ id: job.id }).update({ session_id, made_session: true });
  const event = {
    type: 'job_run_started',
    ...{ job_id: job.id, job_run_id: row.id, occurrence: timestamp(row.occurrence), attempt: attempts },
    ...{ session_id, run_id },
  } as const;
  tellWorkspace(
    sql,
    { workspaceId: job.workspace_id, sessionId: session_id },
    [{ type: event.type, runId: run_id, event }],
    now,
  );
}
