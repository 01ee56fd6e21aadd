/** What the runtime asks of a model, whoever provides it. */
import type { MessagePart, ProblemCode, StopReason, Usage } from '../contract/api.ts';

/** A message as a model reads it. */
export interface ModelMessage {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly parts: readonly MessagePart[];
}

/** A tool as a model is told of it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: Record<string, unknown>;
}

/** Sampling settings; what is absent is left to the provider. */
export interface Generation {
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly stopSequences?: readonly string[];
  /** Sends nothing that the provider's kind of API does not have: whoever asks does not know which one answers. */
  readonly onlyStandard?: boolean;
  /** How much an OpenAI model that reasons thinks before it answers. */
  readonly reasoningEffort?: string;
  /** Whether an Anthropic model that can reason thinks before it answers. */
  readonly think?: boolean;
  /** Fields of the request that only the provider knows. */
  readonly providerOptions?: Readonly<Record<string, unknown>>;
}

export interface ModelRequest extends Generation {
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ToolDefinition[];
}

/** What a model writes, piece by piece; `finish` comes last and once. */
export type ModelPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  | { readonly type: 'tool_input'; readonly id: string; readonly name: string; readonly json: string }
  | {
      readonly type: 'tool_use';
      readonly id: string;
      readonly name: string;
      readonly input: Record<string, unknown>;
    }
  | { readonly type: 'finish'; readonly stopReason: StopReason; readonly usage: Usage };

/** One model of one provider. */
export interface Model {
  /** `<provider>:<model_id>` */
  readonly name: string;
  /** Throws ModelFailure; ends early without one only when the signal aborts. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelPart>;
}

/** Why a model gave no answer, in the words of the contract. */
export class ModelFailure extends Error {
  readonly code: Extract<ProblemCode, `provider_${string}`>;

  constructor(code: ModelFailure['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ModelFailure';
    this.code = code;
  }
}

export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };
