/** The real server beside the model of its runs, and what must hold of it after each command and in the end. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Knex } from 'knex';
import { expect } from 'vitest';
import type { Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Message, PermissionRequest, PromptRequest, Run, Session } from './contract/api.ts';
import { expectDone, expectText, numbered, replay, startCrashing, textIn } from './crash-checks.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import type { ServerProcess } from './server-process.ts';
import {
  activeRuns,
  type ExpectedRun,
  type ExpectedSession,
  editedText,
  hasEnded,
  kinds,
  type Model,
  runsOf,
  type Status,
  sessionStatus,
  storyOf,
} from './state-machine-model.ts';
import { type Client, clientOf, type TestStream } from './test-client.ts';

/** A run changes at once; the rest is for the take-over after a kill, and for busy machines. */
const settleBarMs = 30_000;

/** The servers of one database, their clients' streams, and what was seen of their runs. */
export interface Real {
  readonly upstream: Upstream;
  readonly folder: string;
  readonly database: Knex.Config;
  readonly variables: Readonly<Record<string, string>>;
  /** The workspace of all its sessions. */
  workspace: string;
  readonly key: string;
  readonly servers: ServerProcess[];
  /** Asks one server after the other. */
  readonly client: Client;
  restarts: number;
  /** The connections to each run, one after the other. */
  readonly streams: Map<string, TestStream[]>;
  readonly seen: Map<string, Status>;
  /** How often each of these was done, over all sequences. */
  readonly driven: Map<Driven, number>;
}

/** What no run of the test may do without. */
export const mustBeDriven = [
  'query',
  'answer',
  'interrupt of an active run',
  'resume',
  'fork',
  'revert',
  'kill of an open run',
] as const;
export type Driven = (typeof mustBeDriven)[number];

export function noteDriven({ driven }: Real, what: Driven): void {
  driven.set(what, (driven.get(what) ?? 0) + 1);
}

/** Which status may be seen after which; what is passed too quickly may be missed. */
const after: Readonly<Record<Status, readonly Status[]>> = {
  queued: ['queued', 'running', 'waiting_permission', 'waiting_prompt', 'completed', 'failed', 'interrupted'],
  running: ['running', 'waiting_permission', 'waiting_prompt', 'completed', 'failed', 'interrupted'],
  waiting_permission: ['waiting_permission', 'running', 'completed', 'failed', 'interrupted'],
  waiting_prompt: ['waiting_prompt', 'running', 'completed', 'failed', 'interrupted'],
  completed: ['completed'],
  failed: ['failed'],
  interrupted: ['interrupted'],
};

/** Of several servers each gets the next request, whichever of them works on the run. */
export function clientOfAll(servers: readonly ServerProcess[], key: string): Client {
  let asked = 0;
  const next = (): Client => {
    asked += 1;
    const server = servers[asked % servers.length];
    if (!server) throw new Error('There is no server');
    return clientOf(server, key);
  };
  return {
    get: (path) => next().get(path),
    post: (path, body) => next().post(path, body),
    send: (method, path, body) => next().send(method, path, body),
    stream: (path, body) => next().stream(path, body),
  };
}

/** How a server ends: at once by -9, or told to, with what is at work handed over. */
export type Fate = 'kill' | 'stop';

export interface Restart {
  readonly fate: Fate;
  /** Whether no server is left meanwhile, where there are several. */
  readonly all?: boolean;
  readonly meanwhile?: () => Promise<void>;
}

/** One server after the other ends, and starts with the same data again; whoever read a run goes on reading it. */
export async function restart(real: Real, model: Model, { fate, all, meanwhile }: Restart): Promise<void> {
  real.restarts += 1;
  const { servers } = real;
  // The one that ends might not be the one that works on it.
  const meetsAll = all || servers.length === 1;
  if (fate === 'kill' && meetsAll && model.sessions.some((session) => activeRuns(session).length > 0))
    noteDriven(real, 'kill of an open run');
  const ending = all ? [...servers.keys()] : [real.restarts % servers.length];
  await Promise.all(
    ending.map(async (index) => {
      if (fate === 'kill') await servers[index]?.kill9();
      else expect(await servers[index]?.stop()).toBe(0);
    }),
  );
  const streams = [...real.streams.values()].flat();
  for (const stream of streams) stream.close();
  await Promise.all(streams.map(({ ended }) => ended));
  await meanwhile?.();
  for (const index of ending) servers[index] = await startCrashing(real.folder, real.variables);
  for (const session of model.sessions)
    for (const run of runsOf(session)) if (!isRead(real, run)) await follow(real, run);
}

