/** Sessions of agents that the agent of another session started: made with their first run, and ended with its parent's. */
import type { Knex } from 'knex';
import type { InterruptReason, Usage } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import type { RunEnd } from './change-run.ts';
import { addCost, sumCosts, toCost, toDollars } from './costs.ts';
import type { RunRow } from './runs.ts';
import { indexNewTitle } from './search-index.ts';
import { addUsage, freshSession, type SessionRow, saveSession, tellNewSession } from './session-rows.ts';

/** An agent as it is started. */
export interface NewAgentSession {
  readonly parentSessionId: string;
  readonly parentRunId: string;
  /** Names the call among all of the parent run. */
  readonly call: string;
  /** The run of a person that all of it began with. */
  readonly rootRunId: string;
  readonly depth: number;
  /** Lists of tools: only what each of them holds is left. */
  readonly toolLimits: readonly (readonly string[])[];
  readonly title: string;
}

/** An agent that was started before. */
export interface StartedAgent {
  readonly sessionId: string;
  readonly runId: string;
  readonly agentSlug: string;
}

/** With the place, the person and the rules of its parent, whose run the caller holds. */
export async function insertAgentSession(
  sql: Knex.Transaction,
  given: { readonly id: string; readonly agentSlug: string; readonly agent: NewAgentSession },
  now: number,
): Promise<void> {
  const { id, agentSlug, agent } = given;
  const parent = await sql<SessionRow>('sessions').where({ id: agent.parentSessionId }).first();
  if (!parent) throw new Error(`The session ${agent.parentSessionId} is gone.`);
  const row: SessionRow = {
    ...freshSession(now),
    id,
    organization_id: parent.organization_id,
    workspace_id: parent.workspace_id,
    user_id: parent.user_id,
    parent_id: parent.id,
    title: agent.title,
    agent_slug: agentSlug,
    model: parent.model,
    system_prompt: parent.system_prompt,
    permission_rules: parent.permission_rules,
    parent_run_id: agent.parentRunId,
    parent_call: agent.call,
    root_run_id: agent.rootRunId,
    agent_depth: agent.depth,
    tool_limits: JSON.stringify(agent.toolLimits),
  };
  await sql('sessions').insert(row);
  await indexNewTitle(sql, row);
  tellNewSession(sql, row, now);
}

/** As it was given when it was started; null for the session of a person. */
export function agentSessionOf(row: SessionRow): NewAgentSession | null {
  const { parent_id, parent_run_id, parent_call, root_run_id } = row;
  if (parent_id === null || parent_run_id === null || parent_call === null || root_run_id === null)
    return null;
  return {
    parentSessionId: parent_id,
    parentRunId: parent_run_id,
    call: parent_call,
    rootRunId: root_run_id,
    depth: row.agent_depth,
    toolLimits: JSON.parse(row.tool_limits),
    title: row.title,
  };
}

export async function findStartedAgent(
  sql: Knex,
  parentRunId: string,
  call: string,
): Promise<StartedAgent | null> {
  const row = await sql('sessions')
    .join('runs', 'runs.session_id', 'sessions.id')
    .where({ 'sessions.parent_run_id': parentRunId, 'sessions.parent_call': call, 'runs.run_number': 1 })
    .first<{ session_id: string; id: string; agent_slug: string }>(
      'runs.session_id',
      'runs.id',
      'runs.agent_slug',
    );
  return row ? { sessionId: row.session_id, runId: row.id, agentSlug: row.agent_slug } : null;
}

/**
 * Holds the sessions of those whom the agent of a session works for, up to that of the person, and answers with them. To be
 * called before that session itself is held: from above, as whoever deletes them all.
 */
export async function holdSessionsAbove(sql: Knex.Transaction, sessionId: string): Promise<SessionRow[]> {
  const placeOf = (id: string) =>
    sql<SessionRow>('sessions').where({ id }).first('id', 'parent_id', 'root_run_id');
  const agent = await placeOf(sessionId);
  const above: string[] = [];
  // Where a person asks an agent something, what that starts works for no one further up.
  for (let row = agent; row?.parent_id && row.root_run_id && row.root_run_id === agent?.root_run_id; ) {
    above.unshift(row.parent_id);
    row = await placeOf(row.parent_id);
  }
  const held: SessionRow[] = [];
  for (const id of above) {
    const row = await sql<SessionRow>('sessions').where({ id }).forUpdate().first();
    if (row) held.push(row);
  }
  return held;
}

/** What the run of an agent has used by its end, whoever ends it, counts for the sessions above, and for none of their runs. */
export async function addUsedAbove(
  sql: Knex.Transaction,
  above: readonly SessionRow[],
  run: RunRow,
  { usage, cost = 0 }: Pick<RunEnd, 'usage' | 'cost'>,
  now: number,
): Promise<void> {
  if (run.trigger !== 'agent') return;
  const used = { ...addUsage(run, usage), ...addCost(run, cost) };
  if (!used.unpriced && used.cost_nanodollars + used.input_tokens + used.output_tokens === 0) return;
  for (const session of above)
    await saveSession(sql, session, { ...addUsage(session, used), ...sumCosts(session, used) }, now);
}

