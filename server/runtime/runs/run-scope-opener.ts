/** Opens what a run works with: its model, its profile, its tools and its folder, as the settings have them now. */
import type { Clock } from '../../clock.ts';
import type { InterruptReason, PermissionRule } from '../../contract/api.ts';
import type { ClientConfig } from '../../contract/config.ts';
import type { Log } from '../../log.ts';
import { Problem } from '../../problem.ts';
import type { Tracing } from '../../tracing.ts';
import { agentLimits, allowedTools, limitsBelow, startsInTurn } from '../agents/agent-starter.ts';
import { leavesTool, type Profile, stricterMode } from '../agents/profile.ts';
import type { ProfilePlace, Profiles } from '../agents/profiles.ts';
import type { EventHub } from '../events/event-hub.ts';
import type { ExtensionPlace } from '../extension.ts';
import { seenFiles } from '../files/seen-files.ts';
import type { LiveParts, Parts } from '../live-parts.ts';
import { type MemoriesOfRun, type MemoryKeeper, memoriesOf } from '../memory-keeper.ts';
import { chooseModel } from '../models/model-choice.ts';
import { patienceOf } from '../models/model-patience.ts';
import { meansTool } from '../permissions/permission-rules.ts';
import type { Asker } from '../providers/own-providers.ts';
import type { Providers } from '../providers/providers.ts';
import type { Query } from '../query.ts';
import { agentTool } from '../tools/agent.ts';
import { corpusSearchTool, type FindPassages } from '../tools/corpus-search.ts';
import { mediaTools } from '../tools/media-tools.ts';
import { memoryToolNames } from '../tools/memory-tools.ts';
import { planStepName, planStepTool } from '../tools/plan-step.ts';
import type { Tool } from '../tools/tool.ts';
import type { Transcript } from '../transcript.ts';
import type { WorkspaceTerms } from '../workspace-terms.ts';
import { limitsOf } from './run-limits.ts';
import type { Preparing, RunScope } from './run-scope.ts';

export interface ScopeParts {
  readonly parts: LiveParts;
  readonly profiles: Profiles;
  readonly placeOf: (workspaceId: string) => Promise<ProfilePlace>;
  readonly termsOf: (workspaceId: string) => Promise<WorkspaceTerms>;
  /** See RuntimeOptions. */
  readonly sessionRules?: (sessionId: string, ofAgent: boolean) => Promise<readonly PermissionRule[]>;
  /** The settings that count in the workspace, made of those of the runtime. */
  readonly settingsOf: (workspaceId: string, settings: ClientConfig) => Promise<ClientConfig>;
  readonly transcript: Transcript;
  readonly hub: EventHub;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracing: Tracing;
  readonly preparing: Preparing;
  /** Searches the corpus of a query again; without it no run can. */
  readonly findPassages?: FindPassages;
  /** Begins a run beside those at work. */
  readonly start: (query: Query) => Promise<unknown>;
  /** Tells that the store has news for a run. */
  readonly wake: (runId: string) => void;
  /** Absent where nobody keeps memories. */
  readonly memories?: MemoryKeeper;
  readonly stepLimit?: number;
  readonly retryPauseMs?: number;
  readonly answerWithinMs?: number;
}

/** Throws Problem where the query names a profile or a model that there is not. */
export type OpenScope = (query: Query, runId: string, controller: AbortController) => Promise<RunScope>;

