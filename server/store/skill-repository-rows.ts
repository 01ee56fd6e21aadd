/** Rows of git repositories of skills: as they are shown, and what is told of them. */
import type { Knex } from 'knex';
import type { SkillFault, SkillRepository } from '../contract/api.ts';
import { etagOf } from './etag.ts';
import type { SkillContent } from './skill-rows.ts';
import { timestamp } from './timestamps.ts';

/** A repository, and the ETag of what the operator has written. */
export interface TaggedSkillRepository {
  readonly repository: SkillRepository;
  readonly etag: string;
}

/** What the operator writes. */
export interface SkillRepositoryContent {
  readonly name: string;
  readonly url: string;
  readonly ref: string | null;
  readonly subfolder: string | null;
  readonly pinned_commit: string | null;
  readonly username: string | null;
  /** For the row `skill_repositories/<id>`. */
  readonly sealed_token: string | null;
}

/** A skill as a sync has found it. */
export interface FoundRepositorySkill {
  /** Its folder in the repository. */
  readonly path: string;
  /** Of one that is broken that of its folder. */
  readonly name: string;
  readonly description: string | null;
  /** Null where anything is wrong with it. */
  readonly content: SkillContent | null;
  readonly faults: readonly SkillFault[];
}

/** What a sync has found. */
export interface FoundRepository {
  readonly commit: string;
  readonly skills: readonly FoundRepositorySkill[];
  readonly skipped: readonly SkillFault[];
}

/** One of them as it is kept until it is applied: the files lie under its digest. */
export interface KeptRepositorySkill {
  readonly path: string;
  readonly name: string;
  readonly description: string | null;
  readonly digest: string | null;
  readonly files: number;
  readonly size: number;
  readonly faults: readonly SkillFault[];
}

export interface KeptProposal {
  readonly skills: readonly KeptRepositorySkill[];
  readonly skipped: readonly SkillFault[];
}

export interface SkillRepositoryRow extends SkillRepositoryContent {
  id: string;
  state: SkillRepository['state'];
  error: string | null;
  proposed_commit: string | null;
  proposal: string | null;
  applied_commit: string | null;
  synced_at: number | null;
  applied_at: number | null;
  asked_by: string;
  claim: string | null;
  claimed_by: string | null;
  claimed_until: number | null;
  claims: number;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface RepositorySkillRow {
  id: string;
  repository_id: string;
  name: string;
  path: string;
  description: string;
  digest: string;
  files: number;
  size: number;
  created_at: number;
  updated_at: number;
}

export function repositoryRows(sql: Knex) {
  return sql<SkillRepositoryRow>('skill_repositories');
}

/** The skills of it that runs have. */
export function usedSkills(sql: Knex, repository_id: string) {
  return sql<RepositorySkillRow>('repository_skills').where({ repository_id });
}

/** What a repository is when nothing of it was fetched, or what was fetched is of another place. */
export const nothingFound = {
  state: 'idle',
  error: null,
  proposed_commit: null,
  proposal: null,
  claim: null,
  claimed_by: null,
  claimed_until: null,
  claims: 0,
} as const;

export function toKept({
  path,
  name,
  description,
  content,
  faults,
}: FoundRepositorySkill): KeptRepositorySkill {
  const { digest = null, size = 0, files = [] } = content ?? {};
  return { path, name, description, digest, files: files.length, size, faults };
}

export function readProposal({ proposal }: Pick<SkillRepositoryRow, 'proposal'>): KeptProposal {
  return proposal === null ? { skills: [], skipped: [] } : JSON.parse(proposal);
}

export function tagged(row: SkillRepositoryRow, skills: number): TaggedSkillRepository {
  return { repository: toRepository(row, skills), etag: etagOf(row) };
}

/** Enough to show a repository by: what one proposes may be megabytes. */
export const shownColumns = [
  ...(['id', 'name', 'url', 'ref', 'subfolder', 'pinned_commit', 'username', 'sealed_token'] as const),
  ...(['state', 'error', 'proposed_commit', 'applied_commit', 'synced_at', 'applied_at'] as const),
  ...(['created_at', 'updated_at'] as const),
] as const satisfies readonly (keyof SkillRepositoryRow)[];

export type ShownRepositoryRow = Pick<SkillRepositoryRow, (typeof shownColumns)[number]>;

export function toRepository(row: ShownRepositoryRow, skills: number): SkillRepository {
  return {
    id: row.id,
    name: row.name,
    url: row.url,
    ref: row.ref,
    subfolder: row.subfolder,
    pinned_commit: row.pinned_commit,
    username: row.username,
    has_token: row.sealed_token !== null,
    state: row.state,
    error: row.error,
    proposed_commit: row.proposed_commit,
    applied_commit: row.applied_commit,
    skills,
    synced_at: row.synced_at === null ? null : timestamp(row.synced_at),
    applied_at: row.applied_at === null ? null : timestamp(row.applied_at),
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}

/** What the audit log says: that the token is another one is told, and not which. */
export function toldRepository(row: SkillRepositoryRow) {
  const { name, url, ref, subfolder, pinned_commit, username, sealed_token, applied_commit } = row;
  return { name, url, ref, subfolder, pinned_commit, username, token: sealed_token, applied_commit };
}
