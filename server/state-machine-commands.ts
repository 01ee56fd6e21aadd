/** What clients and fate do to sessions, at random: each command does it to the server and to the model, and compares. */

import fc from 'fast-check';
import knex from 'knex';
import { expect } from 'vitest';
import type { PermissionRequest, PromptRequest, Session } from './contract/api.ts';
import {
  allMessages,
  expectEffects,
  expectMessages,
  expectSettled,
  type Fate,
  follow,
  type Real,
  received,
  restart,
} from './state-machine-checks.ts';
import {
  activeRuns,
  branch,
  complete,
  type ExpectedRun,
  type ExpectedSession,
  goBack,
  type Kind,
  kinds,
  type Model,
  passagesOf,
  runsOf,
  settle,
} from './state-machine-model.ts';

type Command = fc.AsyncCommand<Model, Real>;

/** More sessions than these make no other states. */
const mostSessions = 3;

/** A command on one of the sessions: `does` changes model and server, then both have to agree. */
function command(
  name: string,
  pick: number,
  possible: (session: ExpectedSession, model: Model) => boolean,
  does: (session: ExpectedSession, real: Real, model: Model) => Promise<void>,
): Command {
  const sessionIn = ({ sessions }: Model) => sessions[pick % sessions.length];
  return {
    check(model) {
      const session = sessionIn(model);
      return session !== undefined && possible(session, model);
    },
    async run(model, real) {
      const session = sessionIn(model);
      if (!session) return;
      await does(session, real, model);
      for (const each of model.sessions) settle(each);
      await expectSettled(real, model);
      await expectMessages(real, session);
      await expectEffects(real, model);
    },
    toString: () => `${name} in ${pick}`,
  };
}

/** Whatever is at work may be met by an end of its server that comes before it has settled. */
async function restartNow(real: Real, model: Model, fate: Fate): Promise<void> {
  for (const session of model.sessions) {
    const before = new Set(activeRuns(session));
    settle(session);
    for (const run of before) if (run.begun) run.cut = true;
  }
  await restart(real, model, { fate });
}

const query = (kind: Kind, pick: number, fate: Fate | null): Command =>
  command(
    `query ${kind}${fate ? ` and ${fate}` : ''}`,
    pick,
    (session) => activeRuns(session).length < 4,
    async (session, real, model) => {
      model.prompts += 1;
      const name = `p${model.prompts}`;
      const stream = await real.client.stream('/api/v1/query/stream', {
        prompt: `${kind} ${name}`,
        session_id: session.id,
        permission_mode: kinds[kind].mode,
      });
      session.turns += 1;
      const run: ExpectedRun = {
        ...{ id: stream.runId, name, kind, turn: session.turns },
        ...{ status: 'queued', begun: false, allowed: [], cut: false },
      };
      session.passages.push({ run, reverted: false });
      real.streams.set(run.id, [stream]);
      if (fate) await restartNow(real, model, fate);
    },
  );

type Reply = 'yes' | 'no' | 'for all of the session';

/** Whoever answers first has answered, also beside the end of a server. */
const answer = (reply: Reply, pick: number, fate: Fate | null): Command =>
  command(
    `answer ${reply}${fate ? ` and ${fate}` : ''}`,
    pick,
    (session) => isWaiting(activeRuns(session)[0]),
    async (session, real, model) => {
      const [run] = activeRuns(session);
      if (!run) return;
      const request = await openQuestion(real, session, run);
      const bodies = bodiesOf(run, reply);
      expect((await real.client.post(request.reply_path, bodies.first)).status).toBe(200);
      if (!fate) expect((await real.client.post(request.reply_path, bodies.second)).status).toBe(409);
      run.allowed.push(reply !== 'no');
      // What was allowed so is allowed from the moment on that the answer was taken, whatever ends behind it.
      if (reply === 'for all of the session' && run.kind === 'same') session.granted = true;
      if (fate) await restartNow(real, model, fate);
      expect((await real.client.post(request.reply_path, bodies.second)).status).toBe(409);
    },
  );

/** The time to answer passes while there is no server. */
const expire = (pick: number): Command =>
  command(
    'expire',
    pick,
    (session) => isWaiting(activeRuns(session)[0]),
    async (session, real, model) => {
      const [run] = activeRuns(session);
      if (!run) return;
      const request = await openQuestion(real, session, run);
      await restart(real, model, { fate: 'kill', all: true, meanwhile: () => letPass(real, run, request) });
      run.allowed.push(false);
      expect((await real.client.post(request.reply_path, bodiesOf(run, 'yes').first)).status).toBe(410);
    },
  );

