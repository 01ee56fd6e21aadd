/** What a session's agent has at hand in this process, and what would fill its model's window: for people, who ask at any time. */
import type { ContextPart, ExtensionState, InspectedJob, InspectedTool } from '../contract/api.ts';
import type { ClientConfig } from '../contract/config.ts';
import { Problem } from '../problem.ts';
import { leavesTool } from './agents/profile.ts';
import type { ProfilePlace } from './agents/profiles.ts';
import type { Extension, ExtensionPlace } from './extension.ts';
import { withoutFolders } from './files/without-folders.ts';
import type { LiveParts, Parts } from './live-parts.ts';
import type { RecalledMemory } from './memory-keeper.ts';
import { contextParts } from './prompt/context-parts.ts';
import { toldMemories } from './prompt/memory-part.ts';
import { addedBy, systemPromptParts } from './prompt/system-prompt.ts';
import type { Query } from './query.ts';
import type { RunScope } from './runs/run-scope.ts';
import type { OpenScope } from './runs/run-scope-opener.ts';
import { listTools } from './tool-listing.ts';
import type { Job } from './tools/jobs.ts';
import { memoryToolNames } from './tools/memory-tools.ts';
import type { Tool } from './tools/tool.ts';
import type { Transcript } from './transcript.ts';

export interface Inspection {
  /** The model that the next query would ask; null where it would be refused. */
  readonly model: string | null;
  /** Tokens that the model reads at once; null where it is not known. */
  readonly window: number | null;
  readonly parts: readonly ContextPart[];
  readonly tools: readonly InspectedTool[];
  readonly extensions: readonly ExtensionState[];
  readonly jobs: readonly InspectedJob[];
  /** Those that the model would be told of. */
  readonly memories: readonly RecalledMemory[];
  /** Why the next query would be refused; null where it would not. */
  readonly unavailable: string | null;
}

/** What a query of the person in the session would say of itself. */
export type Inspected = Pick<Query, 'session' | 'userId' | 'apiKeyId' | 'preferredModel' | 'request'>;

export interface InspectionParts {
  readonly parts: LiveParts;
  readonly openScope: OpenScope;
  readonly settingsOf: (workspaceId: string, settings: ClientConfig) => Promise<ClientConfig>;
  readonly placeOf: (workspaceId: string) => Promise<ProfilePlace>;
  readonly transcript: Transcript;
}

/** Starts no run and stores nothing; servers are started that a step would start. */
export async function inspectSession(
  asked: Inspected,
  given: InspectionParts,
  signal: AbortSignal,
): Promise<Inspection> {
  const { session } = asked;
  const { workspacePath } = await given.placeOf(session.workspaceId);
  const now = await given.parts.refresh();
  const { workspaceId } = session;
  const place = await given.parts.placeOf(
    { userId: asked.userId, workspaceId, bound: asked.request?.key?.bound },
    workspacePath,
  );
  const [scope, stored, all] = await Promise.all([
    openUnlessRefused(asked, given.openScope, signal),
    given.transcript.readMessages(session.id),
    given.settingsOf(workspaceId, now.config).then((config) => listTools(now, place, config)),
  ]);
  const opened = scope instanceof Problem ? null : scope;
  const tools = (await opened?.tools()) ?? [];
  const prompt = opened ? await systemPromptParts(opened, tools) : await addedBy(now.extensions, place);
  const shown = now.shared ? (text: string) => withoutFolders(text, workspacePath) : (text: string) => text;
  return {
    model: opened?.model.name ?? null,
    window: (await opened?.model.facts())?.contextWindow ?? null,
    parts: contextParts(prompt, tools, stored),
    tools: all.map(({ name, source, needs_permission, disabled_by }) => ({
      ...{ name, source, needs_permission },
      disabled_by: disabled_by ?? (opened && withheld(opened, tools, name)),
    })),
    extensions: statesOf(now, place, shown),
    memories: toldMemories((await opened?.memories?.recalled()) ?? []),
    jobs: given.parts.jobs.list(session.id).map(shownJob),
    unavailable: scope instanceof Problem ? scope.message : null,
  };
}

/** As a query of a person would be opened. */
async function openUnlessRefused(
  asked: Inspected,
  openScope: OpenScope,
  signal: AbortSignal,
): Promise<RunScope | Problem> {
  const controller = new AbortController();
  const stop = () => controller.abort(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    const query = { ...asked, trigger: 'api', messages: [], onUnanswered: 'wait' } as const;
    return await openScope(query, '', controller);
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
}

function withheld({ profile, memories }: RunScope, tools: readonly Tool[], name: string): string | null {
  if (tools.some((tool) => tool.name === name)) return null;
  const isUnwanted = memories !== null && memoryToolNames.includes(name) && leavesTool(profile, name);
  return isUnwanted ? 'the preference memories' : `the agent profile ${profile.slug}`;
}

function statesOf(
  { extensions }: Parts,
  place: ExtensionPlace,
  shown: (text: string) => string,
): ExtensionState[] {
  const statesIn = (extension: Extension) =>
    extension.states(place).map(({ name, source = null, state, detail }) => ({
      extension: extension.name,
      name: shown(name),
      source,
      state,
      detail: detail === null ? null : shown(detail),
    }));
  return extensions.flatMap(statesIn);
}

function shownJob({ id, command, end }: Job): InspectedJob {
  const ended = end();
  return { id, command, status: ended ? 'ended' : 'running', exit_code: ended?.exitCode ?? null };
}
