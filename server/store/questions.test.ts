import { describe, expect, it } from 'vitest';
import type { PromptAnswer, Question } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { requireAnswers } from './prompt-answers.ts';
import type { Reach } from './store.ts';
import { beginRun, chunk, endRun, permissionRequest, promptRequest } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('A permission request', (store, engine) => {
  const ask = async (reach: Reach, run?: { readonly runId: string; readonly sessionId: string }) => {
    const asking = run ?? (await beginRun(store(), reach));
    const request = permissionRequest({ ...asking, createdAt: engine.clock.now() });
    await store().transcript.openPermission(request, []);
    return { ...asking, request };
  };

  it('is read and listed as it was asked', async () => {
    const reach = await newAccount(store());
    const { request, sessionId, runId } = await ask(reach);
    engine.clock.advance(1);
    const later = await ask(reach, { sessionId, runId });
    await store().permissions.answer(reach, sessionId, request.id, { decision: 'deny', message: 'Not now.' });
    const listed = await store().permissions.list(reach, sessionId, {});
    expect(listed.data[0]).toEqual(later.request);
    expect(listed.data[1]).toEqual({
      ...request,
      status: 'answered',
      decision: 'deny',
      resolved_at: engine.clock.now().toISOString(),
    });
    const pending = await store().permissions.list(reach, sessionId, { status: 'pending' });
    expect(pending.data.map(({ id }) => id)).toEqual([later.request.id]);
    const page = await store().permissions.list(reach, sessionId, { limit: 1 });
    const next = await store().permissions.list(reach, sessionId, { cursor: page.next_cursor ?? '' });
    expect(next.data.map(({ id }) => id)).toEqual([request.id]);
    expect(await store().transcript.readPermission(request.id)).toMatchObject({ message: 'Not now.' });
    expect(await store().transcript.readPermission(later.request.id)).toEqual({
      request: later.request,
      message: null,
    });
  });

  it('takes the first answer of many at once', async () => {
    const reach = await newAccount(store());
    const { request, sessionId } = await ask(reach);
    const other = await engine.open();
    const decisions = ['allow_once', 'deny', 'allow_session', 'allow_workspace'] as const;
    const answers = Array.from({ length: 12 }, async (_, index) => {
      const decision = decisions[index % 4] ?? 'deny';
      return (index % 2 ? store() : other).permissions.answer(reach, sessionId, request.id, { decision });
    });
    const outcomes = await Promise.allSettled(answers);
    const won = outcomes.filter((outcome) => outcome.status === 'fulfilled');
    expect(won).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'already_answered' });
    const { request: stored } = await store().transcript.readPermission(request.id);
    expect(stored).toEqual(won[0]?.value);
    const remembered = stored.decision === 'allow_session' || stored.decision === 'allow_workspace';
    expect(await store().transcript.readGrants(sessionId)).toHaveLength(remembered ? 1 : 0);
  });

  it('is answered or expires, never both', async () => {
    const reach = await newAccount(store());
    for (let round = 0; round < 5; round += 1) {
      const { request, sessionId } = await ask(reach);
      const other = await engine.open();
      const [answer, expired] = await Promise.allSettled([
        store().permissions.answer(reach, sessionId, request.id, { decision: 'deny' }),
        other.transcript.expirePermission(request.id),
      ]);
      const { request: stored } = await store().transcript.readPermission(request.id);
      expect(expired).toMatchObject({ status: 'fulfilled', value: { status: stored.status } });
      if (stored.status === 'expired') expect(answer).toMatchObject({ reason: { code: 'request_expired' } });
      else expect(answer).toMatchObject({ value: { decision: 'deny' } });
    }
  });

  it('is open until the process says otherwise that has the run, whatever the clock of another shows', async () => {
    const reach = await newAccount(store());
    const { request, sessionId, runId } = await ask(reach);
    const prompt = promptRequest({ runId, sessionId, createdAt: engine.clock.now() }, [
      { id: 'q', type: 'yes_no', text: 'Sure?' },
    ]);
    await store().transcript.openPrompt(prompt, []);
    engine.clock.advance(3_600_000);
    const other = await engine.open();
    expect(
      await other.permissions.answer(reach, sessionId, request.id, { decision: 'allow_once' }),
    ).toMatchObject({ status: 'answered', decision: 'allow_once' });
    expect(await other.prompts.answer(reach, sessionId, prompt.id, { cancelled: true })).toMatchObject({
      status: 'declined',
    });
    engine.clock.advance(-3_600_000);
  });

  it('says why it can no longer be answered', async () => {
    const reach = await newAccount(store());
    const { request, sessionId, runId } = await ask(reach);
    const answer = (id: string) =>
      store().permissions.answer(reach, sessionId, id, { decision: 'allow_once' });
    await expect(answer(newId('permissionRequest'))).rejects.toMatchObject({ code: 'not_found' });
    await answer(request.id);
    await expect(answer(request.id)).rejects.toMatchObject({ code: 'already_answered' });
    const expired = await ask(reach, { sessionId, runId });
    expect(await store().transcript.expirePermission(expired.request.id)).toMatchObject({
      status: 'expired',
    });
    await expect(answer(expired.request.id)).rejects.toMatchObject({ code: 'request_expired' });
    const cancelled = await ask(reach, { sessionId, runId });
    await endRun(store(), { sessionId, runId });
    await expect(answer(cancelled.request.id)).rejects.toMatchObject({ code: 'already_answered' });
    const narrow = await beginRun(store(), reach);
    const options = { options: ['allow_once' as const, 'deny' as const] };
    const asked = { ...permissionRequest({ ...narrow, createdAt: engine.clock.now() }), ...options };
    await store().transcript.openPermission(asked, []);
    const wide = store().permissions.answer(reach, narrow.sessionId, asked.id, {
      decision: 'allow_workspace',
    });
    await expect(wide).rejects.toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/decision' }] });
  });

  it('of before there were patterns remembers nothing; a grant of then is read as one without a pattern', async () => {
    const reach = await newAccount(store());
    const { sessionId, request } = await ask(reach);
    const { grants: _grants, ...old } = request;
    await engine
      .sql()('permission_requests')
      .where({ id: request.id })
      .update({ request: JSON.stringify(old) });
    const answered = await store().permissions.answer(reach, sessionId, request.id, {
      decision: 'allow_session',
    });
    expect(answered.grants).toEqual([]);
    expect(await store().transcript.readGrants(sessionId)).toEqual([]);
    const later = await ask(reach);
    await store().permissions.answer(reach, later.sessionId, later.request.id, { decision: 'allow_session' });
    await engine.sql()('permission_grants').where({ session_id: later.sessionId }).update({ pattern: null });
    const grant = { toolName: 'write', action: 'write', pattern: null };
    expect(await store().transcript.readGrants(later.sessionId)).toEqual([grant]);
  });

  it('keeps what was changed in the input; only the run says what is remembered then', async () => {
    const reach = await newAccount(store());
    const { sessionId, request } = await ask(reach);
    const updated_input = { file_path: 'else/\ud800\0.txt', deep: [{ nothing: null }] };
    const refused = store().permissions.answer(reach, sessionId, request.id, {
      decision: 'deny',
      updated_input,
    });
    await expect(refused).rejects.toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/updated_input' }],
    });
    await store().transcript.addGrants(request.id, ['else/**']);
    const answered = await store().permissions.answer(reach, sessionId, request.id, {
      decision: 'allow_workspace',
      updated_input,
    });
    expect(answered).toMatchObject({ params: request.params, grants: request.grants, updated_input });
    expect((await store().transcript.readPermission(request.id)).request).toEqual(answered);
    expect(await store().transcript.readGrants(sessionId)).toEqual([]);
    await store().transcript.addGrants(request.id, ['else/**']);
    const grant = { toolName: 'write', action: 'write', pattern: 'else/**' };
    expect(await store().transcript.readGrants(sessionId)).toEqual([grant]);
    const other = await ask(reach);
    await store().permissions.answer(reach, other.sessionId, other.request.id, {
      decision: 'allow_once',
      updated_input,
    });
    await store().transcript.addGrants(other.request.id, ['third/**']);
    expect(await store().transcript.readGrants(other.sessionId)).toEqual([grant]);
  });

  it('is remembered for its session, or for every session of its workspace', async () => {
    const reach = await newAccount(store());
    const first = await ask(reach);
    const second = await ask(reach);
    const stranger = await ask(await newAccount(store()));
    const write = { toolName: 'write', action: 'write', pattern: 'notes/**' };
    await store().permissions.answer(reach, first.sessionId, first.request.id, { decision: 'allow_session' });
    expect(await store().transcript.readGrants(first.sessionId)).toEqual([write]);
    expect(await store().transcript.readGrants(second.sessionId)).toEqual([]);
    await store().permissions.answer(reach, second.sessionId, second.request.id, {
      decision: 'allow_workspace',
    });
    expect(await store().transcript.readGrants(first.sessionId)).toEqual([write]);
    expect(await store().transcript.readGrants(second.sessionId)).toEqual([write]);
    expect(await store().transcript.readGrants((await ask(reach)).sessionId)).toEqual([write]);
    expect(await store().transcript.readGrants(stranger.sessionId)).toEqual([]);
  });
});