export function scopeOpener(given: ScopeParts): OpenScope {
  const { parts, transcript, hub, clock, log, tracing } = given;
  const inTurn = startsInTurn();

  /** The built-in tools first; of two with the same name the first counts. */
  async function toolsIn(
    place: ExtensionPlace,
    config: ClientConfig,
    asker: Asker,
  ): Promise<readonly Tool[]> {
    const { toolset, extensions } = await parts.refresh();
    // Most settings name nobody who makes pictures or sounds, and whose providers count need not be looked up for them.
    const { media } = namesMedia(config) ? await partsFor(asker) : parts.now;
    const [present, added] = await Promise.all([
      toolset.present(),
      Promise.all(extensions.map((extension) => extension.tools(place))),
    ]);
    const disabled = config.options?.disabled_tools ?? [];
    const making = mediaTools({ media, config, rules: toolset.pathRules }).flatMap(({ tool, absence }) =>
      absence === null ? [tool] : [],
    );
    return [...present, ...making, ...added.flat().filter(({ name }) => !disabled.includes(name))];
  }

  /** Where the setting that is wanted is gone, the model call that follows says so. */
  async function partsFor(asker: Asker): Promise<Parts> {
    try {
      return await parts.of(asker);
    } catch (error) {
      if (asker.providerSettingId === undefined || !(error instanceof Problem)) throw error;
      return parts.of({ ...asker, providerSettingId: undefined });
    }
  }

  const sessionRulesOf = async ({ session, agent }: Query) =>
    (await given.sessionRules?.(session.id, agent !== undefined)) ?? session.permissionRules;

  return async (query, runId, controller) => {
    const { session } = query;
    const { workspaceId } = session;
    const place = await given.placeOf(workspaceId);
    const { userId, request } = query;
    const { providerSettingId, key } = request ?? {};
    const asker = { userId, workspaceId, bound: key?.bound, providerSettingId };
    const { providers, toolset, extensions, chosen, ofPerson } = await parts.of(asker);
    const settings = async () => chosen(await given.settingsOf(workspaceId, (await parts.refresh()).config));
    const [config, terms] = await Promise.all([settings(), given.termsOf(workspaceId)]);
    const { workspacePath } = place;
    let extensionPlace = await parts.placeOf(asker, workspacePath);
    const profile = await given.profiles.find(query.agentSlug ?? session.agentSlug, place);
    const named =
      query.model ??
      session.model ??
      modelOf(profile, config) ??
      query.preferredModel ??
      ofPerson ??
      terms.model;
    const models = chooseModel(
      providers,
      config,
      named === null ? defaultModel(providers, config) : providers.resolve(named),
      query.generation,
    );
    const corpus = request?.corpus ?? null;
    const searching =
      corpus && given.findPassages
        ? [
            corpusSearchTool(given.findPassages, {
              ...{ runId, userId, workspaceId, apiKeyId: query.apiKeyId },
              corpusId: corpus.corpusId,
            }),
          ]
        : [];
    // One that was taken over from another process does not say so itself.
    let carriesOut: boolean | undefined = query.taken ? undefined : query.approval !== undefined;
    const carriesOutPlan = async () => {
      carriesOut ??= await transcript.carriesOutPlan(runId);
      return carriesOut;
    };
    const rootRunId = query.agent?.rootRunId ?? runId;
    const depth = query.agent?.depth ?? 0;
    const isLeft = ({ name }: Tool) =>
      leavesTool(profile, name) &&
      (query.agent?.toolLimits ?? []).every((tools) => leavesTool({ tools: [...tools] }, name));
    const run = {
      ...{ runId, userId, workspaceId, sessionId: session.id, agentSlug: profile.slug },
      apiKeyId: query.apiKeyId,
    };
    const memories = given.memories
      ? memoriesOf(given.memories, run, () => promptOf(query, runId, transcript))
      : null;
    return {
      runId,
      sessionId: session.id,
      models,
      get model() {
        return models.model;
      },
      get generation() {
        return models.generation;
      },
      // Who speaks the Messages API cannot be told that the text so far does not count.
      patience: patienceOf(config, query.trigger !== 'messages', given.retryPauseMs),
      profile,
      systemPrompt: session.systemPrompt,
      permissionMode: stricterMode(
        query.permissionMode ?? terms.permissionMode ?? 'ask',
        profile.permission_mode,
      ),
      rules: async () => [
        ...(request?.job?.inPlace ? [] : await sessionRulesOf(query)),
        ...(request?.job?.rules ?? []),
        ...(request?.key?.rules ?? []),
      ],
      workspaceRules: async () => (await given.termsOf(workspaceId)).permissionRules,
      settings,
      onUnanswered: query.onUnanswered,
      callerTools: query.request?.callerTools ?? [],
      corpus,
      terms: query.request?.terms ?? {},
      tools: async () => {
        const config = await settings();
        extensionPlace = await parts.placeOf(asker, workspacePath);
        const usual = await unlessAborted(toolsIn(extensionPlace, config, asker), controller.signal, []);
        const all = [...searching, ...usual];
        const { max_agent_depth } = agentLimits(config);
        const disabled = config.options?.disabled_tools ?? [];
        // A name that the caller uses is the caller's, whatever tool of ours is called so.
        const taken = [...disabled, ...(query.request?.callerTools ?? []).map(({ name }) => name)];
        const left = toolsFor(query, terms, all).filter((tool) => isLeft(tool) && !taken.includes(tool.name));
        const telling = taken.includes(planStepName) || !(await carriesOutPlan()) ? [] : [planStepTool()];
        const wanted = [...(await unlessForgotten(left, memories)), ...telling];
        return depth < max_agent_depth
          ? withAgents(wanted, given.profiles, place)
          : wanted.filter(({ name }) => name !== 'agent');
      },
      memories,
      agents: {
        depth,
        rootRunId,
        workspaceId,
        userId: query.userId,
        toolLimits: limitsBelow(query, profile, terms.permissionRules),
        asked: query.request?.limits ?? null,
        key: query.request?.key ?? null,
        job: query.request?.job ?? null,
        providerSettingId: asker.providerSettingId,
        limit: async () => agentLimits(await settings()).max_agents,
        modelOf: async (slug) => modelOf(await given.profiles.find(slug, place), await settings()),
        start: given.start,
        wake: given.wake,
        open: new Map(),
        inTurn: (work) => inTurn(rootRunId, work),
      },
      extensions,
      extensionPlace: () => extensionPlace,
      keptReadable: new Set(),
      workspacePath,
      files: seenFiles(toolset.fileMemory(session.id), query.newSession !== undefined),
      limits: limitsOf(config, query.request?.limits ?? {}, given.stepLimit),
      summary: query.request?.summary ?? null,
      answerWithinMs: given.answerWithinMs ?? 15 * 60_000,
      signal: controller.signal,
      interrupt: (reason) => abort(controller, reason),
      hookSandbox: () => parts.now.toolset.hookSandbox,
      transcript,
      hub,
      clock,
      log,
      tracing,
      preparing: given.preparing,
    };
  };
}

