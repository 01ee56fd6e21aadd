import { expect, it } from 'vitest';
import type { ExportedMessage, MessagePart } from '../contract/api.ts';
import type { Reach, Store } from './store.ts';
import { beginRun, endRun, message, noUsage } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const call: MessagePart = { type: 'tool_use', id: 'call_1', name: 'write', input: { file_path: 'a' } };
const result: MessagePart = {
  ...{ type: 'tool_result', tool_use_id: 'call_1', name: 'write' },
  ...{ content: 'Created.', is_error: false },
};

/** A run of a prompt, an answer with a call, its result, and a change of one file. */
async function endedRun(
  store: Store,
  reach: Reach,
  prompt: string,
  change: readonly [string | null, string | null],
  sessionId?: string,
) {
  const run = await beginRun(store, reach, { prompt, ...(sessionId && { sessionId }) });
  const state = (text: string | null) =>
    text === null ? null : { sha256: text.padEnd(64, '0'), size: text.length, bytes: Buffer.from(text) };
  const [before, after] = change;
  await store.transcript.recordChange({
    ...{ ...run, toolCallId: 'call_1', path: 'a', mode: null },
    ...{ before: state(before), after: state(after) },
  });
  const messages = [
    { ...message('assistant', ''), parts: [call] },
    { ...message('tool', ''), parts: [result] },
  ];
  await store.transcript.commitStep({ ...run, messages, usage: noUsage, steps: 1, events: [] });
  await endRun(store, run);
  return run.sessionId;
}

type Said = Omit<ReturnType<typeof message>, 'usage'> & Pick<ExportedMessage, 'usage' | 'summary'>;

/** A session in which this was said elsewhere. */
async function imported(store: Store, reach: Reach, said: readonly Said[]): Promise<string> {
  const created_at = '2026-11-21T08:00:00.000Z';
  const facts = { title: 'Old', agent_slug: 'coder', model: null, system_prompt: null };
  const workspace = await store.workspaces.defaultOf(reach);
  const { session } = await store.sessionImports.add(reach, workspace?.id ?? '', {
    format_version: 1,
    exported_at: created_at,
    session: { ...facts, tags: [], metadata: {}, created_at },
    messages: said.map(({ id, ...given }) => ({ ...given, created_at })),
  });
  return session.id;
}

async function listed(store: Store, reach: Reach, sessionId: string, reverted = false) {
  return (await store.messages.list(reach, sessionId, { reverted, limit: 100 })).data;
}

async function promptOf(store: Store, reach: Reach, sessionId: string, index: number): Promise<string> {
  const prompts = await store.messages.list(reach, sessionId, { role: 'user' });
  return prompts.data[index]?.id ?? '';
}

const done = async () => undefined;

