/** How many workspaces somebody may be given: each request of theirs reads them all. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { unconfined } from './postgres.ts';
import type { Reach } from './reach.ts';

/** Counted as they are read: what somebody was given in two ways counts twice. */
export const workspaceLimits = { given: 1000 };

/** Somebody, or all who are in a group. */
type Given = { readonly userId: string } | { readonly groupId: string };

/**
 * Refuses what would take somebody beyond the limit, those of organizations that the caller does not know counted. Until
 * the transaction ends nobody else is given any: of two that come at once, one is counted by the other. Throws
 * `workspace_limit`.
 */
export async function requireRoomFor(
  sql: Knex.Transaction,
  { userId }: Pick<Reach, 'userId'>,
  given: Given,
  more = 1,
): Promise<void> {
  if (more === 0) return;
  await sql('installation').where({ id: 1 }).forUpdate().first('id');
  const most = await unconfined(sql, () => mostGiven(sql, given));
  if (!most || most.count + more <= workspaceLimits.given) return;
  const [who, whose, how] =
    most.id === userId
      ? ['You', 'your', 'delete some first']
      : [most.email, 'their', 'take them out of some first'];
  throw new Problem(
    'workspace_limit',
    `${who} would be in more than ${workspaceLimits.given} workspaces, those of all ${whose} groups and organizations counted; ${how}.`,
  );
}

interface Holder {
  readonly id: string;
  readonly email: string;
  readonly count: number;
}

/** The one of them who has the most; undefined where there is nobody. */
async function mostGiven(sql: Knex.Transaction, given: Given): Promise<Holder | undefined> {
  const [people, id] = 'userId' in given ? [somebody, given.userId] : [allInGroup, given.groupId];
  const found = await sql.raw(holders(people), { id });
  const rows: Holder[] = sql.client.config.client === 'pg' ? found.rows : found;
  return rows[0];
}

const somebody = 'select id from users where id = :id';
const allInGroup = 'select user_id as id from group_members where group_id = :id';

/** The workspaces of a group are counted once, however many are in it. */
const holders = (people: string) => `
  with people as (${people}),
    joined as (select user_id, group_id from group_members where user_id in (select id from people)),
    sizes as (
      select group_id, count(*) as size from workspace_members
      where group_id in (select group_id from joined) group by group_id
    ),
    ways as (
      select user_id, count(*) as size from workspace_members
      where user_id in (select id from people) group by user_id
      union all select joined.user_id, sizes.size from joined join sizes on sizes.group_id = joined.group_id
    )
  select users.id, users.email, coalesce(sum(ways.size), 0) as count
  from users left join ways on ways.user_id = users.id
  where users.id in (select id from people)
  group by users.id, users.email order by count desc limit 1`;
