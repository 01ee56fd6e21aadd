/** Skills that people create for themselves, their workspaces and organizations, and the names that they disable. */
import type { Knex } from 'knex';
import type { SkillScope } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOfContent, requireMatch } from './etag.ts';
import { insertRows } from './insert-rows.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateWithBytes, refuseExceeded } from './quota-check.ts';
import { notFound, type Reach } from './reach.ts';
import { remembered } from './remembered.ts';
import { tellSkillsChanged } from './skill-events.ts';
import type { RepositorySkillRow } from './skill-repository-rows.ts';
import {
  findSkillOwner,
  type NamedSkillOwner,
  ownerIn,
  requireSkillRole,
  type SkillContent,
  type SkillFileContent,
  type SkillFileRow,
  type SkillOwner,
  type SkillRow,
  type StoredSkill,
  skillsWithin,
  toldSkill,
  toStoredSkill,
} from './skill-rows.ts';
import { timestamp } from './timestamps.ts';

/** A change that was made, and what soft limits have to say of it. */
export interface WrittenSkill {
  readonly skill: StoredSkill;
  readonly notices: readonly string[];
}

/** What counts for somebody's runs in a workspace. */
export interface SkillsForRuns {
  /** Those of git repositories first, then the organization's, the workspace's, and the person's own. */
  readonly skills: readonly StoredSkill[];
  /** Each disabled name, with the farthest scope that says so. */
  readonly disabled: ReadonlyMap<string, SkillScope>;
}

export interface Skills {
  /** Throws `not_found`, `role_required`, `name_taken`, `too_many_skills` or `quota_exceeded`. */
  create(
    reach: Reach,
    owner: NamedSkillOwner,
    content: SkillContent,
    apiKeyId: string | null,
  ): Promise<WrittenSkill>;
  find(reach: Reach, id: string): Promise<StoredSkill | null>;
  /** Throws `not_found`, `role_required` or `precondition_failed` where the caller may not change it. */
  requireChangeable(reach: Reach, id: string, ifMatch?: string | undefined): Promise<StoredSkill>;
  /** Throws `not_found`, `role_required`, `precondition_failed` or `quota_exceeded`. */
  replace(
    reach: Reach,
    id: string,
    content: SkillContent,
    ifMatch?: string | undefined,
  ): Promise<WrittenSkill>;
  /** Throws `not_found`, `role_required` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /** The files of a skill that the caller has found, by path. */
  files(id: string): Promise<SkillFileContent[]>;
  /** Disables a name in one scope, or takes that back. Throws `not_found` or `role_required`. */
  switch(reach: Reach, owner: NamedSkillOwner, name: string, enabled: boolean): Promise<void>;
  /** That the person may work in the workspace has been checked. */
  forRuns(asker: {
    readonly userId: string;
    readonly workspaceId: string;
    readonly bound?: boolean | undefined;
  }): Promise<SkillsForRuns>;
  /** The cursor that goes on after a position, for whoever asks for the same list with the same filters. */
  cursorAfter(reach: Reach, filters: object, position: string): string;
  /** The position in such a cursor. Throws `invalid_cursor`. */
  positionIn(reach: Reach, filters: object, cursor: string): string;
  /** Whether any skill has these files. */
  hasDigest(digest: string): Promise<boolean>;
}

/** All of one owner's are looked at for every step of their runs. */
const mostOfOneOwner = 50;

/** From the farthest to the nearest. */
const scopes: readonly SkillScope[] = ['organization', 'workspace', 'user'];

