/** Jobs of the scheduler, as people make, change, pause and delete them. */
import type { Knex } from 'knex';
import type { JobCreate, JobUpdate, operations } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { requireMatch } from './etag.ts';
import { type SlotsUntil, storeCome, type Timing } from './job-due.ts';
import { askToStop, endOpen, openRuns } from './job-queue.ts';
import { auditOfJob, findJob, type JobRow, lockJob, type StoredJob, storedJob, tellJob } from './job-rows.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithJob, refuseExceeded } from './quota-check.ts';
import { notFound, partsWithin, type Reach, requireRole, within } from './reach.ts';
import { parseTimestamp } from './timestamps.ts';
import { findDefaultWorkspace, findWorkspace } from './workspaces.ts';

export type JobQuery = Partial<NonNullable<operations['listJobs']['parameters']['query']>>;

/** As the contract has it; what it gives by default may be left out. */
export type JobInput = Pick<JobCreate, 'name' | 'prompt'> & Partial<JobCreate>;

/** Who asks, besides what they reach: the key that they ask with. */
export interface JobAsker {
  readonly apiKeyId: string | null;
  readonly timing: Timing;
  /** Of a schedule that the job does not have yet. */
  readonly firstTiming: Timing;
}

/** Who changes when a job runs: what has come by then is stored first. */
interface JobChanger extends JobAsker {
  readonly slotsUntil: SlotsUntil;
}

/** What was changed, and what soft limits have to say to it. */
export interface ChangedJob extends StoredJob {
  readonly notices: readonly string[];
}

export interface Jobs {
  list(reach: Reach, query: JobQuery): Promise<Page<StoredJob>>;
  /** Throws `not_found`, `role_required`, `invalid_request` or `quota_exceeded`. */
  create(reach: Reach, input: JobInput, asker: JobAsker): Promise<ChangedJob>;
  find(reach: Reach, id: string): Promise<StoredJob | null>;
  /** Throws `not_found`, `role_required`, `precondition_failed`, `invalid_request` or `quota_exceeded`. */
  update(
    reach: Reach,
    id: string,
    patch: JobUpdate,
    asker: JobChanger,
    ifMatch?: string | undefined,
  ): Promise<ChangedJob>;
  /** Answers with the runs that were asked to stop. Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<readonly string[]>;
  /** Throws `not_found`, `role_required` or `job_conflict`. */
  pause(reach: Reach, id: string): Promise<StoredJob>;
  /** Throws `not_found`, `role_required`, `job_conflict` or `quota_exceeded`. */
  resume(reach: Reach, id: string, asker: JobAsker): Promise<ChangedJob>;
}

