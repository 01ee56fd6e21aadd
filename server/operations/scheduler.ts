/** Jobs: agent runs at set times, and what became of each of them. */
import type { Job, JobCreate, JobUpdate } from '../contract/api.ts';
import {
  etagWith,
  type Handler,
  isCurrent,
  type Principal,
  rowTags,
  type Services,
  type StoredJob,
} from '../handler.ts';
import { Problem } from '../problem.ts';
import { asker, askerIn } from './asked-session.ts';
import { quotaNotice } from './quota-notice.ts';

export const listJobs: Handler<'listJobs'> = async ({ principal, query }, services) => {
  const { data, next_cursor } = await services.store.jobs.list(principal, query);
  return { status: 200, body: { data: data.map((job) => shown(job, services)), next_cursor } };
};

export const createJob: Handler<'createJob'> = async ({ principal, body }, services) => {
  const workspaceId = body.workspace_id ?? (await services.store.workspaces.defaultOf(principal))?.id;
  await checkNames(principal, workspaceId, body, services);
  const job = await services.store.jobs.create(principal, body, jobAsker(principal, services));
  const answer = answerWith(job, services);
  return { status: 201, ...answer, headers: { ...answer.headers, Location: placeOf(job) } };
};

export const previewSchedule: Handler<'previewSchedule'> = async ({ body }, { schedules, clock }) => {
  const { cron = null, interval_s = null, timezone = 'UTC' } = body;
  const after = momentOf(body.after, '/after') ?? clock.now().getTime();
  const run_at = momentOf(body.run_at, '/run_at');
  const terms = { cron, interval_s, run_at, timezone, anchor_at: Math.floor(after / 1000) * 1000 };
  return { status: 200, body: { timezone, data: schedules.preview(terms, after) } };
};

export const getSchedulerStatus: Handler<'getSchedulerStatus'> = async (_call, { store }) => ({
  status: 200,
  body: await store.jobRuns.status(),
});

export const getJob: Handler<'getJob'> = async ({ principal, path, headers }, services) => {
  const job = await services.store.jobs.find(principal, path.job_id);
  if (!job) throw missing('job');
  const answer = answerWith(job, services);
  if (isCurrent(headers['If-None-Match'], answer.headers.ETag))
    return { status: 304, headers: answer.headers };
  return { status: 200, ...answer };
};

export const updateJob: Handler<'updateJob'> = async ({ principal, path, headers, body }, services) => {
  const { store, scheduler } = services;
  const found = await store.jobs.find(principal, path.job_id);
  if (!found) throw missing('job');
  await checkNames(principal, found.row.workspace_id, body, services);
  const by = jobAsker(principal, services);
  const job = await store.jobs.update(principal, path.job_id, body, by, rowTags(headers['If-Match']));
  scheduler.wake();
  return { status: 200, ...answerWith(job, services) };
};

export const deleteJob: Handler<'deleteJob'> = async ({ principal, path, headers }, { store, runtime }) => {
  const stopped = await store.jobs.delete(principal, path.job_id, rowTags(headers['If-Match']));
  for (const runId of stopped) runtime.wake(runId);
  return { status: 204 };
};

export const pauseJob: Handler<'pauseJob'> = async ({ principal, path }, services) => {
  const job = await services.store.jobs.pause(principal, path.job_id);
  return { status: 200, ...answerWith(job, services) };
};

export const resumeJob: Handler<'resumeJob'> = async ({ principal, path }, services) => {
  const job = await services.store.jobs.resume(principal, path.job_id, jobAsker(principal, services));
  return { status: 200, ...answerWith(job, services) };
};

export const runJobNow: Handler<'runJobNow'> = async ({ principal, path }, { store, scheduler }) => {
  const run = await store.jobRuns.request(principal, path.job_id);
  scheduler.wake();
  const Location = `/api/v1/scheduler/jobs/${run.job_id}/runs/${run.id}`;
  return { status: 202, headers: { Location }, body: run };
};

export const listJobRuns: Handler<'listJobRuns'> = async ({ principal, path, query }, { store }) => ({
  status: 200,
  body: await store.jobRuns.list(principal, path.job_id, query),
});

export const getJobRun: Handler<'getJobRun'> = async ({ principal, path }, { store }) => {
  const run = await store.jobRuns.find(principal, { jobId: path.job_id, jobRunId: path.job_run_id });
  if (!run) throw missing('run of the job');
  return { status: 200, body: run };
};

export const cancelJobRun: Handler<'cancelJobRun'> = async ({ principal, path }, { store, runtime }) => {
  const place = { jobId: path.job_id, jobRunId: path.job_run_id };
  const { jobRun, stoppedRun } = await store.jobRuns.cancel(principal, place);
  if (stoppedRun !== null) runtime.wake(stoppedRun);
  return { status: 202, body: jobRun };
};

/** Only an active job has times to come. */
function shown({ job, row }: StoredJob, { schedules, clock }: Services): Job {
  const times = row.status === 'active' ? schedules.times(row, clock.now().getTime(), 3) : [];
  return { ...job, next_runs: times.map((time) => new Date(time).toISOString()) };
}

/** What it shows besides its row follows from the moment, and from its runs. */
function answerWith(stored: StoredJob & { readonly notices?: readonly string[] }, services: Services) {
  const body = shown(stored, services);
  const { runs_begun, session_id, next_runs, last_run } = body;
  const ETag = etagWith(stored.etag, [runs_begun, session_id, next_runs, last_run]);
  return { headers: { ETag, ...quotaNotice(stored.notices ?? []) }, body };
}

function jobAsker(principal: Principal, { schedules }: Services) {
  const apiKeyId = asker(principal).apiKeyId ?? null;
  return { apiKeyId, firstTiming: schedules.first, timing: schedules.next, slotsUntil: schedules.until };
}

/** What there is not is refused now, and not at night. */
async function checkNames(
  principal: Principal,
  workspaceId: string | undefined,
  { agent_slug, model }: Pick<JobCreate | JobUpdate, 'agent_slug' | 'model'>,
  { runtime, store }: Services,
): Promise<void> {
  if (agent_slug === undefined && !model) return;
  // Whose workspace is out of reach hears it from the store.
  if (workspaceId === undefined || !(await store.workspaces.find(principal, workspaceId))) return;
  const names = { ...(agent_slug !== undefined && { agentSlug: agent_slug }), ...(model && { model }) };
  await runtime.check(names, askerIn(principal, workspaceId));
}

function placeOf({ row }: StoredJob): string {
  return `/api/v1/scheduler/jobs/${row.id}`;
}

function momentOf(text: string | undefined, pointer: string): number | null {
  if (text === undefined) return null;
  const moment = Date.parse(text);
  if (!Number.isNaN(moment)) return moment;
  const message = 'A date and time as in 2026-11-21T08:00:00Z.';
  throw new Problem('invalid_request', `body${pointer}: ${message}`, {
    errors: [{ in: 'body', pointer, message, code: 'format' }],
  });
}

function missing(noun: string): Problem {
  return new Problem('not_found', `No ${noun} has this id, or it is not yours.`);
}
