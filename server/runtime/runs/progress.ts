/** What a run has gathered so far, from its prompt to where it stands. */
import type { MessagePart, StopReason, ToolResult, ToolUse, Usage } from '../../contract/api.ts';
import type { Cost } from '../models/cost.ts';
import { type ModelMessage, noUsage } from '../models/model.ts';
import type { Todo } from '../tools/tool.ts';
import type { CallRecord } from './call-record.ts';
import type { Draft } from './draft.ts';

/** What lasts from one call of a run to the next. */
export interface RunMemory {
  todos: readonly Todo[];
}

export interface Progress {
  /** What the model is shown at its next call. */
  conversation: ModelMessage[];
  readonly memory: RunMemory;
  /** What the person has been told of, and need not be again. */
  readonly told: Set<string>;
  /** Model calls that are complete and stored. */
  steps: number;
  usage: Usage;
  cost: Cost;
  readonly toolUses: ToolUse[];
  readonly toolResults: ToolResult[];
  /** The id of the newest message. */
  messageId: string;
  /** The newest complete answer of the model. */
  answer: readonly MessagePart[];
  /** The ids of its calls whose arguments nobody can read, where this process has heard it. */
  unreadable?: ReadonlySet<string>;
  /** Why that answer ended; null where the model is to be asked next. */
  stopReason: StopReason | null;
  /** The calls of that answer whose results are not stored together yet. */
  pending: readonly ToolUse[];
  /** What a process that died had begun of them, by their ids. */
  records: Map<string, CallRecord>;
  /** After how many steps it was summed up, each time in this process. */
  summarizedAt?: readonly number[];
  /** After how many steps that failed the last time in this process. */
  summaryFailedAt?: number;
  /** The model that a process which is gone asked last: fallbacks stay for the rest of the run. */
  readonly askedModel?: string;
  /** The answer that the model is writing; null between steps. */
  draft: Draft | null;
}

/** Where a run stands whose prompt is all there is. */
export function newProgress(promptMessageId: string): Progress {
  return {
    conversation: [],
    memory: { todos: [] },
    told: new Set(),
    steps: 0,
    usage: noUsage,
    cost: 0,
    toolUses: [],
    toolResults: [],
    messageId: promptMessageId,
    answer: [],
    stopReason: null,
    pending: [],
    records: new Map(),
    draft: null,
  };
}

/** The calls that the newest answer asks for. */
export function callsOf(parts: readonly MessagePart[]): readonly ToolUse[] {
  return parts.filter((part) => part.type === 'tool_use');
}
