/** What the runtime asks of a model, whoever provides it. */
import type { MessagePart, ProblemCode, StopReason, Usage } from '../../contract/api.ts';
import { Problem } from '../../problem.ts';
import type { AnswerTerms, CallerTool } from '../transcript.ts';
import type { Cost } from './cost.ts';

export type { AnswerTerms } from '../transcript.ts';

/** A picture or a document that a model is shown. */
export interface FilePart {
  readonly type: 'file';
  /** Such as image/png or application/pdf. */
  readonly mediaType: string;
  /** In base64, or where its provider is to fetch it from. */
  readonly data: string | URL;
  readonly name?: string;
  /** Where its session keeps it: its bytes are read when a model is to be shown them, and until then it is counted by their number. */
  readonly kept?: { readonly sha256: string; readonly size: number };
}

export type ModelMessagePart = Exclude<MessagePart, { type: 'file' }> | FilePart;

/** A message as a model reads it. */
export interface ModelMessage {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly parts: readonly ModelMessagePart[];
  /** Tokens that its provider counted when the model wrote it: all that it read and what it wrote. */
  readonly tokens?: number;
  /** The full name of the model that wrote it; absent where that is not known. */
  readonly model?: string;
}

/** A tool as a model is told of it. */
export type ToolDefinition = CallerTool;

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

export interface ModelRequest extends Generation, AnswerTerms {
  /** Nobody reads the answer before its end. */
  readonly whole?: boolean;
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ToolDefinition[];
}

/** What a model writes, piece by piece; `finish` comes last and once. */
export type ModelPart =
  /** What has been read, and will have to be paid for whatever follows: where the provider says so at the beginning. */
  | { readonly type: 'read'; readonly usage: TokenCount }
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'reasoning';
      readonly text: string;
      /** What its vendor signed the thought by, with the last piece of it. */
      readonly signature?: string;
      /** A whole thought that its vendor shows to nobody. */
      readonly redacted?: string;
    }
  | { readonly type: 'tool_input'; readonly id: string; readonly name: string; readonly json: string }
  | {
      readonly type: 'tool_use';
      readonly id: string;
      readonly name: string;
      readonly input: Record<string, unknown>;
      /** Whether its arguments are no JSON, as where they were cut: the input is then none of what was meant. */
      readonly unreadable?: true;
    }
  | { readonly type: 'finish'; readonly stopReason: StopReason; readonly usage: TokenCount };

/** Tokens, with what counts for the price alone. */
export interface TokenCount extends Usage {
  /** Those of the input that were written to the provider's cache. */
  readonly cacheWriteTokens?: number;
  /** Those of them that stay there for an hour, which costs more. */
  readonly longCacheWriteTokens?: number;
  /** Searches of the web that the provider made, each of which has a price. */
  readonly webSearches?: number;
}

/** What is known of a model. */
export interface ModelFacts {
  /** How many tokens it reads at once; null where that is not known. */
  readonly contextWindow: number | null;
  /** How many tokens an answer has at most unless the request says otherwise; null where nothing limits it. */
  readonly maxOutputTokens: number | null;
  /** Null where the price is not known. */
  price(tokens: TokenCount): Cost;
}

/** A Messages request that is handed on as it is. */
export interface RelayRequest {
  readonly body: Readonly<Record<string, unknown>>;
  /** The version that the client speaks, and the betas that it asks for. */
  readonly version?: string | undefined;
  readonly betas?: string | undefined;
  /** Whether the client asks for the beta form of the API. */
  readonly beta: boolean;
}

/** Complete frames of a relayed answer, as they go on. */
export interface RelayedPiece {
  readonly written: Uint8Array;
  /** How much of what the model says is in them, in characters or a little more. */
  readonly heard: number;
  /** What the provider says that was used, where it says so here. */
  readonly usage: Readonly<Record<string, unknown>> | null;
  /** Whether that is all of it. */
  readonly counted: boolean;
  /** Whether the last frame of the answer is among them. */
  readonly last: boolean;
}

/** A relayed answer, whole or as it comes; either names the model as the request did. */
export type RelayedAnswer =
  | { readonly message: Readonly<Record<string, unknown>> }
  | { readonly pieces: AsyncIterable<RelayedPiece> };

/** One model of one provider. */
export interface Model {
  /** Where its provider speaks the Messages API: asks it in the client's own words. Throws ModelFailure. */
  readonly relay?: (request: RelayRequest, signal: AbortSignal) => Promise<RelayedAnswer>;
  /** `<provider>:<model_id>` */
  readonly name: string;
  facts(): Promise<ModelFacts>;
  /** Throws ModelFailure; ends early without one only when the signal aborts. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelPart>;
}

/**
 * What may help after a failure: to ask again, to ask another model, to say less, or to say something else, since the
 * provider will not take this.
 */
export type Remedy = 'retry' | 'replace' | 'shorten' | 'reword';

export interface FailureExtras {
  readonly cause?: unknown;
  /** How long the provider wants not to be asked. */
  readonly retryAfterMs?: number | null;
}

/** Why a model gave no answer, in the words of the contract. */
export class ModelFailure extends Error {
  readonly code: Extract<ProblemCode, `provider_${string}`>;
  readonly remedy: Remedy;
  readonly retryAfterMs: number | null;

  constructor(code: ModelFailure['code'], remedy: Remedy, message: string, extras: FailureExtras = {}) {
    super(message, { cause: extras.cause });
    this.name = 'ModelFailure';
    this.code = code;
    this.remedy = remedy;
    this.retryAfterMs = extras.retryAfterMs ?? null;
  }
}

/** The same for whoever asked, where no run keeps the failure: in the words that a run would have used. */
export function problemOfModel(failure: ModelFailure): Problem {
  const { code, message, retryAfterMs } = failure;
  const seconds = Math.ceil((retryAfterMs ?? 0) / 1000);
  return new Problem(code, message, {
    cause: failure,
    ...(seconds > 0 && { headers: { 'Retry-After': String(seconds) } }),
  });
}

export const noUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 };
