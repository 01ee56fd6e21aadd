/** One call for a picture or a sound: connected, bounded in time and size, and its failures in our words. */
import { isDeepStrictEqual } from 'node:util';
import type { OutboundFetch } from '../../outbound/outbound.ts';
import { Problem } from '../../problem.ts';
import { ModelFailure, problemOfModel } from '../models/model.ts';
import { isUnauthorized } from './ai-sdk.ts';
import { beginning } from './held-answers.ts';
import { type ModelCalls, secretsOf, usable } from './open-model.ts';
import type { ProviderDefinition } from './provider-definition.ts';
import type { BodyChange, FactoryCall, ProviderConnection } from './provider-factory.ts';
import { failureOf, timedOut, withoutSecrets } from './provider-failures.ts';
import { Silence } from './silence.ts';
import { addedFields } from './vendor-options.ts';

export type MediaConnectionOptions = ModelCalls;

interface MediaCall extends ModelCalls {
  readonly definition: ProviderDefinition;
  readonly modelId: string;
}

/** A picture in Base64, or some minutes of sound. */
const largestAnswerBytes = 64 * 1024 * 1024;

type Ask<Answer> = (call: FactoryCall, abortSignal: AbortSignal) => Promise<Answer>;

/** Throws Problem. A credential that has been replaced meanwhile is fetched anew, once. */
export async function withMediaConnection<Answer>(
  call: MediaCall,
  signal: AbortSignal,
  ask: Ask<Answer>,
): Promise<Answer> {
  const { definition } = call;
  try {
    const connect = (refused?: ProviderConnection) =>
      usable(definition.id, () => definition.connect(signal, refused));
    const connection = await connect();
    try {
      return await once(call, connection, signal, ask);
    } catch (error) {
      if (!isUnauthorized(error)) throw error;
      const renewed = await connect(connection);
      if (isDeepStrictEqual(renewed, connection)) throw error;
      return await once(call, renewed, signal, ask);
    }
  } catch (error) {
    if (signal.aborted)
      throw new Problem('request_timeout', 'The connection closed before the answer was complete.');
    throw error instanceof ModelFailure ? problemOfModel(error) : error;
  }
}

async function once<Answer>(
  { definition, modelId, timeouts, fetch }: MediaCall,
  connection: ProviderConnection,
  signal: AbortSignal,
  ask: Ask<Answer>,
): Promise<Answer> {
  const secrets = secretsOf(connection);
  const silence = new Silence(timeouts.silenceMs);
  const sent = { any: false };
  const watched = watching(fetch, silence, sent);
  const changeBody = added(definition, modelId, connection);
  try {
    const abortSignal = AbortSignal.any([signal, silence.signal]);
    return await ask({ id: definition.id, ...connection, changeBody, fetch: watched, signal }, abortSignal);
  } catch (error) {
    // Of the store, which has to be told what was used.
    if (error instanceof Problem) throw error;
    if (silence.signal.aborted) throw timedOut(timeouts.silenceMs, withoutSecrets(error, secrets));
    throw sent.any ? failureOf(error, secrets) : unsent(error, `${definition.id}:${modelId}`);
  } finally {
    silence.end();
  }
}

/** Hears the answer coming, and breaks it off where it becomes too large to be held. */
function watching(fetch: OutboundFetch, silence: Silence, sent: { any: boolean }): OutboundFetch {
  return async (input, init) => {
    sent.any = true;
    const response = await fetch(input, await inBytes(init));
    if (!response.body) return response;
    let size = 0;
    const bounded = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        silence.heard();
        size += chunk.length;
        if (size > largestAnswerBytes) controller.error(new Error('The answer is too large to be held.'));
        else controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers, url } = response;
    const read = response.ok ? response.body : response.body.pipeThrough(beginning());
    const watched = new Response(read.pipeThrough(bounded), { status, statusText, headers });
    // Clients compare where an answer came from with where they asked.
    return Object.defineProperty(watched, 'url', { value: url });
  };
}

/** Forms are of the platform, which our guarded client does not know: it is given what they become. */
async function inBytes(init: RequestInit | undefined): Promise<RequestInit | undefined> {
  if (!(init?.body instanceof FormData)) return init;
  const form = new Response(init.body);
  const headers = new Headers(init.headers);
  headers.set('content-type', form.headers.get('content-type') ?? 'multipart/form-data');
  return { ...init, headers: Object.fromEntries(headers), body: await form.bytes() };
}

/** What a vendor's client refuses by itself it will refuse again: a model that is none of the kind, above all. */
function unsent(error: unknown, name: string): ModelFailure {
  if (error instanceof ModelFailure) return error;
  return new ModelFailure(
    'provider_refused',
    'replace',
    `The model ${name} cannot be asked for this; choose another model.`,
    { cause: error },
  );
}

/** What the settings add to each request for the model, and to each of a compatible provider. */
function added(
  { models }: ProviderDefinition,
  modelId: string,
  { extraBody = {} }: ProviderConnection,
): BodyChange | null {
  const options = models.find(({ id }) => id === modelId)?.settings?.options?.provider_options ?? {};
  const fields = { ...addedFields(options), ...extraBody };
  return Object.keys(fields).length === 0 ? null : (body) => ({ ...body, ...fields });
}