function isRead(real: Real, { id }: ExpectedRun): boolean {
  return received(real, id).at(-1)?.name === 'done';
}

/** Reads the run's events from behind the last one that was received. */
export async function follow(real: Real, { id }: ExpectedRun): Promise<void> {
  const streams = real.streams.get(id) ?? [];
  streams.push(await real.client.stream(`/api/v1/runs/${id}/events?after=${received(real, id).length}`));
  real.streams.set(id, streams);
}

export function received({ streams }: Real, runId: string): readonly NumberedEvent[] {
  return numbered(...(streams.get(runId) ?? []));
}

/** Waits until the server is where the model is; on the way no run may take a step that it cannot take. */
export async function expectSettled(real: Real, model: Model): Promise<void> {
  const since = performance.now();
  for (;;) {
    const wrong = await differences(real, model);
    if (wrong.length === 0) return;
    if (performance.now() - since > settleBarMs)
      throw new Error(
        `The server does not get there:\n${wrong.join('\n')}\n${real.servers.map((server) => server.log()).join('\n')}`,
      );
    await sleep(15);
  }
}

async function differences(real: Real, model: Model): Promise<string[]> {
  const wrong: string[] = [];
  for (const session of model.sessions) {
    for (const run of runsOf(session)) {
      if (hasEnded(run) && real.seen.get(run.id) === run.status) continue;
      const { body } = await real.client.get<Run>(`/api/v1/runs/${run.id}`);
      noteStatus(real, run, body);
      if (body.status !== run.status)
        wrong.push(`${run.kind} ${run.name} is ${body.status}, not ${run.status}`);
      else if (run.kind === 'hold' && run.status === 'running' && !(await isHeld(real, run)))
        wrong.push(`${run.name} is not held yet`);
      else if (run.status.startsWith('waiting') && !(await asksNext(real, session, run)))
        wrong.push(`${run.kind} ${run.name} does not ask its question ${run.allowed.length}`);
    }
    const { body } = await real.client.get<Session>(`/api/v1/sessions/${session.id}`);
    if (body.status !== sessionStatus(session))
      wrong.push(`${session.id} is ${body.status}, not ${sessionStatus(session)}`);
  }
  return wrong;
}

/** Whether the question that the run waits with is the one behind those that were decided. */
async function asksNext({ client }: Real, { id }: ExpectedSession, run: ExpectedRun): Promise<boolean> {
  const list = run.kind === 'ask' ? 'prompts' : 'permissions';
  const { body } = await client.get<{ readonly data: readonly (PermissionRequest | PromptRequest)[] }>(
    `/api/v1/sessions/${id}/${list}?limit=100`,
  );
  const asked = body.data.filter(({ run_id }) => run_id === run.id);
  return asked.length === run.allowed.length + 1 && asked[0]?.status === 'pending';
}

/** A run that has ended too early will not come back: there is nothing to wait for. */
function noteStatus({ seen }: Real, run: ExpectedRun, { status }: Run): void {
  expect(after[seen.get(run.id) ?? 'queued'], `${run.kind} ${run.name} after ${seen.get(run.id)}`).toContain(
    status,
  );
  seen.set(run.id, status);
  if (after[status].length === 1) expect(status, `${run.kind} ${run.name}`).toBe(run.status);
}

/** Whether the upstream has begun to answer, and waits in the middle. */
async function isHeld({ upstream }: Real, { name }: ExpectedRun): Promise<boolean> {
  return (await upstream.requests()).some(({ outcome, chunks_written, body }) => {
    const { messages } = body as { messages: { role: string; content: unknown }[] }; // as the server asks
    const prompt = JSON.stringify(messages.findLast(({ role }) => role === 'user')?.content);
    return outcome === 'open' && chunks_written === 3 && prompt.includes(`hold ${name}`);
  });
}

