/** Which process works on a run: the token that is compared in each transaction, so that a fenced process cannot write. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { InterruptReason, PermissionRule, QueryLimits, Run, Usage } from '../contract/api.ts';
import { agentSessionOf, type NewAgentSession } from './agent-sessions.ts';
import { toCost } from './costs.ts';
import type { Database } from './database.ts';
import type { RunRow } from './runs.ts';
import { type SessionRow, toUsage } from './session-rows.ts';

/** The lease of a run as it was seen: it is alive as long as its number grows. */
export interface SeenLease {
  readonly runId: string;
  /** Null where its process has handed it over. */
  readonly owner: string | null;
  readonly renewals: number;
}

/** What a run was asked for besides its prompt. */
export interface RunRequest {
  readonly limits: QueryLimits | null;
  readonly summary: { readonly wishes: string | null } | null;
  /** The API key that it was begun with: its rules count beside those of the session. */
  readonly key?: { readonly rules: readonly PermissionRule[] } | null;
}

/** A run whose process has died or handed it over, with all that is needed to go on with it. */
export interface TakenRun {
  readonly handedOver: boolean;
  readonly runId: string;
  readonly sessionId: string;
  readonly runNumber: number;
  readonly userId: string;
  readonly trigger: Run['trigger'];
  readonly agentSlug: string;
  readonly model: string;
  readonly permissionMode: Run['permission_mode'];
  readonly onUnanswered: 'wait' | 'deny';
  readonly status: Run['status'];
  readonly steps: number;
  readonly usage: Usage;
  readonly cost: Run['cost'];
  readonly lastEventId: number;
  readonly committedEventId: number;
  readonly resumptions: number;
  readonly interrupt: InterruptReason | null;
  readonly workspacePlace: string | null;
  readonly provisionalTitle: string | null;
  readonly request: RunRequest | null;
  readonly agent: NewAgentSession | null;
  readonly session: {
    readonly workspaceId: string;
    readonly agentSlug: string;
    readonly model: string | null;
    readonly systemPrompt: string | null;
    readonly permissionRules: readonly PermissionRule[];
  };
}

export interface RenewedLease {
  readonly runId: string;
  readonly interrupt: InterruptReason | null;
}

export interface Leases {
  /** Remembers the token under which this process works on a run. */
  hold(runId: string, owner: string): void;
  release(runId: string): void;
  /**
   * Lets any process take over those of the runs that are still this owner's. Answers with those that stay, since
   * somebody else holds their rows: their leases run out.
   */
  handOver(owner: string, runIds: readonly string[]): Promise<readonly string[]>;
  /** The run, locked, if this process still holds it; else an error named `LeaseLost`. */
  lock(sql: Knex.Transaction, runId: string): Promise<RunRow>;
  /** Those of the runs, locked, that this process still holds. */
  lockHeld(sql: Knex.Transaction, runIds: readonly string[]): Promise<readonly RunRow[]>;
  /**
   * Keeps the leases that are still this owner's; the others are left out of the answer. One whose row somebody else holds
   * is kept as it is.
   */
  renew(owner: string, runIds: readonly string[]): Promise<RenewedLease[]>;
  /** The leases of all runs that have not ended. */
  list(): Promise<SeenLease[]>;
  /** Takes the run over if its lease is still as it was seen; null where it is not, or somebody holds its row just now. */
  take(seen: SeenLease, owner: string): Promise<TakenRun | null>;
}

/** The most leases that are looked at in one go; far more than nodes of one database can work on. */
const mostSeen = 20_000;

/** Who has the runs that a process handed over. */
const nobody = 'nobody';

export function leases(database: Database): Leases {
  const owners = new Map<string, string>();
  const lockHeld = async (sql: Knex.Transaction, runIds: readonly string[]): Promise<readonly RunRow[]> => {
    const runs = await sql<RunRow>('runs').whereIn('id', runIds).where({ ended_at: null }).forUpdate();
    const held = runs.filter((run) => owners.get(run.id) === run.lease_owner);
    const ids = new Set(held.map(({ id }) => id));
    for (const runId of runIds) if (!ids.has(runId)) owners.delete(runId);
    return held;
  };
  return {
    hold: (runId, owner) => {
      owners.set(runId, owner);
    },
    release: (runId) => {
      owners.delete(runId);
    },
    handOver: async (owner, runIds) => {
      const { held } = await passingOverHeld(runIds, (left) =>
        database.writeOfRun((sql) => handOverUnheld(sql, database, owner, left)),
      );
      return held.map(({ id }) => id);
    },
    lock: async (sql, runId) => {
      const [run] = await lockHeld(sql, [runId]);
      if (run) return run;
      throw leaseLost(runId);
    },
    lockHeld,
    renew: async (owner, runIds) => {
      const { done, held } = await passingOverHeld(runIds, (left) =>
        database.writeOfRun((sql) => renewUnheld(sql, database, owner, left)),
      );
      // Whoever takes runs over passes over the held ones as well.
      return [...done, ...held].map(toRenewed);
    },
    list: () => database.read('installation', activeLeases),
    take: async (seen, owner) => {
      const taken = await database.write('installation', (sql) => takeOver(sql, database, seen, owner));
      if (taken) owners.set(taken.runId, owner);
      return taken;
    },
  };
}

/** A row that is held all this time belongs to more than a run that stores something just now. */
const mostAttempts = 5;
const giveWayMs = 50;