const release = (pick: number): Command =>
  command(
    'release',
    pick,
    ({ passages }) => passages.some(({ run }) => run?.kind === 'hold' && run.status === 'running'),
    async (_session, real, model) => {
      await real.upstream.release();
      for (const session of model.sessions)
        for (const run of activeRuns(session).slice(0, 1)) if (run.kind === 'hold') complete(session, run);
    },
  );

/** One run, at work or waiting its turn; all of the session; or what is at work in it, and then the next begins. */
const interrupt = (
  which: number | 'session' | 'keeping the queue',
  pick: number,
  fate: Fate | null,
): Command =>
  command(
    `interrupt ${which}${fate ? ` and ${fate}` : ''}`,
    pick,
    // Without a queue that one would be as any other.
    (session) => which !== 'keeping the queue' || activeRuns(session).length > 1,
    async (session, real, model) => {
      const active = activeRuns(session);
      const chosen = which === 'session' ? active : active.slice(place(which, active.length)).slice(0, 1);
      const path =
        typeof which === 'string' || !chosen[0]
          ? `/api/v1/sessions/${session.id}/interrupt`
          : `/api/v1/runs/${chosen[0].id}/interrupt`;
      const asked = which === 'keeping the queue' ? { keep_queue: true } : undefined;
      const { status, body } = await real.client.send('POST', path, asked);
      if (active.length === 0) {
        expect({ status, code: body.code }).toEqual({ status: 409, code: 'run_ended' });
        return;
      }
      expect(status, JSON.stringify(body)).toBe(202);
      for (const run of chosen) run.status = 'interrupted';
      if (fate) await restartNow(real, model, fate);
      for (const run of chosen)
        if (real.seen.get(run.id) === 'interrupted')
          expect((await real.client.send('POST', `/api/v1/runs/${run.id}/interrupt`)).status).toBe(409);
    },
  );

function place(which: number | 'keeping the queue', active: number): number {
  return which === 'keeping the queue' ? 0 : which % Math.max(1, active);
}

/** A reader goes away in the middle and comes back with the number of the last event that it has. */
const resume = (which: number, pick: number): Command =>
  command(
    `resume ${which}`,
    pick,
    (session) => runsOf(session).length > 0,
    async (session, real) => {
      const runs = runsOf(session);
      const run = runs[which % runs.length];
      const streams = run && real.streams.get(run.id);
      if (!streams) return;
      streams.at(-1)?.close();
      await streams.at(-1)?.ended;
      await follow(real, run);
    },
  );

const fork = (which: number, pick: number): Command =>
  command(
    `fork ${which}`,
    pick,
    ({ passages }, { sessions }) =>
      sessions.length < mostSessions && passages.some(({ reverted }) => !reverted),
    async (session, real, model) => {
      const messages = await allMessages(real, session);
      const at = which % messages.length;
      const { status, body } = await real.client.post<Session>(`/api/v1/sessions/${session.id}/fork`, {
        at_message_id: messages[at]?.id,
      });
      expect(status).toBe(201);
      const copied = branch(messages, at).map(({ role, parts }) => ({ role, parts }));
      model.sessions.push({
        id: body.id,
        passages: passagesOf(copied),
        turns: 1e6,
        granted: false,
        files: new Map(),
      });
    },
  );

/** Only while nothing is at work. */
const revert = (which: number, files: boolean, pick: number): Command =>
  command(
    `revert ${which}${files ? ' with files' : ''}`,
    pick,
    ({ passages }) => passages.some(({ reverted }) => !reverted),
    async (session, real) => {
      const standing = session.passages.filter(({ reverted }) => !reverted);
      const passage = standing[which % standing.length];
      const prompts = (await allMessages(real, session)).filter(({ role }) => role === 'user');
      const { status, body } = await real.client.post(`/api/v1/sessions/${session.id}/revert`, {
        to_message_id: prompts[which % standing.length]?.id,
        files,
      });
      if (activeRuns(session).length > 0) {
        expect({ status, code: body.code }).toEqual({ status: 409, code: 'session_busy' });
        return;
      }
      expect(status, JSON.stringify(body)).toBe(200);
      if (passage) goBack(session, passage, files);
    },
  );

