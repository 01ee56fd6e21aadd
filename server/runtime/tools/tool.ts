// The shapes that a tool, its caller and its result have; every built-in tool and every other tool fits them.
import type { PermissionAction, Plan, PlanStepStatus } from '../../contract/api.ts';
import type { MemoriesOfRun } from '../memory-keeper.ts';
import type { SpentByCall } from '../transcript.ts';

/** A choice of a question. */
export interface QuestionChoice {
  readonly id: string;
  readonly label: string;
  readonly description?: string | undefined;
}

/** A question that a tool puts to the person behind the run. */
export interface Question {
  readonly id: string;
  readonly type: 'yes_no' | 'single_choice' | 'multi_choice' | 'free_text';
  readonly text: string;
  readonly description?: string | undefined;
  /** Only of the two choice types. */
  readonly choices?: readonly QuestionChoice[] | undefined;
  /** Whether it may be left open. */
  readonly optional?: boolean | undefined;
}

/** The answer to one question; which members are set depends on the question's type. */
export interface QuestionAnswer {
  readonly question_id: string;
  readonly selected_ids?: readonly string[] | undefined;
  readonly fill_in_text?: string | undefined;
  readonly yes?: boolean | undefined;
  /** Remarks on single choices, by choice id. */
  readonly notes?: Readonly<Record<string, string>> | undefined;
}

/** How a batch of questions ended: `declined` by the person, `unasked` where no person could be asked, `cancelled` where something else withdrew it. */
export type PromptOutcome =
  | { readonly status: 'answered'; readonly answers: readonly QuestionAnswer[] }
  | { readonly status: 'declined' }
  | { readonly status: 'expired' }
  | { readonly status: 'unasked' }
  | { readonly status: 'cancelled' };

/** One entry of the session's task list. */
export interface Todo {
  readonly content: string;
  readonly status: 'pending' | 'in_progress' | 'completed';
  /** The same in the present continuous ("Running the tests"), shown while it is in progress. */
  readonly active_form: string;
}

/** What a session has last seen of a file. */
export interface FileVersion {
  /** Hex SHA-256 of the whole content: unlike the time it neither misses a quick change nor sees a mere touch. */
  readonly sha256: string;
  readonly mtimeMs: number;
}

/** What this session has read, by real path, so that nothing is overwritten that changed since. */
export interface FileMemory {
  recall(path: string): FileVersion | undefined;
  remember(path: string, version: FileVersion): void;
  forget(path: string): void;
  /** The paths that are remembered, the newest first. */
  paths(): readonly string[];
}

/** What is known of a content that is too large to keep. */
export interface UnkeptContent {
  readonly sha256: string;
  readonly size: number;
}

/** A change that a tool is about to make to one file; null where there is no file. */
export interface FileChange {
  /** Real path. */
  readonly path: string;
  readonly before: string | Uint8Array | UnkeptContent | null;
  readonly after: string | Uint8Array | UnkeptContent | null;
  /** The permission bits of the file before; read from the file if absent. */
  readonly mode?: number;
}

