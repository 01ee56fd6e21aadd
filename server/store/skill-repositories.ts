/** Git repositories of skills: what the operator names, what syncs find in them, and what of that is used. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { requireMatch } from './etag.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { tellRepositoryChanged } from './skill-repository-events.ts';
import { applySkills, forgetFiles, proposalOf, type SkillProposal } from './skill-repository-proposals.ts';
import {
  type FoundRepository,
  nothingFound,
  repositoryRows,
  type ShownRepositoryRow,
  type SkillRepositoryContent,
  type SkillRepositoryRow,
  shownColumns,
  type TaggedSkillRepository,
  tagged,
  toldRepository,
  toRepository,
} from './skill-repository-rows.ts';
import {
  type ClaimedSync,
  claimSync,
  failSync,
  isFree,
  keepFound,
  type SyncClaimer,
} from './skill-repository-syncs.ts';

type Shown = TaggedSkillRepository['repository'];

/** For the operator alone, which the access table has checked; `list` is for everybody, and syncs are the server's own work. */
export interface SkillRepositories {
  list(reach: Reach, query: PageQuery): Promise<Page<Shown>>;
  /** Throws `too_many_settings`. */
  add(operator: Reach, id: string, content: SkillRepositoryContent): Promise<TaggedSkillRepository>;
  find(id: string): Promise<TaggedSkillRepository | null>;
  /** What is kept becomes what `change` makes of it. Throws `not_found`, `precondition_failed`, or what that throws. */
  update(
    operator: Reach,
    id: string,
    change: (before: SkillRepositoryContent) => SkillRepositoryContent,
    ifMatch: string | undefined,
  ): Promise<TaggedSkillRepository>;
  /** Throws `not_found` or `precondition_failed`. */
  remove(operator: Reach, id: string, ifMatch: string | undefined): Promise<void>;
  /** Has it fetched by whoever claims it first. Throws `not_found`. */
  beginSync(operator: Reach, id: string): Promise<TaggedSkillRepository>;
  /** Gives one that is to be fetched to one process alone, for a while; null where none is. */
  claimSync(claimer: SyncClaimer): Promise<ClaimedSync | null>;
  /** False where it is the process's no more. */
  renewSync(claimed: ClaimedSync, until: number): Promise<boolean>;
  /** Whoever looks next fetches it: the process has not ended by it. */
  giveSyncBack(claimed: ClaimedSync): Promise<void>;
  /** Keeps what was found, unless it is the process's no more. */
  endSync(claimed: ClaimedSync, found: FoundRepository | { readonly error: string }): Promise<void>;
  /** Null where nothing is proposed. Throws `not_found`. */
  proposal(id: string): Promise<SkillProposal | null>;
  /** Throws `not_found` or `skill_repository_conflict`. */
  apply(operator: Reach, id: string, commit: string): Promise<TaggedSkillRepository>;
}

const most = 50;