const end = (fate: Fate): Command =>
  command(
    fate,
    0,
    () => true,
    async (_session, real, model) => {
      // All has settled, but for answers that are being held: those are asked for anew.
      for (const session of model.sessions)
        for (const run of activeRuns(session)) if (run.kind === 'hold') run.cut = true;
      await restart(real, model, { fate });
    },
  );

function isWaiting(run: ExpectedRun | undefined): boolean {
  return run?.status === 'waiting_permission' || run?.status === 'waiting_prompt';
}

type Question = PermissionRequest | PromptRequest;

/** The one that the run waits for. */
async function openQuestion({ client }: Real, session: ExpectedSession, run: ExpectedRun): Promise<Question> {
  const list = run.kind === 'ask' ? 'prompts' : 'permissions';
  const { body } = await client.get<{ readonly data: readonly Question[] }>(
    `/api/v1/sessions/${session.id}/${list}?status=pending`,
  );
  expect(body.data.map(({ run_id }) => run_id)).toEqual([run.id]);
  const [question] = body.data;
  if (!question) throw new Error('There is no question');
  return question;
}

function bodiesOf({ kind }: ExpectedRun, reply: Reply): { readonly first: object; readonly second: object } {
  // A grant of another kind's call would also cover what its later calls have in common with it: the file.
  const decision = reply === 'for all of the session' && kind === 'same' ? 'allow_session' : 'allow_once';
  const yes = kind === 'ask' ? { answers: [{ question_id: 'q', yes: true }] } : { decision };
  const no = kind === 'ask' ? { cancelled: true } : { decision: 'deny' };
  return reply === 'no' ? { first: no, second: yes } : { first: yes, second: no };
}

/** Puts the end of its time into the past, for the server and for those who have read of it. */
async function letPass(real: Real, run: ExpectedRun, { id }: Question): Promise<void> {
  const past = new Date(0).toISOString();
  const sql = knex(real.database);
  try {
    const table = run.kind === 'ask' ? 'prompt_requests' : 'permission_requests';
    expect(await sql(table).where({ id }).update({ expires_at: 0 })).toBe(1);
    for (const { seq, data } of await sql('run_events').where({ run_id: run.id })) {
      const event = JSON.parse(data);
      if (event.request?.id !== id) continue;
      event.request.expires_at = past;
      await sql('run_events')
        .where({ run_id: run.id, seq })
        .update({ data: JSON.stringify(event) });
    }
  } finally {
    await sql.destroy();
  }
  for (const { data } of received(real, run.id))
    if ('request' in data && data.request.id === id) Object.assign(data.request, { expires_at: past });
}

/** Mostly queries and answers; kills and stops cost a start of the server each. */
export function commands(most: number, replayPath: string | null) {
  const pick = fc.nat(mostSessions - 1);
  const fate = fc.constantFrom<Fate>('kill', 'stop');
  const seldom = fc.oneof({ weight: 6, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fate });
  const kind = fc.constantFrom<Kind>('say', 'hold', 'run', 'both', 'same', 'same', 'free', 'ask', 'write');
  const reply = fc.constantFrom<Reply>('yes', 'for all of the session', 'no');
  const any = fc.nat(30);
  return fc.commands(
    [
      fc.tuple(kind, pick, seldom).map((given) => query(...given)),
      fc.tuple(kind, pick, seldom).map((given) => query(...given)),
      fc.tuple(reply, pick, seldom).map((given) => answer(...given)),
      fc.tuple(reply, pick, seldom).map((given) => answer(...given)),
      fc
        .tuple(fc.oneof(any, fc.constant<'session'>('session')), pick, seldom)
        .map((given) => interrupt(...given)),
      fc.tuple(pick, seldom).map((given) => interrupt('keeping the queue', ...given)),
      fc.tuple(any, pick).map((given) => resume(...given)),
      fc.tuple(any, pick).map((given) => fork(...given)),
      fc.tuple(any, fc.boolean(), pick).map((given) => revert(...given)),
      pick.map(release),
      fc.oneof({ weight: 1, arbitrary: pick.map(expire) }, { weight: 1, arbitrary: fate.map(end) }),
    ],
    { maxCommands: most, size: 'max', ...(replayPath !== null && { replayPath }) },
  );
}
