/** Syncs of repositories of skills: one process fetches, and what it finds is kept unless another has taken it over. */
import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import { insertRows } from './insert-rows.ts';
import { tellRepositoryChanged } from './skill-repository-events.ts';
import {
  type FoundRepository,
  type KeptProposal,
  type KeptRepositorySkill,
  nothingFound,
  type RepositorySkillRow,
  repositoryRows,
  type SkillRepositoryContent,
  type SkillRepositoryRow,
  toKept,
  usedSkills,
} from './skill-repository-rows.ts';

/** A repository that this process is to fetch. */
export interface ClaimedSync extends SkillRepositoryContent {
  readonly id: string;
  /** Whatever is done for another claim than that of the row is not done. */
  readonly claim: string;
}

/** The process that asks for work. */
export interface SyncClaimer {
  readonly owner: string;
  readonly until: number;
  /** Whether the process of that name is known to be dead. */
  hasDied(owner: string): boolean;
}

/** So often one repository may bring down the process that fetches it. */
const mostClaims = 3;

/** Asked for and at work nowhere: nobody has begun, or whoever did has not shown itself for too long. */
export function isFree(
  { state, claimed_by, claimed_until }: SkillRepositoryRow,
  { hasDied }: SyncClaimer,
  now: number,
): boolean {
  if (state !== 'syncing') return false;
  return claimed_by === null || Number(claimed_until) <= now || hasDied(claimed_by);
}

export async function claimSync(
  sql: Knex.Transaction,
  id: string,
  claimer: SyncClaimer,
  now: number,
): Promise<ClaimedSync | null> {
  const row = await repositoryRows(sql).where({ id }).forUpdate().first();
  if (!row || !isFree(row, claimer, now)) return null;
  if (row.claims >= mostClaims) {
    await failSync(sql, row, `The server ended ${mostClaims} times while it fetched the repository.`, now);
    return null;
  }
  const mine = randomUUID();
  await repositoryRows(sql)
    .where({ id })
    .update({
      ...{ claim: mine, claimed_by: claimer.owner, claimed_until: claimer.until },
      claims: row.claims + 1,
    });
  const { name, url, ref, subfolder, pinned_commit, username, sealed_token } = row;
  return { id, claim: mine, name, url, ref, subfolder, pinned_commit, username, sealed_token };
}

export async function failSync(sql: Knex.Transaction, row: SkillRepositoryRow, error: string, now: number) {
  await repositoryRows(sql)
    .where({ id: row.id })
    .update({ ...nothingFound, state: 'failed', error });
  tellRepositoryChanged(sql, row, 'failed', null, now);
}

/** Where it is just what is used there is nothing to decide. */
export async function keepFound(
  sql: Knex.Transaction,
  row: SkillRepositoryRow,
  { commit, skills, skipped }: FoundRepository,
  now: number,
): Promise<void> {
  const used = await usedSkills(sql, row.id);
  const kept = skills.map(toKept);
  const ended = { ...nothingFound, synced_at: now };
  if (isWhatIsUsed(kept, used)) {
    await repositoryRows(sql)
      .where({ id: row.id })
      .update({ ...ended, applied_commit: commit });
    return tellRepositoryChanged(sql, row, 'unchanged', commit, now);
  }
  const there = new Set(used.map(({ digest }) => digest));
  for (const { content } of skills) {
    if (content === null || there.has(content.digest)) continue;
    there.add(content.digest);
    await insertRows(
      sql,
      'repository_skill_files',
      content.files.map(({ content: bytes, ...file }) => ({
        ...{ repository_id: row.id, digest: content.digest },
        ...file,
        size: bytes.length,
        content: Buffer.from(bytes),
      })),
    );
  }
  const proposal = JSON.stringify({ skills: kept, skipped } satisfies KeptProposal);
  await repositoryRows(sql)
    .where({ id: row.id })
    .update({ ...ended, state: 'proposed', proposed_commit: commit, proposal });
  tellRepositoryChanged(sql, row, 'proposed', commit, now);
}

function isWhatIsUsed(found: readonly KeptRepositorySkill[], used: readonly RepositorySkillRow[]): boolean {
  const digests = new Map(used.map(({ name, digest }) => [name, digest]));
  return (
    used.length > 0 &&
    found.length === used.length &&
    found.every(({ name, digest }) => digest !== null && digests.get(name) === digest)
  );
}
