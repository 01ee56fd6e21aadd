/** Keeps what vendors signed of an answer that led to tool calls: they want it back with the results. */
import type { LanguageModelV4StreamPart, SharedV4ProviderMetadata } from '@ai-sdk/provider';
import type { ModelMessage } from '../models/model.ts';
import type { ProviderType } from './provider-definition.ts';

/** One thought, with what its vendor signed it by. */
export interface Thought {
  readonly type: 'reasoning';
  readonly text: string;
  readonly providerOptions: SharedV4ProviderMetadata;
}

interface ThinkingProvider {
  readonly id: string;
  readonly type: ProviderType;
  /** Whether an earlier run was refused the thoughts of those before it, as this one would be. */
  readonly areBound?: boolean;
}

/** By the tool calls that followed, as far as this process heard them; else as they are stored. */
export class Thoughts {
  readonly #provider: ThinkingProvider;
  readonly #byCall = new Map<string, readonly Thought[]>();
  readonly #signatures = new Map<string, SharedV4ProviderMetadata>();
  /**
   * Whether one that imitates OpenAI wants the thoughts before tool calls back, in the field by which it gives them. DeepSeek
   * and Kimi refuse an answer without; others refuse the field.
   */
  #areWanted = false;
  /** Whether Anthropic has refused what was thought before: what it was thought about is not the same any more. */
  #areRefused: boolean;

  constructor(provider: ThinkingProvider) {
    this.#provider = provider;
    this.#areRefused = provider.areBound === true;
  }

  /** The thoughts before the answer's tool calls; none where they are not known, or not wanted. */
  before(message: ModelMessage): readonly Thought[] {
    const call = message.parts.find((part) => part.type === 'tool_use');
    if (this.#provider.type === 'openai-compat')
      return call && this.#areWanted ? this.#unsigned(message) : [];
    return (call && this.#byCall.get(call.id)) ?? this.#stored(message);
  }

  /** From now on they are sent back; whether that is news. */
  wantBack(): boolean {
    const isNews = this.#provider.type === 'openai-compat' && !this.#areWanted;
    this.#areWanted ||= isNews;
    return isNews;
  }

  /**
   * From now on nothing that was thought so far is sent back; whether that is news. Which of it fits no more only the
   * vendor can tell.
   */
  giveUp(): boolean {
    const isNews = this.#provider.type === 'anthropic' && (!this.#areRefused || this.#byCall.size > 0);
    this.#areRefused ||= isNews;
    this.#byCall.clear();
    return isNews;
  }

  /** A thought that is not known has to stand there, too. */
  #unsigned(message: ModelMessage): readonly Thought[] {
    const said = this.#isForeign(message) ? [] : message.parts;
    const text = said.map((part) => (part.type === 'reasoning' ? part.text : '')).join('');
    return [{ type: 'reasoning', text: text || ' ', providerOptions: {} }];
  }

  /** The model is not compared: Anthropic itself leaves out what the one that it asks may not read of another's thoughts. */
  #isForeign({ model }: ModelMessage): boolean {
    return model !== undefined && !model.startsWith(`${this.#provider.id}:`);
  }

  /** What one provider has signed means nothing to another. */
  #stored(message: ModelMessage): readonly Thought[] {
    const { role, parts } = message;
    if (this.#areRefused) return [];
    if (this.#provider.type !== 'anthropic' || role !== 'assistant' || this.#isForeign(message)) return [];
    return parts.flatMap((part): Thought[] => {
      if (part.type !== 'reasoning') return [];
      const { text, signature, redacted } = part;
      if (redacted !== undefined)
        return [{ type: 'reasoning', text: '', providerOptions: { anthropic: { redactedData: redacted } } }];
      return signature ? [{ type: 'reasoning', text, providerOptions: { anthropic: { signature } } }] : [];
    });
  }

  /** What Google signed a tool call by. Without it, its client says so in words that Google takes. */
  signatureOf(callId: string): SharedV4ProviderMetadata | undefined {
    return this.#signatures.get(callId);
  }

  /** Whether the conversation goes on from tool calls whose thoughts are lost. */
  lostIn(messages: readonly ModelMessage[]): boolean {
    const prompt = messages.findLastIndex(({ role }) => role === 'user');
    // After a tool's result the model need not think again.
    const answer = messages.slice(prompt + 1).find(({ role }) => role === 'assistant');
    return answer !== undefined && this.before(answer).length === 0;
  }

  /** Listens to an answer as it comes. */
  listener(): (part: LanguageModelV4StreamPart) => void {
    const open = new Map<string, { text: string; metadata: SharedV4ProviderMetadata }>();
    return (part) => {
      if (
        part.type === 'reasoning-start' ||
        part.type === 'reasoning-delta' ||
        part.type === 'reasoning-end'
      ) {
        if (part.providerMetadata?.openaiCompatible?.isTakenBack) this.wantBack();
        const { text, metadata } = open.get(part.id) ?? { text: '', metadata: {} };
        const more = part.type === 'reasoning-delta' ? part.delta : '';
        open.set(part.id, { text: text + more, metadata: { ...metadata, ...part.providerMetadata } });
      }
      if (part.type === 'tool-call') {
        this.#byCall.set(part.toolCallId, signed([...open.values()]));
        const { google, googleVertex } = part.providerMetadata ?? {};
        if (google ?? googleVertex)
          this.#signatures.set(part.toolCallId, {
            ...(google && { google }),
            ...(googleVertex && { googleVertex }),
          });
      }
    };
  }
}

/** Anthropic and OpenAI want the thoughts themselves, as sealed by them; Google wants the signature, which the call carries. */
function signed(
  thoughts: readonly { readonly text: string; readonly metadata: SharedV4ProviderMetadata }[],
): Thought[] {
  return thoughts
    .filter(({ metadata }) => metadata.anthropic !== undefined || metadata.openai?.itemId !== undefined)
    .map(({ text, metadata }) => ({ type: 'reasoning', text, providerOptions: metadata }));
}
