/** Model calls that leave nothing behind but what they used: those of /v1/messages without a session. */
import type { Knex } from 'knex';
import type { Message, Usage } from '../contract/api.ts';
import { callsAtWork } from './calls-at-work.ts';
import { spenderOf as spenderOfRow } from './change-run.ts';
import { databaseLimits } from './database.ts';
import { crowded } from './database-errors.ts';
import { type Metered, meter, meterAlone, type Spender, type Spent } from './meter.ts';
import type { StoreParts } from './parts.ts';
import { quotaStateAtWork, quotaStateWithin, refuseExceeded } from './quota-check.ts';
import { quotasOf } from './quota-use.ts';
import { notFound, type Reach, requireRole } from './reach.ts';
import { remembered } from './remembered.ts';
import type { RunRow } from './runs.ts';
import { together } from './together.ts';
import { type FoundWorkspace, findDefaultWorkspace } from './workspaces.ts';

/** A call that has begun. */
export interface MeteredCall {
  /** Null where no quota binds its spender: it is counted with its end, in one transaction less. */
  readonly id: string | null;
  readonly model: string;
  readonly spender: Spender;
  /** Of soft limits that are passed: a sentence each. */
  readonly notices: readonly string[];
}

export interface MeteredCalls {
  /**
   * Counts a request in the workspace, or in the caller's default one, as far as a quota may refuse it. Throws
   * `quota_exceeded`, `not_found` or `role_required`.
   */
  begin(
    reach: Reach,
    model: string,
    apiKeyId: string | null,
    where?: Pick<FoundWorkspace, 'id' | 'organizationId'>,
  ): Promise<MeteredCall>;
  /** Counts what it used; it is at work no more. */
  finish(call: MeteredCall, spent: SpentByCall): Promise<void>;
  /** Counts what was used for a part of what somebody asked for, or in the background: no request of its own. */
  spend(spender: Spender, spent: SpentByCall): Promise<void>;
  /** Throws `quota_exceeded` where that may use no more. */
  requireRoom(spender: Spender): Promise<void>;
  /** For whom a search uses something. Throws `not_found`. */
  spenderOfSearch(searcher: Searcher, corpusId?: string): Promise<Spender>;
  /** For whom a run does, or would if it began. Throws `not_found`. */
  spenderOfRun(run: SpendingRun): Promise<Spender>;
  /** It is at work no more, whatever came of it. */
  end(call: MeteredCall): Promise<void>;
  /** Forgets what processes that have died had at work; answers with how many there were. */
  prune(now: Date): Promise<number>;
}

/** What one model call used. */
export interface SpentByCall {
  readonly model: string;
  readonly usage: Usage;
  readonly cost: Message['cost'];
}

/** Who searches. */
export interface Searcher extends Reach {
  /** Null where a login asks. */
  readonly apiKeyId: string | null;
  /** Where it counts; null for where the corpus is, or the caller is at home. */
  readonly place: Pick<Spender, 'organizationId' | 'workspaceId'> | null;
}

/** A run, stored or not yet. */
export interface SpendingRun {
  readonly runId: string;
  readonly userId: string;
  readonly workspaceId: string;
  readonly apiKeyId?: string | undefined;
}

interface Beginning {
  readonly reach: Reach;
  readonly model: string;
  readonly apiKeyId: string | null;
  /** The caller's default workspace if absent. */
  readonly where: Pick<FoundWorkspace, 'id' | 'organizationId'> | undefined;
}

interface Ending {
  readonly call: MeteredCall;
  /** 1 where that it was asked for is counted only now. */
  readonly requests: 0 | 1;
  /** Null where nothing was heard of what it used. */
  readonly spent: SpentByCall | null;
}

type Work = Beginning | Ending;

const nothing: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };

// As what a run stores: the quotas of a person may hold in other organizations, too.
export function meteredCallRepository({ database, clock }: StoreParts): MeteredCalls {
  const now = (): number => clock.now().getTime();
  const atWork = callsAtWork({ database, clock });
  /** Most calls have nothing to store but what they used. */
  const countAll = async (endings: readonly Ending[]): Promise<readonly null[]> => {
    const spent = spentIn(endings);
    if (spent.length > 0) await database.count((sql) => meterAlone(sql, spent, now()));
    return endings.map(() => null);
  };
  const storeAll = (all: readonly Work[]): Promise<readonly (MeteredCall | null)[]> => {
    const isSqlite = database.dialect === 'sqlite';
    return isSqlite && all.every(countsOnly) ? countAll(all) : storeTogether(all);
  };
  const storeTogether = (all: readonly Work[]) =>
    database.writeCounts(async (sql, counted) => {
      const beginnings = all.filter((work): work is Beginning => !isEnding(work));
      if ((await endAll(sql, all.filter(isEnding))) || beginnings.length > 0) counted();
      const begun = await beginAll(sql, beginnings);
      return all.map((work) => (isEnding(work) ? null : (begun.get(work) ?? null)));
    });
  // On PostgreSQL each has a connection to itself, and many transactions go on at once.
  const uncounted = new Set<MeteredCall>();
  const queue = together(storeAll, () => uncounted.size > 0);
  database.gathers('modelCalls', queue.waiting);
  const spenders = remembered(database, askerOf, (beginning: Beginning) =>
    database.read('installation', (sql) => spenderWithin(sql, beginning)),
  );
  const store = (work: Work) =>
    database.dialect === 'sqlite' ? queue.add(work) : storeAll([work]).then(([call]) => call ?? null);

  async function beginAll(
    sql: Knex.Transaction,
    beginnings: readonly Beginning[],
  ): Promise<Map<Work, MeteredCall>> {
    const begun = new Map<Work, MeteredCall>();
    for (const alike of Map.groupBy(beginnings, askerOf).values())
      for (const [beginning, call] of await beginAlike(sql, alike)) begun.set(beginning, call);
    return begun;
  }

  /** Those of one caller, who asks one model. */
  async function beginAlike(
    sql: Knex.Transaction,
    alike: readonly Beginning[],
  ): Promise<readonly [Beginning, MeteredCall][]> {
    const [first = noBeginning()] = alike;
    const { model } = first;
    const spender = await spenderOf(sql, first);
    for (const one of alike) requireRoleOf(one, spender);
    const ids = await atWork.insert(sql, spender, alike.length);
    await meter(sql, spender, { requests: alike.length, model, usage: nothing, cost: 0 }, now());
    // Where this is one too many for some of them, none is stored here, and each is asked about alone.
    const warnings = refuseExceeded(await quotaStateWithin(sql, spender, now()), now());
    const notices = warnings.map(({ message }) => message);
    return alike.map((one, index) => [one, { id: ids[index] ?? '', model, spender, notices }]);
  }

  /** Whether there was anything to count. */
  async function endAll(sql: Knex.Transaction, endings: readonly Ending[]): Promise<boolean> {
    const ids = endings.flatMap(({ call }) => call.id ?? []);
    if (ids.length > 0) await atWork.delete(sql, ids);
    const all = spentIn(endings);
    for (const { spender, metered } of all) await meter(sql, spender, metered, now());
    return all.length > 0;
  }

  function beginUncounted(beginning: Beginning, spender: Spender): MeteredCall {
    requireRoleOf(beginning, spender);
    const call = { id: null, model: beginning.model, spender, notices: [] };
    uncounted.add(call);
    return call;
  }

  return {
    async begin(reach, model, apiKeyId, where) {
      if (queue.waiting() >= databaseLimits.writes) throw crowded('As many calls wait to be counted as may.');
      const beginning = { reach, model, apiKeyId, where };
      const { spender, bound } = await spenders(beginning);
      if (!bound) return beginUncounted(beginning, spender);
      const call = await store(beginning);
      if (!call) throw new Error('A call that began was not stored');
      if (call.id !== null) atWork.hold(call.id);
      return call;
    },
    async finish(call, spent) {
      if (call.id !== null) atWork.letGo(call.id);
      await store({ call, spent, requests: uncounted.delete(call) ? 1 : 0 });
    },
    spend: (spender, { model, usage, cost }) =>
      database.writeOfRun((sql) => meter(sql, spender, { requests: 0, calls: 1, model, usage, cost }, now())),
    requireRoom: (spender) =>
      database.read('installation', async (sql) => {
        refuseExceeded(await quotaStateAtWork(sql, spender, now()), now());
      }),
    spenderOfSearch: ({ place, apiKeyId, ...reach }, corpusId) =>
      database.read('installation', async (sql) => {
        const where = place ?? (corpusId === undefined ? undefined : await placeOfCorpus(sql, corpusId));
        if (where) return { ...where, userId: reach.userId, apiKeyId };
        return spenderOf(sql, { reach, apiKeyId, model: '', where: undefined });
      }),
    spenderOfRun: (run) => database.read('installation', (sql) => spenderOfRun(sql, run)),
    async end(call) {
      const counted = call.id !== null && atWork.letGo(call.id);
      const asked = uncounted.delete(call);
      if (counted || asked) await store({ call, spent: null, requests: asked ? 1 : 0 });
    },
    prune: atWork.prune,
  };
}