export function skillRepository({ database, clock, cursors }: StoreParts): Skills {
  const now = (): number => clock.now().getTime();
  return {
    create: (reach, named, content, apiKeyId) =>
      database
        .write('installation', async (sql) => {
          const owner = await findSkillOwner(sql, reach, named);
          await refuseTooMany(sql, owner);
          const row = rowOf(reach, owner, content, apiKeyId, now());
          await sql('skills').insert(row);
          await writeFiles(sql, row, content);
          await changed(sql, reach, 'create', null, row, now());
          return { skill: toStoredSkill(row), notices: await spend(sql, row, row.size, now()) };
        })
        .catch((error: unknown) => {
          throw isDuplicate(error) ? nameTaken(content.name) : error;
        }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await skillsWithin(sql<SkillRow>('skills').where({ id }), reach).first();
        return row ? toStoredSkill(row) : null;
      }),
    requireChangeable: (reach, id, ifMatch) =>
      database.read('installation', async (sql) => toStoredSkill(await changeable(sql, reach, id, ifMatch))),
    replace: (reach, id, content, ifMatch) =>
      database.write('installation', async (sql) => {
        const row = await changeable(sql, reach, id, ifMatch, true);
        if (row.digest === content.digest) return { skill: toStoredSkill(row), notices: [] };
        const { description, digest, size, files } = content;
        const next = {
          ...row,
          ...{ description, digest, size, files: files.length },
          revision: row.revision + 1,
          updated_at: now(),
        };
        await sql<SkillRow>('skills').where({ id }).update(next);
        await sql('skill_files').where({ skill_id: id }).delete();
        await writeFiles(sql, next, content);
        await changed(sql, reach, 'update', row, next, now());
        const grown = size - Number(row.size);
        return { skill: toStoredSkill(next), notices: grown > 0 ? await spend(sql, next, grown, now()) : [] };
      }),
    delete: (reach, id, ifMatch) =>
      database.write('installation', async (sql) => {
        const row = await changeable(sql, reach, id, ifMatch, true);
        await sql<SkillRow>('skills').where({ id }).delete();
        await changed(sql, reach, 'delete', row, null, now());
      }),
    files: (skill_id) =>
      database.read('installation', async (sql) => {
        const rows = await sql<SkillFileRow>('skill_files').where({ skill_id }).orderBy('path');
        return (rows.length > 0 ? rows : await repositoryFiles(sql, skill_id)).map(toFile);
      }),
    switch: (reach, named, name, enabled) =>
      database.write('installation', async (sql) => {
        const owner = await findSkillOwner(sql, reach, named);
        if (!(await writeSwitch(sql, reach, owner, name, enabled, now()))) return;
        const verb = enabled ? 'enable' : 'disable';
        recordAudit(sql, reach, {
          action: `skill.${verb}`,
          target: { type: 'skill', id: null },
          organizationId: owner.organization_id,
          after: { scope: owner.scope, workspace_id: owner.workspace_id, name },
        });
        tellSkillsChanged(sql, owner, { change: `${verb}d`, skill_id: null, name }, now());
      }),
    forRuns: remembered(
      database,
      ({ userId, workspaceId, bound = false }) => `${userId} ${workspaceId} ${bound}`,
      ({ userId, workspaceId, bound = false }) =>
        database.read('installation', (sql) => forRuns(sql, userId, workspaceId, bound)),
    ),
    cursorAfter: (reach, filters, position) => cursors.encode(bindingOf(reach, filters), [position]),
    positionIn: (reach, filters, cursor) => String(cursors.decode(bindingOf(reach, filters), cursor)[0]),
    hasDigest: (digest) =>
      database.read('installation', async (sql) =>
        Boolean(
          (await sql('skills').where({ digest }).first('id')) ??
            (await sql('repository_skills').where({ digest }).first('id')),
        ),
      ),
  };
}

function bindingOf({ userId }: Reach, filters: object) {
  return ['skills', userId, filters];
}

async function forRuns(
  sql: Knex,
  userId: string,
  workspaceId: string,
  bound: boolean,
): Promise<SkillsForRuns> {
  const workspace = await sql('workspaces').where({ id: workspaceId }).first('organization_id');
  if (!workspace) return { skills: [], disabled: new Map() };
  const owners = ownerIn(workspace.organization_id, workspaceId, userId);
  const counting = Object.values(owners).filter(({ scope }) => scope !== 'user' || !bound);
  const keys = counting.map(({ owner_key }) => owner_key);
  const byScope = (a: SkillOwner, b: SkillOwner) => scopes.indexOf(a.scope) - scopes.indexOf(b.scope);
  const rows = await sql<SkillRow>('skills').whereIn('owner_key', keys);
  const off = await sql<SkillOwner & { name: string }>('skill_switches').whereIn('owner_key', keys);
  const disabled = off.sort(byScope).reverse();
  return {
    skills: [...(await repositorySkills(sql)), ...rows.sort(byScope).map(toStoredSkill)],
    disabled: new Map(disabled.map(({ name, scope }) => [name, scope])),
  };
}

/** Of two repositories with one name the older counts, so that no new one takes its place. */
async function repositorySkills(sql: Knex): Promise<StoredSkill[]> {
  const rows: RepositorySkillRow[] = await sql('repository_skills as skill')
    .join('skill_repositories as repository', 'repository.id', 'skill.repository_id')
    .orderBy([
      { column: 'repository.created_at', order: 'desc' },
      { column: 'repository.id', order: 'desc' },
      { column: 'skill.name' },
    ])
    .select('skill.*');
  return rows.map((row) => ({
    ...{ id: row.id, source: 'repository', scope: 'installation', organizationId: null, workspaceId: null },
    ...{ name: row.name, description: row.description, digest: row.digest, files: row.files },
    size: Number(row.size),
    createdBy: null,
    createdAt: timestamp(row.created_at),
    updatedAt: timestamp(row.updated_at),
    etag: etagOfContent([row.id, row.digest]),
  }));
}