describeStores('Going back in a session', (store, engine) => {
  it('takes what came after out of the history, and out of what its files have come to', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    await endedRun(store(), reach, 'two', ['a1', 'a2'], sessionId);
    await endedRun(store(), reach, 'three', ['a2', 'a3'], sessionId);
    const plan = await store().history.planRevert(
      reach,
      sessionId,
      await promptOf(store(), reach, sessionId, 1),
    );
    expect(plan).toMatchObject({ messages: 6, files: [{ path: 'a', before: { size: 2 } }] });
    expect(plan.files[0]).toMatchObject({
      before: { sha256: 'a1'.padEnd(64, '0') },
      beforeLast: { sha256: 'a2'.padEnd(64, '0') },
      after: { sha256: 'a3'.padEnd(64, '0') },
    });
    await store().history.revert(reach, plan, true, done);
    expect(await listed(store(), reach, sessionId)).toHaveLength(3);
    expect(await listed(store(), reach, sessionId, true)).toHaveLength(6);
    expect(await store().transcript.readMessages(sessionId)).toHaveLength(3);
    expect((await store().sessions.find(reach, sessionId))?.session.message_count).toBe(3);
    const [file] = await store().fileChanges.list(reach, sessionId, { limit: 5 });
    expect(file?.after?.sha256).toBe('a1'.padEnd(64, '0'));
    const found = await store().searches.find(reach, { query: 'three' }, {});
    expect(found.data).toEqual([]);
    // What is said next follows what is left.
    await endedRun(store(), reach, 'four', ['a1', 'a4'], sessionId);
    const texts = (await listed(store(), reach, sessionId)).flatMap(({ role, parts }) =>
      role === 'user' && parts[0]?.type === 'text' ? [parts[0].text] : [],
    );
    expect(texts).toEqual(['one', 'four']);
  });

  it('changes nothing where the files could not be put back', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const plan = await store().history.planRevert(
      reach,
      sessionId,
      await promptOf(store(), reach, sessionId, 0),
    );
    const failed = store().history.revert(reach, plan, true, () => Promise.reject(new Error('disk')));
    await expect(failed).rejects.toThrow('disk');
    expect(await listed(store(), reach, sessionId)).toHaveLength(3);
    expect(await store().fileChanges.list(reach, sessionId, { limit: 5 })).toHaveLength(1);
    expect((await store().searches.find(reach, { query: 'one' }, {})).data).toHaveLength(1);
  });

  it('is void where a run has taken place since it was planned, and never waits for one', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const promptId = await promptOf(store(), reach, sessionId, 0);
    const plan = await store().history.planRevert(reach, sessionId, promptId);
    await endedRun(store(), reach, 'two', ['a1', 'a2'], sessionId);
    await expect(store().history.revert(reach, plan, true, done)).rejects.toMatchObject({
      code: 'session_busy',
    });
    const run = await beginRun(store(), reach, { sessionId });
    for (const attempt of [
      () => store().history.planRevert(reach, sessionId, promptId),
      () => store().history.deleteMessage(reach, sessionId, promptId),
      () => store().history.updateMessage(reach, sessionId, promptId, { text: 'x' }),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'session_busy' });
    const rated = await store().history.updateMessage(reach, sessionId, promptId, {
      feedback: { rating: 'up' },
    });
    expect(rated.message.feedback).toEqual({ rating: 'up' });
    await endRun(store(), run);
  });

  it('is never planned with the number of a run that is at work', async () => {
    const reach = await newAccount(store());
    const plannedBeside = async () => {
      const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
      const promptId = await promptOf(store(), reach, sessionId, 0);
      const plan = () => store().history.planRevert(reach, sessionId, promptId);
      const { runNumber } = await plan();
      const beginning = beginRun(store(), reach, { sessionId });
      for (;;) {
        const planned = await plan().catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'session_busy' });
          return null;
        });
        if (planned === null) break;
        expect(planned.runNumber).toBe(runNumber);
      }
      await endRun(store(), await beginning);
    };
    await Promise.all(Array.from({ length: 20 }, plannedBeside));
  });

  it('happens once, however many ask at the same time', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const plan = await store().history.planRevert(
      reach,
      sessionId,
      await promptOf(store(), reach, sessionId, 0),
    );
    let times = 0;
    const count = async () => {
      times += 1;
    };
    const other = await engine.open();
    const all = await Promise.allSettled(
      [store(), other, store()].map((one) => one.history.revert(reach, plan, true, count)),
    );
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(times).toBe(1);
    expect((await store().sessions.find(reach, sessionId))?.session.message_count).toBe(0);
  });

  it('is for who owns the session, whichever message is named', async () => {
    const [reach, stranger] = [await newAccount(store()), await newAccount(store())];
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const own = await endedRun(store(), stranger, 'mine', [null, 'a1']);
    const promptId = await promptOf(store(), reach, sessionId, 0);
    for (const attempt of [
      () => store().history.planRevert(stranger, sessionId, promptId),
      () => store().history.planRevert(stranger, own, promptId),
      () => store().history.fork(stranger, sessionId, {}),
      () => store().history.fork(stranger, own, { at_message_id: promptId }),
      () => store().history.updateMessage(stranger, own, promptId, { feedback: null }),
      () => store().history.deleteMessage(stranger, own, promptId),
      () => store().messages.find(stranger, own, promptId),
    ])
      await expect(attempt()).rejects.toMatchObject({ code: 'not_found' });
    expect(await listed(store(), reach, sessionId)).toHaveLength(3);
  });
});