export function jobRepository({ database, clock, cursors }: StoreParts): Jobs {
  const now = (): number => clock.now().getTime();
  // Quotas may hold beyond the organization: what is written is asked for in the name of the server, with ownership in
  // each query.
  const change = <T>(work: (sql: Knex.Transaction) => Promise<T>): Promise<T> =>
    database.write('installation', work);
  return {
    list: (reach, query) =>
      database.read(reach, async (sql) => {
        const { sort = '-created_at', workspace_id, status } = query;
        const filters = { ...(workspace_id && { workspace_id }), ...(status && { status }) };
        const listing = {
          name: 'jobs',
          reach,
          filters,
          columns: ['created_at', 'id'],
          direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
          parts: partsWithin(reach, (place) => sql('scheduled_jobs').where(place).where(filters).select('*')),
        };
        const { data, next_cursor } = await readPage<JobRow>(sql, cursors, listing, query);
        const jobs: StoredJob[] = [];
        for (const row of data) jobs.push(await storedJob(sql, row));
        return { data: jobs, next_cursor };
      }),
    create: (reach, input, asker) =>
      change(async (sql) => {
        const fresh = await newRow(sql, reach, input, asker, now());
        const row = { ...fresh, ...scheduled(fresh, asker.firstTiming, now()) };
        if (row.next_at === null) throw timeless();
        await sql<JobRow>('scheduled_jobs').insert(row);
        recordAudit(sql, reach, { ...auditOfJob(row, 'create'), after: told(row) });
        return changed(sql, row, null, 'created', now());
      }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await findJob(sql, reach, id);
        if (row) requireRole(reach, row);
        return row ? storedJob(sql, row) : null;
      }),
    update: (reach, id, patch, asker, ifMatch) =>
      change(async (sql) => {
        const row = await lockJob(sql, reach, id);
        requireMatch(ifMatch, row);
        const next = await patched(sql, reach, row, patch, asker, now());
        await sql<JobRow>('scheduled_jobs').where({ id }).update(next);
        recordAudit(sql, reach, { ...auditOfJob(row, 'update'), before: told(row), after: told(next) });
        return changed(sql, next, row, next.status === 'completed' ? 'completed' : 'updated', now());
      }),
    delete: (reach, id, ifMatch) =>
      change(async (sql) => {
        const row = await lockJob(sql, reach, id, true);
        requireMatch(ifMatch, row);
        const open = await openRuns(sql, id).where({ status: 'running' });
        for (const run of open) await askToStop(sql, run, 'requested');
        await sql<JobRow>('scheduled_jobs').where({ id }).delete();
        recordAudit(sql, reach, { ...auditOfJob(row, 'delete'), before: told(row) });
        tellJob(sql, row, 'deleted', now());
        return open.flatMap(({ run_id }) => (run_id === null ? [] : [run_id]));
      }),
    pause: (reach, id) =>
      change(async (sql) => {
        const row = await lockJob(sql, reach, id, true);
        if (row.status !== 'active')
          throw new Problem('job_conflict', `The job is ${row.status}: only an active job can be paused.`);
        const paused = await pauseJob(sql, row, 'requested', now());
        recordAudit(sql, reach, auditOfJob(row, 'pause'));
        return storedJob(sql, paused);
      }),
    resume: (reach, id, asker) =>
      change(async (sql) => {
        const row = await lockJob(sql, reach, id);
        if (row.status !== 'paused')
          throw new Problem('job_conflict', `The job is ${row.status}: only a paused job can be resumed.`);
        const next: JobRow = {
          ...row,
          ...{ status: 'active', pause_reason: null, api_key_id: asker.apiKeyId },
          ...scheduled(row, asker.timing, now()),
          ...stamp(row, now()),
        };
        if (next.next_at === null)
          throw new Problem('job_conflict', 'The job has no times left: change when it runs, or run it now.');
        await sql<JobRow>('scheduled_jobs').where({ id }).update(next);
        recordAudit(sql, reach, auditOfJob(row, 'resume'));
        return changed(sql, next, row, 'resumed', now());
      }),
  };
}

/** The job is locked. What waits is cancelled, since its times pass from now on. */
export async function pauseJob(
  sql: Knex.Transaction,
  row: JobRow,
  pause_reason: NonNullable<JobRow['pause_reason']>,
  now: number,
): Promise<JobRow> {
  const paused: JobRow = {
    ...row,
    ...{ status: 'paused', pause_reason, next_at: null, next_due_at: null },
    ...stamp(row, now),
  };
  await sql<JobRow>('scheduled_jobs').where({ id: row.id }).update(paused);
  await endOpen(sql, row, 'job_paused', now);
  tellJob(sql, paused, 'paused', now);
  return paused;
}

/** After it is stored, so that of two who take the last place one is refused. */
async function changed(
  sql: Knex.Transaction,
  row: JobRow,
  before: JobRow | null,
  change: Parameters<typeof tellJob>[2],
  now: number,
): Promise<ChangedJob> {
  const spender = {
    organizationId: row.organization_id,
    workspaceId: row.workspace_id,
    userId: row.user_id,
    apiKeyId: row.api_key_id,
  };
  const isNew = before === null || before.status === 'completed';
  const takesPlace = row.status !== 'completed' && (isNew || before.api_key_id !== row.api_key_id);
  const warnings = takesPlace ? refuseExceeded(await quotaStateWithJob(sql, spender, now, isNew), now) : [];
  tellJob(sql, row, change, now);
  const notices = warnings.map(({ message }) => message);
  return { ...(await storedJob(sql, row)), notices };
}

export function stamp({ revision }: JobRow, now: number) {
  return { revision: revision + 1, updated_at: now };
}

function scheduled(row: JobRow, timing: Timing, after: number): Pick<JobRow, 'next_at' | 'next_due_at'> {
  const next = timing(row, after);
  return { next_at: next?.at ?? null, next_due_at: next?.dueAt ?? null };
}

