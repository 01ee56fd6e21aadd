/** Memories: who sees them, which are the same, what is found, and what is gone. */
import { describe, expect, it } from 'vitest';
import { hashOfContent } from './memory-rows.ts';
import type { MemoryInput } from './memory-writing.ts';
import type { Reach } from './store.ts';
import { homeOf, organizationTools } from './test-organizations.ts';
import { describeStores, newAccount } from './test-stores.ts';

const byHand = { runId: null, apiKeyId: null };

describe('Two memories', () => {
  it.each([
    ['Deploys happen on Tuesdays.', ' deploys  happen\non TUESDAYS. ', true],
    ['ｆｕｌｌ width', 'full width', true],
    ['Deploys happen on Tuesdays.', 'Deploys happen on Thursdays.', false],
  ])('%o and %o say the same: %o', (one, other, expected) => {
    expect(hashOfContent(one) === hashOfContent(other)).toBe(expected);
  });
});

describeStores('Memories', (store, engine) => {
  const { reachOf, colleague } = organizationTools(store, engine);
  const create = async (reach: Reach, input: Partial<MemoryInput> & Pick<MemoryInput, 'content'>) =>
    (await store().memories.create(reach, { scope: 'user', ...input }, byHand)).memory;
  const contents = async (reach: Reach, query = {}) =>
    (await store().memories.list(reach, query)).data.map(({ content }) => content).sort();
  const hits = async (reach: Reach, query: string, more = {}) =>
    (await store().memories.search(reach, { query, top_k: 10, ...more }, null)).data.map(
      ({ memory }) => memory.content,
    );

  it('of a person are seen by nobody else, whatever their role; others by whoever reaches the workspace', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await colleague(ada, 'admin');
    const mallory = await newAccount(store(), 'Mallory');
    const own = await create(ada, { content: 'Ada likes tea.' });
    const shared = await create(ada, { content: 'Tea is on shelf three.', scope: 'workspace' });
    const admin = await reachOf(grace);
    expect(await contents(await reachOf(ada))).toEqual(['Ada likes tea.', 'Tea is on shelf three.']);
    expect(await contents(admin, { q: 'tea' })).toEqual(['Tea is on shelf three.']);
    expect(await hits(admin, 'tea')).toEqual(['Tea is on shelf three.']);
    expect(await store().memories.find(admin, own.id)).toBeNull();
    expect((await store().memories.find(admin, shared.id))?.memory).toEqual(shared);
    await expect(store().memories.versions(admin, own.id, {})).rejects.toMatchObject({ code: 'not_found' });
    for (const writing of [
      () => store().memories.update(admin, own.id, { content: 'x' }, byHand),
      () => store().memories.delete(admin, own.id),
    ])
      await expect(writing()).rejects.toMatchObject({ code: 'not_found' });
    const stranger = await reachOf(mallory);
    expect([await contents(stranger), await hits(stranger, 'tea')]).toEqual([[], []]);
    expect(await store().memories.find(stranger, shared.id)).toBeNull();
  });

  it('of a person stay in the organization, and are out of reach of a key that is bound to a workspace', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await newAccount(store(), 'Grace');
    await store().invitations.accept(
      grace,
      await organizationTools(store, engine).inviteTo(ada, grace.email, 'member'),
      engine.clock.now(),
    );
    const both = await reachOf(grace);
    const [shared] = both.workspaces.filter(({ organizationId }) => organizationId === homeOf(ada));
    const there = await create(both, { content: 'Said to Ada.', workspace_id: shared?.id });
    expect(there.organization_id).toBe(homeOf(ada));
    const bound = { ...both, memberships: [], workspaces: [shared ?? missing()], workspaceId: shared?.id };
    expect(await contents({ ...bound, organizationIds: [homeOf(ada)] })).toEqual([]);
    await expect(
      create({ ...bound, organizationIds: [homeOf(ada)] }, { content: 'x' }),
    ).rejects.toMatchObject({
      code: 'role_required',
    });
    await engine
      .sql()('memberships')
      .where({ user_id: grace.userId, organization_id: homeOf(ada) })
      .delete();
    expect(await contents(await reachOf(grace))).toEqual([]);
  });

  it('that are exported are told of in each organization that they are of', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await newAccount(store(), 'Grace');
    await store().invitations.accept(
      grace,
      await organizationTools(store, engine).inviteTo(ada, grace.email, 'member'),
      engine.clock.now(),
    );
    await create(ada, { content: 'Tea is on shelf three.', scope: 'workspace' });
    const both = await reachOf(grace);
    const told = async (reach: Reach) => {
      const reader = { ...reach, operator: false };
      return (await store().auditLogs.list(reader, { action: 'memory.export' })).data.length;
    };
    await Array.fromAsync(await store().memories.export(both, {}));
    expect([await told(ada), await told(grace)]).toEqual([1, 0]);
    const home = both.workspaces.find(({ organizationId }) => organizationId === homeOf(grace));
    await create(both, { content: 'Grace likes tea.', workspace_id: home?.id });
    await Array.fromAsync(await store().memories.export(both, {}));
    expect([await told(ada), await told(grace)]).toEqual([2, 1]);
    await Array.fromAsync(await store().memories.export(both, { scope: 'user' }));
    expect([await told(ada), await told(grace)]).toEqual([2, 2]);
  });

  it('need the role of a member where they are shared, and none where they are one’s own', async () => {
    const ada = await newAccount(store(), 'Ada');
    const viewer = await reachOf(await colleague(ada, 'viewer'), 'member');
    const [place] = (await reachOf(ada)).workspaces;
    await expect(
      create(viewer, { content: 'x', scope: 'workspace', workspace_id: place?.id }),
    ).rejects.toMatchObject({ code: 'role_required' });
    expect((await create(viewer, { content: 'Mine.', workspace_id: place?.id })).scope).toBe('user');
  });

  it('are kept once for each owner, until they are forgotten', async () => {
    const ada = await newAccount(store(), 'Ada');
    const first = await create(ada, { content: 'Use tabs.', expires_at: '2026-11-21T09:00:00Z' });
    const again = create(ada, { content: ' use  TABS. ' });
    await expect(again).rejects.toMatchObject({
      code: 'duplicate',
      message: expect.stringContaining(first.id),
    });
    const other = await create(ada, { content: 'Use tabs.', scope: 'workspace' });
    await expect(
      store().memories.update(
        ada,
        (await create(ada, { content: 'Use spaces.' })).id,
        { content: 'use tabs.' },
        byHand,
      ),
    ).rejects.toMatchObject({ code: 'duplicate' });
    engine.clock.advance(3_600_000);
    expect(await store().memories.find(ada, first.id)).toBeNull();
    expect([await contents(ada, { q: 'tabs' }), await hits(ada, 'tabs')]).toEqual([
      ['Use tabs.'],
      ['Use tabs.'],
    ]);
    expect((await create(ada, { content: 'Use tabs.' })).id).not.toBe(first.id);
    expect((await store().memories.find(ada, other.id))?.memory.content).toBe('Use tabs.');
    const late = create(ada, { content: 'Late.', expires_at: '2026-11-21T08:00:00Z' });
    await expect(late).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('are kept once also where two say the same at once', async () => {
    const ada = await newAccount(store(), 'Ada');
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => create(ada, { content: 'At once.' })));
    const codes = outcomes.map((one) => (one.status === 'fulfilled' ? 'made' : one.reason.code)).sort();
    expect(codes).toEqual(['duplicate', 'duplicate', 'made']);
  });

  it('that have expired are swept, with all that goes with them', async () => {
    const ada = await newAccount(store(), 'Ada');
    const end = new Date(engine.clock.now().getTime() + 1000).toISOString();
    await create(ada, { content: 'Soon gone.', tags: ['x'], expires_at: end });
    await create(ada, { content: 'Stays.' });
    engine.clock.advance(1000);
    expect(await store().memories.prune(engine.clock.now())).toBeGreaterThan(0);
    const organization_id = homeOf(ada);
    for (const table of ['memories', 'memory_versions', 'memory_documents'])
      expect(await engine.sql()(table).where({ organization_id })).toHaveLength(1);
    expect(await engine.sql()('memory_tags').where({ organization_id })).toEqual([]);
  });

  it('stay as many days after they were last written as their organization keeps them, which the audit log tells', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await newAccount(store(), 'Grace');
    const home = homeOf(ada);
    const settings = { memory_retention_days: 30 };
    await store().organizations.update(ada, home, { settings });
    const old = await create(ada, { content: 'Written and left.' });
    const changed = await create(ada, { content: 'Changed.', scope: 'workspace' });
    await create(grace, { content: 'Elsewhere.' });
    engine.clock.advance(20 * 86_400_000);
    await store().memories.update(ada, changed.id, { content: 'Changed later.' }, byHand);
    engine.clock.advance(10 * 86_400_000);
    await store().memories.prune(engine.clock.now());
    expect(await contents(ada)).toEqual(['Changed later.', 'Written and left.']);
    engine.clock.advance(1);
    expect(await store().memories.prune(engine.clock.now())).toBe(1);
    expect([await contents(ada), await contents(grace)]).toEqual([['Changed later.'], ['Elsewhere.']]);
    expect(await store().memories.find(ada, old.id)).toBeNull();
    const { data } = await store().auditLogs.list({ ...ada, operator: false }, { action: 'memory.expire' });
    expect(data).toMatchObject([{ before: { memories: 1, memory_retention_days: 30 } }]);
    await store().organizations.update(ada, home, { settings: { memory_retention_days: null } });
    engine.clock.advance(1000 * 86_400_000);
    expect(await store().memories.prune(engine.clock.now())).toBe(0);
  });

  it('change in versions that say who or which run wrote them, of which the last hundred are kept', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { id } = await create(ada, { content: 'Version 1', tags: ['a'] });
    const run = { runId: 'run_1', apiKeyId: null };
    await store().memories.update(ada, id, { content: 'Version 2', tags: [], kind: 'episode' }, run);
    expect((await store().memories.update(ada, id, { kind: 'episode' }, byHand)).memory.version).toBe(2);
    const { data } = await store().memories.versions(ada, id, {});
    expect(data.map(({ version, content, author }) => [version, content, author.run_id])).toEqual([
      [2, 'Version 2', 'run_1'],
      [1, 'Version 1', null],
    ]);
    expect([await contents(ada, { tag: 'a' }), await hits(ada, '1')]).toEqual([[], []]);
    const stale = store().memories.update(ada, id, { content: 'x' }, byHand, '"1"');
    await expect(stale).rejects.toMatchObject({ code: 'precondition_failed' });
    // A hundred more, past the store.
    const versions = () => engine.sql()('memory_versions').where({ memory_id: id }).orderBy('version');
    const [, second] = await versions();
    const more = Array.from({ length: 100 }, (_, at) => ({ ...second, version: at + 3 }));
    await engine.sql()('memory_versions').insert(more);
    await engine.sql()('memories').where({ id }).update({ revision: 102 });
    await store().memories.update(ada, id, { content: 'Version 103' }, byHand);
    const [oldest] = await versions();
    expect([oldest.version, (await versions()).length]).toEqual([4, 100]);
  });

  it('are found by any of the words, what shares more and rarer ones first, in the same order on both engines', async () => {
    const ada = await newAccount(store(), 'Ada');
    await create(ada, { content: 'The office has a kitchen.' });
    await create(ada, { content: 'The kitchen closes at six.', tags: ['hours'] });
    await create(ada, { content: 'The office closes at eight, and the parking deck with it.' });
    await create(ada, { content: '東京の天気' });
    expect(await hits(ada, 'When does the kitchen close?')).toEqual([
      'The kitchen closes at six.',
      'The office has a kitchen.',
      'The office closes at eight, and the parking deck with it.',
    ]);
    expect(await hits(ada, 'hours')).toEqual(['The kitchen closes at six.']);
    expect(await hits(ada, '天気')).toEqual(['東京の天気']);
    expect(await hits(ada, 'kitchen', { top_k: 1 })).toHaveLength(1);
    expect(await hits(ada, 'kitchen', { kinds: ['episode'] })).toEqual([]);
    expect(await hits(ada, '?!')).toEqual([]);
    expect(await hits(ada, '") OR "@" *')).toEqual([]);
  });

  it('are found by their meaning too, joined with the words by their places', async () => {
    const ada = await newAccount(store(), 'Ada');
    const mallory = await newAccount(store(), 'Mallory');
    const feline = await create(ada, { content: 'The feline is called Mimi.' });
    const both = await create(ada, { content: 'A cat needs water.' });
    const words = await create(ada, { content: 'The cat command prints files.' });
    const foreign = await create(mallory, { content: 'Another feline.' });
    const unread = await store().memories.withoutVector(ada, 'e1', 10);
    expect(unread.map(({ id }) => id)).toEqual([words.id, both.id, feline.id]);
    const vectorOf = (x: number) => Float32Array.of(x, Math.sqrt(1 - x * x));
    const likeness = new Map([
      [feline.id, 0.8],
      [both.id, 0.9],
      [words.id, 0.1],
      [foreign.id, 1],
    ]);
    const vectors = [...likeness].map(([id, x]) => ({ id, revision: 1, vector: vectorOf(x) }));
    await store().memories.keepVectors('e1', vectors);
    expect(await store().memories.withoutVector(ada, 'e1', 10)).toEqual([]);
    expect(await store().memories.withoutVector(ada, 'e2', 10)).toHaveLength(3);
    const meaning = { embedder: 'e1', vector: vectorOf(1) };
    const find = async (more = {}) =>
      store().memories.search(ada, { query: 'cat', top_k: 10, ...more }, meaning);
    const { data, mode } = await find();
    expect(mode).toBe('hybrid');
    expect(data.map(({ memory }) => memory.id)).toEqual([both.id, words.id, feline.id]);
    expect((await find({ query: 'pet' })).data.map(({ memory }) => memory.id)).toEqual([both.id, feline.id]);
    expect((await find({ kinds: ['episode'] })).data).toEqual([]);
    await store().memories.update(ada, feline.id, { content: 'Mimi has left.' }, byHand);
    expect((await find({ query: 'pet' })).data.map(({ memory }) => memory.id)).toEqual([both.id]);
    expect(await store().memories.withoutVector(ada, 'e1', 10)).toHaveLength(1);
  });

  it('of sessions go with them, and others lose them as their source', async () => {
    const ada = await newAccount(store(), 'Ada');
    const { session } = await store().sessions.create(ada, {});
    await create(ada, { content: 'In here.', scope: 'session', session_id: session.id });
    const kept = await create(ada, { content: 'Everywhere.', source: { session_id: session.id } });
    expect(kept.source).toEqual({ session_id: session.id, message_id: null });
    expect(await contents(ada, { session_id: session.id })).toEqual(['In here.']);
    await store().sessions.delete(ada, session.id);
    expect(await contents(ada)).toEqual(['Everywhere.']);
    expect((await store().memories.find(ada, kept.id))?.memory.source).toBeNull();
  });

  it('need the names that go with their scope, of what is within reach', async () => {
    const ada = await newAccount(store(), 'Ada');
    const mallory = await newAccount(store(), 'Mallory');
    const { session } = await store().sessions.create(mallory, {});
    const refused = [
      [{ scope: 'session' }, 'invalid_request'],
      [{ scope: 'agent' }, 'invalid_request'],
      [{ scope: 'user', agent_slug: 'coder' }, 'invalid_request'],
      [{ scope: 'workspace', session_id: session.id }, 'invalid_request'],
      [{ scope: 'session', session_id: session.id }, 'not_found'],
      [{ scope: 'workspace', workspace_id: mallory.workspaces[0]?.id }, 'not_found'],
      [{ source: { session_id: session.id } }, 'not_found'],
    ] as const;
    for (const [input, code] of refused)
      await expect(create(ada, { content: 'x', ...input })).rejects.toMatchObject({ code });
    const own = await create(ada, { content: 'For coders.', scope: 'agent', agent_slug: 'coder' });
    expect(await contents(ada, { scope: 'agent', agent_slug: 'coder' })).toEqual(['For coders.']);
    expect(own.workspace_id).toBe(ada.workspaces[0]?.id);
  });

  it('count for the quota of storage', async () => {
    const ada = await newAccount(store(), 'Ada');
    const admin = { ...ada, operator: true };
    const subject = { type: 'user', id: ada.userId } as const;
    await store().quotas.put(admin, subject, { storage: { hard: 10 } });
    await create(ada, { content: '12345678' });
    await expect(create(ada, { content: 'abc' })).rejects.toMatchObject({ code: 'quota_exceeded' });
    expect(await contents(ada)).toEqual(['12345678']);
  });
});

function missing(): never {
  throw new Error('the workspace is not within reach');
}