/** Those of the runs that are this owner's, and have not ended. */
interface Owned {
  /** Changed as was asked. */
  readonly done: readonly RunRow[];
  /** Left as they are: somebody holds their rows. */
  readonly held: readonly RunRow[];
}

/** What is held for a moment only is tried again. */
async function passingOverHeld(
  runIds: readonly string[],
  change: (left: readonly string[]) => Promise<Owned>,
): Promise<Owned> {
  const all: RunRow[] = [];
  for (let attempt = 1, left = runIds; ; attempt += 1) {
    const { done, held } = await change(left);
    all.push(...done);
    if (held.length === 0 || attempt === mostAttempts) return { done: all, held };
    left = held.map(({ id }) => id);
    await sleep(giveWayMs);
  }
}

async function renewUnheld(
  sql: Knex.Transaction,
  database: Database,
  owner: string,
  runIds: readonly string[],
): Promise<Owned> {
  const mine = () => ownedBy(sql, owner).whereIn('id', runIds);
  const free = await lockUnheld(database, mine());
  await sql<RunRow>('runs')
    .whereIn('id', [...free])
    .increment('lease_renewals', 1);
  const rows = await mine();
  return { done: rows.filter(({ id }) => free.has(id)), held: rows.filter(({ id }) => !free.has(id)) };
}

async function handOverUnheld(
  sql: Knex.Transaction,
  database: Database,
  owner: string,
  runIds: readonly string[],
): Promise<Owned> {
  const mine = () => ownedBy(sql, owner).whereIn('id', runIds);
  const free = await lockUnheld(database, mine());
  await sql<RunRow>('runs')
    .whereIn('id', [...free])
    .update({ lease_owner: nobody });
  return { done: [], held: await mine() };
}

function ownedBy(sql: Knex.Transaction, lease_owner: string): Knex.QueryBuilder<RunRow, RunRow[]> {
  return sql<RunRow>('runs').where({ lease_owner, ended_at: null });
}

/**
 * Passes over the runs whose rows somebody holds: where a transaction does not end, as that of a node that has died in
 * it, its run must not keep all others waiting. SQLite holds no rows.
 */
async function lockUnheld(
  { dialect }: Database,
  runs: Knex.QueryBuilder<RunRow, RunRow[]>,
): Promise<ReadonlySet<string>> {
  const ids: readonly string[] =
    dialect === 'postgresql' ? await runs.forNoKeyUpdate().skipLocked().pluck('id') : await runs.pluck('id');
  return new Set(ids);
}

function toRenewed({ id, interrupt_requested }: RunRow): RenewedLease {
  return { runId: id, interrupt: interrupt_requested };
}

async function activeLeases(sql: Knex): Promise<SeenLease[]> {
  const rows = await sql<RunRow>('runs')
    .whereNull('ended_at')
    .orderBy('id')
    .limit(mostSeen)
    .select('id', 'lease_owner', 'lease_renewals');
  return rows.map(({ id, lease_owner, lease_renewals }) => ({
    runId: id,
    owner: lease_owner === nobody ? null : lease_owner,
    renewals: lease_renewals,
  }));
}

async function takeOver(
  sql: Knex.Transaction,
  database: Database,
  seen: SeenLease,
  owner: string,
): Promise<TakenRun | null> {
  const { runId, renewals: lease_renewals } = seen;
  const asSeen = ownedBy(sql, seen.owner ?? nobody).where({ id: runId, lease_renewals });
  if (!(await lockUnheld(database, asSeen)).has(runId)) return null;
  await sql<RunRow>('runs')
    .where({ id: runId })
    .update({ lease_owner: owner, lease_renewals: lease_renewals + 1 });
  // Read after the change: what the old owner stored before it counts, and it can store nothing any more.
  const run = await sql<RunRow>('runs').where({ id: runId }).first();
  const session = run && (await sql<SessionRow>('sessions').where({ id: run.session_id }).first());
  return run && session ? { ...toTaken(run, session), handedOver: seen.owner === null } : null;
}

function toTaken(run: RunRow, session: SessionRow): Omit<TakenRun, 'handedOver'> {
  return {
    runId: run.id,
    sessionId: run.session_id,
    runNumber: run.run_number,
    userId: run.user_id,
    trigger: run.trigger,
    agentSlug: run.agent_slug,
    model: run.model,
    permissionMode: run.permission_mode,
    onUnanswered: run.on_unanswered,
    status: run.status,
    steps: run.steps,
    usage: toUsage(run),
    cost: toCost(run),
    lastEventId: run.last_event_id,
    committedEventId: run.committed_event_id,
    resumptions: run.resumptions,
    interrupt: run.interrupt_requested,
    workspacePlace: run.workspace_place,
    provisionalTitle: run.provisional_title,
    request: run.request === null ? null : JSON.parse(run.request),
    // A person may ask in such a session too, and with their own rights.
    agent: run.trigger === 'agent' ? agentSessionOf(session) : null,
    session: {
      workspaceId: session.workspace_id,
      agentSlug: session.agent_slug,
      model: session.model,
      systemPrompt: session.system_prompt,
      permissionRules: JSON.parse(session.permission_rules),
    },
  };
}

export function leaseLost(runId: string): Error {
  return Object.assign(new Error(`The run ${runId} is worked on by another process, or has ended.`), {
    name: 'LeaseLost',
  });
}
