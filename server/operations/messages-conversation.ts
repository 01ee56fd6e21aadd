/** Continues a session through the Messages surface: appends what is new to it, or forks it where history differs. */
import { createHash } from 'node:crypto';
import type { InterruptReason, Message, MessagePart, ResponseChunk, Session } from '../contract/api.ts';
import type {
  Call,
  Generation,
  ModelMessage,
  ModelPart,
  Principal,
  Services,
  ToolDefinition,
} from '../handler.ts';
import { Problem } from '../problem.ts';
import { removeFiles } from './after-changes.ts';
import { askedSession, askedWith, asker } from './asked-session.ts';
import { failureOf } from './failed-run.ts';
import { callsIn, histories, newTurns, openCalls, sentTurns } from './messages-history.ts';
import { refusal } from './messages-refusal.ts';
import { answerSchemaOf, spoken } from './messages-request.ts';
import { choiceOf, toolsOf } from './messages-tools.ts';

type FilePart = Extract<ModelMessage['parts'][number], { type: 'file' }>;

/** Where an answer comes from: a bare model call, or a run in a session. */
export interface Answer {
  readonly parts: AsyncIterable<ModelPart>;
  readonly sessionId: string | null;
  /** Soft limits that are passed. */
  readonly notices: readonly string[];
  /** About how many tokens the model is given to read. */
  readonly estimate: number;
}

/** Where a conversation goes on. */
export interface ConversationPlace {
  readonly session: Session;
  /** What a thread has been told at its begin. All that is sent is new to it. */
  readonly thread?: { readonly system: string; readonly tools: readonly ToolDefinition[] };
}

/** The session that the client names. Throws `not_found`. */
export async function namedSession(
  principal: Principal,
  sessionId: string,
  { store }: Services,
): Promise<ConversationPlace> {
  const found = await store.sessions.find(principal, sessionId);
  if (!found) throw new Problem('not_found', 'No session has this id, or it is not yours.');
  return { session: found.session };
}

