/** The agents that agents have started, of a transcript in memory. */
import type { NewRun, StartedAgent } from '../transcript.ts';

export interface MemoryAgents {
  note(run: NewRun): void;
  find(parentRunId: string, call: string): StartedAgent | null;
  count(rootRunId: string): number;
  /** The runs of all agents that began with the run of a person. */
  below(rootRunId: string): readonly string[];
  /** The runs of the agents that a run has started. */
  startedBy(parentRunId: string): readonly string[];
  /** The session that a person sees. */
  personsSession(sessionId: string): string;
  /** Of the agents that began in a session, at whatever depth. */
  sessionsBelow(sessionId: string): readonly string[];
  forget(sessionIds: ReadonlySet<string>): void;
}

export function createMemoryAgents(): MemoryAgents {
  let runs: readonly (NewRun & { readonly agent: NonNullable<NewRun['agent']> })[] = [];
  const personsSession = (sessionId: string): string => {
    const run = runs.find((one) => one.sessionId === sessionId);
    return run ? personsSession(run.agent.parentSessionId) : sessionId;
  };
  const below = (rootRunId: string) =>
    runs.filter(({ agent }) => agent.rootRunId === rootRunId).map(({ id }) => id);
  const sessionsBelow = (sessionId: string): readonly string[] =>
    runs
      .filter(({ agent }) => agent.parentSessionId === sessionId)
      .flatMap((run) => [run.sessionId, ...sessionsBelow(run.sessionId)]);
  return {
    personsSession,
    below,
    sessionsBelow,
    note(run) {
      if (run.agent) runs = [...runs, { ...run, agent: run.agent }];
    },
    forget(sessionIds) {
      runs = runs.filter(({ sessionId }) => !sessionIds.has(sessionId));
    },
    find(parentRunId, call) {
      const run = runs.find(({ agent }) => agent.parentRunId === parentRunId && agent.call === call);
      return run ? { sessionId: run.sessionId, runId: run.id, agentSlug: run.agentSlug } : null;
    },
    count: (rootRunId) => below(rootRunId).length,
    startedBy: (parentRunId) =>
      runs.filter(({ agent }) => agent.parentRunId === parentRunId).map(({ id }) => id),
  };
}
