/** Threads: conversations that are kept between the calls of a client, so that it sends only what is new. Each is a session. */
import type { MessagesBlockParam, MessagesResponse, MessagesTool, Session } from '../contract/api.ts';
import type { Call, ServerEvent, Services } from '../handler.ts';
import { Problem } from '../problem.ts';
import { removeFiles } from './after-changes.ts';
import { leftWith } from './messages-answer.ts';
import type { ConversationPlace } from './messages-conversation.ts';
import { refusal } from './messages-refusal.ts';
import { instructionsOf, spoken } from './messages-request.ts';
import { toolChanges, toolsOf } from './messages-tools.ts';
import { vendorTool } from './messages-vendor-tools.ts';
import { titleOf } from './session-title.ts';

/** A thread that waits for its next answer. */
export interface OpenThread extends ConversationPlace {
  /** With that answer, instructions and tools that came with the request count from now on. */
  keep(): Promise<void>;
  /** Where that answer will never be complete: the thread goes on from the one before. */
  putBack(): Promise<void>;
  /** Where nobody was asked for that answer: of a thread that would begin with it nothing is left. */
  giveUp(): Promise<void>;
}

/** Of a thread as the store has it; all of it came from a client, and has passed the contract. */
interface Terms {
  readonly system: string;
  readonly tools: readonly MessagesTool[];
  readonly toolChanges: readonly MessagesBlockParam[];
}

/** The thread that the request begins, or goes on with; its next answer will bear the id. Throws Problem. */
export async function openThread(
  call: Call<'createMessage'>,
  answerId: string,
  services: Services,
): Promise<OpenThread> {
  refuseUnsupported(call);
  const { thread } = call.body;
  if (thread?.type !== 'continue') return begin(call, answerId, services);
  if (thread.previous_message_id === undefined)
    throw refusal('/thread/previous_message_id', 'is required', 'required');
  return goOn(call, { messageId: answerId, previousMessageId: thread.previous_message_id }, services);
}

async function begin(
  { principal, body }: Call<'createMessage'>,
  answerId: string,
  services: Services,
): Promise<OpenThread> {
  const { store } = services;
  const { system, messages } = spoken(body);
  const terms = {
    system: instructionsOf(body, true),
    tools: body.tools ?? [],
    toolChanges: toolChanges(body.messages).map(({ block }) => block),
  };
  const tools = offered(terms);
  refuseSize(terms);
  const first = messages.flatMap(({ parts }) => parts).find((part) => part.type === 'text');
  const { session } = await store.sessions.create(principal, { title: titleOf(first?.text ?? '') });
  await store.messageThreads.begin(principal, session.id, answerId, terms);
  return {
    ...{ session, thread: { system, tools } },
    keep: async () => undefined,
    putBack: async () => undefined,
    async giveUp() {
      const sessionIds = await store.sessions.delete(principal, session.id);
      await removeFiles({ workspaceIds: [], sessionIds }, services);
    },
  };
}

async function goOn(
  { principal, body }: Call<'createMessage'>,
  step: { readonly messageId: string; readonly previousMessageId: string },
  { store }: Services,
): Promise<OpenThread> {
  for (const name of ['system', 'tools'] as const)
    if (body[name] !== undefined && body[name] !== null)
      throw refusal(`/${name}`, 'was said when the thread began; leave it out', 'unsupported');
  const taken = await store.messageThreads.take(principal, step);
  if (typeof taken === 'string') throw notToBeContinued(taken);
  const putBack = () => store.messageThreads.putBack(principal, taken.sessionId, step);
  try {
    const before = taken as Terms & { readonly sessionId: string }; // as `begin` has stored it
    const changes = toolChanges(body.messages).map(({ block }) => block);
    const terms = {
      system: joined(before.system, instructionsOf(body, true)),
      tools: before.tools,
      toolChanges: [...before.toolChanges, ...changes],
    };
    const tools = offered(terms);
    refuseSize(terms);
    const hasChanged = terms.system !== before.system || changes.length > 0;
    const keep = () =>
      store.messageThreads.keep(principal, before.sessionId, step.messageId, hasChanged ? terms : null);
    const session = await sessionOf(principal, before.sessionId, store);
    const system = joined(before.system, instructionsOf(body));
    return { session, thread: { system, tools }, keep, putBack, giveUp: putBack };
  } catch (error) {
    await putBack();
    throw error;
  }
}