/** Runs the agent in the session, or in a fork of it, and answers with what it writes. */
export async function continueConversation(
  call: Call<'createMessage'>,
  place: ConversationPlace,
  model: string,
  generation: Generation,
  services: Services,
): Promise<Answer> {
  const { principal, body, headers, signal } = call;
  const { session: named, thread } = place;
  const { store, runtime, log } = services;
  if (body.max_tokens === 0)
    throw refusal('/max_tokens', 'must be at least 1 within a session, which keeps every answer', 'minimum');
  const callerTools = thread?.tools ?? toolsOf(body);
  const terms = { ...choiceOf(body, callerTools), ...answerSchemaOf(body) };
  const isCallers = ({ name }: { readonly name: string }) => callerTools.some((tool) => tool.name === name);
  const content = await store.transcript.readContent(named.id);
  const said = spoken(body, openCalls(content.messages, content));
  const system = thread?.system ?? said.system;
  const messages = said.messages.map(storable);
  if (messages.length === 0)
    throw new Problem(
      'invalid_request',
      'messages: holds instructions only; add a message of the role user.',
    );
  const calls = callsIn(messages);
  const sent = sentTurns(messages, calls);
  const fresh = thread ? sent : newTurns(histories(content.messages, content, calls), sent);
  const session = fresh ? named : await fork(named);
  const begun = runtime.start({
    session: {
      ...askedSession(session),
      systemPrompt: [session.system_prompt, system].filter(Boolean).join('\n\n') || null,
    },
    ...asker(principal),
    trigger: 'messages',
    messages: fresh ? messages.slice(messages.length - fresh.length) : messages,
    model,
    generation,
    ...askedWith(principal, {
      ...{ callerTools, terms },
      providerSettingId: headers['x-service-provider-setting-id'],
    }),
    onUnanswered: 'deny',
    ...(fresh && !thread && { afterRun: content.newestRun }),
  });
  let started: Awaited<typeof begun>;
  try {
    started = await begun;
  } catch (error) {
    // What was asked at the same time came first: it has another history now.
    if (error instanceof Error && error.name === 'SessionMoved')
      return continueConversation(call, place, model, generation, services);
    // A client that is refused, and asks again, would leave one behind each time.
    if (session !== named)
      await forget(session).catch((failure: unknown) =>
        log.warn({ err: failure, session_id: session.id }, 'a fork that nobody is told of stays'),
      );
    throw error;
  }
  const { runId, notices } = started;
  // By the signal itself, not at the end of the stream: nobody may ever begin to read it.
  if (signal.aborted) await stop(runId);
  else signal.addEventListener('abort', () => void stop(runId), { once: true });
  const reads = runtime.countTokens({ system, messages: said.messages, tools: callerTools });
  const estimate = thread ? reads + named.context.used : Math.max(reads, fresh ? named.context.used : 0);
  return { parts: runParts(runId), sessionId: session.id, notices, estimate };

  async function fork(parent: Session): Promise<Session> {
    const copy = {
      title: parent.title,
      workspace_id: parent.workspace_id,
      agent_slug: parent.agent_slug,
      permission_rules: parent.permission_rules,
      tags: parent.tags,
      metadata: parent.metadata,
      ...(parent.model && { model: parent.model }),
      ...(parent.system_prompt && { system_prompt: parent.system_prompt }),
    };
    return (await store.sessions.create(principal, copy, { parentId: parent.id })).session;
  }

  async function forget({ id }: Session): Promise<void> {
    const sessionIds = await store.sessions.delete(principal, id);
    await removeFiles({ workspaceIds: [], sessionIds }, services);
  }

  function* partOf(chunk: ResponseChunk): Generator<ModelPart> {
    if (chunk.type === 'text_delta') yield { type: 'text', text: chunk.text };
    else if (chunk.type === 'reasoning_delta') {
      const { text, signature, redacted } = chunk;
      yield {
        type: 'reasoning',
        text,
        ...(signature !== undefined && { signature }),
        ...(redacted !== undefined && { redacted }),
      };
    } else if (isCallers({ name: chunk.tool_name }))
      yield { type: 'tool_input', id: chunk.tool_call_id, name: chunk.tool_name, json: chunk.json };
  }

  async function* runParts(runId: string): AsyncGenerator<ModelPart> {
    for await (const event of runtime.follow(runId, { after: 0, follow: true, signal })) {
      if (event.name === 'message') yield* partOf(event.data);
      if (event.name === 'done') {
        const { stop_reason: stopReason, interrupt_reason: why, tool_uses, usage } = event.data;
        if (stopReason === 'error' || (stopReason === 'interrupted' && why !== 'hook'))
          throw interrupted(why);
        yield* tool_uses.filter(isCallers);
        yield { type: 'finish', stopReason, usage };
      }
      if (event.name === 'error') throw await failure(runId);
    }
  }

  async function failure(runId: string): Promise<Problem> {
    return failureOf((await store.runs.find(principal, runId))?.run);
  }

  /** A client of this surface that goes away wants its call cancelled; a run that has ended needs no cancelling. */
  async function stop(runId: string): Promise<void> {
    try {
      const found = await store.runs.find(principal, runId);
      if (!found || found.run.ended_at) return;
      await store.runs.requestInterrupt(principal, runId, 'client_disconnected');
      runtime.wake(runId);
    } catch (error) {
      // It may have ended by itself meanwhile; otherwise it goes on, and its result stands in the session.
      log.warn({ err: error, run_id: runId }, 'a run whose client went away could not be stopped');
    }
  }
}

/** What there is of the answer must not be taken for all of it. By these words some clients know that they may ask again. */
function interrupted(why: InterruptReason | null): Problem {
  return why === 'shutdown' || why === 'lease_lost'
    ? new Problem('draining', 'The server stopped before the answer was complete; try again later.')
    : new Problem('request_timeout', 'The answer was interrupted before it was complete; try again later.');
}

/** Pictures and documents are told apart by their bytes, by which a history is recognised. */
function storable({ role, parts }: ModelMessage): Pick<Message, 'role' | 'parts'> {
  return { role, parts: parts.map((part) => (part.type === 'file' ? storableFile(part) : part)) };
}

function storableFile({ mediaType: media_type, data, name }: FilePart): MessagePart {
  const told = { type: 'file' as const, media_type, ...(name !== undefined && { name }) };
  if (data instanceof URL) return { ...told, url: data.href };
  const bytes = Buffer.from(data, 'base64');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { ...told, size: bytes.length, sha256, data: bytes.toString('base64') };
}
