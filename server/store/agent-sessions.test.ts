import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import type { Store } from './store.ts';
import { beginRun, endRun, message, noUsage, permissionRequest } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

/** An agent of a run, and where it runs. */
async function startAgent(
  store: Store,
  parent: { runId: string; sessionId: string; userId: string },
  call: string,
  rootRunId = parent.runId,
) {
  const { runId, sessionId } = { runId: newId('run'), sessionId: newId('session') };
  await store.transcript.beginRun({
    id: runId,
    sessionId,
    userId: parent.userId,
    trigger: 'agent',
    agentSlug: 'task',
    model: 'demo:demo-1',
    permissionMode: 'ask',
    onUnanswered: 'wait',
    messages: [message('user', 'Look.')],
    owner: 'this process',
    queueLimit: 1,
    workspacePlace: null,
    provisionalTitle: null,
    agent: {
      parentSessionId: parent.sessionId,
      parentRunId: parent.runId,
      call,
      rootRunId,
      depth: 1,
      toolLimits: [['view']],
      title: 'An errand',
    },
    events: [{ seq: 1, name: 'runtime', data: { type: 'run_queued', run_id: runId, session_id: sessionId } }],
  });
  return { runId, sessionId, userId: parent.userId };
}

function contentOf(text: string) {
  const bytes = Buffer.from(text);
  return { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, bytes };
}