const questions: Question[] = [
  { id: 'sure', type: 'yes_no', text: 'Sure?' },
  { id: 'colour', type: 'single_choice', text: 'Which?', choices: choices('red', 'green') },
  { id: 'sizes', type: 'multi_choice', text: 'Which?', choices: choices('s', 'm', 'l') },
  { id: 'why', type: 'free_text', text: 'Why?' },
];

function choices(...ids: string[]) {
  return ids.map((id) => ({ id, label: id }));
}

const answers: PromptAnswer[] = [
  { question_id: 'sure', yes: false },
  { question_id: 'colour', selected_ids: ['red'], notes: { red: 'as always' } },
  { question_id: 'sizes', selected_ids: ['s', 'l'], fill_in_text: 'and xl' },
  { question_id: 'why', fill_in_text: 'Because.' },
];

describeStores('A prompt request', (store, engine) => {
  const ask = async (reach: Reach) => {
    const run = await beginRun(store(), reach);
    const request = promptRequest({ ...run, createdAt: engine.clock.now() }, questions);
    await store().transcript.openPrompt(request, [chunk(2, 'asked')]);
    return { ...run, request };
  };

  it('takes its answers once', async () => {
    const reach = await newAccount(store());
    const { request, sessionId } = await ask(reach);
    expect((await store().prompts.list(reach, sessionId, { status: 'pending' })).data).toEqual([request]);
    const wrong = store().prompts.answer(reach, sessionId, request.id, { answers: answers.slice(1) });
    await expect(wrong).rejects.toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/answers' }] });
    const answered = await store().prompts.answer(reach, sessionId, request.id, { answers });
    const resolved_at = engine.clock.now().toISOString();
    expect(answered).toEqual({ ...request, status: 'answered', answers, resolved_at });
    expect(await store().transcript.readPrompt(request.id)).toEqual(answered);
    expect((await store().prompts.list(reach, sessionId, { status: 'pending' })).data).toEqual([]);
    const again = store().prompts.answer(reach, sessionId, request.id, { cancelled: true });
    await expect(again).rejects.toMatchObject({ code: 'already_answered' });
  });

  it('can be declined', async () => {
    const reach = await newAccount(store());
    const { request, sessionId } = await ask(reach);
    const declined = await store().prompts.answer(reach, sessionId, request.id, { cancelled: true });
    expect(declined).toMatchObject({ status: 'declined', answers: null });
    const again = store().prompts.answer(reach, sessionId, request.id, { answers });
    await expect(again).rejects.toMatchObject({ code: 'already_answered' });
  });

  it('expires, is cancelled with its run, and is not there for strangers', async () => {
    const reach = await newAccount(store());
    const expired = await ask(reach);
    const reply = (asked: typeof expired, by = reach) =>
      store().prompts.answer(by, asked.sessionId, asked.request.id, { answers });
    const stranger = await newAccount(store());
    await expect(reply(expired, stranger)).rejects.toMatchObject({ code: 'not_found' });
    expect(await store().transcript.expirePrompt(expired.request.id)).toMatchObject({ status: 'expired' });
    await expect(reply(expired)).rejects.toMatchObject({ code: 'request_expired' });
    const cancelled = await ask(reach);
    await endRun(store(), cancelled, 3);
    await expect(reply(cancelled)).rejects.toMatchObject({ code: 'already_answered' });
  });

  it('takes the first of many answers at once', async () => {
    const reach = await newAccount(store());
    const { request, sessionId } = await ask(reach);
    const other = await engine.open();
    const replies = Array.from({ length: 10 }, (_, index) =>
      (index % 2 ? store() : other).prompts.answer(
        reach,
        sessionId,
        request.id,
        index % 3 ? { answers } : { cancelled: true },
      ),
    );
    const won = (await Promise.allSettled(replies)).filter(({ status }) => status === 'fulfilled');
    expect(won).toHaveLength(1);
  });
});

