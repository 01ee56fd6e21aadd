/** Who used what, on both databases: grouped, in pages, and only within reach. */
import { expect, it } from 'vitest';
import { beginRun, message, newKey } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const usage = { input_tokens: 100, output_tokens: 20, cached_input_tokens: 0 };

describeStores('Usage', (store, engine) => {
  const person = async () => ({ ...(await newAccount(store())), operator: false });
  type Person = Awaited<ReturnType<typeof person>>;
  const work = async (reach: Person, model: string, options: Parameters<typeof beginRun>[2] = {}) => {
    const run = await beginRun(store(), reach, options);
    const messages = [{ ...message('assistant', 'x'), model }];
    await store().transcript.commitStep({ ...run, messages, usage, cost: 0.5, steps: 1, events: [] });
  };

  it('is told by day, model, user and key', async () => {
    const ada = await person();
    const key = await newKey(store(), ada);
    await work(ada, 'demo:a');
    await work(ada, 'demo:b', { apiKeyId: key });
    engine.clock.advance(86_400_000);
    await work(ada, 'demo:b');
    const told = async (group_by: 'day' | 'model' | 'user' | 'key', from?: string, to?: string) =>
      (await store().usage.sum(ada, { group_by, ...(from && { from }), ...(to && { to }) })).data.map(
        ({ day, model, user_id, api_key_id, requests, cost, usage: { input_tokens } }) => [
          day ?? model ?? user_id ?? api_key_id,
          ...[requests, input_tokens, cost],
        ],
      );
    expect(await told('day')).toEqual([
      ['2026-11-21', 2, 200, 1],
      ['2026-11-22', 1, 100, 0.5],
    ]);
    expect(await told('day', '2026-11-22', '2026-11-22')).toEqual([['2026-11-22', 1, 100, 0.5]]);
    expect(await told('model')).toEqual([
      ['demo:a', 0, 100, 0.5],
      ['demo:b', 0, 200, 1],
      ['demo:demo-1', 3, 0, 0],
    ]);
    expect(await told('user')).toEqual([[ada.userId, 3, 300, 1.5]]);
    expect(await told('key')).toEqual([
      [null, 2, 200, 1],
      [key, 1, 100, 0.5],
    ]);
    engine.clock.advance(-86_400_000);
  });

  it('goes on page after page, with a cursor that no other question takes', async () => {
    const ada = await person();
    for (const model of ['demo:a', 'demo:b', 'demo:c']) await work(ada, model);
    const query = { group_by: 'model' as const, limit: 2 };
    const first = await store().usage.sum(ada, query);
    expect(first.data.map(({ model }) => model)).toEqual(['demo:a', 'demo:b']);
    const cursor = first.next_cursor ?? '';
    const second = await store().usage.sum(ada, { ...query, cursor });
    expect(second.data.map(({ model }) => model)).toEqual(['demo:c', 'demo:demo-1']);
    expect(second.next_cursor).toBeNull();
    const invalid = { code: 'invalid_cursor' };
    await expect(store().usage.sum(ada, { ...query, group_by: 'day', cursor })).rejects.toMatchObject(
      invalid,
    );
    await expect(store().usage.sum(await person(), { ...query, cursor })).rejects.toMatchObject(invalid);
  });

  it('shows members their own, admins of an organization or a workspace all of it, and the operator everything', async () => {
    const [owner, member, stranger] = [await person(), await person(), await person()];
    const [company = ''] = owner.organizationIds;
    const [workspace] = owner.workspaces;
    const { session } = await store().sessions.create(owner, {});
    const inCompany = (role: 'member' | 'admin', inWorkspace: 'member' | 'admin'): Person => ({
      ...member,
      memberships: [{ organizationId: company, role }],
      organizationIds: [company],
      workspaces: [{ id: workspace?.id ?? '', organizationId: company, role: inWorkspace }],
    });
    const membership = { organization_id: company, user_id: member.userId, role: 'member', created_at: 1 };
    await engine.sql()('memberships').insert(membership);
    await work(owner, 'demo:a');
    await work(inCompany('member', 'member'), 'demo:a', { sessionId: session.id });
    await work(stranger, 'demo:a');
    const seen = async (reach: Person, query: { organization_id?: string } = {}) =>
      (await store().usage.sum(reach, { group_by: 'user', limit: 100, ...query })).data.map(
        ({ user_id }) => user_id,
      );
    const both = [owner.userId, member.userId].sort();
    expect(await seen(owner)).toEqual(both);
    expect(await seen(inCompany('member', 'member'))).toEqual([member.userId]);
    expect(await seen(inCompany('member', 'admin'))).toEqual(both);
    expect(await seen(inCompany('admin', 'member'))).toEqual(both);
    expect(await seen(stranger)).toEqual([stranger.userId]);
    expect(await seen(stranger, { organization_id: company })).toEqual([]);
    const operator = { ...stranger, operator: true };
    expect(await seen(operator)).toEqual(expect.arrayContaining([...both, stranger.userId]));
    expect(await seen(operator, { organization_id: company })).toEqual(both);
  });

  it.each([
    ['2026-11-22', '2026-11-21', 'to'],
    ['2026-02-30', undefined, 'from'],
    ['2020-01-01', undefined, 'from'],
  ])('is refused from %s to %s, naming %s', async (from, to, name) => {
    const asked = store().usage.sum(await person(), { from, ...(to && { to }) });
    await expect(asked).rejects.toMatchObject({ code: 'invalid_request', errors: [{ in: 'query', name }] });
  });
});
