/** A transcript in memory, for programs that embed the runtime and keep nothing beyond their own life. */
import type {
  InterruptReason,
  Message,
  PermissionRequest,
  PromptRequest,
  Usage,
} from '../../contract/api.ts';
import { Problem } from '../../problem.ts';
import { addCosts } from '../models/cost.ts';
import { noUsage } from '../models/model.ts';
import { addUsage } from '../runs/spending.ts';
import type {
  Grant,
  NewFileChange,
  NewMessage,
  NumberedEvent,
  RunOutcome,
  SeenFile,
  Transcript,
} from '../transcript.ts';
import { createMemoryAgents } from './memory-agents.ts';
import { createMemoryPlans } from './memory-plans.ts';

/** The answers that an embedding program gives to questions, besides what the runtime needs. */
export interface MemoryTranscript extends Transcript {
  /**
   * @param updatedInput - Members to put in place of those of the call's input before it is allowed.
   * @throws Problem `already_answered`, as the first answer stands.
   */
  answerPermission(
    requestId: string,
    decision: NonNullable<PermissionRequest['decision']>,
    updatedInput?: PermissionRequest['updated_input'],
  ): void;
  /** @throws Problem `already_answered`, as the first answer stands. */
  answerPrompt(requestId: string, answers: PromptRequest['answers']): void;
  /** What the session's tools have changed, the oldest first. */
  fileChanges(sessionId: string): readonly NewFileChange[];
  /** Asks the run to stop; the runtime heeds it when woken. */
  requestInterrupt(runId: string): void;
  /** Refuses a plan; one is approved by a query that says so. */
  rejectPlan(planId: string, comment: string | null): void;
  /**
   * Lets go of all that a session holds, with those of its agents; until then it is kept. One that was never there is none.
   *
   * @throws Problem `session_busy` while a run of it has not ended.
   */
  forgetSession(sessionId: string): void;
}

interface StoredRun {
  readonly sessionId: string;
  readonly runNumber: number;
  readonly events: NumberedEvent[];
  usage: Usage;
  cost: number;
  interrupted: InterruptReason | null;
  begun: boolean;
  /** Null while it has not ended. */
  outcome: RunOutcome | null;
}

