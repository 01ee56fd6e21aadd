/** How many documents wait to be taken in, and how many may. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';

/** Of one organization, those that are being taken in included. */
export const mostDocuments = 100_000;

/** Throws `queue_full`. Those who add at the same moment do not see each other: together they may pass the limit by little. */
export async function requireRoom(
  sql: Knex.Transaction,
  organizationId: string,
  more: number,
): Promise<void> {
  const [row] = await openJobs(sql).where({ organization_id: organizationId }).select(waitingIn(sql));
  const waiting = Number(row?.waiting ?? 0);
  if (waiting + more <= mostDocuments) return;
  throw new Problem(
    'queue_full',
    `${waiting} documents of the organization wait to be taken in, and at most ${mostDocuments} may: with these there would be ${waiting + more}. Add them when some of those are done.`,
  );
}

/** Of the organization of which most do. */
export async function mostWaiting(sql: Knex): Promise<number> {
  const most = await openJobs(sql)
    .groupBy('organization_id')
    .orderBy('waiting', 'desc')
    .first(waitingIn(sql));
  return Number(most?.waiting ?? 0);
}

const openJobs = (sql: Knex) => sql('ingestion_jobs').whereNull('ended_at');

function waitingIn(sql: Knex): Knex.Raw {
  return sql.raw('sum(total - completed - failed - cancelled) as waiting');
}
