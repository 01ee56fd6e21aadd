/** What a run needs to start other agents: how far it may go, and what it leaves them. */
import type { PermissionRule, QueryLimits } from '../../contract/api.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { settingDefaults } from '../../contract/setting-defaults.ts';
import type { Query } from '../query.ts';
import type { OpenQuestions } from '../runs/open-questions.ts';
import type { RunRequest } from '../transcript.ts';
import type { Profile } from './profile.ts';

/** What a run needs to start agents. */
export interface AgentStarter {
  /** How many agents stand between this run and a person. */
  readonly depth: number;
  /** The run of a person that all of it began with. */
  readonly rootRunId: string;
  readonly workspaceId: string;
  readonly userId: string;
  /** Lists of tools: only what each of them holds is left for those that this run starts. */
  readonly toolLimits: readonly (readonly string[])[];
  /** What the query of the person may use at most, by its own words: they hold for every agent, too. */
  readonly asked: QueryLimits | null;
  /** The API key that all of it was begun with. */
  readonly key: RunRequest['key'];
  /** The job that all of it was begun for. */
  readonly job: RunRequest['job'];
  /** The provider setting that the person wants to be used before all others. */
  readonly providerSettingId: RunRequest['providerSettingId'];
  /** How many agents may be started in all for the run of a person. */
  readonly limit: () => Promise<number>;
  /** The model of the profile, where it has one. */
  readonly modelOf: (agentSlug: string) => Promise<string | null>;
  readonly start: (query: Query) => Promise<unknown>;
  /** Tells that the run is to stop. */
  readonly wake: (runId: string) => void;
  /** What the run and the agents that it started ask people, and nobody has answered yet. */
  readonly open: OpenQuestions;
  /** Runs one start after the other, so that they are counted. */
  readonly inTurn: <Value>(work: () => Promise<Value>) => Promise<Value>;
}

/** How many agents, and how deep. */
interface AgentLimits {
  readonly max_agent_depth: number;
  readonly max_agents: number;
}

const defaults: AgentLimits = {
  max_agent_depth: settingDefaults['options.limits.max_agent_depth'],
  max_agents: settingDefaults['options.limits.max_agents'],
};

export function agentLimits({ options }: ClientConfig): AgentLimits {
  const { max_agent_depth, max_agents } = { ...defaults, ...options?.limits };
  return { max_agent_depth, max_agents };
}

/** One start after the other, for each run of a person. */
export function startsInTurn(): <Value>(rootRunId: string, work: () => Promise<Value>) => Promise<Value> {
  const last = new Map<string, Promise<unknown>>();
  return async (rootRunId, work) => {
    const before = last.get(rootRunId) ?? Promise.resolve();
    const turn = before.then(work, work);
    last.set(rootRunId, turn);
    try {
      return await turn;
    } finally {
      if (last.get(rootRunId) === turn) last.delete(rootRunId);
    }
  };
}

/** What the agents that a run starts may have: what it has itself, and none of what its profile leaves out. */
export function limitsBelow(
  query: Query,
  { tools }: Pick<Profile, 'tools'>,
  workspaceRules: readonly PermissionRule[],
): readonly (readonly string[])[] {
  return [
    ...(query.agent?.toolLimits ?? []),
    ...(tools === null ? [] : [tools]),
    ...(query.trigger === 'messages' ? [allowedTools(query, workspaceRules)] : []),
  ];
}

/** The tools that the rules of the session allow, or, where it has none, those of the API key, or of the workspace. */
export function allowedTools(
  { session, request }: Query,
  workspaceRules: readonly PermissionRule[],
): readonly string[] {
  const said = [session.permissionRules, request?.key?.rules ?? [], workspaceRules];
  const rules = said.find(({ length }) => length > 0) ?? [];
  return rules.filter(({ decision }) => decision === 'allow').map(({ tool }) => tool);
}