describe('Answers', () => {
  const mistakes = (given: PromptAnswer[]): string[] => {
    try {
      requireAnswers(questions, given);
      return [];
    } catch (error) {
      const { errors } = error as { errors: { pointer: string; code: string }[] }; // A Problem, as the next line shows.
      return errors.map(({ pointer, code }) => `${pointer} ${code}`);
    }
  };
  /** The right answers, but for one. */
  const but = (index: number, answer: Omit<PromptAnswer, 'question_id'>): PromptAnswer[] =>
    answers.with(index, { question_id: answers[index]?.question_id ?? '', ...answer });

  it('that match pass, in any order', () => {
    expect(mistakes(answers)).toEqual([]);
    expect(mistakes(answers.toReversed())).toEqual([]);
    expect(mistakes(but(1, { fill_in_text: 'blue' }))).toEqual([]);
  });

  it('that leave questions open pass where those are optional', () => {
    const open = answers.map(({ question_id }) => ({ question_id }));
    expect(mistakes(open)).toHaveLength(4);
    const optional = questions.map((question) => ({ ...question, optional: true }));
    expect(() => requireAnswers(optional, open)).not.toThrow();
    expect(() => requireAnswers(optional, open.slice(1))).toThrow('do not match');
    expect(() => requireAnswers(optional, but(1, { selected_ids: ['blue'] }))).toThrow('do not match');
  });

  it.each<[string, PromptAnswer[], string[]]>([
    ['a missing answer', answers.slice(0, 3), ['/answers required']],
    ['an unknown question', [...answers, { question_id: 'x' }], ['/answers/4/question_id enum']],
    ['a doubled answer', [...answers, ...answers.slice(0, 1)], ['/answers/4/question_id uniqueItems']],
    ['no yes and no no', but(0, {}), ['/answers/0/yes required']],
    [
      'text for a yes',
      but(0, { yes: true, fill_in_text: 'x' }),
      ['/answers/0/fill_in_text additionalProperties'],
    ],
    ['nothing chosen', but(1, { selected_ids: [] }), ['/answers/1/selected_ids required']],
    [
      'two for a single choice',
      but(1, { selected_ids: ['red', 'green'] }),
      ['/answers/1/selected_ids maxItems'],
    ],
    ['what is no choice', but(2, { selected_ids: ['s', 'xl'] }), ['/answers/2/selected_ids/1 enum']],
    [
      'a note on no choice',
      but(2, { selected_ids: ['s'], notes: { 'a/b~c': '' } }),
      ['/answers/2/notes/a~1b~0c enum'],
    ],
    ['an empty text', but(3, { fill_in_text: '' }), ['/answers/3/fill_in_text required']],
    [
      'a choice for a text',
      but(3, { fill_in_text: 'x', selected_ids: ['s'] }),
      ['/answers/3/selected_ids additionalProperties'],
    ],
  ])('with %s are refused, and the place is named', (_title, given, expected) => {
    expect(mistakes(given)).toEqual(expected);
  });
});