export function createMemoryTranscript(): MemoryTranscript {
  const messages = new Map<string, Message[]>();
  /** With which run each message came, also where it belongs to none. */
  const cameWith = new Map<string, string>();
  const runs = new Map<string, StoredRun>();
  const permissions = new Map<string, PermissionRequest>();
  const prompts = new Map<string, PromptRequest>();
  const grants = new Map<string, Grant[]>();
  const seen = new Map<string, Map<string, SeenFile>>();
  const changes = new Map<string, NewFileChange[]>();
  const plans = createMemoryPlans();
  const agents = createMemoryAgents();
  let lastRunNumber = 0;

  const runOf = (runId: string): StoredRun => {
    const run = runs.get(runId);
    if (!run) throw new Error(`No run ${runId}`);
    return run;
  };
  const append = (runId: string, events: readonly NumberedEvent[]) =>
    void runOf(runId).events.push(...events);
  const addMessages = (
    runId: string,
    sessionId: string,
    added: readonly (NewMessage & { readonly run_id?: null })[],
    before?: string,
  ) => {
    const stored = added.map((message) => ({
      cost: null,
      summary: false,
      excluded: false,
      run_id: runId,
      ...message,
      session_id: sessionId,
      feedback: null,
      reverted: false,
      created_at: new Date().toISOString(),
    }));
    for (const { id } of added) cameWith.set(id, runId);
    const present = messages.get(sessionId) ?? [];
    const place = before === undefined ? present.length : present.findIndex(({ id }) => id === before);
    messages.set(sessionId, present.toSpliced(place, 0, ...stored));
  };
  const count = (runId: string, usage: Usage, cost: Message['cost'] = 0) => {
    const run = runOf(runId);
    run.usage = addUsage(run.usage, usage);
    run.cost = addCosts(run.cost, cost) ?? run.cost;
  };
  const openRuns = (sessionId: string) =>
    [...runs.values()].filter((run) => run.sessionId === sessionId && !run.outcome);
  const newestRun = (sessionId: string) =>
    [...runs.values()].findLast((run) => run.sessionId === sessionId)?.runNumber ?? 0;
  const filesOf = (sessionId: string) => {
    const files = seen.get(sessionId) ?? new Map<string, SeenFile>();
    seen.set(sessionId, files);
    return files;
  };
  const find = <Request>(requests: ReadonlyMap<string, Request>, id: string): Request => {
    const request = requests.get(id);
    if (!request) throw new Error(`No request ${id}`);
    return request;
  };
  const requirePending = ({ status }: PermissionRequest | PromptRequest) => {
    if (status === 'pending') return;
    throw new Problem('already_answered', 'This request is not pending any more; the first answer stands.');
  };
  /** Its run works for nobody any more. */
  const cancelRequests = (runId: string) => {
    for (const one of permissions.values())
      if (one.run_id === runId && one.status === 'pending')
        permissions.set(one.id, { ...one, status: 'cancelled' });
    for (const one of prompts.values())
      if (one.run_id === runId && one.status === 'pending')
        prompts.set(one.id, { ...one, status: 'cancelled' });
  };
  const isBrought = ({ id, run_id }: Message, runId: string) => run_id === null && cameWith.get(id) === runId;
  const addGrants = (requestId: string, patterns: readonly string[]) => {
    const { decision, session_id, tool_name: toolName, action } = find(permissions, requestId);
    if (decision !== 'allow_session' && decision !== 'allow_workspace') return;
    const granted = patterns.map((pattern) => ({ toolName, action, pattern }));
    const session = agents.personsSession(session_id);
    grants.set(session, [...(grants.get(session) ?? []), ...granted]);
  };

  return {
    async beginRun(run) {
      const { id, sessionId, messages: brought, queueLimit, events, approval, afterRun } = run;
      if (afterRun !== undefined && afterRun !== newestRun(sessionId))
        throw Object.assign(new Error('Another run has come.'), { name: 'SessionMoved' });
      // One of them is at work; the others wait.
      if (openRuns(sessionId).length > queueLimit)
        throw new Problem('queue_full', `This session already has ${queueLimit} waiting runs, the maximum.`);
      agents.note(run);
      if (approval) plans.approve(sessionId, id, approval);
      lastRunNumber += 1;
      const runNumber = lastRunNumber;
      const state = { usage: noUsage, cost: 0, interrupted: null, begun: false, outcome: null };
      runs.set(id, { sessionId, runNumber, events: [...events], ...state });
      const prompt = brought.at(-1);
      // What was said before it was asked and answered elsewhere.
      const said = brought.map((message) => (message === prompt ? message : { ...message, run_id: null }));
      addMessages(id, sessionId, said);
      return { runNumber, notices: [] };
    },
    async readQuotas() {
      // Nobody else shares what an embedding program uses; its settings limit each run.
      return { exceeded: null, warnings: [] };
    },
    async readMessages(sessionId, throughRunId) {
      const runIds = [...runs.keys()];
      const orderOf = ({ id }: Message) => runIds.indexOf(cameWith.get(id) ?? '');
      const last = throughRunId === undefined ? runIds.length : runIds.indexOf(throughRunId);
      const spoken = (messages.get(sessionId) ?? []).filter((message) => orderOf(message) <= last);
      return spoken.sort((a, b) => orderOf(a) - orderOf(b));
    },
    async readFiles(_sessionId, sha256s) {
      // The messages have their bytes with them.
      return sha256s.map(() => null);
    },
    async readCalls(sessionId, { tool, limit }, throughRunId) {
      const spoken = await this.readMessages(sessionId, throughRunId);
      const names = spoken.filter(({ parts }) => parts.some((part) => 'name' in part && part.name === tool));
      return names.slice(-limit);
    },
    async changeStatus({ runId }, _status, events) {
      const run = runOf(runId);
      if (run.interrupted && !run.begun)
        throw Object.assign(new Error('stopped before it began'), {
          name: 'RunStopped',
          reason: run.interrupted,
        });
      run.begun = true;
      append(runId, events);
    },
    async appendEvents(runId, events) {
      append(runId, events);
    },
    async commitStep({ runId, sessionId, messages: added, before, usage, cost, seenFiles = [], events }) {
      count(runId, usage, cost);
      addMessages(runId, sessionId, added, before);
      for (const file of seenFiles) filesOf(sessionId).set(file.path, file);
      append(runId, events);
    },
    async resumeRun({ runId, sessionId, messages: added, usage, cost, events }) {
      count(runId, usage, cost);
      addMessages(runId, sessionId, added);
      append(runId, events);
    },
    async hasEarlierRun({ sessionId, runNumber }) {
      return openRuns(sessionId).some((run) => run.runNumber < runNumber);
    },
    async readSeenFiles(sessionId) {
      return [...filesOf(sessionId).values()];
    },
    async openPermission(request, events) {
      permissions.set(request.id, request);
      append(request.run_id, events);
    },
    async openPrompt(request, events) {
      prompts.set(request.id, request);
      append(request.run_id, events);
    },
    async readPermission(requestId) {
      return { request: find(permissions, requestId), message: null };
    },
    async readPrompt(requestId) {
      return find(prompts, requestId);
    },
    async expirePermission(requestId) {
      const request = find(permissions, requestId);
      if (request.status === 'pending') permissions.set(requestId, { ...request, status: 'expired' });
      return find(permissions, requestId);
    },
    async expirePrompt(requestId) {
      const request = find(prompts, requestId);
      if (request.status === 'pending') prompts.set(requestId, { ...request, status: 'expired' });
      return find(prompts, requestId);
    },
    async readGrants(sessionId) {
      return grants.get(agents.personsSession(sessionId)) ?? [];
    },
    async addGrants(requestId, patterns) {
      addGrants(requestId, patterns);
    },
    async recordChange(change) {
      changes.set(change.sessionId, [...(changes.get(change.sessionId) ?? []), change]);
    },
    async replaceTitle() {
      // Sessions have no titles here.
    },
    async addUsage({ runId }, { usage, cost }, of) {
      // Nobody reads what a session has used here.
      if (of === 'run') count(runId, usage, cost);
    },
    async findAgent(parentRunId, call) {
      return agents.find(parentRunId, call);
    },
    async readUsed(runId) {
      const all = (id: string): readonly string[] => [id, ...agents.startedBy(id).flatMap(all)];
      const used = all(runId).map(runOf);
      return {
        usage: used.map(({ usage }) => usage).reduce(addUsage),
        cost: addCosts(...used.map(({ cost }) => cost)),
      };
    },
    async countAgents(rootRunId) {
      return agents.count(rootRunId);
    },
    async readSpending(rootRunId) {
      const all = [rootRunId, ...agents.below(rootRunId)].map(runOf);
      return {
        usage: all.map(({ usage }) => usage).reduce(addUsage),
        cost: addCosts(...all.map(({ cost }) => cost)) ?? 0,
      };
    },
    async stopRun(runId, reason) {
      runOf(runId).interrupted ??= reason;
    },
    async writePlan(run, plan) {
      return plans.write(run, plan);
    },
    async carriesOutPlan(runId) {
      return plans.areCarriedOutBy(runId);
    },
    async readPlan(sessionId) {
      return plans.newestOf(sessionId);
    },
    async markStep(runId, id, status) {
      return plans.mark(runId, id, status);
    },
    rejectPlan: (planId, comment) => plans.reject(planId, comment),
    async endRun({
      runId,
      sessionId,
      messages: added,
      usage,
      cost,
      events,
      excluded = [],
      excludesBrought = false,
      ...end
    }) {
      count(runId, usage, cost);
      cancelRequests(runId);
      plans.end(runId, end);
      for (const started of agents.startedBy(runId)) runOf(started).interrupted ??= 'requested';
      for (const message of messages.get(sessionId) ?? [])
        if (excluded.includes(message.id) || (excludesBrought && isBrought(message, runId)))
          message.excluded = true;
      addMessages(runId, sessionId, added);
      const { status, stopReason, error } = end;
      runOf(runId).outcome = { status, stopReason, error };
      append(runId, events);
    },
    async readEvents(runId, after, limit) {
      // Whoever still reads of one that the program has let go of learns it from its outcome.
      const events = runs.get(runId)?.events ?? [];
      return events.filter(({ seq }) => seq > after).slice(0, limit);
    },
    async renewLeases(_lease, runIds) {
      return runIds.map((runId) => ({ runId, interrupt: runOf(runId).interrupted }));
    },
    async readInterrupt(runId) {
      return runOf(runId).interrupted;
    },
    async readOutcome(runId) {
      const run = runs.get(runId);
      return run ? run.outcome : 'deleted';
    },
    async readInForce(runIds) {
      return runIds;
    },
    async readLeases() {
      // What is in memory ends with its process: nobody leaves runs behind.
      return [];
    },
    async takeRun() {
      return null;
    },
    letGo() {
      // Nobody else could take it: what comes of its end is told as it is.
    },
    async handOver() {
      throw new Error('A run in memory cannot be handed over.');
    },
    fileChanges: (sessionId) => changes.get(sessionId) ?? [],
    answerPermission(requestId, decision, updatedInput = null) {
      const request = find(permissions, requestId);
      requirePending(request);
      const updated_input = decision === 'deny' ? null : updatedInput;
      permissions.set(requestId, { ...request, status: 'answered', decision, updated_input });
      if (!updated_input) addGrants(requestId, request.grants);
    },
    answerPrompt(requestId, answers) {
      const request = find(prompts, requestId);
      requirePending(request);
      prompts.set(requestId, { ...request, status: answers ? 'answered' : 'declined', answers });
    },
    requestInterrupt(runId) {
      runOf(runId).interrupted ??= 'requested';
    },
    forgetSession(sessionId) {
      const gone = new Set([sessionId, ...agents.sessionsBelow(sessionId)]);
      if ([...gone].some((id) => openRuns(id).length > 0))
        throw new Problem(
          'session_busy',
          'A run of this session has not ended; interrupt it, and wait for its end.',
        );
      for (const id of gone) {
        for (const message of messages.get(id) ?? []) cameWith.delete(message.id);
        for (const held of [messages, grants, seen, changes]) held.delete(id);
      }
      for (const [id, run] of runs) if (gone.has(run.sessionId)) runs.delete(id);
      for (const held of [permissions, prompts])
        for (const { id, session_id } of held.values()) if (gone.has(session_id)) held.delete(id);
      plans.forget(gone);
      agents.forget(gone);
    },
  };
}