describeStores('A fork', (store) => {
  it('never parts calls from results, and leaves out a step that is still at work', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const [, answer] = await listed(store(), reach, sessionId);
    const rolesOf = async (id: string) => (await listed(store(), reach, id)).map(({ role }) => role);
    const cut = await store().history.fork(reach, sessionId, { at_message_id: answer?.id ?? '' });
    expect(await rolesOf(cut.session.id)).toEqual(['user', 'assistant', 'tool']);
    const run = await beginRun(store(), reach, { sessionId, prompt: 'two' });
    await store().transcript.changeStatus(run, 'running', []);
    const messages = [{ ...message('assistant', ''), parts: [call] }];
    await store().transcript.commitStep({ ...run, messages, usage: noUsage, steps: 1, events: [] });
    const busy = await store().history.fork(reach, sessionId, {});
    expect(busy.session).toMatchObject({ status: 'idle', message_count: 4, parent_id: sessionId });
    expect(await rolesOf(busy.session.id)).toEqual(['user', 'assistant', 'tool', 'user']);
    await endRun(store(), run);
  });

  it('leaves out an unfinished answer and the prompts that wait behind it, unless they are named', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { prompt: 'one' });
    const { sessionId } = run;
    await store().transcript.changeStatus(run, 'running', []);
    const messages = [{ ...message('assistant', ''), parts: [call] }];
    await store().transcript.commitStep({ ...run, messages, usage: noUsage, steps: 1, events: [] });
    const waiting = await beginRun(store(), reach, { sessionId, prompt: 'two' });
    const textsOf = async (id: string) =>
      (await listed(store(), reach, id)).map(({ role, parts }) =>
        parts[0]?.type === 'text' ? parts[0].text : role,
      );
    const whole = await store().history.fork(reach, sessionId, {});
    expect(await textsOf(whole.session.id)).toEqual(['one']);
    const second = await promptOf(store(), reach, sessionId, 1);
    const named = await store().history.fork(reach, sessionId, { at_message_id: second });
    expect(await textsOf(named.session.id)).toEqual(['one', 'two']);
    expect(named.session.message_count).toBe(2);
    await endRun(store(), run);
    // It waits also where nothing is at work: for a process that begins it.
    const before = await store().history.fork(reach, sessionId, {});
    expect(await textsOf(before.session.id)).toEqual(['one', 'assistant']);
    await endRun(store(), waiting);
    // What a client has to carry out is its own to go on with, and nothing is at work.
    const later = await store().history.fork(reach, sessionId, {});
    expect(await textsOf(later.session.id)).toEqual(['one', 'assistant', 'two']);
  });

  it('has as much context as can be counted, whatever was imported', async () => {
    const reach = await newAccount(store());
    const most = Number.MAX_SAFE_INTEGER;
    const usage = { input_tokens: most, output_tokens: most, cached_input_tokens: 0 };
    const messages = [message('user', 'one'), { ...message('assistant', 'An answer.'), usage }];
    const id = await imported(store(), reach, [...messages, message('user', 'two')]);
    const fork = await store().history.fork(reach, id, {});
    expect(fork.session.context.used).toBe(most);
    await store().history.deleteMessage(reach, id, await promptOf(store(), reach, id, 1));
    expect((await store().sessions.find(reach, id))?.session.context.used).toBe(most);
  });

  it('names the newest summary of those that it has', async () => {
    const reach = await newAccount(store());
    const sumUp = async (text: string) => {
      const run = await beginRun(store(), reach, { sessionId, prompt: `before ${text}` });
      const messages = [{ ...message('assistant', text), summary: true }];
      await store().transcript.commitStep({ ...run, messages, usage: noUsage, steps: 1, events: [] });
      await endRun(store(), run);
    };
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    await sumUp('S1');
    await sumUp('S2');
    const between = await promptOf(store(), reach, sessionId, 2);
    const { session } = await store().history.fork(reach, sessionId, { at_message_id: between });
    const copy = (await listed(store(), reach, session.id)).findLast(({ summary }) => summary);
    expect(copy?.parts).toMatchObject([{ text: 'S1' }]);
    expect(session.summary_message_id).toBe(copy?.id);
  });

  it('names its own summary, and what was summed up comes along', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const run = await beginRun(store(), reach, { sessionId, prompt: 'sum up' });
    const summary = { ...message('assistant', 'In short.'), summary: true };
    await store().transcript.commitStep({
      ...run,
      messages: [summary],
      usage: noUsage,
      steps: 1,
      events: [],
    });
    await endRun(store(), run);
    const { session } = await store().history.fork(reach, sessionId, {});
    const copy = (await listed(store(), reach, session.id)).find((one) => one.summary);
    expect(session.summary_message_id).toBe(copy?.id);
    expect(copy?.id).not.toBe(summary.id);
    await store().history.deleteMessage(reach, session.id, copy?.id ?? '');
    expect((await store().sessions.find(reach, session.id))?.session.summary_message_id).toBeNull();
    const plan = await store().history.planRevert(
      reach,
      sessionId,
      await promptOf(store(), reach, sessionId, 1),
    );
    await store().history.revert(reach, plan, false, done);
    expect((await store().sessions.find(reach, sessionId))?.session.summary_message_id).toBeNull();
  });
});

