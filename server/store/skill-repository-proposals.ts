/** What a sync of a repository of skills has found and nobody has decided on yet, and how it becomes what is used. */
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import {
  type KeptProposal,
  type RepositorySkillRow,
  readProposal,
  type SkillRepositoryRow,
  usedSkills,
} from './skill-repository-rows.ts';
import type { SkillFileContent } from './skill-rows.ts';
import { timestamp } from './timestamps.ts';

/** What is proposed, beside what is used. */
export interface SkillProposal extends KeptProposal {
  readonly commit: string;
  readonly appliedCommit: string | null;
  readonly syncedAt: string;
  readonly applied: readonly Pick<RepositorySkillRow, 'id' | 'name' | 'path' | 'description' | 'digest'>[];
  /** The files of every digest that either has. */
  readonly files: ReadonlyMap<string, readonly SkillFileContent[]>;
}

export async function proposalOf(sql: Knex, row: SkillRepositoryRow, commit: string): Promise<SkillProposal> {
  const { skills, skipped } = readProposal(row);
  const applied = await usedSkills(sql, row.id).orderBy('path');
  const stored = await sql('repository_skill_files').where({ repository_id: row.id }).orderBy('path');
  const files = Map.groupBy(stored, ({ digest }) => String(digest));
  return {
    ...{ commit, skills, skipped, applied, appliedCommit: row.applied_commit },
    syncedAt: timestamp(row.synced_at ?? row.updated_at),
    files: new Map([...files].map(([digest, some]) => [digest, some.map(toFile)])),
  };
}

function toFile({ path, sha256, executable, content }: SkillFileContent): SkillFileContent {
  return { path, sha256, executable: Boolean(executable), content };
}

/** A skill keeps its id as long as it keeps its name. One that is broken now leaves what was used before. */
export async function applySkills(
  sql: Knex.Transaction,
  row: SkillRepositoryRow,
  now: number,
): Promise<void> {
  const { skills } = readProposal(row);
  const used = new Map((await usedSkills(sql, row.id)).map((skill) => [skill.name, skill]));
  const named = new Set(skills.map(({ name }) => name));
  const gone = [...used.values()].filter(({ name }) => !named.has(name)).map(({ id }) => id);
  await sql('repository_skills').whereIn('id', gone).delete();
  for (const { path, name, description, digest, files, size } of skills) {
    if (digest === null) continue;
    const content = { path, description: description ?? '', digest, files, size, updated_at: now };
    const before = used.get(name);
    if (!before)
      await sql('repository_skills').insert({
        ...{ id: newId('skill'), repository_id: row.id, name, created_at: now },
        ...content,
      });
    else if (before.digest !== digest || before.path !== path)
      await sql('repository_skills').where({ id: before.id }).update(content);
  }
}

/** Files that neither what is used nor what is proposed has. */
export async function forgetFiles(sql: Knex.Transaction, row: SkillRepositoryRow): Promise<void> {
  const used = await usedSkills(sql, row.id).select('digest');
  const proposed = readProposal(row).skills.flatMap(({ digest }) => (digest === null ? [] : [digest]));
  const needed = [...used.map(({ digest }) => digest), ...proposed];
  await sql('repository_skill_files').where({ repository_id: row.id }).whereNotIn('digest', needed).delete();
}