async function newRow(
  sql: Knex.Transaction,
  reach: Reach,
  input: JobInput,
  { apiKeyId }: JobAsker,
  now: number,
): Promise<JobRow> {
  const workspace =
    input.workspace_id === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, input.workspace_id);
  if (!workspace) throw notFound('workspace');
  const place = { organization_id: workspace.organizationId, workspace_id: workspace.id };
  requireRole(reach, place);
  const row: JobRow = {
    ...place,
    id: newId('job'),
    user_id: reach.userId,
    api_key_id: apiKeyId,
    name: input.name,
    prompt: input.prompt,
    cron: input.cron ?? null,
    interval_s: input.interval_s ?? null,
    run_at: momentOf(input.run_at, '/run_at'),
    timezone: input.timezone ?? 'UTC',
    anchor_at: wholeSecond(now),
    agent_slug: input.agent_slug ?? 'coder',
    model: input.model ?? null,
    session_mode: input.session_mode ?? 'new',
    session_id: input.session_id ?? null,
    permission_mode: input.permission_mode ?? 'ask',
    permission_rules: JSON.stringify(input.permission_rules ?? []),
    overlap_policy: input.overlap_policy ?? 'skip',
    misfire_policy: input.misfire_policy ?? 'run_once',
    jitter_s: input.jitter_s ?? 0,
    timeout_s: input.timeout_s ?? 3600,
    max_retries: input.max_retries ?? 0,
    ends_at: momentOf(input.ends_at, '/ends_at'),
    max_runs: input.max_runs ?? null,
    status: 'active',
    pause_reason: null,
    runs_begun: 0,
    next_at: null,
    next_due_at: null,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
  await requireSessionOfJob(sql, reach, row);
  return row;
}

/** What says when it runs. */
const timed = ['cron', 'interval_s', 'run_at', 'timezone', 'jitter_s', 'ends_at', 'max_runs'] as const;
const schedules = ['cron', 'interval_s', 'run_at'] as const;
const scheduleColumns = [...schedules, 'timezone', 'anchor_at'] as const;

async function patched(
  sql: Knex.Transaction,
  reach: Reach,
  row: JobRow,
  patch: JobUpdate,
  { apiKeyId, firstTiming, timing, slotsUntil }: JobChanger,
  now: number,
): Promise<JobRow> {
  const next: JobRow = { ...row, ...columnsOf(patch, now), api_key_id: apiKeyId, ...stamp(row, now) };
  // With another mode, the session of the one before counts no more.
  if (next.session_mode === 'new' && !patch.session_id) next.session_id = null;
  if (next.session_id !== row.session_id) next.made_session = false;
  if (patch.session_id) await requireSessionOfJob(sql, reach, next);
  if (!timed.some((name) => patch[name] !== undefined)) return next;
  const isAnother = scheduleColumns.some((name) => next[name] !== row[name]);
  if (isAnother) next.runs_begun = await storeCome(sql, row, { timing, slotsUntil }, now);
  // A time that has come and waits for its jitter is still to be run. Also of a paused job: what makes no sense is refused
  // at once.
  const from = isAnother || row.next_at === null ? now : row.next_at - 1;
  const times = scheduled(next, isAnother ? firstTiming : timing, from);
  if (times.next_at === null && schedules.some((name) => patch[name] !== undefined)) throw timeless();
  if (row.status === 'paused') return next;
  return { ...next, ...times, status: times.next_at === null ? 'completed' : 'active' };
}

function columnsOf(patch: JobUpdate, now: number): Partial<JobRow> {
  const { run_at, ends_at, permission_rules, ...rest } = patch;
  const names = schedules.some((name) => patch[name] !== undefined);
  return {
    ...(names && { cron: null, interval_s: null, run_at: null }),
    ...(patch.interval_s !== undefined && { anchor_at: wholeSecond(now) }),
    ...rest,
    ...(run_at !== undefined && { run_at: momentOf(run_at, '/run_at') }),
    ...(ends_at !== undefined && { ends_at: momentOf(ends_at, '/ends_at') }),
    ...(permission_rules && { permission_rules: JSON.stringify(permission_rules) }),
  };
}

async function requireSessionOfJob(sql: Knex, reach: Reach, row: JobRow): Promise<void> {
  const { session_id, workspace_id, session_mode } = row;
  if (session_id === null) return;
  if (session_mode !== 'reuse')
    throw refused('/session_id', 'A session is gone on with only in the session_mode reuse.');
  const found = await within(sql('sessions').where({ id: session_id, workspace_id }), reach).first('id');
  if (!found) throw notFound('session of the workspace');
}

function momentOf(text: string | null | undefined, pointer: string): number | null {
  return text === null || text === undefined ? null : parseTimestamp(text, pointer);
}

function wholeSecond(milliseconds: number): number {
  return Math.floor(milliseconds / 1000) * 1000;
}

function timeless(): Problem {
  return refused('', 'There is no time left at which it would run: see run_at, ends_at and max_runs.');
}

function refused(pointer: string, message: string): Problem {
  return new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'schedule' }],
  });
}

/** What the audit log says of a job. */
function told(row: JobRow) {
  const { name, workspace_id, cron, interval_s, timezone, agent_slug, permission_mode, permission_rules } =
    row;
  return { name, workspace_id, cron, interval_s, timezone, agent_slug, permission_mode, permission_rules };
}
