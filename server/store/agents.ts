/** Agent profiles of organizations: known to all of their workspaces, or to one. */
import type { Knex } from 'knex';
import type { Agent, AgentCreate, AgentUpdate } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOf, requireMatch } from './etag.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach, requireRole, within } from './reach.ts';
import { remembered } from './remembered.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedAgent {
  readonly agent: Agent;
  readonly etag: string;
  /** Whose it is: a change needs a role there. */
  readonly organizationId: string;
}

export interface Agents {
  /** Throws `slug_taken`. Whether the caller may do this in the organization has been checked. */
  create(
    reach: Reach,
    owner: { readonly organizationId: string; readonly workspaceId: string | null },
    input: AgentCreate,
  ): Promise<TaggedAgent>;
  find(reach: Reach, id: string): Promise<TaggedAgent | null>;
  /** Throws `not_found` or `precondition_failed`. */
  update(reach: Reach, id: string, patch: AgentUpdate, ifMatch?: string | undefined): Promise<TaggedAgent>;
  /** Throws `not_found` or `precondition_failed`. */
  delete(reach: Reach, id: string, ifMatch?: string | undefined): Promise<void>;
  /** What a workspace knows, by slug, after the given one. The caller's right to the workspace has been checked. */
  ofWorkspace(page: {
    readonly workspaceId: string;
    readonly after?: string | undefined;
    readonly limit: number;
  }): Promise<readonly Agent[]>;
  findInWorkspace(workspaceId: string, slug: string): Promise<Agent | null>;
}

interface AgentRow {
  id: string;
  organization_id: string;
  workspace_id: string | null;
  slug: string;
  name: string;
  description: string;
  instructions: string;
  tools: string | null;
  model: string | null;
  permission_mode: Agent['permission_mode'];
  created_by: string;
  revision: number;
  created_at: number;
  updated_at: number;
}

export function agentRepository({ database, clock }: StoreParts): Agents {
  return {
    create: (reach, owner, input) =>
      database
        .write(reach, async (sql) => {
          requireRole(reach, { organization_id: owner.organizationId, workspace_id: owner.workspaceId });
          const row = agentRow(reach, owner, input, clock.now().getTime());
          await sql('agents').insert(row);
          recordAudit(sql, reach, { ...changeOf(row, 'create'), after: told(row) });
          return tagged(row);
        })
        .catch((error: unknown) => {
          throw isDuplicate(error) ? slugTaken(input.slug) : error;
        }),
    find: (reach, id) =>
      database.read(reach, async (sql) => {
        const row = await agentWithin(sql, reach, id).first();
        if (row) requireRole(reach, row);
        return row ? tagged(row) : null;
      }),
    update: (reach, id, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockAgent(sql, reach, id, ifMatch);
        const changes = patched(row, patch, clock.now().getTime());
        await sql<AgentRow>('agents').where({ id }).update(changes);
        const next = { ...row, ...changes };
        recordAudit(sql, reach, { ...changeOf(row, 'update'), before: told(row), after: told(next) });
        return tagged(next);
      }),
    delete: (reach, id, ifMatch) =>
      database.write(reach, async (sql) => {
        const row = await lockAgent(sql, reach, id, ifMatch);
        await sql<AgentRow>('agents').where({ id }).delete();
        recordAudit(sql, reach, { ...changeOf(row, 'delete'), before: told(row) });
      }),
    // Asked at each step of a run.
    ofWorkspace: remembered(
      database,
      JSON.stringify,
      ({ workspaceId, after = '', limit }: Parameters<Agents['ofWorkspace']>[0]) =>
        database.read('installation', async (sql) => {
          const rows = await knownIn(sql, workspaceId).where('slug', '>', after).orderBy('slug').limit(limit);
          return rows.map(toAgent);
        }),
    ),
    findInWorkspace: (workspaceId, slug) =>
      database.read('installation', async (sql) => {
        const row = await knownIn(sql, workspaceId).where({ slug }).first();
        return row ? toAgent(row) : null;
      }),
  };
}

function changeOf<Verb extends string>({ id, organization_id }: AgentRow, verb: Verb) {
  return {
    action: `agent.${verb}` as const,
    target: { type: 'agent', id },
    organizationId: organization_id,
  };
}

/** What the audit log says of a profile. */
function told(row: AgentRow) {
  const { slug, workspace_id, name, description, instructions, tools, model, permission_mode } = toAgent(row);
  return { slug, workspace_id, name, description, instructions, tools, model, permission_mode };
}

/** The refusal of a slug that is built in or belongs to another profile. */
function slugTaken(slug: string): Problem {
  return new Problem('slug_taken', `There is an agent profile ${slug} already; choose another slug.`);
}

/** Profiles of the whole organization are there for all of its members. */
function agentWithin(sql: Knex, reach: Reach, id: string) {
  return sql<AgentRow>('agents')
    .where({ id })
    .where((seen) =>
      within(seen, reach).orWhere((common) =>
        common.whereNull('workspace_id').whereIn('organization_id', reach.organizationIds),
      ),
    );
}

function knownIn(sql: Knex, workspaceId: string) {
  const organization = sql('workspaces').where({ id: workspaceId }).select('organization_id');
  return sql<AgentRow>('agents')
    .where('organization_id', organization)
    .where((scope) => scope.whereNull('workspace_id').orWhere('workspace_id', workspaceId));
}

async function lockAgent(
  sql: Knex.Transaction,
  reach: Reach,
  id: string,
  ifMatch: string | undefined,
): Promise<AgentRow> {
  const row = await agentWithin(sql, reach, id).forUpdate().first();
  if (!row) throw notFound('agent profile');
  requireRole(reach, row);
  requireMatch(ifMatch, row);
  return row;
}

function agentRow(
  { userId }: Reach,
  owner: { readonly organizationId: string; readonly workspaceId: string | null },
  input: AgentCreate,
  now: number,
): AgentRow {
  return {
    id: newId('agent'),
    organization_id: owner.organizationId,
    workspace_id: owner.workspaceId,
    slug: input.slug,
    name: input.name ?? input.slug,
    description: input.description,
    instructions: input.instructions,
    tools: input.tools ? JSON.stringify(input.tools) : null,
    model: input.model ?? null,
    permission_mode: input.permission_mode ?? null,
    created_by: userId,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

function patched(row: AgentRow, patch: AgentUpdate, now: number) {
  const { tools, ...columns } = patch;
  return {
    ...columns,
    ...(tools !== undefined && { tools: tools && JSON.stringify(tools) }),
    revision: row.revision + 1,
    updated_at: now,
  };
}

function tagged(row: AgentRow): TaggedAgent {
  return { agent: toAgent(row), etag: etagOf(row), organizationId: row.organization_id };
}

function toAgent(row: AgentRow): Agent {
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    slug: row.slug,
    name: row.name,
    description: row.description,
    instructions: row.instructions,
    tools: row.tools === null ? null : JSON.parse(row.tools),
    model: row.model,
    permission_mode: row.permission_mode,
    source: 'api',
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
