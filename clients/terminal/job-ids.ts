/** Jobs by their id, or by enough of its end; and the server that they need. */
import type { ServiceClient } from '@service/client';
import type { Job } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { withService } from './connection.ts';
import { CommandFailure, exitCodes } from './failures.ts';
import { brief } from './output.ts';

const wholeId = /^job_[0-9a-hjkmnp-tv-z]{26}$/;

/** The server inside a command goes with it, and would run nothing at night. */
export async function withScheduler<Result>(
  server: string | undefined,
  work: (client: ServiceClient) => Promise<Result>,
): Promise<Result> {
  if (server !== undefined) return await withService(server, work);
  throw new CommandFailure(
    'Jobs run on a server that stays: name it with --server, as --server http://127.0.0.1:8090. service serve starts one.',
    exitCodes.usage,
  );
}

/** The one job that is meant. */
export async function findJob(client: ServiceClient, given: string): Promise<Job> {
  const end = given.trim().toLowerCase();
  if (wholeId.test(end)) {
    const params = { path: { job_id: end } };
    return (await client.GET('/api/v1/scheduler/jobs/{job_id}', { params })).data;
  }
  const found = (await Array.fromAsync(jobsOf(client))).filter(({ id }) => end !== '' && id.endsWith(end));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw new CommandFailure(found.length === 0 ? missing(given) : ambiguous(given, found));
}

/** The latest first. */
export function jobsOf(client: ServiceClient, status?: Job['status']): AsyncGenerator<Job> {
  const filter = status === undefined ? {} : { status };
  return paginate((page) =>
    client.GET('/api/v1/scheduler/jobs', { params: { query: { ...page, ...filter, limit: 100 } } }),
  );
}

function missing(given: string): string {
  return `There is no job whose id is or ends with ${JSON.stringify(given)}. service jobs list shows those that are there.`;
}

function ambiguous(given: string, found: readonly Job[]): string {
  const lines = found.slice(0, 10).map(({ id, name }) => `  ${id}  ${brief(name, 60)}`);
  const more = found.length > lines.length ? [`  and ${found.length - lines.length} more`] : [];
  return [
    `${found.length} jobs end with ${JSON.stringify(given)}. Name more of the id:`,
    ...lines,
    ...more,
  ].join('\n');
}
