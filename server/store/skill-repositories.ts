/** Git repositories of skills: what the operator names, what syncs find in them, and what of that is used. */
import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import type { SkillRepositoryChanged } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { requireMatch } from './etag.ts';
import { insertRows } from './insert-rows.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import {
  type FoundRepository,
  type KeptProposal,
  type KeptRepositorySkill,
  nothingFound,
  type RepositorySkillRow,
  readProposal,
  type SkillRepositoryContent,
  type SkillRepositoryRow,
  type TaggedSkillRepository,
  tagged,
  toKept,
  toldRepository,
  toRepository,
} from './skill-repository-rows.ts';
import type { SkillFileContent } from './skill-rows.ts';
import { timestamp } from './timestamps.ts';
import { tellEach } from './workspace-events.ts';

type Shown = TaggedSkillRepository['repository'];

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

/** What is proposed, beside what is used. */
export interface SkillProposal extends KeptProposal {
  readonly commit: string;
  readonly appliedCommit: string | null;
  readonly syncedAt: string;
  readonly applied: readonly Pick<RepositorySkillRow, 'id' | 'name' | 'path' | 'description' | 'digest'>[];
  /** The files of every digest that either has. */
  readonly files: ReadonlyMap<string, readonly SkillFileContent[]>;
}

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
  /** Keeps what was found, unless it is the process's no more. */
  endSync(claimed: ClaimedSync, found: FoundRepository | { readonly error: string }): Promise<void>;
  /** Null where nothing is proposed. Throws `not_found`. */
  proposal(id: string): Promise<SkillProposal | null>;
  /** Throws `not_found` or `skill_repository_conflict`. */
  apply(operator: Reach, id: string, commit: string): Promise<TaggedSkillRepository>;
}

const most = 50;
/** So often one repository may bring down the process that fetches it. */
const mostClaims = 3;

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
          parts: [sql('skill_repositories')],
        } as const;
        const { data, next_cursor } = await readPage<SkillRepositoryRow>(sql, cursors, listing, query);
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
        tell(sql, row, 'added', null, now());
        return tagged(row, 0);
      }),
    find: (id) =>
      database.read('installation', async (sql) => {
        const row = await rows(sql).where({ id }).first();
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
        await rows(sql).where({ id }).update(after);
        await forgetFiles(sql, after);
        record(sql, operator, 'update', before, after);
        tell(sql, after, 'updated', null, now());
        return shown(sql, after);
      }),
    remove: (operator, id, ifMatch) =>
      change(async (sql) => {
        const row = await lock(sql, id, ifMatch);
        await rows(sql).where({ id }).delete();
        record(sql, operator, 'delete', row, null);
        tell(sql, row, 'removed', null, now());
      }),
    beginSync: (operator, id) =>
      change(async (sql) => {
        const before = await lock(sql, id, undefined);
        if (before.state === 'syncing') return shown(sql, before);
        const begun = { ...nothingFound, state: 'syncing', asked_by: operator.userId } as const;
        const row = { ...before, ...begun };
        await rows(sql).where({ id }).update(begun);
        await forgetFiles(sql, row);
        record(sql, operator, 'sync', null, row);
        tell(sql, row, 'syncing', null, now());
        return shown(sql, row);
      }),
    async claimSync(claimer) {
      // Most looks find nothing: no lock is taken for them.
      const wanted = await database.read('installation', async (sql) =>
        rows(sql).where({ state: 'syncing' }),
      );
      const due = wanted.find((row) => isFree(row, claimer, now()));
      return due ? change((sql) => claim(sql, due.id, claimer, now())) : null;
    },
    renewSync: ({ id, claim: mine }, claimed_until) =>
      change(async (sql) => (await rows(sql).where({ id, claim: mine }).update({ claimed_until })) === 1),
    endSync: ({ id, claim: mine }, found) =>
      change(async (sql) => {
        const row = await rows(sql).where({ id, claim: mine }).forUpdate().first();
        if (!row) return;
        if ('error' in found) await fail(sql, row, found.error, now());
        else await keepFound(sql, row, found, now());
      }),
    proposal: (id) =>
      database.read('installation', async (sql) => {
        const row = await rows(sql).where({ id }).first();
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
        await rows(sql).where({ id }).update(applied);
        await forgetFiles(sql, row);
        record(sql, operator, 'apply', before, row);
        tell(sql, row, 'applied', commit, now());
        return shown(sql, row);
      }),
  };
}

