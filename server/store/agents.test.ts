import { expect, it } from 'vitest';
import { describeStores, newAccount } from './test-stores.ts';

const given = { description: 'Reviews.', instructions: 'You review.' };

describeStores('Agent profiles', (store, engine) => {
  it('are known in every workspace of their organization, or in the one they are for', async () => {
    const reach = await newAccount(store());
    const workspace = await store().workspaces.defaultOf(reach);
    if (!workspace) throw new Error('no workspace');
    const { organizationId } = workspace;
    const other = 'ws_other';
    await engine.sql()('workspaces').insert({
      id: other,
      organization_id: organizationId,
      name: 'Other',
      is_default: false,
      created_at: 0,
      updated_at: 0,
    });
    const create = (slug: string, workspaceId: string | null) =>
      store().agents.create(reach, { organizationId, workspaceId }, { slug, ...given });
    await create('everywhere', null);
    await create('here', workspace.id);
    const slugsIn = async (id: string) =>
      (await store().agents.ofWorkspace({ workspaceId: id, limit: 10 })).map(({ slug }) => slug);
    expect(await slugsIn(workspace.id)).toEqual(['everywhere', 'here']);
    expect(await slugsIn(other)).toEqual(['everywhere']);
    expect(await slugsIn('ws_nobody')).toEqual([]);
    expect(await store().agents.findInWorkspace(other, 'here')).toBeNull();
    expect(await store().agents.findInWorkspace(workspace.id, 'here')).toMatchObject({ slug: 'here' });
  });

  it('are ordered by the letters of their slugs, page after page', async () => {
    const reach = await newAccount(store());
    const workspace = await store().workspaces.defaultOf(reach);
    if (!workspace) throw new Error('no workspace');
    const owner = { organizationId: workspace.organizationId, workspaceId: null };
    const slugs = ['a-b', 'a_b', 'aa', 'ab', 'a0'];
    for (const slug of slugs) await store().agents.create(reach, owner, { slug, ...given });
    const first = await store().agents.ofWorkspace({ workspaceId: workspace.id, limit: 2 });
    const rest = await store().agents.ofWorkspace({
      workspaceId: workspace.id,
      after: first[1]?.slug,
      limit: 10,
    });
    expect([...first, ...rest].map(({ slug }) => slug)).toEqual(slugs.toSorted());
  });

  it('have a slug once in an organization, also in a race', async () => {
    const reach = await newAccount(store());
    const workspace = await store().workspaces.defaultOf(reach);
    if (!workspace) throw new Error('no workspace');
    const owner = { organizationId: workspace.organizationId, workspaceId: null };
    const outcomes = await Promise.allSettled(
      [1, 2, 3].map(() => store().agents.create(reach, owner, { slug: 'one', ...given })),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'slug_taken' });
  });
});