function repositoryFiles(sql: Knex, skillId: string): Promise<SkillFileRow[]> {
  return sql('repository_skill_files as file')
    .join('repository_skills as skill', (join) =>
      join.on('skill.repository_id', 'file.repository_id').andOn('skill.digest', 'file.digest'),
    )
    .where('skill.id', skillId)
    .orderBy('file.path')
    .select('file.*');
}

async function changeable(
  sql: Knex,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
  held = false,
): Promise<SkillRow> {
  const query = skillsWithin(sql<SkillRow>('skills').where({ id }), reach);
  const row = await (held ? query.forUpdate() : query).first();
  if (!row) throw notFound('skill that was created through the API');
  requireSkillRole(reach, row);
  requireMatch(ifMatch, row);
  return row;
}

/** False where it was so already. */
async function writeSwitch(
  sql: Knex.Transaction,
  { userId }: Reach,
  owner: SkillOwner,
  name: string,
  enabled: boolean,
  now: number,
): Promise<boolean> {
  const { owner_key } = owner;
  if (enabled) return (await sql('skill_switches').where({ owner_key, name }).delete()) > 0;
  const there = await sql('skill_switches').where({ owner_key, name }).first('name');
  if (there) return false;
  const row = { ...owner, name, user_id: userId, created_at: now };
  await sql('skill_switches').insert(row).onConflict(['owner_key', 'name']).ignore();
  return true;
}

function rowOf(
  { userId }: Reach,
  owner: SkillOwner,
  { name, description, digest, size, files }: SkillContent,
  apiKeyId: string | null,
  now: number,
): SkillRow {
  return {
    id: newId('skill'),
    ...owner,
    ...{ name, description, digest, size, files: files.length },
    user_id: userId,
    api_key_id: apiKeyId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

async function writeFiles(
  sql: Knex.Transaction,
  { id: skill_id, organization_id }: SkillRow,
  { files }: SkillContent,
): Promise<void> {
  const rows = files.map(({ path, sha256, executable, content }) => ({
    ...{ skill_id, organization_id, path, sha256, executable },
    size: content.length,
    content: Buffer.from(content),
  }));
  await insertRows(sql, 'skill_files', rows);
}

function toFile({ path, sha256, executable, content }: SkillFileRow): SkillFileContent {
  return { path, sha256, executable: Boolean(executable), content };
}

async function refuseTooMany(sql: Knex.Transaction, { owner_key }: SkillOwner): Promise<void> {
  const rows = await sql('skills').where({ owner_key }).limit(mostOfOneOwner).select('id');
  if (rows.length < mostOfOneOwner) return;
  throw new Problem(
    'too_many_skills',
    `There are ${mostOfOneOwner} skills here already; delete one that is not needed.`,
  );
}

function nameTaken(name: string): Problem {
  return new Problem('name_taken', `There is a skill ${name} here already; replace that one instead.`);
}

async function changed(
  sql: Knex.Transaction,
  reach: Reach,
  verb: 'create' | 'update' | 'delete',
  before: SkillRow | null,
  after: SkillRow | null,
  now: number,
): Promise<void> {
  const row = after ?? before;
  if (!row) return;
  recordAudit(sql, reach, {
    action: `skill.${verb}`,
    target: { type: 'skill', id: row.id },
    organizationId: row.organization_id,
    ...(before && { before: toldSkill(before) }),
    ...(after && { after: toldSkill(after) }),
  });
  tellSkillsChanged(sql, row, { change: `${verb}d`, skill_id: row.id, name: row.name }, now);
}

/** In the transaction that has written so many bytes. Throws `quota_exceeded`. */
async function spend(
  sql: Knex.Transaction,
  { organization_id, workspace_id, user_id, api_key_id }: SkillRow,
  bytes: number,
  now: number,
): Promise<readonly string[]> {
  const spender = {
    organizationId: organization_id,
    workspaceId: workspace_id ?? '',
    userId: user_id,
    apiKeyId: api_key_id,
  };
  const warnings = refuseExceeded(await quotaStateWithBytes(sql, spender, bytes, now), now);
  return warnings.map(({ message }) => message);
}