function isEnding(work: Work): work is Ending {
  return 'call' in work;
}

/** Who it counts for, and whether any quota holds for them. */
async function spenderWithin(
  sql: Knex,
  beginning: Beginning,
): Promise<{ readonly spender: Spender; readonly bound: boolean }> {
  const spender = await spenderOf(sql, beginning);
  return { spender, bound: (await quotasOf(sql, spender).limit(1)).length > 0 };
}

async function spenderOf(sql: Knex, { reach, apiKeyId, where }: Beginning): Promise<Spender> {
  const workspace = where ?? (await findDefaultWorkspace(sql, reach));
  if (!workspace) throw notFound('workspace');
  const { id: workspaceId, organizationId } = workspace;
  return { organizationId, workspaceId, userId: reach.userId, apiKeyId };
}

async function placeOfCorpus(sql: Knex, id: string): Promise<Searcher['place']> {
  const corpus = await sql('corpora').where({ id }).first('organization_id', 'workspace_id');
  if (!corpus) throw notFound('corpus');
  return { organizationId: corpus.organization_id, workspaceId: corpus.workspace_id };
}

/** What an agent does counts for the key that asked for the run which started it: that stands in its row. */
async function spenderOfRun(sql: Knex, run: SpendingRun): Promise<Spender> {
  const { runId, userId, workspaceId, apiKeyId = null } = run;
  const row = await sql<RunRow>('runs').where({ id: runId }).first();
  if (row) return spenderOfRow(row);
  const workspace = await sql('workspaces').where({ id: workspaceId }).first('organization_id');
  if (!workspace) throw notFound('workspace');
  return { organizationId: workspace.organization_id, workspaceId, userId, apiKeyId };
}

function requireRoleOf({ reach }: Beginning, { organizationId, workspaceId }: Spender): void {
  requireRole(reach, { organization_id: organizationId, workspace_id: workspaceId });
}

function noBeginning(): never {
  throw new Error('There is nothing to begin');
}

/** What is the same for calls that are counted at once. */
function askerOf({ reach, model, apiKeyId, where }: Beginning): string {
  const { userId, workspaceId, organizationIds } = reach;
  return JSON.stringify([userId, workspaceId, organizationIds[0], where, apiKeyId, model]);
}

/** What is the same for calls whose end is counted at once. */
function kindOf({ call: { model, spender }, spent }: Ending): string {
  const { organizationId, workspaceId, userId, apiKeyId } = spender;
  // What has no price is counted as that, and adds to no sum.
  const unpriced = spent?.cost === null;
  return JSON.stringify([organizationId, workspaceId, userId, apiKeyId, spent?.model ?? model, unpriced]);
}

function countsOnly(work: Work): work is Ending {
  return isEnding(work) && work.call.id === null;
}

/** What is counted of them, all that is alike at once. */
function spentIn(endings: readonly Ending[]): readonly Spent[] {
  return [...Map.groupBy(endings, kindOf).values()].flatMap((alike) => {
    const metered = sumOf(alike);
    const [first] = alike;
    return first && metered ? [{ spender: first.call.spender, metered }] : [];
  });
}

/** Null where there is nothing to count. */
function sumOf(endings: readonly Ending[]): Metered | null {
  const all = endings.flatMap(({ spent }) => spent ?? []);
  const requests = endings.reduce((total, ending) => total + ending.requests, 0);
  const [first] = endings;
  if (!first || all.length + requests === 0) return null;
  const sum = (of: (spent: SpentByCall) => number) => all.reduce((total, spent) => total + of(spent), 0);
  return {
    ...{ requests, calls: all.length, model: first.spent?.model ?? first.call.model },
    usage: {
      input_tokens: sum(({ usage }) => usage.input_tokens),
      output_tokens: sum(({ usage }) => usage.output_tokens),
      cached_input_tokens: sum(({ usage }) => usage.cached_input_tokens),
    },
    cost: all.some(({ cost }) => cost === null) ? null : sum(({ cost }) => cost ?? 0),
  };
}