describeStores('Sessions of agents', (store, engine) => {
  it('are found by their titles, as by what was said in them, and stay out of the list of sessions', async () => {
    const reach = await newAccount(store());
    const agent = await startAgent(store(), await beginRun(store(), reach), '1 call_1');
    const search = async (query: string) =>
      (await store().searches.find(reach, { query }, { limit: 100 })).data;
    expect(await search('errand')).toMatchObject([
      { kind: 'title', session_id: agent.sessionId, session_title: 'An errand' },
    ]);
    expect((await search('look')).map(({ session_id }) => session_id)).toContain(agent.sessionId);
    expect((await store().sessions.list(reach, { q: 'errand' })).data).toEqual([]);
  });

  it('ask where the person looks, at any depth, and a run of theirs tells its own alone', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const child = await startAgent(store(), parent, '1 call_1');
    const grandchild = await startAgent(store(), child, '1 call_1', parent.runId);
    const ask = async (run: { runId: string; sessionId: string }) => {
      const request = permissionRequest({ ...run, createdAt: new Date() });
      await store().transcript.openPermission(request, []);
      return request.id;
    };
    const [own, below, deep] = [await ask(parent), await ask(child), await ask(grandchild)];
    const byOthers = await beginRun(store(), reach, { sessionId: child.sessionId });
    const later = await ask(byOthers);
    const listed = async (sessionId: string, status?: 'pending') =>
      (await store().permissions.list(reach, sessionId, { ...(status && { status }) })).data
        .map(({ id }) => id)
        .sort();
    expect(await listed(parent.sessionId)).toEqual([own, below, deep, later].sort());
    expect(await listed(child.sessionId, 'pending')).toEqual([below, deep, later].sort());
    expect(await listed(grandchild.sessionId)).toEqual([deep]);
    const pending = async (runId: string) =>
      (await store().permissions.pending(reach, runId)).map(({ id }) => id).sort();
    expect(await pending(parent.runId)).toEqual([own, below, deep].sort());
    expect(await pending(child.runId)).toEqual([below, deep].sort());
    expect(await pending(grandchild.runId)).toEqual([deep]);
    expect(await pending(byOthers.runId)).toEqual([later]);
    const deny = { decision: 'deny' } as const;
    const stranger = await newAccount(store());
    await expect(store().permissions.pending(stranger, parent.runId)).rejects.toMatchObject({
      code: 'not_found',
    });
    // Not from below: what a person sees there is not what is asked above.
    await expect(store().permissions.answer(reach, grandchild.sessionId, own, deny)).rejects.toMatchObject({
      code: 'not_found',
    });
    await store().permissions.answer(reach, parent.sessionId, deep, deny);
    expect(await pending(parent.runId)).toEqual([own, below].sort());
  });

  it('have the place and the rules of their parent, and are found by the call that started them', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {
      permission_rules: [{ tool: 'bash', decision: 'deny' }],
      system_prompt: 'Be kind.',
    });
    const parent = await beginRun(store(), reach, { sessionId: session.id });
    const agent = await startAgent(store(), parent, '1 call_1');
    expect((await store().sessions.find(reach, agent.sessionId))?.session).toMatchObject({
      parent_id: session.id,
      parent_run_id: parent.runId,
      workspace_id: session.workspace_id,
      permission_rules: session.permission_rules,
      system_prompt: 'Be kind.',
      title: 'An errand',
    });
    const found = { runId: agent.runId, sessionId: agent.sessionId, agentSlug: 'task' };
    expect(await store().transcript.findAgent(parent.runId, '1 call_1')).toEqual(found);
    expect(await store().transcript.findAgent(parent.runId, '2 call_1')).toBeNull();
    expect(await store().transcript.countAgents(parent.runId)).toBe(1);
  });

  it('are begun once for each call, also in a race', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const starts = await Promise.allSettled([1, 2, 3].map(() => startAgent(store(), parent, '1 call_1')));
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await store().transcript.countAgents(parent.runId)).toBe(1);
  });

  it('are left out of lists but for that of their parent, and deleted with it', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const agent = await startAgent(store(), parent, '1 call_1');
    const idsOf = async (query: object) =>
      (await store().sessions.list(reach, query)).data.map(({ id }) => id);
    for (const query of [{}, { status: 'running' as const }, { sort: 'updated_at' as const }])
      expect(await idsOf(query)).toEqual([parent.sessionId]);
    expect(await idsOf({ parent_id: parent.sessionId })).toEqual([agent.sessionId]);
    await endRun(store(), agent);
    await endRun(store(), parent);
    await store().sessions.delete(reach, parent.sessionId);
    expect(await store().sessions.find(reach, agent.sessionId)).toBeNull();
  });

  it('stay until the run that they began with has ended, and tell with their own use what agents below them used', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const child = await startAgent(store(), parent, '1 call_1');
    const below = await startAgent(store(), child, '1 call_1', parent.runId);
    const used = { input_tokens: 7, output_tokens: 3, cached_input_tokens: 1 };
    const step = { messages: [], usage: used, steps: 1 as const, events: [] };
    await store().transcript.commitStep({ ...child, ...step, cost: 0.25 });
    await store().transcript.commitStep({ ...below, ...step, cost: 0.5 });
    expect(await store().transcript.readUsed(child.runId)).toEqual({
      usage: { input_tokens: 14, output_tokens: 6, cached_input_tokens: 2 },
      cost: 0.75,
    });
    await endRun(store(), below);
    await endRun(store(), child);
    const early = store().sessions.delete(reach, child.sessionId);
    await expect(early).rejects.toMatchObject({
      ...{ code: 'session_busy', message: expect.stringContaining(parent.sessionId) },
    });
    await endRun(store(), parent);
    await store().sessions.delete(reach, child.sessionId);
  });

  it('have what was granted for the session that a person sees, and grant it there', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const [one, two] = [await startAgent(store(), parent, '1 a'), await startAgent(store(), parent, '1 b')];
    const request = { ...permissionRequest({ ...one, createdAt: new Date('2026-11-21T08:00:00Z') }) };
    await store().transcript.openPermission(request, []);
    const reply = { decision: 'allow_session' as const };
    await store().permissions.answer(reach, one.sessionId, request.id, reply);
    const granted = await store().transcript.readGrants(parent.sessionId);
    expect(granted).not.toEqual([]);
    expect(await store().transcript.readGrants(two.sessionId)).toEqual(granted);
    const stranger = await beginRun(store(), reach);
    expect(await store().transcript.readGrants(stranger.sessionId)).toEqual([]);
  });

  it('are asked to stop when the run that started them ends, whatever process they are in', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const agent = await startAgent(store(), parent, '1 call_1');
    expect(await store().transcript.readInterrupt(agent.runId)).toBeNull();
    await endRun(store(), parent);
    expect(await store().transcript.readInterrupt(agent.runId)).toBe('requested');
  });

  it('are begun for a run that is at work here, and for no other', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const elsewhere = await beginRun(store(), reach);
    await store().transcript.handOver('this process', [elsewhere.runId]);
    await endRun(store(), parent);
    for (const starter of [parent, elsewhere]) {
      await expect(startAgent(store(), starter, '1 call_1')).rejects.toMatchObject({ name: 'LeaseLost' });
      expect(await store().transcript.countAgents(starter.runId)).toBe(0);
    }
  });

  it('leave to a person what they ask there: it neither ends with the run above, nor counts for it', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const agent = await startAgent(store(), parent, '1 call_1');
    const step = { messages: [], usage: noUsage, cost: 0.25, steps: 1 as const, events: [] };
    await store().transcript.commitStep({ ...agent, ...step });
    await endRun(store(), agent);
    const own = await beginRun(store(), reach, { sessionId: agent.sessionId });
    await store().transcript.commitStep({ ...own, ...step, cost: 0.5 });
    expect(await store().transcript.readSpending(parent.runId)).toMatchObject({ cost: 0.25 });
    expect(await store().transcript.readUsed(agent.runId)).toMatchObject({ cost: 0.25 });
    await endRun(store(), parent);
    expect(await store().transcript.readInterrupt(own.runId)).toBeNull();
  });

  it('count what they have used by their end for each session above, also when those runs have ended, and for none of the runs', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const child = await startAgent(store(), parent, '1 call_1');
    const grandchild = await startAgent(store(), child, '1 call_1', parent.runId);
    const times = (factor: number) => ({
      input_tokens: 7 * factor,
      output_tokens: 3 * factor,
      cached_input_tokens: factor,
    });
    const step = { messages: [], usage: times(1), cost: 0.25, steps: 1 as const, events: [] };
    for (const run of [child, grandchild]) await store().transcript.commitStep({ ...run, ...step });
    await endRun(store(), parent);
    await endRun(store(), grandchild, 2, { usage: times(1), cost: null });
    await endRun(store(), child);
    const session = async (id: string) => (await store().sessions.find(reach, id))?.session;
    expect(await session(grandchild.sessionId)).toMatchObject({ usage: times(2), cost: null });
    expect(await session(child.sessionId)).toMatchObject({ usage: times(3), cost: null });
    expect(await session(parent.sessionId)).toMatchObject({ usage: times(3), cost: null });
    const { run } = (await store().runs.find(reach, parent.runId)) ?? {};
    expect(run).toMatchObject({ usage: noUsage, cost: 0 });
  });

  it('keep what they change side by side in the session above: each content once, and every byte counted', async () => {
    const reach = await newAccount(store());
    const parent = await beginRun(store(), reach);
    const agents = [];
    for (let number = 0; number < 6; number += 1)
      agents.push(await startAgent(store(), parent, `1 call_${number}`));
    const contents = Array.from({ length: 12 }, (_, number) => contentOf(`${number} `.repeat(50)));
    await Promise.all(
      agents.map(async (agent, number) => {
        // One after the other, each beginning at another one: some write the same at the same time.
        for (let turn = 0; turn < contents.length; turn += 1) {
          const before = contents[(turn + number) % contents.length] ?? null;
          const after = contents[(turn + 2 * number + 1) % contents.length] ?? null;
          const place = { toolCallId: `call_${turn}`, path: `${number}.txt`, mode: 0o644 };
          await store().transcript.recordChange({ ...agent, ...place, before, after });
        }
      }),
    );
    const kept = await engine.sql()('file_contents').where({ session_id: parent.sessionId });
    expect(kept.map(({ sha256 }) => sha256).sort()).toEqual(contents.map(({ sha256 }) => sha256).sort());
    const { kept_bytes } = await engine.sql()('sessions').where({ id: parent.sessionId }).first('kept_bytes');
    const bytes = kept.reduce((sum, { content }) => sum + content.length, 0);
    expect(Number(kept_bytes)).toBe(bytes);
    const changes = await engine.sql()('file_changes').where({ session_id: parent.sessionId });
    expect(changes).toHaveLength(agents.length * contents.length);
  });

  it('spend together with the run that they began with, at work or done, and with no other', async () => {
    const reach = await newAccount(store());
    const [parent, other] = [await beginRun(store(), reach), await beginRun(store(), reach)];
    const agent = await startAgent(store(), parent, '1 call_1');
    const usage = { input_tokens: 7, output_tokens: 3, cached_input_tokens: 1 };
    for (const { runId, sessionId } of [parent, agent, other])
      for (const cost of [0.25, null])
        await store().transcript.commitStep({
          runId,
          sessionId,
          messages: [],
          usage,
          cost,
          steps: 1,
          events: [],
        });
    expect(await store().transcript.readSpending(parent.runId)).toEqual({
      usage: { input_tokens: 28, output_tokens: 12, cached_input_tokens: 4 },
      cost: 0.5,
    });
    const ofAgent = { input_tokens: 14, output_tokens: 6, cached_input_tokens: 2 };
    expect(await store().transcript.readUsed(agent.runId)).toEqual({ usage: ofAgent, cost: null });
    expect(await store().transcript.readUsed('run_gone')).toMatchObject({
      usage: { input_tokens: 0 },
      cost: 0,
    });
  });
});
