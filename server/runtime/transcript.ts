/** What the runtime needs of a store: one call is one transaction. The store fits; memory-transcript.ts is the embedded one. */
import type {
  ContextUse,
  InterruptReason,
  Message,
  PermissionMode,
  PermissionRequest,
  PermissionRule,
  Plan,
  PlanStepStatus,
  PromptRequest,
  QueryLimits,
  QueryResponse,
  ResponseChunk,
  Run,
  RunError,
  RuntimeEvent,
  StopReason,
  StreamError,
  Usage,
} from '../contract/api.ts';
import type { GivenPassages } from './given-passages.ts';

/** What happens in a run, before it has its number. A chunk has no name on the wire. */
export type RunEvent =
  | { readonly name: 'message'; readonly data: ResponseChunk }
  | { readonly name: 'runtime'; readonly data: RuntimeEvent }
  | { readonly name: 'done'; readonly data: QueryResponse }
  | { readonly name: 'error'; readonly data: StreamError };

/** An event with its place in the run: 1, 2, 3 … without a gap. */
export type NumberedEvent = RunEvent & { readonly seq: number };

/** The approval of a plan, which begins the run that carries it out. */
export interface Approval {
  readonly planId: string;
  /** The version that was approved. */
  readonly version: number;
  /** What the person has to say with it. */
  readonly comment: string | null;
  /** Where the request came from, for those who record what people do. */
  readonly origin?: ApprovalOrigin | undefined;
}

/** Where an approval came from. */
export interface ApprovalOrigin {
  readonly requestId: string;
  readonly address: string | null;
  readonly credential: { readonly kind: 'login' | 'api_key'; readonly id: string } | null;
}

/** What a run was asked for besides its prompt; null where nothing was. */
export interface RunRequest {
  /** Less than the settings allow. */
  readonly limits: QueryLimits | null;
  /** To sum the session up instead of answering, heeding what the person wishes. */
  readonly summary: { readonly wishes: string | null } | null;
  /**
   * The API key that it was begun with: its rules count beside those of the session, and where it is bound to the
   * workspace, nothing of its person's own does.
   */
  readonly key?: { readonly rules: readonly PermissionRule[]; readonly bound?: boolean } | null;
  /** The job that it was begun for: its rules count as they were then, beside those of the session or in their place. */
  readonly job?: { readonly rules: readonly PermissionRule[]; readonly inPlace: boolean } | null;
  /** The provider setting that is to be used before all others, wherever the run goes on. */
  readonly providerSettingId?: string | undefined;
  /** What it was given out of a corpus when it was asked, and goes on with wherever it goes on. */
  readonly corpus?: GivenPassages;
  /** Tools that the caller carries out: the run ends where the model asks for one of them. */
  readonly callerTools?: readonly CallerTool[];
  /** What the caller wants of the first answer. */
  readonly terms?: AnswerTerms;
}

/** A tool as the caller describes it. */
export interface CallerTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: Record<string, unknown>;
}

/** What an answer has to be like, besides its words. */
export interface AnswerTerms {
  /** Whether a tool has to be called, and which; the model decides if absent. */
  readonly toolChoice?: 'auto' | 'required' | 'none' | { readonly tool: string };
  /** Whether an answer may call one tool at most. */
  readonly oneToolAtMost?: boolean;
  /** JSON Schema that the text of the answer has to match. */
  readonly answerSchema?: Readonly<Record<string, unknown>>;
}

