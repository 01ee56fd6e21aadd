/** Whose quota somebody may read and set: the operator everybody's, admins those of what belongs to their organization. */
import type { Knex } from 'knex';
import type { Quota } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { covers, notFound, type Place, type Reach, requireRole, roleIn } from './reach.ts';

/** Who sets quotas. A principal fits. */
export type QuotaAdmin = Reach & { readonly operator: boolean };

export interface QuotaSubject {
  readonly type: Quota['subject_type'];
  readonly id: string;
  /** The organization in which the use counts, where it is named. */
  readonly organizationId?: string | undefined;
}

const prefixes: Readonly<Record<Quota['subject_type'], string>> = {
  user: 'usr_',
  group: 'grp_',
  organization: 'org_',
  workspace: 'ws_',
  api_key: 'key_',
};

/** Which of a subject's quotas is meant: what its organization sets is one, what the operator sets another. */
export interface QuotaScope {
  /** The organization whose admins set it; empty for the operator's, which binds admins too and is not theirs to lift. */
  readonly scope: string;
  /** The organization in which the use of the subject counts; null for everywhere. */
  readonly organizationId: string | null;
}

/** Throws `not_found` or `role_required`. */
export async function scopeOf(sql: Knex, admin: QuotaAdmin, subject: QuotaSubject): Promise<QuotaScope> {
  const places = await placesOf(sql, subject);
  const named = places?.filter(
    ({ organization_id }) => (subject.organizationId ?? organization_id) === organization_id,
  );
  if (!places || !named) throw notFound('subject');
  if (!admin.operator) return organizationScope(ofAdmin(admin, named));
  // People and their keys are in several organizations, or in none: the operator means them wherever they are.
  const everywhere = subject.type === 'user' || subject.type === 'api_key';
  if (everywhere && subject.organizationId === undefined) return { scope: '', organizationId: null };
  const [place] = named;
  if (!place) throw notFound('subject');
  if (subject.organizationId !== undefined) return organizationScope(place.organization_id);
  return { scope: '', organizationId: place.organization_id };
}

const organizationScope = (id: string): QuotaScope => ({ scope: id, organizationId: id });

function ofAdmin(admin: QuotaAdmin, places: readonly Place[]): string {
  const within = places.filter((place) => roleIn(admin, place) !== null);
  const allowed = within.filter((place) => covers(roleIn(admin, place) ?? 'viewer', admin.needs ?? 'admin'));
  const [place, another] = allowed.length > 0 ? allowed : within;
  if (!place) throw notFound('subject');
  requireRole(admin, place);
  if (another)
    throw new Problem(
      'invalid_request',
      'You administer several organizations that this subject belongs to; name one as organization_id.',
      {
        errors: [
          { in: 'query', name: 'organization_id', message: 'One of your organizations.', code: 'required' },
        ],
      },
    );
  return place.organization_id;
}

/** Where the subject belongs; null where there is no such subject. */
async function placesOf(sql: Knex, { type, id }: QuotaSubject): Promise<readonly Place[] | null> {
  if (!id.startsWith(prefixes[type])) return null;
  if (type === 'user') return (await isThere(sql, 'users', id)) ? membershipsOf(sql, id) : null;
  if (type === 'organization')
    return (await isThere(sql, 'organizations', id)) ? [{ organization_id: id, workspace_id: null }] : null;
  if (type === 'api_key') {
    const key = await sql<{ id: string; user_id: string }>('api_keys').where({ id }).first('user_id');
    return key ? membershipsOf(sql, key.user_id) : null;
  }
  const table = type === 'group' ? 'groups' : 'workspaces';
  const row = await sql<{ id: string; organization_id: string }>(table)
    .where({ id })
    .first('organization_id');
  // A role in the workspace alone is none in the organization, which is who pays.
  return row ? [{ organization_id: row.organization_id, workspace_id: null }] : null;
}

async function isThere(sql: Knex, table: string, id: string): Promise<boolean> {
  return (await sql(table).where({ id }).first('id')) !== undefined;
}

async function membershipsOf(sql: Knex, userId: string): Promise<Place[]> {
  const ids: string[] = await sql('memberships')
    .where({ user_id: userId })
    .orderBy('created_at')
    .pluck('organization_id');
  return ids.map((organization_id) => ({ organization_id, workspace_id: null }));
}
