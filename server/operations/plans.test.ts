/** The plans family over HTTP: an agent proposes, a person edits, rejects or approves, and a run carries it out. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { Problem } from '../problem.ts';
import { scriptedSettings } from '../server-process.ts';
import { type Account, type Json, mergePatch, readEvents, type TestApp, testApp } from '../test-app.ts';
import { databases, type LastingDatabase, lastingDatabase, newMasterKey } from '../test-database.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const written = { title: 'Mend it', content: '1. Look.\n2. Mend.' };
const proposing = [
  {
    when: { step: 0, offers_tool: 'plan' },
    reply: { tool_calls: [{ name: 'plan', arguments: written }] },
  },
  { when: { offers_tool: 'plan' }, reply: { text: '{{system}}' } },
  { reply: { text: 'I was told: {{last_user}}' } },
];
beforeEach(() => upstream.script(proposing));

const path = '/api/v1/plans';

function ask(method: string, target: string, body?: object, token = ada.token) {
  const headers = method === 'PATCH' ? { ...mergePatch, 'if-match': '*' } : {};
  return app.request(method, target, { token, headers, ...(body && { body }) });
}

/** Has the agent propose a plan, and answers with it. */
async function proposed(sessionId?: string): Promise<Json> {
  const body = { prompt: 'Plan it.', agent_slug: 'plan', ...(sessionId && { session_id: sessionId }) };
  const response = await app.stream('POST', '/api/v1/query/stream', { token: ada.token, body });
  let plan: Json;
  for await (const { data } of readEvents(response)) if (data.type === 'plan_updated') plan = data.plan;
  expect((await ask('GET', `${path}/${plan.id}`)).body).toEqual(plan);
  return plan;
}

/** All of a run that has ended, or does so. */
async function runtimeEvents(runId: string): Promise<Json[]> {
  const response = await app.stream('GET', `/api/v1/runs/${runId}/events`, { token: ada.token });
  const events: Json[] = [];
  for await (const { event, data } of readEvents(response)) if (event === 'runtime') events.push(data);
  return events;
}

async function endOf(runId: string): Promise<Json> {
  const response = await app.stream('GET', `/api/v1/runs/${runId}/events`, { token: ada.token });
  let last: Json;
  for await (const { data } of readEvents(response)) last = data;
  return last;
}

