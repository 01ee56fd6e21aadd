/** What clients and fate do to sessions, at random: each command does it to the server and to the model, and compares. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type fc from 'fast-check';
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
  noteDriven,
  type Real,
  received,
  restart,
} from './state-machine-checks.ts';
import {
  activeRuns,
  branch,
  complete,
  cutHeld,
  type ExpectedRun,
  type ExpectedSession,
  editedText,
  goBack,
  isWaiting,
  type Kind,
  kinds,
  type Model,
  newRun,
  newSession,
  noteSettled,
  runsOf,
  settle,
  settleCut,
} from './state-machine-model.ts';

export type Command = fc.AsyncCommand<Model, Real>;

/** More sessions than these make no other states. */
export const mostSessions = 3;

type Possible = (session: ExpectedSession, model: Model) => boolean;

/** A command on one of the sessions that it is possible in: `does` changes model and server, then both have to agree. */
function command(
  name: string,
  pick: number,
  possible: Possible,
  does: (session: ExpectedSession, real: Real, model: Model) => Promise<void>,
): Command {
  const sessionIn = (model: Model) => {
    const having = model.sessions.filter((session) => possible(session, model));
    return having[pick % having.length];
  };
  return {
    check: (model) => sessionIn(model) !== undefined,
    async run(model, real) {
      const session = sessionIn(model);
      if (!session) return;
      await does(session, real, model);
      for (const each of model.sessions) settle(each);
      await expectSettled(real, model);
      noteSettled(model);
      await expectMessages(real, session);
      await expectEffects(real, model);
    },
    toString: () => `${name} in ${pick}`,
  };
}

/** Whatever is at work may be met by an end of its server that comes before it has settled. */
async function restartNow(real: Real, model: Model, fate: Fate): Promise<void> {
  // Before it is known what it will come to: what is open now is what the end meets.
  const ended = restart(real, model, { fate });
  settleCut(model);
  await ended;
}

export const isIdle = (session: ExpectedSession): boolean => activeRuns(session).length === 0;
const isBusy = (session: ExpectedSession): boolean => !isIdle(session);
const hasQueue = (session: ExpectedSession): boolean => activeRuns(session).length > 1;
const hasRoom = (session: ExpectedSession): boolean => activeRuns(session).length < 4;

export const query = (kind: Kind, pick: number, fate: Fate | null, possible = hasRoom): Command =>
  command(`query ${kind}${fate ? ` and ${fate}` : ''}`, pick, possible, async (session, real, model) => {
    model.prompts += 1;
    const name = `p${model.prompts}${kind === 'edit' ? `@${await editedFile(real, session, model)}` : ''}`;
    const stream = await real.client.stream('/api/v1/query/stream', {
      prompt: `${kind} ${name}`,
      session_id: session.id,
      permission_mode: kinds[kind].mode,
    });
    session.turns += 1;
    const run = newRun({ id: stream.runId, name, kind, turn: session.turns });
    session.passages.push({ run, reverted: false });
    real.streams.set(run.id, [stream]);
    noteDriven(real, 'query');
    if (fate) await restartNow(real, model, fate);
  });

/** The one file that the session's edits are made in; it was there before them. */
async function editedFile(real: Real, session: ExpectedSession, model: Model): Promise<string> {
  if (!session.edited) {
    session.edited = { name: `there-before-${model.prompts}.txt`, edits: [] };
    // The server makes the folder for the first run.
    await mkdir(real.workspace, { recursive: true });
    await writeFile(join(real.workspace, session.edited.name), editedText(''));
  }
  return session.edited.name;
}

export type Reply = 'yes' | 'no' | 'for all of the session';

/** Whoever answers first has answered, also beside the end of a server. */
export const answer = (reply: Reply, pick: number, fate: Fate | null): Command =>
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
      if (run.kind === 'ask') run.told = reply === 'no' ? declined : `${run.name}?\n  Yes`;
      noteDriven(real, 'answer');
      if (fate) await restartNow(real, model, fate);
      expect((await real.client.post(request.reply_path, bodies.second)).status).toBe(409);
    },
  );

const declined = 'The person declined to answer. Go on without the answers, or stop.';
const expired = 'Nobody answered in time. Go on without the answers, or stop.';

/** The time to answer passes while there is no server. */
export const expire = (pick: number): Command =>
  command(
    'expire',
    pick,
    (session) => isWaiting(activeRuns(session)[0]),
    async (session, real, model) => {
      const [run] = activeRuns(session);
      if (!run) return;
      const request = await openQuestion(real, session, run);
      cutHeld(model);
      await restart(real, model, { fate: 'kill', all: true, meanwhile: () => letPass(real, run, request) });
      run.allowed.push(false);
      if (run.kind === 'ask') run.told = expired;
      // Whoever has the run says when the time has passed: until it is taken over, an answer still counts.
      const late = () => questions(real, session, run, 'expired');
      await expect.poll(late).toContainEqual(expect.objectContaining({ id: request.id }));
      expect((await real.client.post(request.reply_path, bodiesOf(run, 'yes').first)).status).toBe(410);
    },
  );

