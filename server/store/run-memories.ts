/** What runs remember: whose memories one may read and write, which matter to its prompt, and what its agent saves. */
import type { Knex } from 'knex';
import type { Memory, MemorySearch, Role, Scope } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { type MemoryOwner, ofAgent, ofWorkspace, ownerInSession, ownerOfPerson } from './memory-owners.ts';
import { type MemoryRow, toMemory, unexpired } from './memory-rows.ts';
import { type FoundMemories, placeOfOwners, searchMemories } from './memory-searching.ts';
import { type MemoryText, memoriesWithoutVector, type QueryMeaning } from './memory-vectors.ts';
import { insertMemory, type MemoryInput, toldTwice } from './memory-writing.ts';
import type { StoreParts } from './parts.ts';
import { findPerson } from './principals.ts';
import { covers, type Reach, roleIn } from './reach.ts';
import { remembered } from './remembered.ts';
import type { RunRow } from './runs.ts';

/** A run, or one that might begin: whose rights count is what the store knows of it. */
export interface RememberingRun {
  readonly runId: string;
  readonly userId: string;
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly agentSlug: string;
  /** The key that asks, where no run is stored that says so; absent where a login does. */
  readonly apiKeyId?: string | undefined;
}

/** What an agent saves: the owner follows from the scope and the run alone. */
export type AgentMemory = Pick<MemoryInput, 'scope' | 'content' | 'kind' | 'tags'>;

export type AgentSearch = Pick<MemorySearch, 'query' | 'scopes' | 'top_k'>;

export interface RunMemories {
  /** Whether the person wants agents to remember. */
  isWanted(run: RememberingRun): Promise<boolean>;
  /**
   * What people want always to count, the newest first, then what shares words with the prompt, or means the like where
   * there is its vector.
   */
  recall(run: RememberingRun, prompt: string, meaning: QueryMeaning | null): Promise<Memory[]>;
  /** Whether the run may read any beside these. */
  knowsMore(run: RememberingRun, told: readonly Pick<Memory, 'id'>[]): Promise<boolean>;
  /** Throws `role_required`, `scope_required`, `duplicate`, or `quota_exceeded`. */
  save(run: RememberingRun, input: AgentMemory): Promise<Memory>;
  /** By words, and by meaning too where there is the vector of the query. Throws `role_required` or `scope_required`. */
  search(run: RememberingRun, search: AgentSearch, meaning: QueryMeaning | null): Promise<FoundMemories>;
  /** The newest of what the run reads that this embedder has made no vector of. Throws as `search` does. */
  withoutVector(
    run: RememberingRun,
    search: Pick<AgentSearch, 'scopes'>,
    embedder: string,
    most: number,
  ): Promise<readonly MemoryText[]>;
}

const mostLasting = 30;
const mostMatching = 20;

export function runMemoryRepository({ database, clock }: StoreParts): RunMemories {
  const now = (): number => clock.now().getTime();
  // Of most runs nobody remembers anything: that is told by one look.
  const anythingKept = remembered(
    database,
    ({ workspaceId }) => workspaceId,
    (run: RememberingRun) => database.read('installation', (sql) => isAnythingKept(sql, run)),
  );
  return {
    // Asked at each step of a run.
    isWanted: remembered(
      database,
      ({ userId }) => userId,
      (run) => database.read('installation', (sql) => isWanted(sql, run)),
    ),
    recall: async (run, prompt, meaning) => {
      if (!(await anythingKept(run))) return [];
      return database.read('installation', async (sql) => {
        const rights = await rightsOf(sql, run, 'memories:read');
        if ('refusal' in rights || rights.owners.length === 0) return [];
        const lasting = await lastingMemories(sql, rights.owners, now());
        const search = { query: prompt, top_k: mostMatching };
        const matching = await searchMemories(sql, placeOfOwners(rights.owners), search, meaning, now());
        const all = [...lasting.map(toMemory), ...matching.data.map(({ memory }) => memory)];
        return [...new Map(all.map((memory) => [memory.id, memory])).values()];
      });
    },
    knowsMore: async (run, told) => {
      if (!(await anythingKept(run))) return false;
      return database.read('installation', async (sql) => {
        const rights = await rightsOf(sql, run, 'memories:read');
        if ('refusal' in rights) return false;
        const ids = told.map(({ id }) => id);
        return (await ofOwners(sql, rights.owners, now()).whereNotIn('id', ids).first('id')) !== undefined;
      });
    },
    save: (run, input) =>
      database
        .writeOfRun(async (sql) => {
          const rights = granted(await rightsOf(sql, run, 'memories:write'));
          const owner = rights.owners.find(({ scope }) => scope === input.scope);
          if (!owner) throw outOfReach(input.scope);
          const source = { source_session_id: run.sessionId, source_message_id: null };
          const writer = { runId: run.runId, apiKeyId: rights.apiKeyId };
          const { memory } = await insertMemory(
            sql,
            rights.reach,
            owner,
            { ...input, ...source },
            writer,
            now(),
          );
          return memory;
        })
        .catch(toldTwice),
    search: (run, search, meaning) =>
      database.read('installation', async (sql) => {
        const { query, top_k } = search;
        const place = placeOfOwners(await readOwners(sql, run, search));
        return searchMemories(sql, place, { query, top_k }, meaning, now());
      }),
    withoutVector: (run, search, embedder, most) =>
      database.read('installation', async (sql) => {
        const { parts } = placeOfOwners(await readOwners(sql, run, search));
        return memoriesWithoutVector(sql, parts(sql), embedder, most, now());
      }),
  };
}