export async function allMessages(
  { client }: Pick<Real, 'client'>,
  { id }: ExpectedSession,
  reverted = false,
): Promise<Message[]> {
  const messages: Message[] = [];
  let cursor: string | null = null;
  do {
    const page: { readonly body: { readonly data: Message[]; readonly next_cursor: string | null } } =
      await client.get(
        `/api/v1/sessions/${id}/messages?limit=100&reverted=${reverted}${cursor === null ? '' : `&cursor=${cursor}`}`,
      );
    messages.push(...page.body.data);
    cursor = page.body.next_cursor;
  } while (cursor !== null);
  return messages;
}

/** The messages of the session, those gone back on apart: each prompt in its turn, with what belongs behind it. */
export async function expectMessages(real: Real, session: ExpectedSession): Promise<void> {
  for (const reverted of [false, true]) {
    const messages = await allMessages(real, session, reverted);
    let at = 0;
    for (const passage of session.passages) {
      if (passage.reverted !== reverted) continue;
      const next = messages.findIndex(({ role }, index) => index > at && role === 'user');
      const said = messages.slice(at, next === -1 ? undefined : next);
      if (passage.run) expectStory(passage.run, said);
      else expect(said.map(({ role, parts }) => ({ role, parts }))).toEqual(passage.copied);
      at += said.length;
    }
    expect(messages.slice(at), 'more was said').toEqual([]);
    const { body } = await real.client.get<Session>(`/api/v1/sessions/${session.id}`);
    if (!reverted) expect(body.message_count).toBe(messages.length);
  }
}

function expectStory(run: ExpectedRun, messages: readonly Message[]): void {
  const where = `${run.kind} ${run.name}, ${run.status}: ${JSON.stringify(messages)}`;
  // What was streamed when a process ended, or somebody stopped the run: the beginning of what would have been said.
  const whole = messages.filter(({ stop_reason }) => stop_reason !== 'interrupted');
  const beginnings = [`Said ${run.name}.`, `Held ${run.name} for a long, long time.`, `Done ${run.name}.`];
  const drafts = messages.filter(({ stop_reason }) => stop_reason === 'interrupted');
  expect(drafts.length, where).toBeLessThanOrEqual(run.ends + (run.status === 'interrupted' ? 1 : 0));
  for (const draft of drafts) {
    expect(
      beginnings.some((text) => text.startsWith(textIn(draft))),
      where,
    ).toBe(true);
  }
  let at = 0;
  for (const { role, text, mayMiss } of storyOf(run)) {
    const message = whole[at];
    if (mayMiss && message === undefined) continue;
    expect(message?.role, where).toBe(role);
    if (role !== 'tool') expect(textIn(message), where).toBe(text);
    expect(message?.run_id, where).toBe(run.id);
    at += 1;
  }
  expect(whole.slice(at), where).toEqual([]);
  expectResults(run, whole, where);
}

/** Each call has one result; what was refused says so, what was allowed and not cut off has succeeded. */
function expectResults(run: ExpectedRun, messages: readonly Message[], where: string): void {
  const calls = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === 'tool_use' ? [part.id] : [])),
  );
  const results = messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === 'tool_result' ? [part] : [])),
  );
  if (run.status === 'completed')
    expect(
      results.map((result) => result.tool_use_id),
      where,
    ).toEqual(calls);
  if (run.status !== 'completed') return;
  if (run.kind === 'ask') expect(results.map(({ content }) => content)).toEqual([run.told]);
  else
    for (const [call, allowed] of run.allowed.entries())
      if (!run.cutCalls.has(call)) expect(results[call]?.is_error, where).toBe(!allowed);
}

