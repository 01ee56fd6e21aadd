/** Links to new passwords that were shown to whoever made them: good as long as these may make them. */
import type { Knex } from 'knex';
import type { Role } from '../contract/api.ts';
import { unconfined } from './postgres.ts';
import { covers } from './reach.ts';
import type { UserRow } from './user-row.ts';

export interface ResetRow {
  hash: string;
  user_id: string;
  created_at: number;
  expires_at: number;
  mailed: boolean;
  /** Who was shown it; null of one that went by mail. */
  created_by: string | null;
  /** Whose admins may make such a link; null where the operator alone may. */
  organization_id: string | null;
  kept_for: string | null;
  kept_key: string | null;
}

const roles: readonly Role[] = ['viewer', 'member', 'admin', 'owner'];

/** Whoever may not manage an account any more gets into it by no link of theirs: of those whom the role covers, it stays. */
export async function withdrawLinksBeyond(
  sql: Knex.Transaction,
  { organization_id, user_id }: { readonly organization_id: string; readonly user_id: string },
  role: Role | null,
): Promise<void> {
  const allowed = role && covers(role, 'admin') ? roles.filter((one) => covers(role, one)) : [];
  const covered = sql('memberships').where({ organization_id }).whereIn('role', allowed).select('user_id');
  await withdraw(sql, (links) =>
    links.where({ organization_id, created_by: user_id }).whereNotIn('user_id', covered),
  );
}

/** Whoever is suspended or deleted, or has lost more than a role. */
export function withdrawLinksOf(sql: Knex.Transaction, created_by: string): Promise<void> {
  return withdraw(sql, (links) => links.where({ created_by }));
}

export function withdrawLinksIn(sql: Knex.Transaction, organization_id: string): Promise<void> {
  return withdraw(sql, (links) => links.where({ organization_id }));
}

/** As an invitation is: asked at its use too, since a link may be made while the role is being taken. */
export async function mayStillShow(
  sql: Knex.Transaction,
  { created_by, organization_id, user_id }: ResetRow,
): Promise<boolean> {
  if (created_by === null) return true;
  const maker = await sql<UserRow>('users').where({ id: created_by, status: 'active' }).first('operator');
  if (!maker || maker.operator || organization_id === null) return maker !== undefined;
  const found: { user_id: string; role: Role }[] = await sql('memberships')
    .where({ organization_id })
    .whereIn('user_id', [created_by, user_id])
    .select('user_id', 'role');
  const roleOf = new Map(found.map((row) => [row.user_id, row.role]));
  const [own, other] = [roleOf.get(created_by), roleOf.get(user_id)];
  return own !== undefined && other !== undefined && covers(own, 'admin') && covers(own, other);
}

/** What the same request is answered again goes too: it would show a link to who may not have one. */
async function withdraw(
  sql: Knex.Transaction,
  which: (links: Knex.QueryBuilder) => Knex.QueryBuilder,
): Promise<void> {
  await unconfined(sql, () => withdrawAll(sql, which));
}

async function withdrawAll(
  sql: Knex.Transaction,
  which: (links: Knex.QueryBuilder) => Knex.QueryBuilder,
): Promise<void> {
  const gone: ResetRow[] = await which(sql('password_resets').where({ mailed: false })).forUpdate();
  await which(sql('password_resets').where({ mailed: false })).delete();
  for (const { kept_for, kept_key } of gone)
    if (kept_for !== null && kept_key !== null)
      await sql('kept_requests').where({ principal_id: kept_for, idempotency_key: kept_key }).delete();
}
