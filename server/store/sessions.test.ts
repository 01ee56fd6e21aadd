import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { beginRun, endRun, permissionRequest } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Sessions', (store, engine) => {
  it('have their defaults, and what they are given', async () => {
    const reach = await newAccount(store());
    const plain = await store().sessions.create(reach, {});
    expect(plain).toEqual({
      etag: '"1"',
      session: {
        id: expect.stringMatching(/^ses_/),
        workspace_id: (await store().workspaces.defaultOf(reach))?.id,
        parent_id: null,
        parent_run_id: null,
        title: 'New session',
        status: 'idle',
        agent_slug: 'coder',
        model: null,
        system_prompt: null,
        permission_rules: [],
        tags: [],
        metadata: {},
        archived: false,
        pinned: false,
        usage: { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 },
        cost: 0,
        context: { used: 0, window: null },
        summary_message_id: null,
        message_count: 0,
        created_at: engine.clock.now().toISOString(),
        updated_at: engine.clock.now().toISOString(),
      },
    });
    const input = {
      workspace_id: plain.session.workspace_id,
      title: 'Üben 👩🏽‍🚀',
      agent_slug: 'research',
      model: 'demo:demo-1',
      system_prompt: 'Be brief.\n',
      permission_rules: [{ tool: 'bash', decision: 'deny' as const }],
      tags: ['b', 'a', "it's"],
      metadata: JSON.parse('{"__proto__":"kept","constructor":"kept","ticket":"A-1"}'),
    };
    const full = await store().sessions.create(reach, input, { parentId: plain.session.id });
    expect(full.session).toMatchObject({ ...input, parent_id: plain.session.id });
    expect(Object.keys(full.session.metadata)).toEqual(['__proto__', 'constructor', 'ticket']);
    expect(await store().sessions.find(reach, full.session.id)).toEqual(full);
    expect(({} as Record<string, unknown>).kept).toBeUndefined();
  });

  it('of one tenant are not there for a stranger, whatever is asked', async () => {
    const [owner, stranger] = [await newAccount(store()), await newAccount(store())];
    const { session, etag } = await store().sessions.create(owner, { tags: ['canary'] });
    const run = await beginRun(store(), owner, { sessionId: session.id });
    const request = permissionRequest({ ...run, createdAt: engine.clock.now() });
    await store().transcript.openPermission(request, []);
    expect(await store().sessions.find(stranger, session.id)).toBeNull();
    expect(await store().runs.find(stranger, run.runId)).toBeNull();
    expect((await store().sessions.list(stranger, { tag: 'canary' })).data).toEqual([]);
    expect((await store().sessions.list(stranger, { workspace_id: session.workspace_id })).data).toEqual([]);
    expect((await store().runs.list(stranger, { session_id: session.id })).data).toEqual([]);
    expect(await store().metrics.snapshot(stranger)).toMatchObject({
      sessions: 0,
      runs: { waiting_permission: 0 },
    });
    const refused = [
      store().sessions.update(stranger, session.id, { title: 'mine' }),
      store().sessions.update(stranger, session.id, { title: 'mine' }, etag),
      store().sessions.update(stranger, session.id, { title: 'mine' }, '"wrong"'),
      store().sessions.delete(stranger, session.id),
      store().sessions.create(stranger, { workspace_id: session.workspace_id }),
      store().sessions.create(stranger, {}, { parentId: session.id }),
      store().messages.list(stranger, session.id, {}),
      store().permissions.list(stranger, session.id, {}),
      store().prompts.list(stranger, session.id, {}),
      store().permissions.answer(stranger, session.id, request.id, { decision: 'deny' }),
      store().runs.activeOf(stranger, session.id),
      store().runs.requestInterrupt(stranger, run.runId, 'requested'),
      // The same for what does not exist at all.
      store().sessions.update(owner, newId('session'), { title: 'none' }),
      store().runs.requestInterrupt(owner, newId('run'), 'requested'),
    ];
    for (const outcome of await Promise.allSettled(refused))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'not_found' } });
    expect((await store().sessions.find(owner, session.id))?.session.title).toBe('New session');
    expect(await store().transcript.readInterrupt(run.runId)).toBeNull();
    // A child of one parent is not there below another.
    const other = await store().sessions.create(stranger, {});
    const below = store().permissions.answer(stranger, other.session.id, request.id, { decision: 'deny' });
    await expect(below).rejects.toMatchObject({ code: 'not_found' });
  });

  it('merge a patch: what is absent stays, null clears', async () => {
    const reach = await newAccount(store());
    const { session, etag } = await store().sessions.create(reach, {
      model: 'demo:demo-1',
      system_prompt: 'Be brief.',
      tags: ['a', 'b'],
      metadata: { kept: '1', changed: '2', removed: '3' },
    });
    engine.clock.advance(5);
    const patch = {
      title: 'Renamed',
      model: null,
      tags: ['c'],
      archived: true,
      metadata: { changed: '4', removed: null, absent: null, added: '5' },
    };
    const changed = await store().sessions.update(reach, session.id, patch, etag);
    expect(changed.session).toEqual({
      ...session,
      title: 'Renamed',
      model: null,
      tags: ['c'],
      archived: true,
      metadata: { kept: '1', changed: '4', added: '5' },
      updated_at: engine.clock.now().toISOString(),
    });
    expect(await store().sessions.find(reach, session.id)).toEqual(changed);
    const stale = store().sessions.update(reach, session.id, { title: 'No' }, etag);
    await expect(stale).rejects.toMatchObject({ code: 'precondition_failed' });
    const ids = async (tag: string, archived: boolean) =>
      (await store().sessions.list(reach, { tag, archived })).data.map(({ id }) => id);
    expect([await ids('c', true), await ids('c', false), await ids('a', true)]).toEqual([
      [session.id],
      [],
      [],
    ]);
  });

  it('hold fifty members of metadata after a merge, and no more', async () => {
    const reach = await newAccount(store());
    const members = (from: number, to: number, value: string | null = 'x') =>
      Object.fromEntries(Array.from({ length: to - from }, (_, index) => [`m${from + index}`, value]));
    const { session } = await store().sessions.create(reach, {
      metadata: members(0, 30) as Record<string, string>,
    });
    const full = await store().sessions.update(reach, session.id, { metadata: members(30, 50) });
    expect(Object.keys(full.session.metadata)).toHaveLength(50);
    const over = store().sessions.update(reach, session.id, { title: 'No', metadata: members(50, 51) });
    await expect(over).rejects.toMatchObject({
      code: 'invalid_request',
      errors: [{ in: 'body', pointer: '/metadata', code: 'maxProperties' }],
    });
    expect(await store().sessions.find(reach, session.id)).toEqual(full);
    const swap = { ...members(0, 10, null), ...members(50, 60) };
    const swapped = await store().sessions.update(reach, session.id, { metadata: swap });
    expect(Object.keys(swapped.session.metadata)).toHaveLength(50);
  });

  it('changed at once by many lose no change', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const other = await engine.open();
    const patches = Array.from({ length: 20 }, (_, index) =>
      (index % 2 ? store() : other).sessions.update(reach, session.id, { metadata: { [`m${index}`]: 'x' } }),
    );
    await Promise.all(patches);
    const now = await store().sessions.find(reach, session.id);
    expect(Object.keys(now?.session.metadata ?? {})).toHaveLength(20);
    expect(now?.etag).toBe('"21"');
  });

  it('are deleted with all they hold, but not while a run works', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { tags: ['gone'] });
    const child = await store().sessions.create(reach, {}, { parentId: session.id });
    const run = await beginRun(store(), reach, { sessionId: session.id });
    const asked = permissionRequest({ ...run, createdAt: engine.clock.now() });
    await store().transcript.openPermission(asked, []);
    await store().permissions.answer(reach, session.id, asked.id, { decision: 'allow_session' });
    const busy = store().sessions.delete(reach, session.id);
    await expect(busy).rejects.toMatchObject({ code: 'session_busy' });
    await endRun(store(), run);
    await expect(store().sessions.delete(reach, session.id, '"1"')).rejects.toMatchObject({
      code: 'precondition_failed',
    });
    await store().sessions.delete(reach, session.id);
    expect(await store().sessions.find(reach, session.id)).toBeNull();
    expect(await store().runs.find(reach, run.runId)).toBeNull();
    for (const table of ['session_tags', 'messages', 'permission_requests', 'permission_grants'])
      expect(await engine.sql()(table).where({ session_id: session.id })).toEqual([]);
    expect(await engine.sql()('run_events').where({ run_id: run.runId })).toEqual([]);
    const left = await store().sessions.find(reach, child.session.id);
    expect(left?.session.parent_id).toBeNull();
    expect(left?.etag).not.toBe(child.etag);
    await expect(store().sessions.delete(reach, session.id)).rejects.toMatchObject({ code: 'not_found' });
  });
});
