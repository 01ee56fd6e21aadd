import { expect, it, vi } from 'vitest';
import type { WorkspaceEvent } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Reach, Store } from './store.ts';
import { waiting } from './test-locks.ts';
import { patiently } from './test-patience.ts';
import { beginRun, chunk, endRun } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

describeStores('The events of a workspace', (store, engine) => {
  /** Somebody new, with their workspace. */
  async function someone(): Promise<{ readonly reach: Reach; readonly workspaceId: string }> {
    const reach = await newAccount(store());
    const workspace = await store().workspaces.defaultOf(reach);
    return { reach, workspaceId: workspace?.id ?? '' };
  }

  async function replay(workspaceId: string, filter: object = {}, from: Store = store()) {
    const all: { readonly seq: number; readonly data: WorkspaceEvent }[] = [];
    for (let cursor = 0; ; ) {
      const { events, through } = await from.workspaceEvents.read(workspaceId, cursor, filter, 3);
      all.push(...events);
      if (through === cursor) return all;
      cursor = through;
    }
  }

  const typesOf = (told: readonly { readonly data: WorkspaceEvent }[]) =>
    told.map(({ data }) => data.event.type);

  it('are numbered without a gap, and tell of sessions and of runs, but not of text', async () => {
    const { reach, workspaceId } = await someone();
    const run = await beginRun(store(), reach);
    await store().transcript.appendEvents(run.runId, [
      chunk(2, 'Hello'),
      { seq: 3, name: 'runtime', data: { type: 'notice_given', message: 'Look.' } },
    ]);
    await endRun(store(), run, 4);
    const told = await replay(workspaceId);
    expect(told.map(({ seq }) => seq)).toEqual(told.map((_, index) => index + 1));
    expect(typesOf(told)).toEqual([
      'session_created',
      'run_queued',
      'session_updated',
      'notice_given',
      'run_ended',
      'session_updated',
    ]);
    expect(told[3]?.data).toEqual({
      workspace_id: workspaceId,
      session_id: run.sessionId,
      run_id: run.runId,
      run_event_id: 3,
      created_at: engine.clock.now().toISOString(),
      event: { type: 'notice_given', message: 'Look.' },
    });
    expect(told[5]?.data.event).toMatchObject({ changed: ['status'] });
  });

  it('are of one workspace, of one session or of some types, as asked', async () => {
    const { reach, workspaceId } = await someone();
    const { session } = await store().sessions.create(reach, {});
    const { session: other } = await store().sessions.create(reach, {});
    await store().sessions.update(reach, session.id, { title: 'Other', pinned: true });
    await store().sessions.update(reach, session.id, { title: 'Other', pinned: true });
    await store().sessions.delete(reach, other.id);
    expect(typesOf(await replay(workspaceId))).toEqual([
      'session_created',
      'session_created',
      'session_updated',
      'session_deleted',
    ]);
    const updated = await replay(workspaceId, {
      sessionId: session.id,
      types: ['session_updated', 'of_later'],
    });
    expect(updated.map(({ data }) => data.event)).toEqual([
      { type: 'session_updated', session_id: session.id, changed: ['title', 'pinned'] },
    ]);
    expect(await replay((await someone()).workspaceId)).toEqual([]);
  });

  it('keep nothing of what was said in a session that was deleted', async () => {
    const { reach, workspaceId } = await someone();
    const run = await beginRun(store(), reach);
    await endRun(store(), run);
    await store().sessions.delete(reach, run.sessionId);
    const told = typesOf(await replay(workspaceId));
    expect(told).not.toContain('run_queued');
    expect(told.at(-1)).toBe('session_deleted');
  });

  it('are forgotten with those of runs, and where they begin is known then', async () => {
    const { reach, workspaceId } = await someone();
    const run = await beginRun(store(), reach);
    await endRun(store(), run);
    const { last } = await store().workspaceEvents.bounds(workspaceId);
    engine.clock.advance(60_000);
    const before = engine.clock.now();
    await store().sessions.create(reach, {});
    await store().runs.pruneEvents(before);
    expect(await store().workspaceEvents.bounds(workspaceId)).toEqual({ last: last + 1, pruned: last });
    expect(typesOf(await replay(workspaceId))).toEqual(['session_created']);
    await store().sessions.create(reach, {});
    expect((await replay(workspaceId)).map(({ seq }) => seq)).toEqual([last + 1, last + 2]);
  });

  it('come once and all to who follows them, however many processes write at once', async () => {
    const { reach, workspaceId } = await someone();
    const processes = await Promise.all([engine.open(), engine.open()]);
    const write = async (writer: Store) => {
      for (let index = 0; index < 8; index += 1) {
        const { session } = await patiently(() => writer.sessions.create(reach, {}));
        const run = await patiently(() => beginRun(writer, reach, { sessionId: session.id }));
        const data = { type: 'notice_given', message: String(index) } as const;
        await patiently(() => writer.transcript.appendEvents(run.runId, [{ seq: 2, name: 'runtime', data }]));
        await patiently(() => endRun(writer, run, 3));
      }
    };
    let done = false;
    const written = Promise.all(processes.flatMap((one) => [write(one), write(one), write(one)])).finally(
      () => {
        done = true;
      },
    );
    const follow = async () => {
      const seen: number[] = [];
      for (let cursor = 0, ended = false; !ended; ) {
        ended = done;
        const { events, through } = await store().workspaceEvents.read(workspaceId, cursor, {}, 5);
        seen.push(...events.map(({ seq }) => seq));
        if (through > cursor) ended = false;
        cursor = through;
      }
      return seen;
    };
    const [seen] = await Promise.all([follow(), written]);
    // Six for each run, as in the first test.
    expect(seen).toEqual(Array.from({ length: 6 * 8 * 6 }, (_, index) => index + 1));
  });
});

describeStore('postgresql', 'The old events of several workspaces', (store, engine) => {
  it('are forgotten while all of these are told something, and neither waits for what waits for it', async () => {
    const reach = { ...(await newAccount(store())), needs: 'admin' as const };
    const home = await store().workspaces.defaultOf(reach);
    const { workspace: other } = await store().workspaces.create(reach, { name: 'Other' });
    const [first = '', last = ''] = [home?.id ?? '', other.id].toSorted();
    for (const workspace_id of [last, first]) {
      await store().sessions.create(reach, { workspace_id });
      engine.clock.advance(1000);
    }
    const both = await engine.sql().transaction(async (held) => {
      await held('workspace_streams').where({ workspace_id: last }).forUpdate();
      const forgetting = store().runs.pruneEvents(engine.clock.now());
      await vi.waitFor(async () => expect(await waiting(engine.sql())).toBe(1), { timeout: 60_000 });
      const telling = tellAll(reach);
      await vi.waitFor(async () => expect(await waiting(engine.sql())).toBe(2), { timeout: 60_000 });
      return [forgetting, telling];
    });
    const ended = await Promise.allSettled(both);
    expect(ended.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))).toEqual([]);
  });

  /** A server of an organization is told of in each of its workspaces. */
  function tellAll(reach: Reach): Promise<unknown> {
    const [organizationId = ''] = reach.organizationIds;
    const owner = { scope: 'organization' as const, organizationId, workspaceId: null };
    const entry = { type: 'http' as const, url: 'https://mcp.example.com/mcp' };
    const content = { name: 'issues', entry, envNames: [], headerNames: [], secrets: null };
    return store().mcpServers.create(reach, owner, { ...content, id: newId('mcpServer') });
  }
});
