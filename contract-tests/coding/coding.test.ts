/** A coding task of ten steps on a real repository: streamed, dropped and resumed, its questions answered by a client. */
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { QueryResponse, RuntimeEvent } from '@service/client/api';
import { expect, onTestFinished, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { isEvent, readEvents, readFrames, sha256, textOf, type WireEvent } from '../wire-stream.ts';
import { everythingSaid, lastWords, makeRepository, runItsTest, script, task } from './repository.ts';

test('an agent mends a failing test in ten steps while its reader comes and goes', async () => {
  const workspaces = await mkdtemp(join(tmpdir(), 'service-coding-'));
  onTestFinished(() => rm(workspaces, { recursive: true, force: true }));
  const live = await startLive({ SERVICE_WORKSPACES_DIR: workspaces });
  onTestFinished(() => live.stop());
  const { data: session } = await live.client.POST('/api/v1/sessions', { body: { title: 'Mend the slug' } });
  const folder = join(workspaces, session.workspace_id);
  await mkdir(folder);
  await makeRepository(folder);
  expect(runItsTest(folder)).toMatchObject({ exitCode: 2 });
  await live.upstream.script([...script]);

  const { events, asked } = await work(live, session.id);

  // The stream: each event once and in order whatever happened to its readers, and one end.
  expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => String(index + 1)));
  expect(events.filter(({ event }) => event === 'done' || event === 'error')).toHaveLength(1);
  const runId = done(events).run_id;
  expect(await readEvents(await live.events(runId, '0')).then(numbered)).toEqual(events);
  expect(sha256(textOf(events))).toBe(sha256(everythingSaid));

  // The work: what was asked for, allowed and answered, and nothing else.
  expect(asked).toEqual([
    'bash sh test.sh: allow_session',
    'ask_user: yes',
    'edit src/slug.sh: allow_once',
    'bash git status --short: allow_session',
  ]);
  expect(done(events)).toMatchObject({ status: 'completed', stop_reason: 'end_turn' });
  expect(done(events).content).toEqual([{ type: 'text', text: lastWords }]);
  expect(
    done(events)
      .tool_results.filter(({ is_error }) => is_error)
      .map(({ name }) => name),
  ).toEqual(['bash']);
  expect(runItsTest(folder)).toEqual({ exitCode: 0, printed: '0 failed\n' });
  expect(await readFile(join(folder, 'src/slug.sh'), 'utf8')).toContain('a-z0-9');
  const { data: run } = await live.client.GET('/api/v1/runs/{run_id}', {
    params: { path: { run_id: runId } },
  });
  expect(run).toMatchObject({ status: 'completed', steps: 10, usage: done(events).usage });
  expect(await live.upstream.requests()).toHaveLength(10);
  const path = { session_id: session.id };
  const { data: diff } = await live.client.GET('/api/v1/sessions/{session_id}/diff', { params: { path } });
  expect(JSON.stringify(diff)).toContain('src/slug.sh');
});

/** Reads the run to its end, and drops the connection at each question and in the middle of the text. */
async function work(live: Live, sessionId: string): Promise<{ events: WireEvent[]; asked: string[] }> {
  const events: WireEvent[] = [];
  const asked: string[] = [];
  let response = await live.post('/api/v1/query/stream', { prompt: task, session_id: sessionId });
  const runId = response.headers.get('X-Run-Id') ?? '';
  for (let connection = 0; connection < 50; connection += 1) {
    const question = await readOn(response, events, connection === 0 ? 12 : Number.POSITIVE_INFINITY);
    if (events.at(-1)?.event === 'done') return { events, asked };
    if (question) asked.push(await answer(live, question));
    response = await live.events(runId, events.at(-1)?.id);
  }
  throw new Error('The run does not end');
}

/** Up to a question, to the end, or to so many events; then the connection is dropped. */
async function readOn(response: Response, events: WireEvent[], most: number): Promise<RuntimeEvent | null> {
  for await (const frame of readFrames(response)) {
    if (!isEvent(frame) || frame.id === undefined) continue;
    events.push(frame);
    const happened = frame.event === 'runtime' ? (JSON.parse(frame.data) as RuntimeEvent) : null; // as the contract has it
    if (happened?.type === 'permission_requested' || happened?.type === 'prompt_requested') return happened;
    if (events.length === most) return null;
  }
  return null;
}

/** As the person at the other end: the commands for the whole session, each change by itself. */
async function answer(live: Live, question: RuntimeEvent): Promise<string> {
  if (question.type === 'prompt_requested') {
    const answers = question.request.questions.map(({ id }) => ({ question_id: id, yes: true }));
    expect((await live.post(question.request.reply_path, { answers })).status).toBe(200);
    return 'ask_user: yes';
  }
  if (question.type !== 'permission_requested') throw new Error('Not a question');
  const { tool_name, params, reply_path } = question.request;
  const decision = tool_name === 'bash' ? 'allow_session' : 'allow_once';
  expect((await live.post(reply_path, { decision })).status).toBe(200);
  return `${tool_name} ${String(params.command ?? params.file_path)}: ${decision}`;
}

function numbered(events: readonly WireEvent[]): WireEvent[] {
  return events.filter(({ id }) => id !== undefined);
}

function done(events: readonly WireEvent[]): QueryResponse {
  return JSON.parse(events.at(-1)?.data ?? '') as QueryResponse; // as the contract has it
}
