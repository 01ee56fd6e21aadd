/** `service jobs`: agents that run at set times, and what became of it. */
import type { Job, JobRun } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure, exitCodes } from '../failures.ts';
import { findJob, jobsOf, withScheduler } from '../job-ids.ts';
import { localTime } from '../local-time.ts';
import {
  brief,
  type Column,
  isTerminal,
  notice,
  print,
  printable,
  printJson,
  printTable,
} from '../output.ts';
import { shortIds } from '../session-ids.ts';

interface Asked {
  readonly server?: string;
  readonly json?: boolean;
}

/** The latest first. On a terminal ids are as short as they may be. */
export async function listJobs({
  server,
  json = false,
  status,
}: Asked & { readonly status?: Job['status'] }): Promise<void> {
  const jobs = await withScheduler(server, (client) => Array.fromAsync(jobsOf(client, status)));
  if (jobs.length === 0 && !json)
    return notice('There is no such job. service jobs create "…" --cron "0 2 * * *" makes one.');
  printTable(jobs, isTerminal() ? columnsForPeople(jobs) : columnsForPrograms, { json });
}

export async function showJob(given: string, { server, json }: Asked): Promise<void> {
  const job = await withScheduler(server, (client) => findJob(client, given));
  if (json) return printJson(job);
  print(printable(`${job.name} (${job.id})`));
  print(printable(`  ${stateOf(job)}`));
  print(printable(`  ${scheduleOf(job)}`));
  for (const time of job.next_runs) print(`  next ${localTime(time)}`);
  if (job.last_run)
    print(printable(`  last ${localTime(job.last_run.occurrence)}: ${outcomeOf(job.last_run)}`));
  print(`  asks ${printable(job.agent_slug)}: ${brief(job.prompt, 200)}`);
}

export async function listRuns(
  given: string,
  { server, json = false, limit }: Asked & { readonly limit: string },
): Promise<void> {
  const most = readLimit(limit);
  const runs = await withScheduler(server, async (client) => {
    const { id: job_id } = await findJob(client, given);
    const found: JobRun[] = [];
    const all = paginate((page) =>
      client.GET('/api/v1/scheduler/jobs/{job_id}/runs', {
        params: { path: { job_id }, query: { ...page, limit: 100 } },
      }),
    );
    for await (const run of all) if (found.push(run) === most) break;
    return found;
  });
  if (runs.length === 0 && !json) return notice('It has not run yet.');
  printTable(runs, runColumns, { json });
}

const columnsForPrograms: readonly Column<Job>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'status', value: ({ status }) => status },
  { title: 'next', value: ({ next_runs }) => next_runs[0] ?? '' },
  { title: 'last', value: ({ last_run }) => last_run?.status ?? '' },
  { title: 'schedule', value: scheduleOf },
  { title: 'name', value: ({ name }) => name },
];

function columnsForPeople(jobs: readonly Job[]): readonly Column<Job>[] {
  const short = shortIds(jobs.map(({ id }) => id));
  return [
    { title: 'id', value: ({ id }) => short(id), style: 'cyan' },
    { title: 'status', value: ({ status }) => status },
    { title: 'next', value: ({ next_runs }) => (next_runs[0] ? localTime(next_runs[0]) : '') },
    { title: 'last', value: ({ last_run }) => last_run?.status ?? '' },
    { title: 'schedule', value: scheduleOf, style: 'dim' },
    { title: 'name', value: ({ name }) => brief(name, 40) },
  ];
}

const runColumns: readonly Column<JobRun>[] = [
  {
    title: 'time',
    value: ({ occurrence }) => (isTerminal() ? localTime(occurrence) : occurrence),
    style: 'dim',
  },
  { title: 'status', value: outcomeOf },
  { title: 'attempts', value: ({ attempts }) => String(attempts) },
  { title: 'session', value: ({ session_id }) => session_id ?? '', style: 'cyan' },
];

function stateOf({ status, pause_reason, runs_begun, max_runs }: Job): string {
  const why = pause_reason === null ? '' : ` (${pause_reason})`;
  const most = max_runs === null ? '' : ` of ${max_runs}`;
  // Those on request do not count.
  return `${status}${why}, ${runs_begun}${most} run${runs_begun === 1 && most === '' ? '' : 's'} at its times`;
}

export function scheduleOf({ cron, interval_s, run_at, timezone }: Job): string {
  if (cron !== null) return `${cron} ${timezone}`;
  return interval_s === null ? `once at ${run_at}` : `every ${interval_s} s`;
}

function outcomeOf({ status, reason, error, missed }: JobRun): string {
  const why = reason ?? error?.code;
  const also = missed === 0 ? '' : `, for ${missed} missed before it`;
  return `${status}${why ? ` (${why})` : ''}${also}`;
}

function readLimit(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new CommandFailure(
    `--limit takes a number, as 20, and not ${JSON.stringify(text)}.`,
    exitCodes.usage,
  );
}