/** Whose memories the run searches. Throws Problem where it may not. */
async function readOwners(sql: Knex, run: RememberingRun, { scopes }: Pick<AgentSearch, 'scopes'>) {
  const { owners } = granted(await rightsOf(sql, run, 'memories:read'));
  return owners.filter(({ scope }) => !scopes || scopes.includes(scope));
}

async function isWanted(sql: Knex, { userId }: Pick<RememberingRun, 'userId'>): Promise<boolean> {
  const chosen = await sql('user_preferences').where({ user_id: userId }).first('memories');
  return !chosen || Boolean(chosen.memories);
}

async function isAnythingKept(sql: Knex, { workspaceId }: RememberingRun): Promise<boolean> {
  const organization = sql('workspaces').where({ id: workspaceId }).select('organization_id');
  return (await sql('memories').where('organization_id', organization).first('id')) !== undefined;
}

function ofOwners(sql: Knex, owners: readonly MemoryOwner[], now: number) {
  const keys = owners.map(({ owner_key }) => owner_key);
  return unexpired(sql<MemoryRow>('memories').whereIn('owner_key', keys), now);
}

/** Whatever the prompt is: how people want things, and what the session itself noted. */
function lastingMemories(sql: Knex, owners: readonly MemoryOwner[], now: number): Promise<MemoryRow[]> {
  return ofOwners(sql, owners, now)
    .where((lasting) => lasting.whereIn('kind', ['preference', 'instruction']).orWhere({ scope: 'session' }))
    .orderBy(['created_at', 'id'].map((column) => ({ column, order: 'desc' })))
    .limit(mostLasting);
}

interface Rights {
  readonly reach: Reach;
  readonly apiKeyId: string | null;
  /** Whose memories the run reads, or writes where that is what it needs. */
  readonly owners: readonly MemoryOwner[];
}

/**
 * As they are now, whatever they were when the run began. An agent has no right that the person, and the key that they
 * asked with, have not themselves.
 */
async function rightsOf(
  sql: Knex,
  run: RememberingRun,
  scope: Scope & `memories:${string}`,
): Promise<Rights | { readonly refusal: Problem }> {
  const person = await findPerson(sql, run.userId);
  const place = await sql('workspaces').where({ id: run.workspaceId }).first('organization_id');
  if (!person || !place) return { refusal: outOfReach('workspace') };
  if (!(await isWanted(sql, run))) return { refusal: turnedOff() };
  const stored = await sql<RunRow>('runs').where({ id: run.runId }).first('api_key_id');
  const apiKeyId = (stored ? stored.api_key_id : run.apiKeyId) ?? null;
  const key = apiKeyId === null ? null : await keyOf(sql, apiKeyId);
  if (apiKeyId !== null && !key?.scopes.includes(scope))
    return { refusal: new Problem('scope_required', `The API key of this run lacks the scope ${scope}.`) };
  const { organization_id } = place;
  const { memberships, workspaces } = person;
  const organizationIds = memberships.map(({ organizationId }) => organizationId);
  const reach: Reach = { userId: run.userId, memberships, organizationIds, workspaces };
  const role = roleIn(reach, { organization_id, workspace_id: run.workspaceId });
  const least: Role = scope === 'memories:write' ? 'member' : 'viewer';
  const isOwn = organizationIds.includes(organization_id) && (key?.workspaceId ?? null) === null;
  return {
    reach,
    apiKeyId,
    owners: [
      ...(isOwn ? [ownerOfPerson(organization_id, run.userId)] : []),
      ...(role !== null && covers(role, least) ? sharedOwners(organization_id, run) : []),
    ],
  };
}

async function keyOf(sql: Knex, id: string) {
  const row = await sql<{ id: string; scopes: string; workspace_id: string | null }>('api_keys')
    .where({ id })
    .first('scopes', 'workspace_id');
  return row ? { scopes: JSON.parse(row.scopes) as string[], workspaceId: row.workspace_id } : null; // they are stored so
}

function sharedOwners(organizationId: string, { workspaceId, sessionId, agentSlug }: RememberingRun) {
  return [
    ofWorkspace(organizationId, workspaceId),
    ownerInSession(organizationId, workspaceId, sessionId),
    ofAgent(organizationId, workspaceId, agentSlug),
  ];
}

function granted(rights: Rights | { readonly refusal: Problem }): Rights {
  if ('refusal' in rights) throw rights.refusal;
  return rights;
}

function outOfReach(scope: Memory['scope']): Problem {
  return new Problem('role_required', `This run may not write memories of the scope ${scope}.`);
}

function turnedOff(): Problem {
  return new Problem('role_required', 'The person has turned memories off in their preferences.');
}