/** A step asks the model once, and once more for each end of a server that may have met it. */
export async function expectRequests({ upstream }: Real, model: Model): Promise<void> {
  const asked = new Map<string, number>();
  for (const { body } of await upstream.requests()) {
    const { messages } = body as { messages: { role: string; content: unknown }[] }; // as the server asks
    const last = messages.findLastIndex(({ role }) => role === 'user');
    const step = messages.slice(last).filter(({ role }) => role === 'assistant').length;
    const prompt = /\w+ (p\d+[^\s"]*)"/.exec(JSON.stringify(messages[last]?.content))?.[1];
    const key = `${prompt} ${step}`;
    asked.set(key, (asked.get(key) ?? 0) + 1);
  }
  for (const run of model.sessions.flatMap(runsOf)) {
    const times = Array.from(
      { length: kinds[run.kind].steps + 1 },
      (_, step) => asked.get(`${run.name} ${step}`) ?? 0,
    );
    const where = `${run.kind} ${run.name}, ${run.status}, asked for ${times}`;
    expect(Math.max(...times), where).toBeLessThanOrEqual(1 + run.ends);
    if (run.status === 'completed') expect(Math.min(...times), where).toBeGreaterThan(0);
  }
}

/** Everything that can be said of a run that has ended. */
export async function expectRun(real: Real, session: ExpectedSession, run: ExpectedRun): Promise<void> {
  const streams = real.streams.get(run.id) ?? [];
  await streams.at(-1)?.ended;
  const { body } = await real.client.get<Run>(`/api/v1/runs/${run.id}`);
  const events = await replay(real.client, body, received(real, run.id));
  // The streams end by themselves, with all that there is.
  expect(received(real, run.id)).toEqual(events);
  expectQuestionsInOrder(events);
  const messages = [
    ...(await allMessages(real, session)),
    ...(await allMessages(real, session, true)),
  ].filter(({ run_id }) => run_id === run.id);
  expectText(messages, events, []);
  expectDone(messages, events, body);
}

/** One question after the other, each with one end. */
function expectQuestionsInOrder(events: readonly NumberedEvent[]): void {
  let open: string | null = null;
  const asked = new Set<string>();
  for (const { name, data } of events) {
    if (name !== 'runtime') continue;
    if (data.type === 'permission_requested' || data.type === 'prompt_requested') {
      expect(open).toBeNull();
      expect(asked).not.toContain(data.request.id);
      open = data.request.id;
      asked.add(open);
    } else if (/^(permission|prompt)_(resolved|expired)$/.test(data.type) && 'request_id' in data) {
      expect(data.request_id).toBe(open);
      open = null;
    }
  }
}

/** No call has had an effect twice, none that was refused has had one, and each that is said to have succeeded has. */
export async function expectEffects(real: Real, model: Model): Promise<void> {
  const file = join(real.workspace, 'effects.txt');
  const lines = existsSync(file) ? (await readFile(file, 'utf8')).split('\n') : [];
  for (const session of model.sessions) {
    for (const run of runsOf(session)) {
      if (!['run', 'both', 'free'].includes(run.kind)) continue;
      for (const index of [0, 1]) {
        const times = lines.filter((line) => line === `${run.name}-${index}`).length;
        const where = `${run.kind} ${run.name}-${index}`;
        expect(times, where).toBeLessThanOrEqual(run.allowed[index] ? 1 : 0);
        if (run.allowed[index] && !run.cutCalls.has(index)) expect(times, where).toBe(1);
      }
    }
    for (const run of runsOf(session)) {
      const name = `${run.name}.txt`;
      // What was cut off may be there; gone back on, it is gone all the same.
      if (run.kind !== 'write' || (run.cutCalls.size > 0 && session.files.has(name))) continue;
      expect(existsSync(join(real.workspace, name)), name).toBe(session.files.has(name));
    }
    await expectEdited(real, session);
  }
}

/** Byte for byte; an edit that was cut off may have been made. */
async function expectEdited({ workspace }: Real, { edited }: ExpectedSession): Promise<void> {
  if (!edited) return;
  const found = await readFile(join(workspace, edited.name), 'utf8');
  const possible = edited.edits.reduce(
    (words, { run, word }) => [
      ...words.map((before) => `${before}${word} `),
      ...(run.cutCalls.has(1) ? words : []),
    ],
    [''],
  );
  expect(possible.map(editedText), edited.name).toContain(found);
}
