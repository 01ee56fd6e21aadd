/** Tells workspaces that their skills have changed: those whose runs have them, and of one person's own nobody. */
import type { Knex } from 'knex';
import type { SkillsChanged } from '../contract/api.ts';
import type { SkillOwner } from './skill-rows.ts';
import { tellEach } from './workspace-events.ts';

type Change = Pick<SkillsChanged, 'change' | 'skill_id' | 'name'>;

export function tellSkillsChanged(
  sql: Knex.Transaction,
  { scope, organization_id, workspace_id }: SkillOwner,
  change: Change,
  now: number,
): void {
  if (scope === 'user') return;
  const of = workspace_id === null ? { organization_id } : { id: workspace_id };
  tell(sql, sql('workspaces').where(of), { type: 'skills_changed', scope, ...change }, now);
}

function tell(sql: Knex.Transaction, places: Knex.QueryBuilder, event: SkillsChanged, now: number) {
  tellEach(sql, places, { type: event.type, event }, now);
}
