/** A model of a provider, opened: connects when it is first asked, and keeps the connection as long as it is good. */
import { isDeepStrictEqual } from 'node:util';
import type { OutboundCall, OutboundFetch } from '../../outbound/outbound.ts';
import { Problem } from '../../problem.ts';
import {
  type Model,
  ModelFailure,
  type ModelPart,
  type ModelRequest,
  type RelayedAnswer,
  type RelayRequest,
} from '../models/model.ts';
import { isUnauthorized, type ModelTimeouts, streamFromSdk } from './ai-sdk.ts';
import { mostWrittenCharacters } from './answer-bounds.ts';
import { isAnthropicsOwn } from './anthropic-address.ts';
import { modelFacts } from './catalogue.ts';
import { heldFetch } from './held-answers.ts';
import { type Learnt, learntOf } from './learnt.ts';
import { relayMessages } from './messages-relay.ts';
import { modelSettings, withModelSettings } from './model-settings.ts';
import { speaksResponses } from './openai-responses.ts';
import type { ProviderDefinition } from './provider-definition.ts';
import type { ProviderConnection } from './provider-factory.ts';
import {
  bindsThoughts,
  missesThoughts,
  refusesThoughts,
  tooLong,
  wantsAnswerBetween,
  wantsNineCharacters,
} from './provider-failures.ts';
import { factoryOf } from './provider-types.ts';
import { portableHistory } from './relayed-history.ts';
import { Silence } from './silence.ts';
import { Thoughts } from './thoughts.ts';
import { addedFields, leavesOutThoughts, vendorOptions } from './vendor-options.ts';

/** What calls of every model have in common. */
export interface ModelCalls {
  readonly timeouts: ModelTimeouts;
  /** By which every provider is reached. */
  readonly fetch: OutboundFetch;
}

/** What those of models that write have besides. */
export interface WritingCalls extends ModelCalls {
  /** By which what is passed on as it comes goes. */
  readonly call: OutboundCall;
}

/** Nothing is resolved yet: that may run commands of the settings, and happens when the model is asked. */
export function openModel(
  definition: ProviderDefinition,
  modelId: string,
  { timeouts, fetch, call }: WritingCalls,
): Model {
  const { id, type } = definition;
  const settings = modelSettings(definition.models.find((model) => model.id === modelId));
  const learnt = learntOf(definition, modelId);
  const thoughts = new Thoughts({ id, type, areBound: learnt.bindsThoughts });
  // A run has many steps, and a command of the settings may be slow.
  let kept: ProviderConnection | null = null;

  async function ask(
    connection: ProviderConnection,
    request: ModelRequest,
    { separatesResults, wantsNine }: Learnt,
    signal: AbortSignal,
  ) {
    const fields = { ...definition.providerOptions, ...request.providerOptions };
    const answersThoughtless = thoughts.lostIn(request.messages);
    const { baseUrl } = connection;
    const responses = speaksResponses({ type, baseUrl, modelId, model: settings, fields });
    const thoughtsMayGo = leavesOutThoughts({ baseUrl, modelId, fields });
    const vendor = vendorOptions({
      ...{ type, request, model: settings, fields, responses, answersThoughtless, thoughtsMayGo },
    });
    const factory = await factoryOf(type);
    const { changeBody } = vendor;
    let silence: Silence | null = null;
    const held = heldFetch(fetch, () => silence?.heard());
    const model = await usable(id, async () =>
      factory({ id, ...connection, changeBody, responses, fetch: held, call, signal }, modelId),
    );
    // Not before: a token that had to be fetched for it is none of the answer's time.
    silence = new Silence(timeouts.silenceMs, signal);
    const secrets = secretsOf(connection);
    const name = `${id}:${modelId}`;
    return streamFromSdk({
      model,
      name,
      type,
      request,
      signal,
      silence,
      secrets,
      vendor,
      thoughts,
      separatesResults,
      wantsNine,
    });
  }

  /** Whether there is another credential now than the one that was refused: the same would be refused again. */
  async function renewed(error: unknown, signal: AbortSignal): Promise<boolean> {
    const refused = kept;
    if (!refused || !isUnauthorized(error)) return false;
    kept = await usable(id, () => definition.connect(signal, refused));
    return !isDeepStrictEqual(kept, refused);
  }

  /** Whether the request, which was sent by what was `known` then, was refused for what can be sent with it, or left out. */
  function isMended(error: unknown, known: Learnt): boolean {
    if (missesThoughts(error) && thoughts.wantBack()) return true;
    if (refusesThoughts(error) && thoughts.giveUp()) {
      learnt.bindsThoughts ||= bindsThoughts(error);
      return true;
    }
    if (type !== 'openai-compat') return false;
    if (!known.wantsNine && wantsNineCharacters(error)) {
      learnt.wantsNine = true;
      return true;
    }
    if (known.separatesResults || !wantsAnswerBetween(error)) return false;
    learnt.separatesResults = true;
    return true;
  }

  async function relay(request: RelayRequest, signal: AbortSignal): Promise<RelayedAnswer> {
    const body = relayedBody(request.body, modelId, definition);
    const silenceMs = timeouts.silenceMs;
    const sent = async (given: RelayRequest['body']): Promise<RelayedAnswer> => {
      for (let mayRenew = true; ; mayRenew = false) {
        try {
          kept ??= await usable(id, () => definition.connect(signal));
          const connection = kept;
          const body = isAnthropicsOwn(connection.baseUrl) ? portableHistory(given) : given;
          const secrets = secretsOf(connection);
          return await relayMessages({ connection, request, body, call, signal, silenceMs, secrets });
        } catch (error) {
          if (signal.aborted || !mayRenew || !(await renewed(error, signal))) throw error;
        }
      }
    };
    try {
      return await sent(body);
    } catch (error) {
      // Some who imitate that API want back what they have not signed.
      const isRefused = error instanceof ModelFailure && error.remedy === 'reword';
      if (signal.aborted || !isRefused || isAnthropicsOwn(kept?.baseUrl)) throw error;
      const portable = portableHistory(body);
      if (portable === body) throw error;
      return sent(portable);
    }
  }

  return {
    name: `${id}:${modelId}`,
    ...(type === 'anthropic' && { relay }),
    facts: () => modelFacts(definition, modelId),
    async *stream(request, signal): AsyncGenerator<ModelPart> {
      if (settings?.supports_attachments === false) refuseFiles(request, `${id}:${modelId}`);
      const whole = withPrefix(withModelSettings(request, settings), definition.systemPromptPrefix);
      let length = 0;
      let hasBegun = false;
      let mayRenew = true;
      for (;;) {
        // Another run may learn something while this one is being refused for the same.
        const known = { ...learnt };
        try {
          kept ??= await usable(id, () => definition.connect(signal));
          for await (const part of await ask(kept, whole, known, signal)) {
            hasBegun = true;
            length += lengthOf(part);
            if (length > mostWrittenCharacters) throw tooLong();
            yield part;
          }
          return;
        } catch (error) {
          if (signal.aborted) return;
          if (hasBegun) throw error;
          if (isMended(error, known)) continue;
          if (!mayRenew || !(await renewed(error, signal))) throw error;
          mayRenew = false;
        }
      }
    },
  };
}

