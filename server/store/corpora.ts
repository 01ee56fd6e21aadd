/** Corpora: what belongs together and is searched together, and to whom it is granted. */
import type { Knex } from 'knex';
import type {
  Chunking,
  Corpus,
  CorpusAccess,
  CorpusCreate,
  CorpusUpdate,
  operations,
} from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import {
  type CorpusRow,
  chunkingOf,
  findCorpus,
  type GrantRow,
  inReachedWorkspaces,
  lockCorpus,
  requireCorpus,
  sharedBeyond,
  type TaggedCorpus,
  taggedCorpus,
  toCorpus,
  toldOf,
} from './corpus-rows.ts';
import type { Cursors } from './cursor.ts';
import { emptyCorpora } from './delete-in-parts.ts';
import { despiteDeadlocks } from './despite-deadlocks.ts';
import { etagOfContent, requireTag } from './etag.ts';
import { holdItemsAtWork } from './ingestion-rows.ts';
import { insertRows } from './insert-rows.ts';
import { mergeMetadata } from './metadata.ts';
import { type Page, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Part, type Reach, requireRole, wholeOrganizations } from './reach.ts';
import { nameKey } from './user-row.ts';
import { findDefaultWorkspace, findWorkspace } from './workspaces.ts';

export type CorpusQuery = Partial<NonNullable<operations['listCorpora']['parameters']['query']>>;

export interface TaggedAccess {
  readonly access: CorpusAccess;
  readonly etag: string;
}

export interface Corpora {
  /** Throws `not_found`, `role_required` or `invalid_request`. */
  create(reach: Reach, input: CorpusCreate): Promise<TaggedCorpus>;
  find(reach: Reach, id: string): Promise<TaggedCorpus | null>;
  list(reach: Reach, query: CorpusQuery): Promise<Page<Corpus>>;
  /** Throws `not_found`, `precondition_failed` or `invalid_request`. */
  update(reach: Reach, id: string, patch: CorpusUpdate, ifMatch?: string | undefined): Promise<TaggedCorpus>;
  /** With its documents and jobs. Throws `not_found` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /** Throws `not_found`. */
  access(reach: Reach, id: string): Promise<TaggedAccess>;
  /** Throws `not_found` also for who is not of the organization, and `precondition_failed`. */
  putAccess(
    reach: Reach,
    id: string,
    access: CorpusAccess,
    ifMatch?: string | undefined,
  ): Promise<TaggedAccess>;
}

export function corpusRepository({ database, clock, cursors }: StoreParts): Corpora {
  const now = (): number => clock.now().getTime();
  return {
    create: (reach, input) =>
      database.write(reach, async (sql) => {
        const row = await corpusRow(sql, reach, input, now());
        await sql<CorpusRow>('corpora').insert(row);
        recordAudit(sql, reach, { ...changeOf(row, 'create'), after: toldOf(row) });
        return taggedCorpus(row);
      }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await findCorpus(sql, reach, id);
        return row && taggedCorpus(row);
      }),
    list: (reach, query) => database.read(reach, (sql) => listCorpora(sql, cursors, reach, query)),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockCorpus(sql, reach, id, ifMatch);
        const next = { ...row, ...columnsOf(row, patch), revision: row.revision + 1, updated_at: now() };
        await sql<CorpusRow>('corpora').where({ id }).update(next);
        recordAudit(sql, reach, { ...changeOf(row, 'update'), before: toldOf(row), after: toldOf(next) });
        return taggedCorpus(next);
      }),
    delete: (reach, id, ifMatch) =>
      despiteDeadlocks(() =>
        database.write(reach, async (sql) => {
          await requireCorpus(sql, reach, id);
          await holdItemsAtWork(sql, { corpus_id: id });
          const row = await lockCorpus(sql, reach, id, ifMatch);
          await emptyCorpora(sql, { corpus_id: id });
          await sql<CorpusRow>('corpora').where({ id }).delete();
          recordAudit(sql, reach, { ...changeOf(row, 'delete'), before: toldOf(row) });
        }),
      ),
    access: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await requireCorpus(sql, reach, id);
        return accessOf(row, await grantsOf(sql, id));
      }),
    putAccess: (reach, id, access, ifMatch) =>
      database.write(reach, (sql) => putAccess(sql, reach, { id, access, ifMatch, now: now() })),
  };
}

