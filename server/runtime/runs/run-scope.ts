/** What every part of a run at work needs to know of it. */

import type { Clock } from '../../clock.ts';
import type { InterruptReason, PermissionMode, PermissionRule } from '../../contract/api.ts';
import type { ClientConfig } from '../../contract/config.ts';
import type { Log } from '../../log.ts';
import type { Tracing } from '../../tracing.ts';
import type { AgentStarter } from '../agents/agent-starter.ts';
import type { Profile } from '../agents/profile.ts';
import type { EventHub } from '../events/event-hub.ts';
import type { Extension, ExtensionPlace } from '../extension.ts';
import type { SeenFiles } from '../files/seen-files.ts';
import type { GivenPassages } from '../given-passages.ts';
import type { MemoriesOfRun } from '../memory-keeper.ts';
import type { AnswerTerms, Generation, Model, ToolDefinition } from '../models/model.ts';
import type { ModelChoice } from '../models/model-choice.ts';
import type { Patience } from '../models/model-patience.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import type { Tool } from '../tools/tool.ts';
import type { RunRequest, Transcript } from '../transcript.ts';
import type { LimitsOfRun } from './run-limits.ts';

/** See RuntimeOptions. */
export type Preparing = <T>(work: () => Promise<T>) => Promise<T>;

export interface RunScope {
  readonly runId: string;
  readonly sessionId: string;
  /** The one that is asked now, and those that stand in for it. */
  readonly models: ModelChoice;
  readonly model: Model;
  readonly generation: Generation;
  readonly patience: Patience;
  readonly profile: Profile;
  /** Added to the profile's instructions. */
  readonly systemPrompt: string | null;
  readonly permissionMode: PermissionMode;
  /** Those of its session as they are now, asked at each tool call, and of the key and the job that it was begun with. */
  readonly rules: () => Promise<readonly PermissionRule[]>;
  /** Those of its workspace as they are now: asked at each tool call, so that a right that went counts no more. */
  readonly workspaceRules: () => Promise<readonly PermissionRule[]>;
  /** The settings as they count now: asked at each tool call, so that a guard or a right that went counts no more. */
  readonly settings: () => Promise<ClientConfig>;
  readonly onUnanswered: 'wait' | 'deny';
  /** What the agent has now: asked at each step, since extensions come and go. */
  readonly tools: () => Promise<readonly Tool[]>;
  /** Those that the caller carries out: a run ends where the model asks for one of them. */
  readonly callerTools: readonly ToolDefinition[];
  /** What it was given out of a corpus; null where its query names none. */
  readonly corpus: GivenPassages | null;
  /** What the caller wants of the first answer. */
  readonly terms: AnswerTerms;
  /** Null where nobody keeps memories. */
  readonly memories: MemoriesOfRun | null;
  /** Starts other agents. */
  readonly agents: AgentStarter;
  readonly extensions: readonly Extension[];
  /** Where they work, as it was when the tools were last asked for. */
  readonly extensionPlace: () => ExtensionPlace;
  /** Of the skills that were loaded: theirs as they were then. */
  readonly keptReadable: Set<string>;
  readonly workspacePath: string;
  readonly files: SeenFiles;
  readonly limits: LimitsOfRun;
  /** To sum the session up is all that the run is for; null where it answers. */
  readonly summary: RunRequest['summary'];
  /** How long a person has to answer. */
  readonly answerWithinMs: number;
  /** Aborts when the run is to stop. */
  readonly signal: AbortSignal;
  /** Stops the run from within. */
  readonly interrupt: (reason: InterruptReason) => void;
  /** Where hooks have to run; null where they run as their person's own commands. */
  readonly hookSandbox: () => Sandbox | SandboxUnavailable | null;
  readonly transcript: Transcript;
  readonly hub: EventHub;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracing: Tracing;
  readonly preparing: Preparing;
}