/** What is asked, or was asked last where nothing new is; of a run that is stored not what waits behind it. */
async function promptOf(
  { messages, session, taken, stored }: Query,
  runId: string,
  transcript: Transcript,
): Promise<string> {
  const through = taken || stored ? runId : undefined;
  const said = messages.length > 0 ? messages : await transcript.readMessages(session.id, through);
  const prompt = said.findLast(({ role }) => role === 'user');
  return (prompt?.parts ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** The reason is read again when the run ends. */
export function abort(controller: AbortController | undefined, reason: InterruptReason): void {
  controller?.abort(Object.assign(new Error(`interrupted: ${reason}`), { reason }));
}

/**
 * Behind the Messages API only those tools work that the session allows without asking, or, where it says nothing, the
 * API key, or its workspace: a gateway is clean by default.
 */
function toolsFor(query: Query, terms: WorkspaceTerms, tools: readonly Tool[]) {
  if (query.trigger !== 'messages') return tools;
  const allowed = allowedTools(query, terms.permissionRules);
  return tools.filter(({ name }) => allowed.some((tool) => meansTool(tool, name)));
}

function namesMedia({ image_generation, text_to_speech, speech_to_text }: ClientConfig): boolean {
  return [image_generation, text_to_speech, speech_to_text].some(
    (section) => section?.provider !== undefined,
  );
}

/** Whoever wants agents to remember nothing is not made to read that they cannot. */
async function unlessForgotten(
  tools: readonly Tool[],
  memories: MemoriesOfRun | null,
): Promise<readonly Tool[]> {
  if (!tools.some(({ name }) => memoryToolNames.includes(name)) || (await memories?.isWanted())) return tools;
  return tools.filter(({ name }) => !memoryToolNames.includes(name));
}

/** The tool `agent` tells of the agents that there are in this place. */
async function withAgents(
  tools: readonly Tool[],
  profiles: Profiles,
  place: ProfilePlace,
): Promise<readonly Tool[]> {
  if (!tools.some(({ name }) => name === 'agent')) return tools;
  // A plan that nobody sees would wait for ever.
  const offered = (await profiles.list(place)).filter((profile) => !leavesTool(profile, 'plan'));
  return tools.map((tool) => (tool.name === 'agent' ? agentTool(offered) : tool));
}

/** The large model of the settings that count here, where its provider is there; else that of the runtime. */
function defaultModel(providers: Providers, { models }: ClientConfig): string {
  const chosen = models?.large && providers.chosen(`${models.large.provider}:${models.large.model}`);
  return chosen ?? providers.resolve(null);
}

/** The model that a profile names; null for the default. */
function modelOf({ model }: Profile, { models }: ClientConfig): string | null {
  if (model !== 'large' && model !== 'small') return model;
  const chosen = models?.[model];
  return chosen ? `${chosen.provider}:${chosen.model}` : null;
}

/** A server may take its time to say what it offers; whoever stops the run does not wait for it. */
async function unlessAborted<Value>(
  coming: Promise<Value>,
  signal: AbortSignal,
  otherwise: Value,
): Promise<Value> {
  const stopped = Promise.withResolvers<Value>();
  const stop = () => stopped.resolve(otherwise);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([coming, stopped.promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Where the tools of a workspace work. */
export function placesOf(workspacePath: ((workspaceId: string) => Promise<string>) | undefined) {
  return async (workspaceId: string): Promise<ProfilePlace> => ({
    workspaceId,
    workspacePath: await (workspacePath ?? currentFolder)(workspaceId),
  });
}

/** Where an embedding program that names no folder works. */
export async function currentFolder(): Promise<string> {
  return process.cwd();
}