describeStores('Deleting a message', (store) => {
  /** A prompt, an answer with two calls, one of which its client carries out, and the answer to that in a run of its own. */
  async function sessionOfClient(reach: Reach): Promise<string> {
    const own: MessagePart = { type: 'tool_use', id: 'call_2', name: 'get_weather', input: {} };
    const run = await beginRun(store(), reach, { prompt: 'one' });
    const commit = (of: typeof run, ...messages: ReturnType<typeof message>[]) =>
      store().transcript.commitStep({ ...of, messages, usage: noUsage, steps: 1, events: [] });
    await commit(run, said('assistant', call, own), said('tool', result));
    await endRun(store(), run);
    const { sessionId } = run;
    const given: MessagePart = {
      ...{ type: 'tool_result', tool_use_id: 'call_2', name: 'get_weather' },
      ...{ content: '21 degrees', is_error: false },
    };
    const next = await beginRun(store(), reach, { sessionId, role: 'tool', parts: [given] });
    await commit(next, message('assistant', 'Sunny.'));
    await endRun(store(), next);
    await endedRun(store(), reach, 'two', [null, 'a1'], sessionId);
    return sessionId;
  }

  const said = (role: 'assistant' | 'tool', ...parts: MessagePart[]) => ({
    ...message(role, ''),
    parts: parts as ReturnType<typeof message>['parts'], // any part will do
  });

  const two = ['user', 'assistant', 'tool'];

  it.each([
    ['a prompt takes along all that answered it', 0, two],
    ['an answer takes along what was given to its calls', 1, ['user', 'assistant', ...two]],
    ['a result takes along the answer that asked for it', 2, ['user', 'assistant', ...two]],
    ['so does that of a client', 3, ['user', 'assistant', ...two]],
    ['the last answer takes along nothing', 4, ['user', 'assistant', 'tool', 'tool', ...two]],
  ])('%s, whichever runs they stand in', async (_, index, left) => {
    const reach = await newAccount(store());
    const sessionId = await sessionOfClient(reach);
    const id = (await listed(store(), reach, sessionId))[index]?.id ?? '';
    await store().history.deleteMessage(reach, sessionId, id);
    expect((await listed(store(), reach, sessionId)).map(({ role }) => role)).toEqual(left);
    const { session } = (await store().sessions.find(reach, sessionId)) ?? {};
    expect(session?.message_count).toBe(left.length);
  });

  it('stands before a prompt that it leaves out, also in a fork, and stays where that is gone back on', async () => {
    const reach = await newAccount(store());
    const sessionId = await endedRun(store(), reach, 'one', [null, 'a1']);
    const run = await beginRun(store(), reach, { sessionId, prompt: 'two' });
    const prompt = await promptOf(store(), reach, sessionId, 1);
    const summary = { ...message('assistant', 'In short.'), summary: true };
    const step = { ...run, usage: noUsage, events: [] };
    await store().transcript.commitStep({ ...step, messages: [summary], before: prompt, steps: 0 });
    await store().transcript.commitStep({ ...step, messages: [message('assistant', 'Two.')], steps: 1 });
    await endRun(store(), run);
    const textsOf = async (id: string) =>
      (await listed(store(), reach, id))
        .slice(3)
        .map(({ parts: [part] }) => part && 'text' in part && part.text);
    expect(await textsOf(sessionId)).toEqual(['In short.', 'two', 'Two.']);
    const { session } = await store().history.fork(reach, sessionId, {});
    expect(await textsOf(session.id)).toEqual(['In short.', 'two', 'Two.']);
    const plan = await store().history.planRevert(reach, sessionId, prompt);
    await store().history.revert(reach, plan, false, done);
    expect(await textsOf(sessionId)).toEqual(['In short.']);
    expect((await store().sessions.find(reach, sessionId))?.session.summary_message_id).toBe(summary.id);
  });

  it('of those that were gone back on counts nothing', async () => {
    const reach = await newAccount(store());
    const sessionId = await sessionOfClient(reach);
    const first = await promptOf(store(), reach, sessionId, 0);
    await store().history.revert(
      reach,
      await store().history.planRevert(reach, sessionId, first),
      false,
      done,
    );
    await store().history.deleteMessage(reach, sessionId, first);
    expect(await listed(store(), reach, sessionId, true)).toHaveLength(two.length);
    expect((await store().sessions.find(reach, sessionId))?.session.message_count).toBe(0);
  });

  it('leaves the summary behind a prompt, and takes one in the midst of its answers', async () => {
    const reach = await newAccount(store());
    const id = await imported(store(), reach, [
      message('user', 'one'),
      { ...message('assistant', 'S1'), summary: true },
      message('assistant', 'An answer.'),
      { ...message('assistant', 'S2'), summary: true },
      message('user', 'two'),
    ]);
    await store().history.deleteMessage(reach, id, await promptOf(store(), reach, id, 0));
    const left = (await listed(store(), reach, id)).flatMap(({ parts }) => parts);
    expect(left).toMatchObject([{ text: 'S2' }, { text: 'two' }]);
    expect((await store().sessions.find(reach, id))?.session.summary_message_id).not.toBeNull();
  });

  it('leaves no part of a step in a fork', async () => {
    const reach = await newAccount(store());
    const sessionId = await sessionOfClient(reach);
    const rows = await listed(store(), reach, sessionId);
    for (const index of [1, 2, 3]) {
      const options = { at_message_id: rows[index]?.id ?? '' };
      const { session } = await store().history.fork(reach, sessionId, options);
      const roles = (await listed(store(), reach, session.id)).map(({ role }) => role);
      expect(roles).toEqual(['user', 'assistant', 'tool', 'tool']);
    }
  });
});