// The rows belong to the installation: the operator alone is let through to what changes them.
export function skillRepositoryStore({ database, clock, cursors }: StoreParts): SkillRepositories {
  const now = (): number => clock.now().getTime();
  const change = <T>(work: (sql: Knex.Transaction) => Promise<T>): Promise<T> =>
    database.write('installation', work);
  return {
    list: (reach, query) =>
      database.read('installation', async (sql) => {
        const listing = {
          name: 'skill repositories',
          reach,
          filters: {},
          columns: ['created_at', 'id'],
          direction: 'asc',
          parts: [sql('skill_repositories').select([...shownColumns])],
        } as const;
        const { data, next_cursor } = await readPage<ShownRepositoryRow>(sql, cursors, listing, query);
        const counts = await countsOf(
          sql,
          data.map(({ id }) => id),
        );
        return { data: data.map((row) => toRepository(row, counts.get(row.id) ?? 0)), next_cursor };
      }),
    add: (operator, id, content) =>
      change(async (sql) => {
        await refuseTooMany(sql);
        const fixed = { synced_at: null, applied_at: null, applied_commit: null, asked_by: operator.userId };
        const times = { created_at: now(), updated_at: now() };
        const row: SkillRepositoryRow = { id, ...content, ...nothingFound, ...fixed, revision: 1, ...times };
        await sql('skill_repositories').insert(row);
        record(sql, operator, 'create', null, row);
        tellRepositoryChanged(sql, row, 'added', null, now());
        return tagged(row, 0);
      }),
    find: (id) =>
      database.read('installation', async (sql) => {
        const row = await repositoryRows(sql).where({ id }).first();
        return row ? shown(sql, row) : null;
      }),
    update: (operator, id, make, ifMatch) =>
      change(async (sql) => {
        const before = await lock(sql, id, ifMatch);
        const content = make(before);
        const after: SkillRepositoryRow = {
          ...before,
          ...content,
          ...(isSamePlace(before, content) ? {} : nothingFound),
          asked_by: operator.userId,
          revision: before.revision + 1,
          updated_at: now(),
        };
        await repositoryRows(sql).where({ id }).update(after);
        await forgetFiles(sql, after);
        record(sql, operator, 'update', before, after);
        tellRepositoryChanged(sql, after, 'updated', null, now());
        return shown(sql, after);
      }),
    remove: (operator, id, ifMatch) =>
      change(async (sql) => {
        const row = await lock(sql, id, ifMatch);
        await repositoryRows(sql).where({ id }).delete();
        record(sql, operator, 'delete', row, null);
        tellRepositoryChanged(sql, row, 'removed', null, now());
      }),
    beginSync: (operator, id) =>
      change(async (sql) => {
        const before = await lock(sql, id, undefined);
        if (before.state === 'syncing') return shown(sql, before);
        const begun = { ...nothingFound, state: 'syncing', asked_by: operator.userId } as const;
        const row = { ...before, ...begun };
        await repositoryRows(sql).where({ id }).update(begun);
        await forgetFiles(sql, row);
        record(sql, operator, 'sync', null, row);
        tellRepositoryChanged(sql, row, 'syncing', null, now());
        return shown(sql, row);
      }),
    async claimSync(claimer) {
      // Most looks find nothing: no lock is taken for them.
      const wanted = await database.read('installation', async (sql) =>
        repositoryRows(sql).where({ state: 'syncing' }),
      );
      const due = wanted.find((row) => isFree(row, claimer, now()));
      return due ? change((sql) => claimSync(sql, due.id, claimer, now())) : null;
    },
    renewSync: ({ id, claim: mine }, claimed_until) =>
      change(
        async (sql) => (await repositoryRows(sql).where({ id, claim: mine }).update({ claimed_until })) === 1,
      ),
    giveSyncBack: ({ id, claim: mine }) =>
      change(async (sql) => {
        await repositoryRows(sql)
          .where({ id, claim: mine })
          .update({ claim: null, claimed_by: null, claimed_until: null, claims: sql.raw('claims - 1') });
      }),
    endSync: ({ id, claim: mine }, found) =>
      change(async (sql) => {
        const row = await repositoryRows(sql).where({ id, claim: mine }).forUpdate().first();
        if (!row) return;
        if ('error' in found) await failSync(sql, row, found.error, now());
        else await keepFound(sql, row, found, now());
      }),
    proposal: (id) =>
      database.read('installation', async (sql) => {
        const row = await repositoryRows(sql).where({ id }).first();
        if (!row) throw notFound('repository of skills');
        return row.proposed_commit === null ? null : proposalOf(sql, row, row.proposed_commit);
      }),
    apply: (operator, id, commit) =>
      change(async (sql) => {
        const before = await lock(sql, id, undefined);
        if (before.proposed_commit !== commit) throw conflict(before.proposed_commit);
        await applySkills(sql, before, now());
        const applied = { ...nothingFound, applied_commit: commit, applied_at: now() };
        const row = { ...before, ...applied };
        await repositoryRows(sql).where({ id }).update(applied);
        await forgetFiles(sql, row);
        record(sql, operator, 'apply', before, row);
        tellRepositoryChanged(sql, row, 'applied', commit, now());
        return shown(sql, row);
      }),
  };
}

async function lock(
  sql: Knex.Transaction,
  id: string,
  ifMatch: string | undefined,
): Promise<SkillRepositoryRow> {
  const row = await repositoryRows(sql).where({ id }).forUpdate().first();
  if (!row) throw notFound('repository of skills');
  requireMatch(ifMatch, row);
  return row;
}

async function countsOf(sql: Knex, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const counted: { repository_id: string; count: number | string }[] = await sql('repository_skills')
    .whereIn('repository_id', [...ids])
    .groupBy('repository_id')
    .select('repository_id')
    .count({ count: '*' });
  return new Map(counted.map(({ repository_id, count }) => [repository_id, Number(count)]));
}

async function shown(sql: Knex, row: SkillRepositoryRow): Promise<TaggedSkillRepository> {
  return tagged(row, (await countsOf(sql, [row.id])).get(row.id) ?? 0);
}

/** What was fetched from there before is still what it would be. */
function isSamePlace(before: SkillRepositoryContent, after: SkillRepositoryContent): boolean {
  return (['url', 'ref', 'subfolder', 'pinned_commit'] as const).every(
    (part) => before[part] === after[part],
  );
}

async function refuseTooMany(sql: Knex.Transaction): Promise<void> {
  const there = await repositoryRows(sql).limit(most).select('id');
  if (there.length < most) return;
  throw new Problem(
    'too_many_settings',
    `There are ${most} skill repositories already; remove one that is not needed.`,
  );
}

function conflict(proposed: string | null): Problem {
  return new Problem(
    'skill_repository_conflict',
    proposed === null
      ? 'The repository proposes nothing: sync it, look at its proposal, and apply that.'
      : `The repository proposes the commit ${proposed} now: look at its proposal, and apply that.`,
  );
}

function record(
  sql: Knex.Transaction,
  operator: Reach,
  verb: 'create' | 'update' | 'delete' | 'sync' | 'apply',
  before: SkillRepositoryRow | null,
  after: SkillRepositoryRow | null,
): void {
  recordAudit(sql, operator, {
    action: `skill_repository.${verb}`,
    target: { type: 'skill_repository', id: (after ?? before)?.id ?? null },
    organizationId: null,
    ...(before && { before: toldRepository(before) }),
    ...(after && { after: toldRepository(after) }),
  });
}
