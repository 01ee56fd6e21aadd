/** The Messages-style surface: the vendor's shapes outside, our runs and providers inside. */
import type { CreateMessageRequest, MessagesModelInfo } from '../contract/api.ts';
import type { Call, Handler, ModelPart, Services, SpentByCall } from '../handler.ts';
import { Problem } from '../problem.ts';
import { asker } from './asked-session.ts';
import { collect, frames } from './messages-answer.ts';
import { type Answer, continueConversation } from './messages-conversation.ts';
import { answerSchemaOf, generationOf, spoken } from './messages-request.ts';
import { choiceOf, toolsOf } from './messages-tools.ts';
import { quotaNotice } from './quota-notice.ts';

/** How long to wait for the first piece, so that a provider's refusal can still be a status of its own. */
const firstPieceMs = 2000;

export const createMessage: Handler<'createMessage'> = async (call, services) => {
  if (services.draining()) throw new Problem('draining', 'The server is stopping; try again in a moment.');
  refuseThreads(call.body);
  const model = await services.runtime.resolveForeignModel(call.body.model);
  const answer = await openAnswer(call, model, services);
  const headers: Record<string, string> = {
    ...(answer.sessionId && { 'x-service-session-id': answer.sessionId }),
    ...quotaNotice(answer.notices),
  };
  if (call.body.stream) {
    const parts = await begun(answer.parts);
    return { status: 200, type: 'text/event-stream', headers, body: frames(call.body, parts) };
  }
  return { status: 200, headers, body: await collect(call.body, answer.parts) };
};

/** A thread would be lost in silence; told of that, clients send the whole conversation. */
function refuseThreads({ thread }: CreateMessageRequest): void {
  if (!thread) return;
  throw new Problem('invalid_request', 'thread: this server keeps no threads; send the whole conversation.', {
    details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
  });
}

export const countMessageTokens: Handler<'countMessageTokens'> = async ({ body }, { runtime }) => {
  await runtime.resolveForeignModel(body.model);
  return {
    status: 200,
    body: { input_tokens: runtime.countTokens({ ...spoken(body), tools: toolsOf(body) }) },
  };
};

export const listCompatModels: Handler<'listCompatModels'> = async ({ query }, { runtime }) => {
  const names = await runtime.models();
  const { limit, after_id: after, before_id: before } = query;
  const page = pageOf(names, limit, { after, before });
  const data = await Promise.all(page.names.map((name) => modelInfo(name, runtime)));
  const ids = { first_id: page.names.at(0) ?? null, last_id: page.names.at(-1) ?? null };
  return { status: 200, body: { data, has_more: page.hasMore, ...ids } };
};

export const getCompatModel: Handler<'getCompatModel'> = async ({ path }, { runtime }) => {
  const name = await runtime.resolveForeignModel(path.model_id);
  return { status: 200, body: await modelInfo(name, runtime) };
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

async function modelInfo(name: string, runtime: Services['runtime']): Promise<MessagesModelInfo> {
  const { contextWindow, maxOutputTokens } = await runtime.modelFacts(name);
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

async function openAnswer(call: Call<'createMessage'>, model: string, services: Services): Promise<Answer> {
  const sessionId = call.headers['x-service-session-id'];
  if (sessionId !== undefined)
    return continueConversation(call, sessionId, model, generationOf(call.body), services);
  const request = readRequest(call.body);
  const { store, runtime } = services;
  const metered = await store.meteredCalls.begin(
    call.principal,
    model,
    asker(call.principal).apiKeyId ?? null,
  );
  const spent = (spending: SpentByCall) => store.meteredCalls.add(metered, spending);
  const parts = runtime.complete({ ...request, model, spent }, call.signal);
  return {
    parts: endedBy(parts, () => store.meteredCalls.end(metered)),
    ...{ sessionId: null, notices: metered.notices },
  };
}

/** Whatever becomes of the answer: read to its end, failed, or left. */
async function* endedBy<Part>(parts: AsyncIterable<Part>, end: () => Promise<void>): AsyncGenerator<Part> {
  try {
    yield* parts;
  } finally {
    await end();
  }
}

/** The request in our words. Throws Problem where it is wrong. */
function readRequest(body: CreateMessageRequest) {
  const tools = toolsOf(body);
  const terms = { ...choiceOf(body, tools), ...answerSchemaOf(body) };
  return { ...spoken(body), generation: generationOf(body), tools, terms };
}

/** Waits a little for the first piece: what fails before it is an ordinary error, with a status. */
async function begun(parts: AsyncIterable<ModelPart>): Promise<AsyncIterable<ModelPart>> {
  const iterator = parts[Symbol.asyncIterator]();
  const first = iterator.next();
  const { promise: patience, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, firstPieceMs);
  await Promise.race([first, patience]).finally(() => clearTimeout(timer));
  return resumed(first, iterator);
}

async function* resumed(
  first: Promise<IteratorResult<ModelPart>>,
  iterator: AsyncIterator<ModelPart>,
): AsyncGenerator<ModelPart> {
  try {
    for (let next = await first; !next.done; next = await iterator.next()) yield next.value;
  } finally {
    await iterator.return?.();
  }
}