function lengthOf(part: ModelPart): number {
  if (part.type === 'text' || part.type === 'reasoning') return part.text.length;
  return part.type === 'tool_input' ? part.json.length : 0;
}

/** The model by the provider's name for it, with what the settings add; a client's own word counts before theirs. */
function relayedBody(
  body: RelayRequest['body'],
  modelId: string,
  { providerOptions, systemPromptPrefix: prefix }: ProviderDefinition,
): RelayRequest['body'] {
  const { system } = body;
  const head = { type: 'text', text: prefix };
  const prefixed = Array.isArray(system) ? [head, ...system] : `${prefix}\n${system ?? ''}`;
  return {
    ...addedFields(providerOptions ?? {}),
    ...body,
    model: modelId,
    ...(prefix && { system: prefixed }),
  };
}

function withPrefix(request: ModelRequest, prefix: string | undefined): ModelRequest {
  return prefix ? { ...request, system: `${prefix}\n${request.system}` } : request;
}

/** What the settings say is wrong with them is for the operator's log, not for whoever asks a question. */
export async function usable<Made>(id: string, make: () => Promise<Made>): Promise<Made> {
  try {
    return await make();
  } catch (cause) {
    if (cause instanceof ModelFailure) throw cause;
    // Such as a connection that somebody has to make again, which they can.
    if (cause instanceof Problem && (cause.code === 'provider_refused' || cause.code === 'provider_failed'))
      throw new ModelFailure(
        cause.code,
        cause.code === 'provider_failed' ? 'retry' : 'replace',
        cause.message,
        {
          cause,
        },
      );
    throw new ModelFailure(
      'provider_refused',
      'replace',
      `The settings of the provider ${id} cannot be used; its operator's log says why.`,
      { cause },
    );
  }
}

/** Another model may be one that sees. */
function refuseFiles({ messages }: ModelRequest, name: string): void {
  if (messages.every(({ parts }) => parts.every(({ type }) => type !== 'file'))) return;
  throw new ModelFailure(
    'provider_refused',
    'replace',
    `The model ${name} cannot be shown pictures or documents; choose another model, or leave them out.`,
  );
}

/** Any header may be a credential. What is very short is none, and would blot out half a sentence. */
export function secretsOf({ apiKey, authToken, headers }: ProviderConnection): readonly string[] {
  const given = [apiKey ?? '', authToken ?? '', ...Object.values(headers ?? {})];
  return given.flatMap((value) => [value, value.replace(/^\w+ /, '')]).filter(({ length }) => length >= 8);
}