function rows(sql: Knex) {
  return sql<SkillRepositoryRow>('skill_repositories');
}

function skillsOf(sql: Knex, repository_id: string) {
  return sql<RepositorySkillRow>('repository_skills').where({ repository_id });
}

async function lock(
  sql: Knex.Transaction,
  id: string,
  ifMatch: string | undefined,
): Promise<SkillRepositoryRow> {
  const row = await rows(sql).where({ id }).forUpdate().first();
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

/** Asked for and at work nowhere: nobody has begun, or whoever did has not shown itself for too long. */
function isFree(
  { state, claimed_by, claimed_until }: SkillRepositoryRow,
  { hasDied }: SyncClaimer,
  now: number,
): boolean {
  if (state !== 'syncing') return false;
  return claimed_by === null || Number(claimed_until) <= now || hasDied(claimed_by);
}

async function claim(
  sql: Knex.Transaction,
  id: string,
  claimer: SyncClaimer,
  now: number,
): Promise<ClaimedSync | null> {
  const row = await rows(sql).where({ id }).forUpdate().first();
  if (!row || !isFree(row, claimer, now)) return null;
  if (row.claims >= mostClaims) {
    await fail(sql, row, `The server ended ${mostClaims} times while it fetched the repository.`, now);
    return null;
  }
  const mine = randomUUID();
  await rows(sql)
    .where({ id })
    .update({
      ...{ claim: mine, claimed_by: claimer.owner, claimed_until: claimer.until },
      claims: row.claims + 1,
    });
  const { name, url, ref, subfolder, pinned_commit, username, sealed_token } = row;
  return { id, claim: mine, name, url, ref, subfolder, pinned_commit, username, sealed_token };
}

async function fail(sql: Knex.Transaction, row: SkillRepositoryRow, error: string, now: number) {
  await rows(sql)
    .where({ id: row.id })
    .update({ ...nothingFound, state: 'failed', error });
  tell(sql, row, 'failed', null, now);
}

/** Where it is just what is used there is nothing to decide. */
async function keepFound(
  sql: Knex.Transaction,
  row: SkillRepositoryRow,
  { commit, skills, skipped }: FoundRepository,
  now: number,
): Promise<void> {
  const used = await skillsOf(sql, row.id);
  const kept = skills.map(toKept);
  const ended = { ...nothingFound, synced_at: now };
  if (isWhatIsUsed(kept, used)) {
    await rows(sql)
      .where({ id: row.id })
      .update({ ...ended, applied_commit: commit });
    return tell(sql, row, 'unchanged', commit, now);
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
  await rows(sql)
    .where({ id: row.id })
    .update({ ...ended, state: 'proposed', proposed_commit: commit, proposal });
  tell(sql, row, 'proposed', commit, now);
}

function isWhatIsUsed(found: readonly KeptRepositorySkill[], used: readonly RepositorySkillRow[]): boolean {
  const digests = new Map(used.map(({ name, digest }) => [name, digest]));
  return (
    used.length > 0 &&
    found.length === used.length &&
    found.every(({ name, digest }) => digest !== null && digests.get(name) === digest)
  );
}

async function proposalOf(sql: Knex, row: SkillRepositoryRow, commit: string): Promise<SkillProposal> {
  const { skills, skipped } = readProposal(row);
  const applied = await skillsOf(sql, row.id).orderBy('path');
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
async function applySkills(sql: Knex.Transaction, row: SkillRepositoryRow, now: number): Promise<void> {
  const { skills } = readProposal(row);
  const used = new Map((await skillsOf(sql, row.id)).map((skill) => [skill.name, skill]));
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
async function forgetFiles(sql: Knex.Transaction, row: SkillRepositoryRow): Promise<void> {
  const used = await skillsOf(sql, row.id).select('digest');
  const proposed = readProposal(row).skills.flatMap(({ digest }) => (digest === null ? [] : [digest]));
  const needed = [...used.map(({ digest }) => digest), ...proposed];
  await sql('repository_skill_files').where({ repository_id: row.id }).whereNotIn('digest', needed).delete();
}

async function refuseTooMany(sql: Knex.Transaction): Promise<void> {
  const there = await rows(sql).limit(most).select('id');
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

/** All whose runs have other skills now; of anything else the workspaces of whoever asked for it. */
function tell(
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
