/** Tells tests when a transaction waits for another one: the moment at which the two meet. */
import type { Knex } from 'knex';

/** How many connections to a PostgreSQL database wait for what another one holds. */
export async function waiting(sql: Knex): Promise<number> {
  const pids = await sql('pg_stat_activity')
    .where({ wait_event_type: 'Lock', datname: sql.raw('current_database()') })
    .pluck('pid');
  return pids.length;
}