function changeOf<Verb extends string>({ id, organization_id }: CorpusRow, verb: Verb) {
  return {
    action: `corpus.${verb}` as const,
    target: { type: 'corpus', id },
    organizationId: organization_id,
  };
}

const defaultChunking: Chunking = { strategy: 'structure', size: 220, overlap: 30 };

async function corpusRow(sql: Knex, reach: Reach, input: CorpusCreate, now: number): Promise<CorpusRow> {
  const {
    workspace_id,
    name,
    description = '',
    visibility = 'workspace',
    chunking = {},
    metadata = {},
  } = input;
  const workspace =
    workspace_id === undefined
      ? await findDefaultWorkspace(sql, reach)
      : await findWorkspace(sql, reach, workspace_id);
  if (!workspace) throw notFound('workspace');
  requireRole(reach, { organization_id: workspace.organizationId, workspace_id: workspace.id });
  return {
    id: newId('corpus'),
    organization_id: workspace.organizationId,
    workspace_id: workspace.id,
    name,
    name_key: nameKey(name),
    description,
    visibility,
    chunking: JSON.stringify(checked({ ...defaultChunking, ...chunking })),
    embedder_identity: null,
    vector_set: 1,
    documents: 0,
    chunks: 0,
    bytes: 0,
    metadata: JSON.stringify(metadata),
    user_id: reach.userId,
    revision: 1,
    grants_revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function columnsOf(row: CorpusRow, { name, chunking, metadata, ...rest }: CorpusUpdate): Partial<CorpusRow> {
  return {
    ...rest,
    ...(name !== undefined && { name, name_key: nameKey(name) }),
    ...(chunking && { chunking: JSON.stringify(checked({ ...chunkingOf(row), ...chunking })) }),
    ...(metadata && { metadata: mergeMetadata(row.metadata, metadata) }),
  };
}

/** What no schema can say of the two. */
function checked(chunking: Chunking): Chunking {
  if (chunking.overlap * 2 < chunking.size) return chunking;
  const message = `Less than half of the size (${chunking.size}).`;
  throw new Problem('invalid_request', `The overlap of passages is too large. ${message}`, {
    errors: [{ in: 'body', pointer: '/chunking/overlap', message, code: 'maximum' }],
  });
}

async function listCorpora(
  sql: Knex,
  cursors: Cursors,
  reach: Reach,
  query: CorpusQuery,
): Promise<Page<Corpus>> {
  const { sort = '-created_at', workspace_id, q } = query;
  const filters = { workspace_id, q };
  const listing = {
    name: 'corpora',
    reach,
    filters,
    columns: ['created_at', 'id'],
    direction: sort.startsWith('-') ? ('desc' as const) : ('asc' as const),
    parts: partsOf(sql, reach, filters),
  };
  const { data, next_cursor } = await readPage<CorpusRow>(sql, cursors, listing, query);
  return { data: data.map(toCorpus), next_cursor };
}

type CorpusFilters = { readonly [Name in 'workspace_id' | 'q']: CorpusQuery[Name] | undefined };

/** What sorts behind everything that begins alike. */
const last = '\u{10ffff}';

/** Apart from each other: whole organizations, workspaces elsewhere, and what others share with them. */
function partsOf(sql: Knex, reach: Reach, { workspace_id, q }: CorpusFilters): Knex.QueryBuilder[] {
  const corpora = (place: Partial<Part>): Knex.QueryBuilder => {
    const found = sql('corpora').where({ ...place });
    if (workspace_id !== undefined) found.where({ workspace_id });
    if (q !== undefined) found.whereBetween('name_key', [nameKey(q), nameKey(q) + last]);
    return found.select('*');
  };
  const whole = wholeOrganizations(reach);
  const given = reach.workspaces.filter(({ organizationId }) => !whole.includes(organizationId));
  const elsewhere = reach.organizationIds.filter((id) => !whole.includes(id));
  return [
    ...whole.map((organization_id) => corpora({ organization_id })),
    ...(given.length > 0 ? [inReachedWorkspaces(corpora({}), { ...reach, workspaces: given })] : []),
    ...(elsewhere.length > 0
      ? [
          sharedBeyond(sql, corpora({}), { ...reach, organizationIds: elsewhere }).whereNot((own) =>
            inReachedWorkspaces(own, { ...reach, workspaces: given }),
          ),
        ]
      : []),
  ];
}

function grantsOf(sql: Knex, corpus_id: string): Promise<GrantRow[]> {
  return sql<GrantRow>('corpus_grants').where({ corpus_id }).orderBy(['created_at', 'principal_id']).select();
}

/** Grants also go with whom they were given to, and nobody writes the corpus then. */
function accessOf({ grants_revision }: CorpusRow, rows: readonly GrantRow[]): TaggedAccess {
  const grants = rows.map(({ principal_id, role }) => ({ principal: principal_id, role }));
  return { access: { grants }, etag: etagOfContent([grants_revision, grants]) };
}

interface NewAccess {
  readonly id: string;
  readonly access: CorpusAccess;
  readonly ifMatch: string | undefined;
  readonly now: number;
}

async function putAccess(
  sql: Knex.Transaction,
  reach: Reach,
  { id, access, ifMatch, now }: NewAccess,
): Promise<TaggedAccess> {
  const row = await lockCorpus(sql, reach, id);
  const before = await grantsOf(sql, id);
  requireTag(ifMatch, accessOf(row, before).etag);
  await requireOfOrganization(sql, row.organization_id, access);
  await sql<GrantRow>('corpus_grants').where({ corpus_id: id }).delete();
  const known = new Map(before.map(({ principal_id, created_at }) => [principal_id, created_at]));
  const rows = access.grants.map(({ principal, role }, index) => ({
    organization_id: row.organization_id,
    corpus_id: id,
    principal_id: principal,
    user_id: isGroup(principal) ? null : principal,
    group_id: isGroup(principal) ? principal : null,
    role,
    // In the order in which they were named.
    created_at: known.get(principal) ?? now + index,
  }));
  await insertRows(sql, 'corpus_grants', rows);
  const next = { ...row, grants_revision: row.grants_revision + 1 };
  await sql<CorpusRow>('corpora').where({ id }).update({ grants_revision: next.grants_revision });
  recordAudit(sql, reach, {
    ...changeOf(row, 'grant'),
    before: accessOf(row, before).access,
    after: access,
  });
  return accessOf(next, await grantsOf(sql, id));
}

function isGroup(principal: string): boolean {
  return principal.startsWith('grp_');
}

/** Held against whoever would remove them meanwhile. Strangers are answered like those who do not exist. */
async function requireOfOrganization(
  sql: Knex.Transaction,
  organization_id: string,
  { grants }: CorpusAccess,
): Promise<void> {
  const asked = grants.map(({ principal }) => principal);
  if (new Set(asked).size < asked.length)
    throw new Problem('invalid_request', 'A person or a group is named twice; name each once.', {
      errors: [{ in: 'body', pointer: '/grants', message: 'Each principal once.', code: 'uniqueItems' }],
    });
  const groups: string[] = await sql('groups')
    .where({ organization_id })
    .whereIn('id', asked.filter(isGroup))
    .forUpdate()
    .pluck('id');
  const people: string[] = await sql('memberships')
    .where({ organization_id })
    .whereIn(
      'user_id',
      asked.filter((principal) => !isGroup(principal)),
    )
    .forUpdate()
    .pluck('user_id');
  if (groups.length + people.length < asked.length) throw notFound('person or group of the organization');
}