/** The session of an agent that the agent of another session starts. */
export interface NewAgentSession {
  readonly parentSessionId: string;
  readonly parentRunId: string;
  /** Names the call among all of the parent run. */
  readonly call: string;
  /** The run of a person that all of it began with. */
  readonly rootRunId: string;
  /** 1 for an agent that the run of a person starts. */
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

/** The run of a job that a run is begun for: the process that has it is named, since another may have it by then. */
export interface Occurrence {
  readonly id: string;
  readonly worker: string;
  /** Counts up with each process that takes it. */
  readonly claims: number;
  /** The session that is made for it; null where it goes on with one. */
  readonly session: {
    readonly title: string;
    readonly permissionRules: readonly PermissionRule[];
    /** The one of the job that is gone; null where it had none. */
    readonly replaces: string | null;
  } | null;
}

/** A run as it begins. */
export interface NewRun {
  readonly id: string;
  readonly sessionId: string;
  /** The person on whose behalf it runs. */
  readonly userId: string;
  /** The API key that asked; absent where a login did, and for agents, which ask for the run that started them. */
  readonly apiKeyId?: string;
  readonly trigger: 'api' | 'messages' | 'agent' | 'schedule';
  readonly agentSlug: string;
  /** `<provider>:<model_id>` */
  readonly model: string;
  readonly permissionMode: PermissionMode;
  /** What becomes of a question to a person: wait for the answer, or deny at once because nobody listens. */
  readonly onUnanswered: 'wait' | 'deny';
  /**
   * The prompt, and before it any history that the caller brought, which belongs to no run: it was answered elsewhere. Stored
   * with the run, in its transaction.
   */
  readonly messages: readonly NewMessage[];
  /** Names the process that works on it, among all that share the database. */
  readonly owner: string;
  /** How many runs may wait in the session behind the one at work. */
  readonly queueLimit: number;
  /** Names the workspace folder among those of all nodes; null where there is none to name. */
  readonly workspacePlace: string | null;
  /** The title that the session has for want of a better one; null where it has one. */
  readonly provisionalTitle: string | null;
  readonly request?: RunRequest | null;
  readonly events: readonly NumberedEvent[];
  /** Refused where the plan was decided on meanwhile, or has another version. */
  readonly approval?: Approval;
  /** Makes the session, which is that of an agent. */
  readonly agent?: NewAgentSession;
  /** The run of a job that it is begun for; makes the session where it says so. */
  readonly occurrence?: Occurrence;
  /** Makes the session. */
  readonly newSession?: NewSession;
  /** The newest run that the session may have; 0 for none. Absent where any may have come. */
  readonly afterRun?: number;
  /** What is told of its beginning. Where nothing is before it in its session the transcript may begin it at once. */
  readonly beginning?: readonly NumberedEvent[];
}

/** A session that is stored with its first run. */
export interface NewSession {
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly title: string;
}

/** A message before it is stored; ids and times come from the runtime. */
export type NewMessage = Pick<Message, 'id' | 'role' | 'parts' | 'model' | 'stop_reason' | 'usage'> &
  Partial<Pick<Message, 'cost' | 'summary' | 'excluded'>>;

/** Which process works on a run, as it was seen. It lives as long as the number grows; no clock is compared. */
export interface SeenLease {
  readonly runId: string;
  /** Null where its process has handed it over. */
  readonly owner: string | null;
  readonly renewals: number;
}

/** What a session has last seen of a file. */
export interface SeenFile {
  /** Real path. */
  readonly path: string;
  /** Null: not to be remembered any more. */
  readonly version: { readonly sha256: string; readonly mtimeMs: number } | null;
}

/** A completed step, or the results of its tools. */
export interface StepCommit {
  readonly runId: string;
  readonly sessionId: string;
  readonly messages: readonly NewMessage[];
  /** The message that they stand before, as a summary does that leaves it out; behind all that the run has if absent. */
  readonly before?: string;
  /** Added to the run and to the session, as is the cost. */
  readonly usage: Usage;
  /** Dollars; null where the model's price is not known; nothing if absent. */
  readonly cost?: Message['cost'];
  /** Who has used it, where no message tells: `<provider>:<model_id>`. */
  readonly model?: string;
  /** How full the model's window is now; unchanged if absent. */
  readonly context?: ContextUse;
  /** 1 where a model call was completed, 0 for tool results. */
  readonly steps: 0 | 1;
  /** What the session has seen of files since the last commit. */
  readonly seenFiles?: readonly SeenFile[];
  readonly events: readonly NumberedEvent[];
}

/** How a run ends. Exactly one of `done` and `error` is among the events, as the last one. */
export interface RunEnd {
  readonly runId: string;
  readonly sessionId: string;
  readonly status: 'completed' | 'failed' | 'interrupted';
  readonly stopReason: StopReason;
  readonly interruptReason: InterruptReason | null;
  readonly error: RunError | null;
  /** What was written of an unfinished step, so that the text a client saw is stored. */
  readonly messages: readonly NewMessage[];
  readonly usage: Usage;
  readonly cost?: Message['cost'];
  /** Who has used it, where no message tells: `<provider>:<model_id>`. */
  readonly model?: string;
  /** Messages that no model is to be shown again. */
  readonly excluded?: readonly string[];
  /** Whether the same goes for the history that the caller brought with the run. */
  readonly excludesBrought?: boolean;
  readonly events: readonly NumberedEvent[];
}

/** How a run has ended, as its row tells it: longer than its events do. */
export type RunOutcome = Pick<RunEnd, 'status' | 'stopReason' | 'error'>;

/** A permission that a person gave for more than one call. */
export interface Grant {
  readonly toolName: string;
  readonly action: string;
  /** Which calls, as in a permission rule; null in what was given before there were patterns. */
  readonly pattern: string | null;
}

/** A content of a file; without `bytes` where it is too large to keep. */
export interface FileContent {
  readonly sha256: string;
  readonly size: number;
  readonly bytes: Uint8Array | null;
}

/** A change that a tool is about to make to a file; null where there is no file. */
export interface NewFileChange {
  readonly runId: string;
  readonly sessionId: string;
  readonly toolCallId: string;
  /** Relative to the workspace inside it, absolute outside. */
  readonly path: string;
  readonly before: FileContent | null;
  /** The permission bits of the file before. */
  readonly mode: number | null;
  readonly after: FileContent | null;
}

/** A run whose process has died or handed it over, with all that is needed to go on with it. */
export interface TakenRun {
  readonly handedOver: boolean;
  readonly runId: string;
  readonly sessionId: string;
  /** Its place in the session: runs are worked on in this order. */
  readonly runNumber: number;
  readonly userId: string;
  readonly trigger: 'api' | 'messages' | 'agent' | 'schedule';
  readonly agentSlug: string;
  readonly model: string;
  readonly permissionMode: PermissionMode;
  readonly onUnanswered: 'wait' | 'deny';
  readonly status: Run['status'];
  readonly steps: number;
  readonly usage: Usage;
  readonly cost: Run['cost'];
  readonly lastEventId: number;
  /** The newest event when a step, or the results of its tools, were last stored. */
  readonly committedEventId: number;
  /** How often it was resumed before. */
  readonly resumptions: number;
  readonly interrupt: InterruptReason | null;
  readonly workspacePlace: string | null;
  readonly provisionalTitle: string | null;
  readonly request: RunRequest | null;
  /** Of an agent that the agent of another session started. */
  readonly agent: NewAgentSession | null;
  /** The session as it is now. */
  readonly session: {
    readonly workspaceId: string;
    readonly agentSlug: string;
    readonly model: string | null;
    readonly systemPrompt: string | null;
    readonly permissionRules: readonly PermissionRule[];
  };
}

/** What is stored when a run goes on in another process. */
export interface Resumption {
  readonly runId: string;
  readonly sessionId: string;
  /** What the dead process had streamed of an answer and not stored. */
  readonly messages: readonly NewMessage[];
  /** What that answer has used: added, as that of any step. */
  readonly usage: Usage;
  readonly cost?: Message['cost'];
  /** Who has used it, where no message tells: `<provider>:<model_id>`. */
  readonly model?: string;
  readonly events: readonly NumberedEvent[];
}

/** What one model call used. */
export interface SpentByCall {
  /** `<provider>:<model_id>` */
  readonly model: string;
  readonly usage: Usage;
  readonly cost: Message['cost'];
}

/** What quotas have to say to a run at work. */
export interface RunQuotas {
  /** Why it may not go on, in a sentence; null where it may. */
  readonly exceeded: string | null;
  /** Of soft limits that are passed. */
  readonly warnings: readonly {
    /** Names the limit. */
    readonly about: string;
    /** In a sentence, for a person. */
    readonly message: string;
  }[];
}

export interface Transcript {
  /**
   * Stores the prompt, the run (queued) and its first events in one transaction, before anybody sees an event. Throws
   * Problem `queue_full` or `quota_exceeded`, and an error named `SessionMoved` where another run has come after `afterRun`;
   * for an agent one named `LeaseLost` where its starter has ended, or is another process's by now. Answers with what is
   * to be told to who asks, in sentences.
   */
  beginRun(run: NewRun): Promise<{
    readonly runNumber: number;
    /** Whether it has begun, which is told already. */
    readonly begun?: boolean;
    readonly notices: readonly string[];
  }>;
  /** Whether the run may go on using models: asked before each step. */
  readQuotas(runId: string): Promise<RunQuotas>;
  /**
   * The messages of a session, run after run in the order in which the runs were queued. What no model will be shown since
   * a summary stands for it may be left out. With a run named, only what was said up to its end: the prompts of later runs
   * may be stored already.
   */
  readMessages(sessionId: string, throughRunId?: string): Promise<readonly Message[]>;
  /**
   * In base64, the files of a session by their SHA-256, the newest mention first: null for those that a model is not shown
   * besides those before them, and for what is no longer kept.
   */
  readFiles(sessionId: string, sha256s: readonly string[]): Promise<readonly (string | null)[]>;
  /** The newest messages in which a tool was called or gave something, in their order, what was summed up among them. */
  readCalls(
    sessionId: string,
    calls: { readonly tool: string; readonly limit: number },
    throughRunId?: string,
  ): Promise<readonly Message[]>;
  /**
   * `running`, `waiting_permission` or `waiting_prompt`, with the events that tell of it. Sets `started_at` the first time,
   * but not of a run that was asked to stop before: throws an error named `RunStopped` with its `reason` then.
   */
  changeStatus(
    run: { readonly runId: string; readonly sessionId: string },
    status: 'running' | 'waiting_permission' | 'waiting_prompt',
    events: readonly NumberedEvent[],
  ): Promise<void>;
  /** Stores events, so that they can be sent. */
  appendEvents(runId: string, events: readonly NumberedEvent[]): Promise<void>;
  commitStep(step: StepCommit): Promise<void>;
  /** Counts the resumption, and stores what the dead process left unfinished. The run's status stays. */
  resumeRun(resumption: Resumption): Promise<void>;
  /** Whether a run before this place in the session has not ended, whichever process works on it. */
  hasEarlierRun(place: { readonly sessionId: string; readonly runNumber: number }): Promise<boolean>;
  readSeenFiles(sessionId: string): Promise<readonly SeenFile[]>;
  /** Stores the question, its run's status and the events that tell of it. */
  openPermission(request: PermissionRequest, events: readonly NumberedEvent[]): Promise<void>;
  openPrompt(request: PromptRequest, events: readonly NumberedEvent[]): Promise<void>;
  /** The question as it stands: answered by whichever process took the answer, or still pending. */
  readPermission(
    requestId: string,
  ): Promise<{ readonly request: PermissionRequest; readonly message: string | null }>;
  readPrompt(requestId: string): Promise<PromptRequest>;
  /** Marks a question expired if it is still pending; answers with how it stands then. */
  expirePermission(requestId: string): Promise<PermissionRequest>;
  expirePrompt(requestId: string): Promise<PromptRequest>;
  /** What the session and its workspace have been granted. */
  readGrants(sessionId: string): Promise<readonly Grant[]>;
  /**
   * Remembers these patterns for the tool and action of a request, as far as its answer reaches. An answer that changed
   * the input remembers nothing by itself: only the run can tell what the changed call is.
   */
  addGrants(requestId: string, patterns: readonly string[]): Promise<void>;
  /** Stores a change just before it is made. */
  recordChange(change: NewFileChange): Promise<void>;
  /** Gives the session another title, unless it has been given one meanwhile. */
  replaceTitle(sessionId: string, present: string, title: string): Promise<void>;
  /** Adds what was used for the session beside one of its runs, as for its title; or by a tool of the run itself. */
  addUsage(
    run: { readonly runId: string; readonly sessionId: string },
    spent: SpentByCall,
    of?: 'run',
  ): Promise<void>;
  /** The agent that a call of the run has started, so that a run which goes on elsewhere starts it only once. */
  findAgent(parentRunId: string, call: string): Promise<StartedAgent | null>;
  /** What the run of an agent has used so far, as it is stored, with the agents that it has started itself. */
  readUsed(runId: string): Promise<{ readonly usage: Usage; readonly cost: Message['cost'] }>;
  /** How many agents were started in all, at whatever depth. */
  countAgents(rootRunId: string): Promise<number>;
  /** What the run of a person and all agents that began with it have used so far; the cost is of what has a price. */
  readSpending(rootRunId: string): Promise<{ readonly usage: Usage; readonly cost: number }>;
  /** Asks the run to stop, in whichever process it is at work; the first reason stands. */
  stopRun(runId: string, reason: InterruptReason): Promise<void>;
  /** Stores a plan of the run's session: a version of its newest plan, unless that was approved before. */
  writePlan(
    run: { readonly runId: string; readonly sessionId: string },
    plan: { readonly title: string; readonly content: string; readonly draft?: boolean | undefined },
  ): Promise<Plan>;
  /** How far the run is with a step of the plan that it carries out; null where that has no such step. */
  markStep(runId: string, id: string, status: PlanStepStatus): Promise<Plan | null>;
  /** Whether the run was begun to carry out a plan of its session. */
  carriesOutPlan(runId: string): Promise<boolean>;
  /** The newest plan of the session. */
  readPlan(sessionId: string): Promise<Plan | null>;
  /** Ends the run, stops the agents that it started, cancels its open questions, frees the session. */
  endRun(end: RunEnd): Promise<void>;
  /** Up to `limit` events after the given number, in order; fewer where they are long, none only where there is none. */
  readEvents(runId: string, after: number, limit: number): Promise<readonly NumberedEvent[]>;
  /** Keeps the leases of runs that this owner works on. Answers with what others have asked of them. */
  renewLeases(
    owner: string,
    runIds: readonly string[],
  ): Promise<readonly { readonly runId: string; readonly interrupt: InterruptReason | null }[]>;
  /** Whether somebody has asked for the run to stop; `lease_lost` where it is gone with its session. */
  readInterrupt(runId: string): Promise<InterruptReason | null>;
  /** Null while it has not ended; `deleted` where it is gone with its session. */
  readOutcome(runId: string): Promise<RunOutcome | 'deleted' | null>;
  /** Those of the runs, ended or not, that are still there and whose people may run agents where they are. */
  readInForce(runIds: readonly string[]): Promise<readonly string[]>;
  /** The leases of all runs that have not ended. */
  readLeases(): Promise<readonly SeenLease[]>;
  /** Takes a run over whose lease is still as it was seen, so that one process only gets it; null where it is not, or not now. */
  takeRun(seen: SeenLease, owner: string): Promise<TakenRun | null>;
  /** From now on nothing is written to the run here, as if another process had it. */
  letGo(runId: string): void;
  /** Lets any process take over those of the runs that are still this owner's. Answers with those that have to stay. */
  handOver(owner: string, runIds: readonly string[]): Promise<readonly string[]>;
}