/** An answer in either form: the thread goes on from it once it is complete, and else from the one before. */
export function keptWith(thread: OpenThread, answer: ThreadAnswer): ThreadAnswer {
  return {
    frames: async () => keptFrames(thread, await orPutBack(thread, answer.frames)),
    whole: () =>
      orPutBack(thread, async () => {
        const message = await answer.whole();
        await thread.keep();
        return message;
      }),
  };
}

interface ThreadAnswer {
  readonly frames: () => Promise<AsyncIterable<ServerEvent>>;
  readonly whole: () => Promise<MessagesResponse>;
}

async function orPutBack<Result>(thread: OpenThread, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    await thread.putBack();
    throw error;
  }
}

/** A client that hears of the end may go on at once, and one that has left before does not. */
function keptFrames(
  thread: OpenThread,
  events: AsyncIterable<ServerEvent>,
): AsyncIterableIterator<ServerEvent> {
  const source = events[Symbol.asyncIterator]();
  let settled = false;
  const putBack = async (): Promise<void> => {
    if (settled) return;
    settled = true;
    await thread.putBack();
  };
  async function* read(): AsyncGenerator<ServerEvent> {
    try {
      for await (const event of { [Symbol.asyncIterator]: () => source }) {
        if (event.name === 'message_delta') {
          await thread.keep();
          settled = true;
        }
        yield event;
      }
    } finally {
      await putBack();
    }
  }
  return leftWith(read(), async () => {
    await source.return?.();
    await putBack();
  });
}

async function sessionOf(
  principal: Call<'createMessage'>['principal'],
  sessionId: string,
  store: Services['store'],
): Promise<Session> {
  const found = await store.sessions.find(principal, sessionId);
  if (!found) throw notToBeContinued('unknown');
  return found.session;
}

function joined(...texts: readonly string[]): string {
  return texts.filter(Boolean).join('\n\n');
}

function offered({ tools, toolChanges: changes }: Terms) {
  return toolsOf({ tools: [...tools], messages: [] }, changes);
}

/** Clients send the whole conversation for each of these codes. */
function notToBeContinued(why: 'unknown' | 'continued' | 'in_flight'): Problem {
  const { code, error_code, sentence } = faults[why];
  return new Problem(code, `thread: ${sentence}`, { details: { error_code } });
}

const faults = {
  unknown: {
    code: 'not_found',
    error_code: 'thread_not_found',
    sentence: 'no thread goes on from this message, or it is not yours; send the whole conversation.',
  },
  continued: {
    code: 'invalid_request',
    error_code: 'thread_already_continued',
    sentence: 'it went on from this message before; send the whole conversation.',
  },
  in_flight: {
    code: 'session_busy',
    error_code: 'thread_continue_in_flight',
    sentence: 'another answer is being written; try again, or send the whole conversation.',
  },
} as const;

/** A session can neither hold nor answer what its vendor alone would: told of that, clients go on without a thread. */
function refuseUnsupported({ body, headers }: Call<'createMessage'>): void {
  const unsupported = [
    headers['x-service-session-id'] !== undefined ? ['x-service-session-id'] : [],
    body.mcp_servers?.length ? ['mcp_servers'] : [],
    body.container ? ['container'] : [],
    (body.tools ?? []).flatMap(vendorRuns),
    body.messages.flatMap(({ content }) => (Array.isArray(content) ? content.flatMap(vendorMeans) : [])),
  ].flat();
  if (unsupported.length > 0) throw unsupportedIn([...new Set(unsupported)]);
}

function vendorRuns({ type }: MessagesTool): readonly string[] {
  if (type === undefined || type === null || type === 'custom') return [];
  return vendorTool(type) ? [] : [type];
}

function vendorMeans({ type }: MessagesBlockParam): readonly string[] {
  const vendors = /^(server_tool_use|mcp_|container_upload|.+_tool_result$)/.test(type);
  return vendors ? [type] : [];
}

/** In characters: more is no description of tools. */
const mostTerms = 4_000_000;

function refuseSize(terms: Terms): void {
  if (JSON.stringify(terms).length > mostTerms) throw unsupportedIn(['tools']);
}

function unsupportedIn(unsupported: string[]): Problem {
  return new Problem(
    'invalid_request',
    `thread: a thread cannot hold ${unsupported.join(', ')}; send the whole conversation without one.`,
    { details: { error_code: 'thread_unsupported_request', unsupported } },
  );
}