export const release = (pick: number): Command =>
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
export const interrupt = (
  which: number | 'session' | 'keeping the queue',
  pick: number,
  fate: Fate | null,
  // Without a queue, to keep that would be as to interrupt any other.
  possible: Possible = which === 'keeping the queue' ? hasQueue : isBusy,
): Command =>
  command(`interrupt ${which}${fate ? ` and ${fate}` : ''}`, pick, possible, async (session, real, model) => {
    const active = activeRuns(session);
    const chosen = which === 'session' ? active : active.slice(place(which, active.length)).slice(0, 1);
    const path =
      typeof which === 'string' || !chosen[0]
        ? `/api/v1/sessions/${session.id}/interrupt`
        : `/api/v1/runs/${chosen[0].id}/interrupt`;
    const asked = which === 'keeping the queue' ? { keep_queue: true } : undefined;
    const { status, body } = await real.client.send('POST', path, asked);
    expect(status, JSON.stringify(body)).toBe(202);
    for (const run of chosen) run.status = 'interrupted';
    noteDriven(real, 'interrupt of an active run');
    if (fate) await restartNow(real, model, fate);
    for (const run of chosen)
      if (real.seen.get(run.id) === 'interrupted')
        expect((await real.client.send('POST', `/api/v1/runs/${run.id}/interrupt`)).status).toBe(409);
  });

/** So that a query finds a session without others before it. */
export const makeRoom = (pick: number): Command =>
  interrupt('session', pick, null, (_session, { sessions }) => !sessions.some(isIdle));

/** What cannot be done now is refused, and changes nothing. */
export const refused = (pick: number, which: number): Command =>
  command(
    'refused',
    pick,
    (session) => isIdle(session) || standingOf(session).length > 0,
    async (session, real) => {
      const asked = isIdle(session)
        ? await real.client.send('POST', `/api/v1/sessions/${session.id}/interrupt`)
        : await goBackTo(real, session, which, true);
      const { status, body } = asked;
      const code = isIdle(session) ? 'run_ended' : 'session_busy';
      expect({ status, code: body.code }).toEqual({ status: 409, code });
    },
  );

function place(which: number | 'keeping the queue', active: number): number {
  return which === 'keeping the queue' ? 0 : which % Math.max(1, active);
}

/** A reader goes away in the middle and comes back with the number of the last event that it has. */
export const resume = (which: number, pick: number): Command =>
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
      noteDriven(real, 'resume');
    },
  );

const standingOf = ({ passages }: ExpectedSession) => passages.filter(({ reverted }) => !reverted);

export const fork = (which: number, pick: number): Command =>
  command(
    `fork ${which}`,
    pick,
    (session, { sessions }) => sessions.length < mostSessions && standingOf(session).length > 0,
    async (session, real, model) => {
      const messages = await allMessages(real, session);
      const at = which % messages.length;
      const { status, body } = await real.client.post<Session>(`/api/v1/sessions/${session.id}/fork`, {
        at_message_id: messages[at]?.id,
      });
      expect(status).toBe(201);
      const copied = branch(messages, at, activeRuns(session)[0]?.id).map(({ role, parts }) => ({
        role,
        parts,
      }));
      model.sessions.push(newSession(body.id, copied));
      noteDriven(real, 'fork');
    },
  );

/** Only while nothing is at work. */
export const revert = (which: number, files: boolean, pick: number): Command =>
  command(
    `revert ${which}${files ? ' with files' : ''}`,
    pick,
    (session) => isIdle(session) && standingOf(session).length > 0,
    async (session, real) => {
      const standing = standingOf(session);
      const passage = standing[which % standing.length];
      const { status, body } = await goBackTo(real, session, which, files);
      expect(status, JSON.stringify(body)).toBe(200);
      if (passage) goBack(session, passage, files);
      noteDriven(real, 'revert');
    },
  );

async function goBackTo({ client }: Real, session: ExpectedSession, which: number, files: boolean) {
  const prompts = (await allMessages({ client }, session)).filter(({ role }) => role === 'user');
  const to_message_id = prompts[which % standingOf(session).length]?.id;
  return client.post(`/api/v1/sessions/${session.id}/revert`, { to_message_id, files });
}

export const end = (fate: Fate, all = false): Command =>
  command(
    `${fate}${all ? ' of all' : ''}`,
    0,
    () => true,
    async (_session, real, model) => {
      cutHeld(model);
      await restart(real, model, { fate, all });
    },
  );

type Question = PermissionRequest | PromptRequest;

/** The one that the run waits for. */
async function openQuestion(real: Real, session: ExpectedSession, run: ExpectedRun): Promise<Question> {
  const open = await questions(real, session, run, 'pending');
  expect(open.map(({ run_id }) => run_id)).toEqual([run.id]);
  const [question] = open;
  if (!question) throw new Error('There is no question');
  return question;
}

async function questions(
  { client }: Real,
  session: ExpectedSession,
  run: ExpectedRun,
  status: 'pending' | 'expired',
): Promise<readonly Question[]> {
  const list = run.kind === 'ask' ? 'prompts' : 'permissions';
  const { body } = await client.get<{ readonly data: readonly Question[] }>(
    `/api/v1/sessions/${session.id}/${list}?status=${status}`,
  );
  return body.data;
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
