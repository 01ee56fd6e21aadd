import { expect, it, onTestFinished } from 'vitest';
import type { Session } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { NumberedEvent } from './run-events.ts';
import type { Reach } from './store.ts';
import { sweepLimits } from './sweeps.ts';
import { beginRun, chunk, endRun, message, noUsage, permissionRequest, promptRequest } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const usage = { input_tokens: 10, output_tokens: 5, cached_input_tokens: 2 };

describeStores('A run', (store, engine) => {
  const readSession = async (reach: Reach, id: string): Promise<Session | undefined> =>
    (await store().sessions.find(reach, id))?.session;
  const readRun = async (reach: Reach, id: string) => (await store().runs.find(reach, id))?.run;

  it('renames its session only while nobody else has', async () => {
    const reach = await newAccount(store());
    const { sessionId } = await beginRun(store(), reach);
    const before = await store().sessions.find(reach, sessionId);
    const given = before?.session.title ?? '';
    await store().transcript.replaceTitle(sessionId, 'Another', 'Not this');
    expect((await store().sessions.find(reach, sessionId))?.session.title).toBe(given);
    await store().transcript.replaceTitle(sessionId, given, 'A better one');
    const after = await store().sessions.find(reach, sessionId);
    expect(after?.session.title).toBe('A better one');
    expect(after?.etag).not.toBe(before?.etag);
    await store().transcript.replaceTitle(sessionId, given, 'Too late');
    expect((await store().sessions.find(reach, sessionId))?.session.title).toBe('A better one');
  });

  it('is stored step by step, and its session follows', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const { runId, sessionId } = run;
    expect(await readRun(reach, runId)).toMatchObject({
      status: 'queued',
      started_at: null,
      steps: 0,
      usage: noUsage,
      last_event_id: 1,
      stop_reason: null,
    });
    expect(await readSession(reach, sessionId)).toMatchObject({ status: 'running', message_count: 1 });
    engine.clock.advance(1000);
    await store().transcript.changeStatus(run, 'running', [chunk(2, 'a')]);
    const startedAt = engine.clock.now().toISOString();
    engine.clock.advance(1000);
    const answer = {
      ...message('assistant', 'Hello.'),
      model: 'demo:demo-1',
      stop_reason: 'tool_use' as const,
      usage,
    };
    await store().transcript.commitStep({
      ...run,
      messages: [answer],
      usage,
      steps: 1,
      events: [chunk(3, 'b')],
    });
    const result = message('tool', 'done');
    await store().transcript.commitStep({ ...run, messages: [result], usage: noUsage, steps: 0, events: [] });
    await store().transcript.appendEvents(runId, [chunk(4, 'c'), chunk(5, 'd')]);
    expect(await readRun(reach, runId)).toMatchObject({
      status: 'running',
      started_at: startedAt,
      steps: 1,
      usage,
      last_event_id: 5,
    });
    await store().transcript.endRun({
      ...run,
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error: { code: 'provider_failed', message: 'It failed.\0' },
      messages: [message('assistant', 'unfinished')],
      usage,
      events: [chunk(6, 'e')],
    });
    expect(await readRun(reach, runId)).toMatchObject({
      status: 'failed',
      stop_reason: 'error',
      interrupt_reason: null,
      error: { code: 'provider_failed', message: 'It failed.\0' },
      ended_at: engine.clock.now().toISOString(),
      usage: { input_tokens: 20, output_tokens: 10, cached_input_tokens: 4 },
      last_event_id: 6,
    });
    expect(await readSession(reach, sessionId)).toMatchObject({
      status: 'idle',
      message_count: 4,
      usage: { input_tokens: 20, output_tokens: 10, cached_input_tokens: 4 },
      updated_at: engine.clock.now().toISOString(),
    });
    const messages = await store().transcript.readMessages(sessionId);
    expect(messages.map(({ role, run_id }) => [role, run_id])).toEqual([
      ['user', runId],
      ['assistant', runId],
      ['tool', runId],
      ['assistant', runId],
    ]);
    expect(messages[1]).toEqual({
      ...answer,
      cost: null,
      summary: false,
      excluded: false,
      session_id: sessionId,
      feedback: null,
      reverted: false,
      run_id: runId,
      created_at: startedAt.replace(':01.', ':02.'),
    });
    const events = await store().transcript.readEvents(runId, 2, 3);
    expect(events).toEqual([chunk(3, 'b'), chunk(4, 'c'), chunk(5, 'd')]);
    expect(await store().metrics.snapshot(reach)).toEqual({
      scope: 'organizations',
      sessions: 1,
      runs: { ...countOf('failed') },
      usage: { input_tokens: 20, output_tokens: 10, cached_input_tokens: 4 },
    });
    expect((await store().metrics.snapshot('installation')).sessions).toBeGreaterThanOrEqual(1);
  });

  it('gathers what its steps cost exactly, and its session with what was used beside its runs', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const { runId, sessionId } = run;
    const step = { ...run, usage, steps: 1 as const, events: [] };
    const context = { used: 15, window: 200_000 };
    for (const cost of [0.1, 0.2, 0.000000001])
      await store().transcript.commitStep({
        ...step,
        messages: [{ ...message('assistant', 'x'), cost }],
        cost,
        context,
      });
    expect(await readRun(reach, runId)).toMatchObject({ cost: 0.300000001 });
    await store().transcript.addUsage(run, { model: 'demo:small', usage, cost: 0.7 });
    expect(await readSession(reach, sessionId)).toMatchObject({
      cost: 1.000000001,
      context,
      usage: { input_tokens: 40, output_tokens: 20, cached_input_tokens: 8 },
    });
    const costs = (await store().transcript.readMessages(sessionId)).map(({ cost }) => cost);
    expect(costs).toEqual([null, 0.1, 0.2, 0.000000001]);
    await store().transcript.commitStep({ ...step, messages: [], cost: null });
    await store().transcript.commitStep({ ...step, messages: [], cost: 0.1 });
    expect(await readRun(reach, runId)).toMatchObject({ cost: null });
    expect(await readSession(reach, sessionId)).toMatchObject({ cost: null, context });
  });

  it('knows the newest summary of its session, and what no model is to be shown again', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const { sessionId } = run;
    const summaries = [message('assistant', 'One.'), message('assistant', 'Two.')];
    for (const summary of summaries)
      await store().transcript.commitStep({
        ...run,
        messages: [{ ...summary, summary: true }],
        usage,
        steps: 0,
        events: [],
      });
    expect(await readSession(reach, sessionId)).toMatchObject({ summary_message_id: summaries[1]?.id });
    const [prompt] = await store().transcript.readMessages(sessionId);
    const elsewhere = await beginRun(store(), reach);
    const [other] = await store().transcript.readMessages(elsewhere.sessionId);
    await store().transcript.endRun({
      ...run,
      status: 'failed',
      stopReason: 'error',
      interruptReason: null,
      error: { code: 'provider_refused', message: 'No.' },
      messages: [],
      usage: noUsage,
      excluded: [prompt?.id ?? '', other?.id ?? ''],
      events: [chunk(2, 'e')],
    });
    const marks = (await store().transcript.readMessages(sessionId)).map(({ summary, excluded }) => [
      summary,
      excluded,
    ]);
    expect(marks).toEqual([
      [false, true],
      [true, false],
      [true, false],
    ]);
    expect(await store().transcript.readMessages(elsewhere.sessionId)).toMatchObject([{ excluded: false }]);
  });

  it('gives back text as the model wrote it, whatever that is', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const text = 'nul \0, half a pair \ud83d, line\u2028, 👩🏽‍🚀, \r\n, "quotes", \\u0000';
    const odd = message('assistant', text);
    await store().transcript.commitStep({
      ...run,
      messages: [odd],
      usage,
      steps: 1,
      events: [chunk(2, text)],
    });
    const messages = await store().transcript.readMessages(run.sessionId);
    expect(messages[1]?.parts).toEqual(odd.parts);
    expect(await store().transcript.readEvents(run.runId, 1, 9)).toEqual([chunk(2, text)]);
  });

  it('stores a big step in one piece', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { prompt: 'x'.repeat(1_000_000) });
    const events = Array.from({ length: 1500 }, (_, index) => chunk(index + 2, `chunk ${index}`));
    const messages = Array.from({ length: 450 }, (_, index) => message('tool', `result ${index}`));
    await store().transcript.commitStep({ ...run, messages, usage, steps: 1, events });
    const read: NumberedEvent[] = [];
    for (let page: readonly NumberedEvent[] = []; read.length === 0 || page.length > 0; read.push(...page))
      page = await store().transcript.readEvents(run.runId, read.at(-1)?.seq ?? 1, 2000);
    expect(read).toEqual(events);
    const stored = await store().transcript.readMessages(run.sessionId);
    expect(stored.slice(1).map(({ id }) => id)).toEqual(messages.map(({ id }) => id));
    expect(stored[0]?.parts).toEqual([{ type: 'text', text: 'x'.repeat(1_000_000) }]);
  });

  it('leaves nothing of a step that fails half way', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const before = [await store().sessions.find(reach, run.sessionId), await readRun(reach, run.runId)];
    const [prompt] = await store().transcript.readMessages(run.sessionId);
    const doubled = [message('assistant', 'new'), message('tool', 'same id', prompt?.id)];
    const step = { ...run, messages: doubled, usage, steps: 1 as const, events: [chunk(2, 'a')] };
    await expect(store().transcript.commitStep(step)).rejects.toThrow();
    // A failure after the messages were written: an event twice in one batch.
    const twice = {
      ...step,
      messages: [message('assistant', 'new')],
      events: [chunk(2, 'a'), chunk(2, 'b')],
    };
    await expect(store().transcript.commitStep(twice)).rejects.toThrow();
    expect([await store().sessions.find(reach, run.sessionId), await readRun(reach, run.runId)]).toEqual(
      before,
    );
    expect(await store().transcript.readMessages(run.sessionId)).toEqual([prompt]);
    expect(await store().transcript.readEvents(run.runId, 1, 9)).toEqual([]);
    await store().transcript.commitStep({ ...step, messages: [] });
  });

  it('begins with its prompt and its first event, or not at all', async () => {
    const reach = await newAccount(store());
    const { sessionId } = await beginRun(store(), reach);
    const [prompt] = await store().transcript.readMessages(sessionId);
    const { session } = await store().sessions.create(reach, {});
    const runId = newId('run');
    const doubled = store().transcript.beginRun({
      id: runId,
      sessionId: session.id,
      userId: reach.userId,
      trigger: 'api',
      agentSlug: 'coder',
      model: 'demo:demo-1',
      permissionMode: 'ask',
      onUnanswered: 'wait',
      messages: [message('user', 'doubled', prompt?.id)],
      owner: 'a',
      queueLimit: 100,
      workspacePlace: null,
      provisionalTitle: null,
      events: [chunk(1, 'a')],
    });
    await expect(doubled).rejects.toThrow();
    expect(await readRun(reach, runId)).toBeUndefined();
    expect(await readSession(reach, session.id)).toMatchObject({ status: 'idle', message_count: 0 });
    const gone = beginRun(store(), reach, { sessionId: newId('session') });
    await expect(gone).rejects.toMatchObject({ code: 'not_found' });
  });

  it('may store the same events again, as after a lost answer', async () => {
    const reach = await newAccount(store());
    const { runId } = await beginRun(store(), reach);
    await store().transcript.appendEvents(runId, [chunk(2, 'a'), chunk(3, 'b')]);
    await store().transcript.appendEvents(runId, [chunk(2, 'a'), chunk(3, 'b'), chunk(4, 'c')]);
    const events = await store().transcript.readEvents(runId, 1, 9);
    expect(events.map(({ seq }) => seq)).toEqual([2, 3, 4]);
    expect((await readRun(reach, runId))?.last_event_id).toBe(4);
  });

  it('tells of its end, also where the answer to the write before it was lost', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    await store().transcript.commitStep({
      ...run,
      messages: [],
      usage,
      steps: 1,
      events: [chunk(2, 'a'), chunk(3, 'b')],
    });
    // Whoever never heard of it still counts from before it.
    await endRun(store(), run, 2);
    const events = await store().transcript.readEvents(run.runId, 1, 9);
    expect(events).toEqual([chunk(2, 'a'), chunk(3, 'b'), chunk(4, 'end')]);
    expect(await readRun(reach, run.runId)).toMatchObject({ status: 'interrupted', last_event_id: 4 });
  });

  it('keeps its messages together while later ones wait', async () => {
    const reach = await newAccount(store());
    const first = await beginRun(store(), reach, { prompt: 'one' });
    const second = await beginRun(store(), reach, { sessionId: first.sessionId, prompt: 'two' });
    const step = { usage, steps: 1 as const, events: [] };
    await store().transcript.commitStep({ ...first, ...step, messages: [message('assistant', '1')] });
    expect(await store().runs.activeOf(reach, first.sessionId)).toMatchObject([
      { id: first.runId },
      { id: second.runId },
    ]);
    await endRun(store(), first);
    expect(await readSession(reach, first.sessionId)).toMatchObject({ status: 'running' });
    await store().transcript.commitStep({ ...second, ...step, messages: [message('assistant', '2')] });
    await endRun(store(), second);
    const texts = (messages: readonly { readonly parts: readonly object[] }[]) =>
      messages.map(({ parts }) => (parts[0] && 'text' in parts[0] ? parts[0].text : null));
    expect(texts(await store().transcript.readMessages(first.sessionId))).toEqual(['one', '1', 'two', '2']);
    expect(texts(await store().transcript.readMessages(first.sessionId, first.runId))).toEqual(['one', '1']);
    expect(await store().runs.activeOf(reach, first.sessionId)).toEqual([]);
    const pages = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await store().messages.list(reach, first.sessionId, {
        limit: 3,
        ...(cursor && { cursor }),
      });
      pages.push(texts(page.data));
      cursor = page.next_cursor;
    }
    expect(pages).toEqual([['one', '1', 'two'], ['2']]);
    const answers = await store().messages.list(reach, first.sessionId, { role: 'assistant' });
    expect(texts(answers.data)).toEqual(['1', '2']);
  });

  it('shows of what is summed up only what a result behind it may be of', async () => {
    const reach = await newAccount(store());
    const { transcript } = store();
    const first = await beginRun(store(), reach, { prompt: 'one' });
    const { sessionId } = first;
    const step = { usage, steps: 1 as const, events: [] };
    const say = async (run: typeof first, text: string, summary = false) => {
      await transcript.commitStep({
        ...run,
        ...step,
        messages: [{ ...message('assistant', text), summary }],
      });
      await endRun(store(), run);
    };
    await say(first, '1');
    await say(await beginRun(store(), reach, { sessionId, prompt: 'two' }), '2');
    // Nobody has answered this one.
    await endRun(store(), await beginRun(store(), reach, { sessionId, prompt: 'three' }));
    const texts = async (throughRunId?: string) =>
      (await transcript.readMessages(sessionId, throughRunId)).map(({ parts: [part] }) => {
        return part && 'text' in part ? part.text : null;
      });
    expect(await texts()).toEqual(['one', '1', 'two', '2', 'three']);
    const summing = await beginRun(store(), reach, { sessionId, prompt: 'sum up' });
    await say(summing, 'in short', true);
    const last = await beginRun(store(), reach, { sessionId, prompt: 'four' });
    await say(last, '4');
    const behind = ['two', '2', 'three', 'sum up', 'in short'];
    expect(await texts()).toEqual([...behind, 'four', '4']);
    expect(await texts(summing.runId)).toEqual(behind);
    // Before it was summed up nothing was left out.
    expect(await texts(first.runId)).toEqual(['one', '1']);
    const prompts = await store().messages.list(reach, sessionId, { role: 'user' });
    const plan = await store().history.planRevert(reach, sessionId, prompts.data[2]?.id ?? '');
    await store().history.revert(reach, plan, false, async () => undefined);
    expect(await texts()).toEqual(['one', '1', 'two', '2']);
  });

  it('finds the calls of a tool also before what was summed up', async () => {
    const reach = await newAccount(store());
    const { transcript } = store();
    const run = await beginRun(store(), reach, { prompt: 'I say "name":"todos" and `"name":"todos"`' });
    const use = (id: string, name: string) => ({ type: 'tool_use' as const, id, name, input: {} });
    const calling = (id: string, ...names: string[]) => ({
      ...message('assistant', ''),
      parts: names.map((name) => use(`${id}_${name}`, name)),
    });
    const calls = [calling('a', 'todos'), calling('b', 'bash'), calling('c', 'bash', 'todos')];
    const summary = { ...message('assistant', 'Done.'), summary: true };
    const step = { usage, steps: 1 as const, events: [] };
    await transcript.commitStep({ ...run, ...step, messages: [...calls, summary] });
    await endRun(store(), run);
    const later = await beginRun(store(), reach, { sessionId: run.sessionId, prompt: 'two' });
    await transcript.commitStep({ ...later, ...step, messages: [calling('d', 'todos')] });
    const found = async (limit: number, throughRunId?: string) =>
      (await transcript.readCalls(run.sessionId, { tool: 'todos', limit }, throughRunId)).map(
        ({ parts: [part] }) => part && 'id' in part && part.id,
      );
    expect(await found(10)).toEqual(['a_todos', 'c_bash', 'd_todos']);
    expect(await found(2)).toEqual(['c_bash', 'd_todos']);
    expect(await found(10, run.runId)).toEqual(['a_todos', 'c_bash']);
  });

  it('may stand a summary before what came with a copy of its session', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { prompt: 'What is the weather?' });
    const step = { usage, steps: 1 as const, events: [] };
    const said = [message('assistant', 'I look.'), message('tool', 'Rain.')];
    await store().transcript.commitStep({ ...run, ...step, messages: said });
    await endRun(store(), run);
    const { session } = await store().history.fork(reach, run.sessionId, {});
    const next = await beginRun(store(), reach, { sessionId: session.id, prompt: 'And now?' });
    const read = () => store().transcript.readMessages(session.id);
    const given = (await read()).find(({ role }) => role === 'tool');
    await store().transcript.commitStep({
      ...next,
      ...step,
      messages: [{ ...message('assistant', 'In short.'), summary: true }],
      before: given?.id ?? '',
    });
    expect((await read()).map(({ role, summary }) => (summary ? 'summary' : role))).toEqual([
      ...['user', 'assistant', 'summary', 'tool', 'user'],
    ]);
  });

  it('knows what a client brought along from what it wrote', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const runId = newId('run');
    await store().transcript.beginRun({
      id: runId,
      sessionId: session.id,
      userId: reach.userId,
      trigger: 'messages',
      agentSlug: 'coder',
      model: 'demo:demo-1',
      permissionMode: 'ask',
      onUnanswered: 'deny',
      messages: [message('user', 'old'), message('assistant', 'older answer'), message('user', 'prompt')],
      owner: 'a',
      queueLimit: 100,
      workspacePlace: null,
      provisionalTitle: null,
      events: [],
    });
    const messages = await store().transcript.readMessages(session.id);
    expect(messages.map(({ run_id }) => run_id)).toEqual([null, null, runId]);
  });

  it('shows in the session when it waits for a person', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const question = { id: 'q', type: 'yes_no' as const, text: 'Sure?' };
    const prompt = promptRequest({ ...run, createdAt: engine.clock.now() }, [question]);
    await store().transcript.openPrompt(prompt, [chunk(2, 'asked')]);
    expect(await readRun(reach, run.runId)).toMatchObject({ status: 'waiting_prompt', last_event_id: 2 });
    expect(await readSession(reach, run.sessionId)).toMatchObject({ status: 'waiting' });
    await store().transcript.changeStatus(run, 'running', []);
    expect(await readSession(reach, run.sessionId)).toMatchObject({ status: 'running' });
    const permission = permissionRequest({ ...run, createdAt: engine.clock.now() });
    await store().transcript.openPermission(permission, []);
    expect(await readRun(reach, run.runId)).toMatchObject({ status: 'waiting_permission' });
    await endRun(store(), run, 3);
    expect(await store().transcript.readPermission(permission.id)).toMatchObject({
      request: { status: 'cancelled', resolved_at: engine.clock.now().toISOString() },
    });
    expect(await store().transcript.readPrompt(prompt.id)).toMatchObject({ status: 'cancelled' });
    expect(await readSession(reach, run.sessionId)).toMatchObject({ status: 'idle' });
  });

  it('changes the ETag of its session whenever a caller would see something else', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const etag = async () => (await store().sessions.find(reach, run.sessionId))?.etag;
    const begun = await etag();
    await store().transcript.appendEvents(run.runId, [chunk(2, 'a')]);
    await store().transcript.changeStatus(run, 'running', []);
    expect(await etag()).toBe(begun);
    await store().transcript.commitStep({ ...run, messages: [], usage, steps: 1, events: [] });
    const used = await etag();
    expect(used).not.toBe(begun);
    await endRun(store(), run, 3);
    expect(await etag()).not.toBe(used);
  });

  it('is asked to stop once, and not after its end', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    expect(await store().transcript.readInterrupt(run.runId)).toBeNull();
    expect(await store().runs.requestInterrupt(reach, run.runId, 'requested')).toMatchObject({
      status: 'queued',
    });
    await store().runs.requestInterrupt(reach, run.runId, 'client_disconnected');
    expect(await store().transcript.readInterrupt(run.runId)).toBe('requested');
    await endRun(store(), run);
    const late = store().runs.requestInterrupt(reach, run.runId, 'requested');
    await expect(late).rejects.toMatchObject({ code: 'run_ended' });
  });

  it('is listed by session, status and surface, with the newest first', async () => {
    const reach = await newAccount(store());
    const first = await beginRun(store(), reach);
    const second = await beginRun(store(), reach, { sessionId: first.sessionId, trigger: 'messages' });
    const third = await beginRun(store(), reach);
    await endRun(store(), first);
    const listed = async (query: Parameters<ReturnType<typeof store>['runs']['list']>[1]) =>
      (await store().runs.list(reach, query)).data.map(({ id }) => id);
    expect(await listed({})).toEqual([third.runId, second.runId, first.runId]);
    expect(await listed({ session_id: first.sessionId })).toEqual([second.runId, first.runId]);
    expect(await listed({ status: 'interrupted' })).toEqual([first.runId]);
    expect(await listed({ trigger: 'messages' })).toEqual([second.runId]);
    expect(await listed({ trigger: 'api', session_id: first.sessionId, status: 'queued' })).toEqual([]);
    const page = await store().runs.list(reach, { limit: 2 });
    expect(await listed({ cursor: page.next_cursor ?? '' })).toEqual([first.runId]);
  });

  it('loses its events when they are old, and says so', async () => {
    const reach = await newAccount(store());
    const [old, recent, active] = [
      await beginRun(store(), reach),
      await beginRun(store(), reach),
      await beginRun(store(), reach),
    ];
    await endRun(store(), old);
    engine.clock.advance(60_000);
    await endRun(store(), recent);
    const pruned = await store().runs.pruneEvents(engine.clock.now());
    expect(pruned).toBeGreaterThanOrEqual(1);
    const first = async (runId: string) => (await store().runs.find(reach, runId))?.firstEventId;
    expect([await first(old.runId), await first(recent.runId), await first(active.runId)]).toEqual([3, 1, 1]);
    expect(await store().transcript.readEvents(old.runId, 0, 9)).toEqual([]);
    expect(await store().transcript.readEvents(recent.runId, 0, 9)).toHaveLength(2);
    expect((await readRun(reach, old.runId))?.last_event_id).toBe(2);
    const outcome = (runId: string) => store().transcript.readOutcome(runId);
    expect(await outcome(old.runId)).toEqual({
      status: 'interrupted',
      stopReason: 'interrupted',
      error: null,
    });
    expect([await outcome(active.runId), await outcome('run_none')]).toEqual([null, 'deleted']);
    expect(await store().runs.pruneEvents(engine.clock.now())).toBe(0);
  });

  it('is pruned a part at a time where it has very many events, and what is left can be read', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    await endRun(store(), run);
    const row = await engine.sql()('run_events').where({ run_id: run.runId }).first();
    // Past the store, which would take a transaction for each.
    const more = Array.from({ length: 11_998 }, (_, index) => ({ ...row, seq: index + 3 }));
    await engine.sql().batchInsert('run_events', more, 100);
    await engine.sql()('runs').where({ id: run.runId }).update({ last_event_id: 12_000 });
    engine.clock.advance(1);
    const { transactions } = sweepLimits;
    sweepLimits.transactions = 1;
    onTestFinished(() => {
      sweepLimits.transactions = transactions;
    });
    const first = async () => {
      await store().runs.pruneEvents(engine.clock.now());
      return (await store().runs.find(reach, run.runId))?.firstEventId ?? 0;
    };
    // Others are as old, and may be there before it.
    await expect.poll(first).toBeGreaterThan(1);
    const kept = (await store().runs.find(reach, run.runId))?.firstEventId ?? 0;
    expect(kept).toBeLessThanOrEqual(5001);
    const left = await engine.sql()('run_events').where({ run_id: run.runId }).min({ seq: 'seq' }).first();
    expect(Number(left?.seq)).toBe(kept);
    await expect.poll(first).toBe(12_001);
  });

  it('is pruned together with any number of others', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    await endRun(store(), run);
    // Copied past the store, which would take a transaction for each: more than are pruned at once.
    const row = await engine.sql()('runs').where({ id: run.runId }).first();
    const copies = Array.from({ length: 100 }, (_, index) => ({
      ...row,
      id: newId('run'),
      run_number: row.run_number + 1 + index,
    }));
    await engine.sql().batchInsert('runs', copies, 10);
    engine.clock.advance(1);
    expect(await store().runs.pruneEvents(engine.clock.now())).toBeGreaterThanOrEqual(101);
    expect(await store().runs.pruneEvents(engine.clock.now())).toBe(0);
  });
});

function countOf(status: string) {
  const none = {
    queued: 0,
    running: 0,
    waiting_permission: 0,
    waiting_prompt: 0,
    completed: 0,
    failed: 0,
    interrupted: 0,
  };
  return { ...none, [status]: 1 };
}
