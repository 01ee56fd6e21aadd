/** The meter, on both databases: what is stored is counted, once, for everybody whom it concerns. */
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { beginRun, endRun, message, newKey, noUsage, takeRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const usage = { input_tokens: 100, output_tokens: 20, cached_input_tokens: 40 };

describeStores('The meter', (store, engine) => {
  /** Of everything that the subject has used. */
  const counted = async (subjectId: string) => {
    const [sum] = await engine
      .sql()('usage_counters')
      .where({ subject_id: subjectId })
      .sum({ requests: 'requests', tokens: 'tokens', cost: 'cost_nanodollars' });
    return [Number(sum?.requests), Number(sum?.tokens), Number(sum?.cost)];
  };
  const step = (run: { readonly runId: string; readonly sessionId: string }, cost: number | null = 0.5) =>
    store().transcript.commitStep({
      ...run,
      messages: [{ ...message('assistant', 'x'), model: 'demo:stand-in' }],
      usage,
      cost,
      steps: 1,
      events: [],
    });

  it.each([
    [{ input_tokens: -1_000_000, output_tokens: 1.4, cached_input_tokens: 0 }, -5, [1, 1, 0]],
    [{ input_tokens: 1e30, output_tokens: Number.NaN, cached_input_tokens: 0 }, 1e30, [1, 1e15, 1e15]],
  ])('counts of %o no more than can be, and never less than nothing', async (said, cost, expected) => {
    const reach = await newAccount(store());
    const call = await store().meteredCalls.begin(reach, 'demo:stand-in', null);
    await store().meteredCalls.finish(call, { model: 'demo:stand-in', usage: said, cost });
    await store().meteredCalls.end(call);
    expect(await counted(reach.userId)).toEqual(expected);
  });

  it('counts each step with its storing, for the person, the key, the workspace, the organization and the group', async () => {
    const reach = await newAccount(store());
    const [organization_id = ''] = reach.organizationIds;
    const [workspace] = reach.workspaces;
    const [group, key] = [newId('group'), await newKey(store(), reach)];
    const now = { revision: 1, created_at: 1, updated_at: 1 };
    await engine
      .sql()('groups')
      .insert({ id: group, organization_id, name: 'g', ...now });
    await engine
      .sql()('group_members')
      .insert({ organization_id, group_id: group, user_id: reach.userId, created_at: 1 });
    const run = await beginRun(store(), reach, { apiKeyId: key });
    await step(run);
    await step(run);
    for (const subject of [reach.userId, key, workspace?.id ?? '', organization_id, group])
      expect(await counted(subject), subject).toEqual([1, 240, 1_000_000_000]);
    const page = await store().usage.sum({ ...reach, operator: false }, { group_by: 'model' });
    expect(page.data).toEqual([
      {
        day: null,
        model: 'demo:demo-1',
        user_id: null,
        api_key_id: null,
        requests: 1,
        usage: noUsage,
        cost: 0,
      },
      {
        ...{ day: null, model: 'demo:stand-in', user_id: null, api_key_id: null, requests: 0, cost: 1 },
        usage: { input_tokens: 200, output_tokens: 40, cached_input_tokens: 80 },
      },
    ]);
  });

  it('counts calls that belong to no run for the same, however many end at once in several processes', async () => {
    const reach = await newAccount(store());
    const [organization_id = ''] = reach.organizationIds;
    const [workspace] = reach.workspaces;
    const [group, key] = [newId('group'), await newKey(store(), reach)];
    const now = { revision: 1, created_at: 1, updated_at: 1 };
    await engine
      .sql()('groups')
      .insert({ id: group, organization_id, name: 'g', ...now });
    await engine
      .sql()('group_members')
      .insert({ organization_id, group_id: group, user_id: reach.userId, created_at: 1 });
    const processes = [store(), await engine.open()];
    const call = async (index: number) => {
      const { meteredCalls } = processes[index % 2] ?? store();
      const begun = await meteredCalls.begin(reach, 'demo:one', key);
      if (index < 2) return await meteredCalls.end(begun);
      const cost = index < 4 ? null : 0.5;
      await meteredCalls.finish(begun, { model: index % 3 ? 'demo:one' : 'demo:two', usage, cost });
    };
    await Promise.all(Array.from({ length: 40 }, (_, index) => call(index)));
    for (const subject of [reach.userId, key, workspace?.id ?? '', organization_id, group])
      expect(await counted(subject), subject).toEqual([40, 38 * 120, 36 * 500_000_000]);
    const { data } = await store().usage.sum({ ...reach, operator: false }, { group_by: 'model' });
    const sum = (of: (row: (typeof data)[number]) => number) =>
      data.reduce((total, row) => total + of(row), 0);
    expect(data.map(({ model }) => model)).toEqual(['demo:one', 'demo:two']);
    expect(sum(({ requests }) => requests)).toBe(40);
    expect(sum((row) => row.usage.cached_input_tokens)).toBe(38 * 40);
    expect(data.map(({ cost }) => cost)).toEqual([null, null]);
  });

  it('counts an agent for whoever asked the run that started it, without another request', async () => {
    const reach = await newAccount(store());
    const key = await newKey(store(), reach);
    const parent = await beginRun(store(), reach, { apiKeyId: key });
    const [sessionId, runId] = [newId('session'), newId('run')];
    await store().transcript.beginRun({
      id: runId,
      sessionId,
      userId: reach.userId,
      ...{ trigger: 'agent', agentSlug: 'task', model: 'demo:demo-1', permissionMode: 'ask' },
      ...{ onUnanswered: 'wait', owner: 'this process', queueLimit: 10, workspacePlace: null },
      ...{ provisionalTitle: null, messages: [message('user', 'Go.')], events: [] },
      agent: {
        parentSessionId: parent.sessionId,
        parentRunId: parent.runId,
        rootRunId: parent.runId,
        ...{ call: 'call_1', depth: 1, toolLimits: [], title: 'Errand' },
      },
    });
    await step({ runId, sessionId });
    await endRun(store(), { runId, sessionId });
    expect(await counted(key)).toEqual([1, 120, 500_000_000]);
  });

  it('counts what is used beside runs, and costs that nobody knows', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    await step(run, null);
    await store().transcript.addUsage(run, { model: 'demo:small', usage, cost: 0.25 });
    expect(await counted(reach.userId)).toEqual([1, 240, 250_000_000]);
    const { data } = await store().usage.sum({ ...reach, operator: false }, { group_by: 'user' });
    expect(data).toMatchObject([{ user_id: reach.userId, requests: 1, cost: null }]);
  });

  it('counts nothing of what a process stores that has lost the run, nor once more where another goes on', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    await step(run);
    const other = await engine.open();
    await takeRun(other, run.runId, 'another process');
    await expect(step(run)).rejects.toMatchObject({ name: 'LeaseLost' });
    await other.transcript.resumeRun({ ...run, messages: [], usage: noUsage, events: [] });
    await endRun(other, run);
    expect(await counted(reach.userId)).toEqual([1, 120, 500_000_000]);
  });

  it('loses nothing where many streams of one person commit at once', async () => {
    const reach = await newAccount(store());
    const runs = await Promise.all(Array.from({ length: 12 }, () => beginRun(store(), reach)));
    await Promise.all(runs.flatMap((run) => [step(run), step(run)]));
    expect(await counted(reach.userId)).toEqual([12, 12 * 240, 12 * 1_000_000_000]);
    if (engine.dialect === 'sqlite') return;
    const rows = await engine.sql()('usage_counters').where({ subject_id: reach.userId });
    expect(rows.length).toBeGreaterThan(2);
  });
});