/** With what agents below it have used. Nothing of a run that is gone with its session. */
export async function readUsed(
  sql: Knex,
  runId: string,
): Promise<{ readonly usage: Usage; readonly cost: number | null }> {
  const rows: RunRow[] = [];
  for (let runs = await sql<RunRow>('runs').where({ id: runId }); runs.length > 0; ) {
    rows.push(...runs);
    const starters = runs.map(({ id }) => id);
    runs = await agentRuns(sql, (sessions) => sessions.whereIn('parent_run_id', starters));
  }
  const { usage, cost_nanodollars } = totalOf(rows);
  return { usage, cost: toCost({ cost_nanodollars, unpriced: rows.some(({ unpriced }) => unpriced) }) };
}

/** What a person asks in the session of an agent is theirs, and no part of what the agent was started for. */
function agentRuns(sql: Knex, of: (sessions: Knex.QueryBuilder) => Knex.QueryBuilder) {
  return sql<RunRow>('runs')
    .where({ trigger: 'agent' })
    .whereIn('session_id', of(sql('sessions')).select('id'));
}

function totalOf(rows: readonly RunRow[]): { readonly usage: Usage; readonly cost_nanodollars: number } {
  const total = (of: (row: RunRow) => number) => rows.reduce((sum, row) => sum + Number(of(row)), 0);
  return {
    usage: {
      input_tokens: total((row) => row.input_tokens),
      output_tokens: total((row) => row.output_tokens),
      cached_input_tokens: total((row) => row.cached_input_tokens),
    },
    cost_nanodollars: total((row) => row.cost_nanodollars),
  };
}

export async function countAgents(sql: Knex, rootRunId: string): Promise<number> {
  const row = await sql('sessions')
    .where({ root_run_id: rootRunId })
    .count<{ count: number }[]>({ count: '*' });
  return Number(row[0]?.count ?? 0);
}

/** Of all, whatever became of them, with the run of the person that they began with. */
export async function readSpending(
  sql: Knex,
  rootRunId: string,
): Promise<{ readonly usage: Usage; readonly cost: number }> {
  const own = await sql<RunRow>('runs').where({ id: rootRunId });
  const ofAgents = await agentRuns(sql, (sessions) => sessions.where({ root_run_id: rootRunId }));
  const { usage, cost_nanodollars } = totalOf([...own, ...ofAgents]);
  return { usage, cost: toDollars(cost_nanodollars) };
}

/** What an agent has used is added up from its session, as are the agents of a run: it stays as long as that is needed. */
export async function requireRootEnded(
  sql: Knex,
  { root_run_id }: Pick<SessionRow, 'root_run_id'>,
): Promise<void> {
  if (root_run_id === null) return;
  const root = await sql<RunRow>('runs').where({ id: root_run_id, ended_at: null }).first('session_id');
  if (!root) return;
  throw new Problem(
    'session_busy',
    `The session belongs to a run of the session ${root.session_id} that has not ended; interrupt that, and try again when it has ended.`,
  );
}

/** The first reason stands. */
export async function requestStop(sql: Knex, runId: string, reason: InterruptReason): Promise<void> {
  await sql<RunRow>('runs')
    .where({ id: runId, ended_at: null, interrupt_requested: null })
    .update({ interrupt_requested: reason });
}

/** An agent whose starter has ended works for nobody. */
export async function stopAgentsOf(sql: Knex.Transaction, parentRunId: string): Promise<void> {
  await agentRuns(sql, (sessions) => sessions.where({ parent_run_id: parentRunId }))
    .where({ ended_at: null, interrupt_requested: null })
    .update({ interrupt_requested: 'requested' });
}

/** The sessions of agents below one, at whatever depth. */
export async function agentSessionsBelow(sql: Knex, sessionId: string): Promise<string[]> {
  const found: string[] = [];
  for (let above = [sessionId]; above.length > 0; ) {
    above = await sql<SessionRow>('sessions')
      .whereIn('parent_id', above)
      .whereNotNull('parent_run_id')
      .pluck('id');
    found.push(...above);
  }
  return found;
}

/** The session that a person sees: what is granted in that of an agent is granted there. */
export async function personsSession(sql: Knex, sessionId: string): Promise<string> {
  const row = await sql<SessionRow>('sessions').where({ id: sessionId }).first('parent_id', 'parent_run_id');
  return row?.parent_run_id && row.parent_id ? personsSession(sql, row.parent_id) : sessionId;
}

/** The run that a person sees: what an agent changed in files is shown and undone where they look for it. */
export async function personsRun(sql: Knex, session: SessionRow, run: RunRow): Promise<RunRow> {
  if (session.root_run_id === null || run.trigger !== 'agent') return run;
  return (await sql<RunRow>('runs').where({ id: session.root_run_id }).first()) ?? run;
}
