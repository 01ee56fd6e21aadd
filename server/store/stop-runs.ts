/** Stops what somebody has begun: whoever may not act any more has nobody act for them either. */
import type { Knex } from 'knex';
import type { RunRow } from './runs.ts';

/**
 * Asks all runs of a person that have not ended to stop, those of the agents that they have started included, wherever
 * they are at work; in some organizations only, where these are named. Answers with their ids, to be woken.
 */
export async function stopRunsOf(
  sql: Knex.Transaction,
  userId: string,
  organizationIds?: readonly string[],
): Promise<string[]> {
  const runs = () => {
    const open = sql<RunRow>('runs').whereNull('ended_at').where({ user_id: userId });
    return organizationIds ? open.whereIn('organization_id', organizationIds) : open;
  };
  const ids = await runs().pluck('id');
  await runs().whereNull('interrupt_requested').update({ interrupt_requested: 'requested' });
  return ids;
}
