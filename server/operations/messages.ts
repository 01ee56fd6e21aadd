/** The Messages-style surface: the vendor's shapes outside, our runs and providers inside. */
import type { CreateMessageRequest, MessagesModelInfo, MessagesResponse } from '../contract/api.ts';
import type {
  AskedModels,
  Call,
  Handler,
  ModelPart,
  Services,
  SpentByCall,
  StreamPiece,
} from '../handler.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { asker, homeOf, modelsOf } from './asked-session.ts';
import { collect, frames } from './messages-answer.ts';
import { continueConversation, namedSession } from './messages-conversation.ts';
import { relayFrames, relayWhole } from './messages-relay.ts';
import { answerSchemaOf, generationOf, spoken } from './messages-request.ts';
import { keptWith, openThread } from './messages-threads.ts';
import { choiceOf, toolsOf } from './messages-tools.ts';
import { quotaNotice } from './quota-notice.ts';

/** How long to wait for the first piece, so that a provider's refusal can still be a status of its own. */
const firstPieceMs = 2000;

export const createMessage: Handler<'createMessage'> = async (call, services) => {
  if (services.draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  const answer = await opened(call, services);
  const headers: Record<string, string> = {
    ...(answer.sessionId && { 'x-service-session-id': answer.sessionId }),
    ...quotaNotice(answer.notices),
  };
  try {
    if (call.body.stream)
      return { status: 200, type: 'text/event-stream', headers, body: await answer.frames() };
    return { status: 200, headers, body: await answer.whole() };
  } catch (error) {
    throw withSession(error, answer);
  }
};

/** Of a conversation that went on in a new session the client learns by this alone, also where it failed there. */
function withSession(error: unknown, { sessionId }: Opened): unknown {
  if (!(error instanceof Problem) || sessionId === null) return error;
  const { code, message, errors, quota, concerns, details, cause } = error;
  const headers = { ...error.headers, 'x-service-session-id': sessionId };
  return new Problem(code, message, {
    ...{ headers, cause, concerns },
    ...(errors && { errors }),
    ...(quota && { quota }),
    ...(details && { details }),
  });
}

/** An answer that has not begun, in either form. */
interface Opened {
  readonly sessionId: string | null;
  readonly notices: readonly string[];
  /** Waits a little for the provider. */
  frames(): Promise<AsyncIterable<StreamPiece>>;
  whole(): Promise<MessagesResponse>;
}

function opened(call: Call<'createMessage'>, services: Services): Promise<Opened> {
  const sessionId = call.headers['x-service-session-id'];
  if (call.body.thread) return converseInThread(call, services);
  return sessionId === undefined ? completed(call, services) : converseIn(call, sessionId, services);
}

export const countMessageTokens: Handler<'countMessageTokens'> = async (call, services) => {
  const { body } = call;
  const { runtime } = services;
  const asked = { ...spoken(body), tools: toolsOf(body) };
  await askedModel(call, {}, services);
  return { status: 200, body: { input_tokens: runtime.countTokens(asked) } };
};

export const listCompatModels: Handler<'listCompatModels'> = async ({ query, principal }, services) => {
  const models = await modelsOf(principal, {}, services);
  const names = await models.models();
  const { limit, after_id: after, before_id: before } = query;
  const page = pageOf(names, limit, { after, before });
  const data = await Promise.all(page.names.map((name) => modelInfo(name, models)));
  const ids = { first_id: page.names.at(0) ?? null, last_id: page.names.at(-1) ?? null };
  return { status: 200, body: { data, has_more: page.hasMore, ...ids } };
};

export const getCompatModel: Handler<'getCompatModel'> = async ({ path, principal }, services) => {
  const models = await modelsOf(principal, {}, services);
  const name = await models.resolveForeignModel(path.model_id);
  return { status: 200, body: await modelInfo(name, models) };
};

/** The page behind a name, or the one that ends before it. */
function pageOf(
  names: readonly string[],
  limit: number,
  { after, before }: { readonly after: string | undefined; readonly before: string | undefined },
): { readonly names: readonly string[]; readonly hasMore: boolean } {
  if (before !== undefined) {
    const left = names.slice(0, Math.max(names.indexOf(before), 0));
    return { names: left.slice(-limit), hasMore: left.length > limit };
  }
  const at = after === undefined ? -1 : names.indexOf(after);
  const left = after !== undefined && at < 0 ? [] : names.slice(at + 1);
  return { names: left.slice(0, limit), hasMore: left.length > limit };
}

async function modelInfo(name: string, models: AskedModels): Promise<MessagesModelInfo> {
  const { contextWindow, maxOutputTokens } = await models.modelFacts(name);
  return {
    type: 'model',
    id: name,
    display_name: name.slice(name.indexOf(':') + 1),
    created_at: unknownTime,
    max_input_tokens: contextWindow,
    max_tokens: maxOutputTokens,
  };
}

/** Clients want a time of their vendor's models; ours do not tell it. */
const unknownTime = '1970-01-01T00:00:00.000Z';

/** Runs the agent of a session. */
async function converseIn(
  call: Call<'createMessage'>,
  sessionId: string,
  services: Services,
): Promise<Opened> {
  const { body, principal } = call;
  const place = await namedSession(principal, sessionId, services);
  const { model } = await askedModel(call, { workspaceId: place.session.workspace_id }, services);
  const { parts, estimate, ...rest } = await continueConversation(
    call,
    place,
    model,
    generationOf(body),
    services,
  );
  const beginning = { body, id: newId('message'), estimate };
  return {
    ...rest,
    frames: async () => frames(beginning, await begun(parts)),
    whole: () => collect(beginning, parts),
  };
}

/** The same in the session of a thread, which goes on from this answer if it becomes complete. */
async function converseInThread(call: Call<'createMessage'>, services: Services): Promise<Opened> {
  const { body } = call;
  const { model } = await askedModel(call, {}, services);
  const id = newId('message');
  const thread = await openThread(call, id, services);
  const answer = await continueConversation(call, thread, model, generationOf(body), services).catch(
    async (error: unknown) => {
      await thread.giveUp();
      throw error;
    },
  );
  const { parts, estimate, ...rest } = answer;
  const beginning = { body, id, estimate };
  const forms = {
    frames: async () => frames(beginning, await begun(parts)),
    whole: () => collect(beginning, parts),
  };
  return { ...rest, ...keptWith(thread, forms) };
}

/** Asks a model once: in the client's own words where its provider understands them. */
async function completed(call: Call<'createMessage'>, services: Services): Promise<Opened> {
  const { body, principal, signal } = call;
  const { store, runtime } = services;
  const request = readRequest(body);
  const { model, models } = await askedModel(call, {}, services);
  const { apiKeyId = null } = asker(principal);
  const metered = await store.meteredCalls.begin(principal, model, apiKeyId, homeOf(principal));
  const spent = (spending: SpentByCall) => store.meteredCalls.finish(metered, spending);
  const end = () => store.meteredCalls.end(metered);
  const kept = { sessionId: null, notices: metered.notices };
  if (models.relays(model)) {
    const relay = { call, model, models, spent };
    return {
      ...kept,
      frames: () => begun(endedBy(relayFrames(relay), end)),
      whole: () => relayWhole(relay).finally(end),
    };
  }
  const estimate = runtime.countTokens(request);
  const beginning = { body, id: newId('message'), estimate };
  const answer =
    body.max_tokens === 0
      ? nothing(estimate)
      : models.complete({ ...request, model, spent, whole: !body.stream }, signal);
  const parts = endedBy(answer, end);
  return {
    ...kept,
    frames: async () => frames(beginning, await begun(parts)),
    whole: () => collect(beginning, parts),
  };
}

/** The model that the client means, and all that it may ask. The setting that the header names has to be that of its provider. */
async function askedModel(
  { body, headers, principal }: Pick<Call<'countMessageTokens'>, 'body' | 'headers' | 'principal'>,
  { workspaceId }: { readonly workspaceId?: string | undefined },
  services: Services,
): Promise<{ readonly model: string; readonly models: AskedModels }> {
  const providerSettingId = headers['x-service-provider-setting-id'];
  const asker = { ...(workspaceId !== undefined && { workspaceId }), providerSettingId };
  const models = await modelsOf(principal, asker, services);
  return { model: await models.resolveForeignModel(body.model), models };
}

/** Such a call fills the cache of its provider, which is nothing that other vendors could be asked for. */
async function* nothing(estimate: number): AsyncGenerator<ModelPart> {
  const usage = { input_tokens: estimate, output_tokens: 0, cached_input_tokens: 0 };
  yield { type: 'finish', stopReason: 'max_tokens', usage };
}

/** Whatever becomes of the answer: read to its end, failed, or left, also before anything of it was read. */
function endedBy<Part>(parts: AsyncIterable<Part>, end: () => Promise<void>): AsyncIterableIterator<Part> {
  const iterator = parts[Symbol.asyncIterator]();
  let over: Promise<void> | undefined;
  const endOnce = (): Promise<void> => {
    over ??= end();
    return over;
  };
  const ended = async (next: IteratorResult<Part>): Promise<IteratorResult<Part>> => {
    await endOnce();
    return next;
  };
  const failed = async (error: unknown): Promise<never> => {
    await endOnce();
    throw error;
  };
  return {
    next: () => iterator.next().then((next) => (next.done ? ended(next) : next), failed),
    async return() {
      try {
        await iterator.return?.();
      } finally {
        await endOnce();
      }
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** The request in our words. Throws Problem where it is wrong. */
function readRequest(body: CreateMessageRequest) {
  const tools = toolsOf(body);
  const terms = { ...choiceOf(body, tools), ...answerSchemaOf(body) };
  return { ...spoken(body), generation: generationOf(body), tools, terms };
}

/** Waits a little for the first piece: what fails before it is an ordinary error, with a status. */
async function begun<Part>(parts: AsyncIterable<Part>): Promise<AsyncIterable<Part>> {
  const iterator = parts[Symbol.asyncIterator]();
  const first = iterator.next();
  const { promise: patience, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, firstPieceMs);
  await Promise.race([first, patience]).finally(() => clearTimeout(timer));
  return resumed(first, iterator);
}

/** By hand: a generator would make three turns of each of thousands of pieces. */
function resumed<Part>(
  first: Promise<IteratorResult<Part>>,
  iterator: AsyncIterator<Part>,
): AsyncIterableIterator<Part> {
  let begun = false;
  return {
    next() {
      if (begun) return iterator.next();
      begun = true;
      return first;
    },
    async return() {
      await iterator.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
