/** Tells workspaces of what becomes of the repositories of skills. */
import type { Knex } from 'knex';
import type { SkillRepositoryChanged } from '../contract/api.ts';
import type { SkillRepositoryRow } from './skill-repository-rows.ts';
import { tellEach } from './workspace-events.ts';

/** All whose runs have other skills now; of anything else the workspaces of whoever asked for it. */
export function tellRepositoryChanged(
  sql: Knex.Transaction,
  { id, name, asked_by }: SkillRepositoryRow,
  what: SkillRepositoryChanged['change'],
  commit: string | null,
  now: number,
): void {
  const event = { type: 'skill_repository_changed', repository_id: id, name, change: what, commit } as const;
  const places = sql('workspaces');
  if (what !== 'applied' && what !== 'removed')
    places.whereIn(
      'organization_id',
      sql('memberships').where({ user_id: asked_by }).select('organization_id'),
    );
  tellEach(sql, places, { type: event.type, event }, now);
}