describe.each(databases)('on %s, a plan', (dialect) => {
  let folder: string;
  let database: LastingDatabase;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-plans-'));
    database = await lastingDatabase(dialect, folder);
    const settings = { databaseUrl: database.url, masterKeyFile: await newMasterKey(folder) };
    app = await testApp({ config: scriptedSettings(upstream.url), settings });
    ada = await app.register('ada');
    mallory = await app.register('mallory');
  });
  afterAll(async () => {
    await app.close();
    await database.remove();
    await rm(folder, { recursive: true });
  });

  test('is stored by the profile plan, told in the stream, and waits for a person', async () => {
    const plan = await proposed();
    expect(plan).toMatchObject({ ...written, status: 'proposed', version: 1, carried_out_by: null });
    const { body } = await ask('GET', `${path}?session_id=${plan.session_id}&status=proposed`);
    expect(body.data).toEqual([plan]);
    expect((await ask('GET', `${path}?session_id=${plan.session_id}&status=approved`)).body.data).toEqual([]);
  });

  test('that is approved is carried out by a run of the coder in its session, which is given it', async () => {
    const plan = await proposed();
    const answer = await ask('POST', `${path}/${plan.id}/approve`, { comment: 'Quickly.' });
    expect(answer).toMatchObject({ status: 202, body: { session_id: plan.session_id, agent_slug: 'coder' } });
    expect(answer.headers.get('location')).toBe(`/api/v1/runs/${answer.body.id}`);
    const done = await endOf(answer.body.id);
    for (const told of [written.title, written.content, 'Quickly.'])
      expect(done.content[0].text).toContain(told);
    expect((await ask('GET', `${path}/${plan.id}`)).body).toMatchObject({
      status: 'done',
      carried_out_by: answer.body.id,
      comment: 'Quickly.',
    });
  });

  test('is carried out by the profile of its session, unless that one may change nothing', async () => {
    for (const [slug, terms] of [
      ['steady', {}],
      ['quiet', { permission_mode: 'read_only' }],
    ] as const) {
      const body = { slug: `${slug}-${dialect}`, description: slug, instructions: 'Work.', ...terms };
      expect(await ask('POST', '/api/v1/agents', body)).toMatchObject({ status: 201 });
    }
    const approvedIn = async (agent_slug: string, body: Json = {}) => {
      const { body: session } = await ask('POST', '/api/v1/sessions', { agent_slug });
      const plan = await proposed(session.id);
      const { body: run } = await ask('POST', `${path}/${plan.id}/approve`, body);
      await endOf(run.id);
      return run.agent_slug;
    };
    expect(await approvedIn(`steady-${dialect}`)).toBe(`steady-${dialect}`);
    expect(await approvedIn(`quiet-${dialect}`)).toBe('coder');
    expect(await approvedIn('plan')).toBe('coder');
    expect(await approvedIn('plan', { agent_slug: `steady-${dialect}` })).toBe(`steady-${dialect}`);
  });

  test('is carried out by the model that the person prefers, where nothing names another', async () => {
    const prefer = (default_model: string | null) =>
      ask('PATCH', '/api/v1/users/me/preferences', { default_model });
    onTestFinished(async () => void (await prefer(null)));
    const plan = await proposed();
    await prefer('nobody:none');
    const approve = () => ask('POST', `${path}/${plan.id}/approve`, {});
    expect(await approve()).toMatchObject({ status: 404, body: { code: 'model_not_found' } });
    await prefer('scripted:scripted-1');
    const { status, body: run } = await approve();
    expect(status).toBe(202);
    await endOf(run.id);
  });

  test('is approved once, however many try: the others begin no run', async () => {
    const plan = await proposed();
    const tries = await Promise.all([1, 2, 3, 4].map(() => ask('POST', `${path}/${plan.id}/approve`, {})));
    expect(tries.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409]);
    await endOf(tries.find(({ status }) => status === 202)?.body.id);
    const { body } = await ask('GET', `/api/v1/runs?session_id=${plan.session_id}`);
    expect(body.data).toHaveLength(2);
    for (const [verb, method] of [
      ['approve', 'POST'],
      ['reject', 'POST'],
      ['', 'PATCH'],
    ] as const)
      expect(
        await ask(method, [path, plan.id, verb].filter(Boolean).join('/'), verb ? {} : { title: 'Late' }),
      ).toMatchObject({ status: 409, body: { code: 'already_answered' } });
  });

  test.each([
    ['has failed', { fail: { kind: 'status', status: 401 } }],
    ['ended at a limit', { reply: { text: 'First I loo', stop_reason: 'max_tokens' } }],
  ])('whose run %s has failed, and may be approved again', async (_how, ending) => {
    const plan = await proposed();
    await upstream.script([ending]);
    const first = await ask('POST', `${path}/${plan.id}/approve`, {});
    await endOf(first.body.id);
    expect((await ask('GET', `${path}/${plan.id}`)).body.status).toBe('failed');
    await upstream.script(proposing);
    const second = await ask('POST', `${path}/${plan.id}/approve`, {});
    await endOf(second.body.id);
    expect((await ask('GET', `${path}/${plan.id}`)).body).toMatchObject({
      status: 'done',
      carried_out_by: second.body.id,
    });
  });

  test('that is rejected is told to the agent, which then writes its next version', async () => {
    const plan = await proposed();
    const rejection = { version: 1, comment: 'Too much at once.' };
    expect(await ask('POST', `${path}/${plan.id}/reject`, rejection)).toMatchObject({
      status: 200,
      body: { status: 'rejected', comment: 'Too much at once.' },
    });
    expect((await ask('POST', `${path}/${plan.id}/reject`, {})).status).toBe(409);
    await upstream.script([{ reply: { text: '{{system}}' } }]);
    const body = { prompt: 'Again.', agent_slug: 'plan', session_id: plan.session_id };
    const told = await ask('POST', '/api/v1/query', body);
    expect(told.body.content[0].text).toContain('rejected by the person. They say: Too much at once.');
    await upstream.script(proposing);
    expect(await proposed(plan.session_id)).toMatchObject({ id: plan.id, version: 2, status: 'proposed' });
    const { body: versions } = await ask('GET', `${path}/${plan.id}/versions`);
    expect(versions.data.map(({ version }: Json) => version)).toEqual([2, 1]);
  });

  test('is changed by a person as a version of its own, which the agent is shown', async () => {
    const plan = await proposed();
    const changed = await ask('PATCH', `${path}/${plan.id}`, { content: 'Only look.' });
    expect(changed.body).toMatchObject({ version: 2, content: 'Only look.', title: 'Mend it', run_id: null });
    for (const verb of ['approve', 'reject'])
      expect(await ask('POST', `${path}/${plan.id}/${verb}`, { version: 1 })).toMatchObject({ status: 409 });
    await upstream.script([{ reply: { text: '{{system}}' } }]);
    const body = { prompt: 'And?', agent_slug: 'plan', session_id: plan.session_id };
    expect((await ask('POST', '/api/v1/query', body)).body.content[0].text).toContain('Only look.');
  });

  test('is shown to the agent as a person has left it, also where they rejected that', async () => {
    const plan = await proposed();
    await ask('PATCH', `${path}/${plan.id}`, { content: 'Only look, and tell.' });
    await ask('POST', `${path}/${plan.id}/reject`, { comment: 'Telling is too much.' });
    await upstream.script([{ reply: { text: '{{system}}' } }]);
    const body = { prompt: 'And?', agent_slug: 'plan', session_id: plan.session_id };
    const [{ text }] = (await ask('POST', '/api/v1/query', body)).body.content;
    expect(text).toContain('They say: Telling is too much.');
    expect(text).toContain('Only look, and tell.');
  });

  test('is changed and deleted only by who has read it as it is', async () => {
    const plan = await proposed();
    const stale = { token: ada.token, headers: { 'if-match': '"0"' } };
    for (const [method, body] of [['PATCH', { title: 'x' }], ['DELETE']] as const)
      expect((await app.request(method, `${path}/${plan.id}`, { ...stale, body })).status).toBe(412);
    expect((await ask('DELETE', `${path}/${plan.id}`)).status).toBe(204);
    expect((await ask('GET', `${path}/${plan.id}`)).status).toBe(404);
  });

  test('of somebody else is answered as one that does not exist', async () => {
    const plan = await proposed();
    const places: [string, string, object?][] = [
      ['GET', ''],
      ['PATCH', '', { title: 'Mine' }],
      ['DELETE', ''],
      ['GET', '/content'],
      ['GET', '/versions'],
      ['POST', '/approve', {}],
      ['POST', '/reject', {}],
    ];
    for (const [method, place, body] of places)
      expect(await ask(method, `${path}/${plan.id}${place}`, body, mallory.token)).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    expect((await ask('GET', path, undefined, mallory.token)).body.data).toEqual([]);
    expect((await app.request('GET', path)).status).toBe(401);
  });

  test.each([
    [{ permission_mode: 'bypass' }, 403, 'permission_mode_refused'],
    [{ agent_slug: 'poet' }, 404, 'agent_not_found'],
    [{ model: 'nobody:none' }, 404, 'model_not_found'],
    [{ version: 7 }, 409, 'already_answered'],
    [{ comment: '' }, 400, 'invalid_request'],
  ])('approved with %o is refused with %i %s, and is still proposed', async (body, status, code) => {
    const plan = await proposed();
    expect(await ask('POST', `${path}/${plan.id}/approve`, body)).toMatchObject({ status, body: { code } });
    expect((await ask('GET', `${path}/${plan.id}`)).body).toEqual(plan);
  });

  test('has the steps of its list, whose states the run that carries it out tells, in its stream and the workspace’s', async () => {
    const plan = await proposed();
    expect(plan.steps).toEqual([
      { id: '1', text: 'Look.', status: 'pending' },
      { id: '2', text: 'Mend.', status: 'pending' },
    ]);
    const mark = (step: string, status: string) => ({ name: 'plan_step', arguments: { step, status } });
    const marks = [mark('1', 'in_progress'), mark('1', 'completed'), mark('9', 'completed')];
    await upstream.script([
      { when: { step: 0, offers_tool: 'plan_step' }, reply: { tool_calls: marks } },
      { when: { step: 1, last_tool_result: 'has no step 9' }, reply: { text: 'Done.' } },
    ]);
    const { body: run } = await ask('POST', `${path}/${plan.id}/approve`, {});
    const told = await runtimeEvents(run.id);
    const updates = told.filter(({ type }) => type === 'plan_updated').map(({ plan }) => plan);
    expect(updates.map(({ status, steps }) => [status, steps[0].status])).toEqual([
      ['executing', 'in_progress'],
      ['executing', 'completed'],
    ]);
    const done = await ask('GET', `${path}/${plan.id}`);
    expect(done.body).toMatchObject({
      status: 'done',
      steps: [{ status: 'completed' }, { status: 'pending' }],
    });
    const { body: me } = await ask('GET', '/api/v1/users/me');
    const workspace = me.memberships[0].default_workspace_id;
    const replay = await app.stream('GET', `/api/v1/events?follow=false&after=0&workspace_id=${workspace}`, {
      token: ada.token,
    });
    const seen: Json[] = [];
    for await (const { data } of readEvents(replay))
      if (data.event?.type === 'plan_changed' && data.event.plan_id === plan.id) seen.push(data.event);
    expect(seen.map(({ status, steps }) => [status, steps[0].status])).toEqual([
      ['approved', 'pending'],
      ['executing', 'pending'],
      ['executing', 'in_progress'],
      ['executing', 'completed'],
      ['done', 'completed'],
    ]);
  });

  test('is still the plan of its run where another process goes on with it, and the session has a newer one', async () => {
    const settings = { leaseSeconds: 4 };
    const resuming = await testApp({ config: scriptedSettings(upstream.url), settings });
    onTestFinished(() => resuming.close());
    const { token } = await resuming.register('bob');
    const body = { prompt: 'Plan it.', agent_slug: 'plan' };
    const asked = await resuming.stream('POST', '/api/v1/query/stream', { token, body });
    const told = await Array.fromAsync(readEvents(asked));
    const plan = told.find(({ data }) => data.type === 'plan_updated')?.data.plan;
    const arguments_ = { step: '1', status: 'completed' };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'plan_step', arguments: arguments_ }] } },
      { reply: { text: 'It said: {{last_tool_result}}' } },
    ]);
    const { transcript } = resuming.services.store;
    const marking = vi.spyOn(transcript, 'markStep').mockImplementationOnce(async (runId) => {
      await transcript.writePlan({ runId, sessionId: plan.session_id }, written);
      throw new Problem('database_unavailable', 'The database is away.');
    });
    onTestFinished(() => marking.mockRestore());
    const approved = await resuming.request('POST', `${path}/${plan.id}/approve`, { token, body: {} });
    const answer = await resuming.stream('GET', `/api/v1/runs/${approved.body.id}/events`, { token });
    const events = await Array.fromAsync(readEvents(answer));
    expect(events.map(({ data }) => data.type)).toContain('run_resumed');
    expect(events.at(-1)?.data.content[0].text).toBe('It said: Step 1 is completed; 1 of 2 are left.');
  });

  test('that was begun before is told with what was done of it, and another text has other steps', async () => {
    const plan = await proposed();
    const arguments_ = { step: '1', status: 'completed' };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'plan_step', arguments: arguments_ }] } },
      { fail: { kind: 'status', status: 401 } },
    ]);
    const first = await ask('POST', `${path}/${plan.id}/approve`, {});
    await endOf(first.body.id);
    expect((await ask('GET', `${path}/${plan.id}`)).body).toMatchObject({
      status: 'failed',
      steps: [{ status: 'completed' }, { status: 'pending' }],
    });
    const renamed = await ask('PATCH', `${path}/${plan.id}`, { title: 'Mend it well' });
    expect(renamed.body).toMatchObject({
      version: 2,
      steps: [{ status: 'completed' }, { status: 'pending' }],
    });
    await upstream.script([{ reply: { text: 'I was told: {{last_user}}' } }]);
    const second = await ask('POST', `${path}/${plan.id}/approve`, {});
    expect((await endOf(second.body.id)).content[0].text).toContain('1: Look. (completed)\n2: Mend.');
    await upstream.script(proposing);
    const other = await proposed();
    const changed = await ask('PATCH', `${path}/${other.id}`, { content: '- [x] Looked\n- [ ] Mend' });
    expect(changed.body.steps).toEqual([
      { id: '1', text: 'Looked', status: 'completed' },
      { id: '2', text: 'Mend', status: 'pending' },
    ]);
  });

  test('that its agent calls a draft waits for nobody, until a person finishes it', async () => {
    const draft = { ...written, draft: true };
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [{ name: 'plan', arguments: draft }] } },
      { reply: { text: 'Not done.' } },
    ]);
    const plan = await proposed();
    expect(plan.status).toBe('draft');
    for (const verb of ['approve', 'reject'])
      expect(await ask('POST', `${path}/${plan.id}/${verb}`, {})).toMatchObject({
        status: 409,
        body: { code: 'plan_is_draft' },
      });
    const finished = await ask('PATCH', `${path}/${plan.id}`, { content: 'Only look.' });
    expect(finished.body).toMatchObject({ status: 'proposed', version: 2, steps: [] });
    expect((await ask('POST', `${path}/${plan.id}/reject`, {})).status).toBe(200);
  });

  test('is a document of its own, which need not be read again', async () => {
    const plan = await proposed();
    const place = `${path}/${plan.id}/content`;
    const { status, headers, body } = await ask('GET', place);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/markdown; charset=utf-8']);
    expect(body).toBe('# Mend it\n\n1. Look.\n2. Mend.\n');
    const known = { token: ada.token, headers: { 'if-none-match': headers.get('etag') ?? '' } };
    expect((await app.request('GET', place, known)).status).toBe(304);
    const blind = { token: ada.token, body: { title: 'x' }, headers: mergePatch };
    const refused = await app.request('PATCH', `${path}/${plan.id}`, blind);
    expect(refused).toMatchObject({ status: 428, body: { code: 'precondition_required' } });
  });

  test('is nothing for the coder, which has no tool for it', async () => {
    await upstream.script([{ reply: { text: '{{tools}}' } }]);
    const { body } = await ask('POST', '/api/v1/query', { prompt: 'x' });
    const names = body.content[0].text.split(/\W+/);
    for (const name of ['plan', 'plan_step']) expect(names).not.toContain(name);
  });
});