/** What the runtime gives to a tool call. */
export interface ToolContext {
  /** The absolute real path of the session's workspace folder: the working directory of every tool. */
  readonly workspacePath: string;
  readonly sessionId: string;
  readonly runId: string;
  readonly toolCallId: string;
  /** Real paths of folders outside of the workspace that may be read without asking, and that commands see: skills. */
  readonly readableFolders: readonly string[];
  /** Has the run keep one of these until it ends, whatever becomes of the skill: the model was told what lies there. */
  readonly keepReadable: (folder: string) => void;
  /**
   * What a rule denies to the tool of this call, by paths from the root of the workspace, or absolute outside of it: a search
   * shows nothing of it. By URLs as well, which no redirect leads to. Null where no rule does.
   */
  readonly hidden: () => Promise<((name: string) => boolean) | null>;
  /** Aborts when the run is interrupted; the tool then ends its processes and answers soon with an error. */
  readonly signal: AbortSignal;
  /** Takes output as it arrives; it is shown to people, not to the model. */
  readonly progress: (text: string) => void;
  /** Puts questions to a person; the runtime builds the bridge. They expire where `withdrawn` aborts: nobody waits for them. */
  readonly ask: (questions: readonly Question[], withdrawn?: AbortSignal) => Promise<PromptOutcome>;
  /** Told what a model that a tool has asked used; it counts for the run. Absent where nobody counts. */
  readonly spent?: (spending: SpentByCall) => Promise<void>;
  /** Has another agent do an errand, and brings back its answer; absent where none can be started. */
  readonly agents?: {
    run(errand: {
      readonly description: string;
      readonly prompt: string;
      readonly agentSlug: string;
    }): Promise<ToolOutput>;
  };
  /** Stores the plan of the session, and tells people of it; absent where nobody could approve one. */
  readonly plans?: {
    write(plan: {
      readonly title: string;
      readonly content: string;
      readonly draft?: boolean | undefined;
    }): Promise<{ readonly id: string; readonly version: number }>;
    /** How far a step is of the plan that the run carries out; null where it carries out none, or has no such step. */
    mark(step: string, status: PlanStepStatus): Promise<Plan | null>;
  };
  /** The memories of the run; absent where none are kept. */
  readonly memories?: Pick<MemoriesOfRun, 'save' | 'search'>;
  readonly todos: { get(): readonly Todo[]; set(todos: readonly Todo[]): Promise<void> };
  readonly files: FileMemory;
  /** Stores a change just before it is made, so that it can be shown and undone. */
  readonly recordChange: (change: FileChange) => Promise<void>;
  /** A file has just been read, and may soon be changed: what will be asked about it then is got ready meanwhile. */
  readonly noticeRead: (path: string) => void;
  /** What there is to say about a file that has just been changed, its errors above all; empty for nothing. Does not reject. */
  readonly noteAfterChange: (path: string) => Promise<string>;
}

/** What a person has to allow before a call may run. */
export interface PermissionNeed {
  readonly action: PermissionAction;
  /** One line for the person who decides. */
  readonly description: string;
  /** The folder concerned, so that a remembered grant covers the folder and not one file. */
  readonly path: string;
  /** The real path of the one file concerned, where it is one. */
  readonly file?: string;
  readonly params: Record<string, unknown>;
  /** Unified diff of the change, for tools that change a file. */
  readonly diff?: string;
}

/** The result of a call, as the model gets it. */
export interface ToolOutput {
  readonly content: string;
  readonly is_error: boolean;
  /** Facts for programs; never needed to understand the content. */
  readonly metadata?: Record<string, unknown>;
}

/** A call bound to its checked input. */
export interface PreparedCall {
  /** Null when the call needs nobody's leave. */
  readonly permission: PermissionNeed | null;
  /** Does the work. Expected failures are results with `is_error`; only a defect rejects. */
  run(): Promise<ToolOutput>;
}

/** A tool that a model can call. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the input. */
  readonly inputSchema: Record<string, unknown>;
  /** Whether a call cut off by a crash may simply be made again. */
  readonly idempotent: boolean;
  /** Whether it changes nothing, so that its calls may run beside each other. */
  readonly onlyReads?: boolean;
  /** Whether its calls may run beside each other although they may change something: the model is to see to it. */
  readonly runsBeside?: boolean;
  /** Whether its calls have nothing to do with the workspace folder, so that a run which made only such goes on anywhere. */
  readonly needsNoFiles?: boolean;
  /** Whether a usual call asks for permission; for lists of tools. */
  readonly needsPermission: boolean;
  /**
   * Checks the model's input and binds it to the call.
   * @throws ToolInputError with a message that the model can act on.
   */
  prepare(input: unknown, context: ToolContext): Promise<PreparedCall>;
}

/** The input cannot be used as it is; the message tells the model what to change. */
export class ToolInputError extends Error {
  override readonly name = 'ToolInputError';
}
