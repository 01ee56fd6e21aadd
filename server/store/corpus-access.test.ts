/** To whom a corpus is open, and what they may do there: by its workspace, its visibility, and what was granted to them. */
import { expect, it } from 'vitest';
import type { CorpusGrant, Role } from '../contract/api.ts';
import type { Reach } from './store.ts';
import { homeOf, organizationTools, type Person } from './test-organizations.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('A corpus', (store, engine) => {
  const { reachOf, colleague, inviteTo } = organizationTools(store, engine);

  /** In a workspace of its own, which nobody else was given. */
  async function corpusOf(owner: Person, visibility: 'private' | 'workspace' | 'organization' = 'workspace') {
    const input = { name: 'Closed', organization_id: homeOf(owner) };
    const { workspace } = await store().workspaces.create(await reachOf(owner), input);
    const there = { name: 'Library', visibility, workspace_id: workspace.id };
    const { corpus } = await store().corpora.create(await reachOf(owner), there);
    return { id: corpus.id, workspaceId: workspace.id };
  }

  async function grant(owner: Person, id: string, grants: CorpusGrant[]): Promise<void> {
    const reach = await reachOf(owner, 'admin');
    await store().corpora.putAccess(reach, id, { grants }, '*');
  }

  const codeOf = async (work: Promise<unknown>): Promise<string | null> =>
    work.then(
      () => null,
      (error: { readonly code?: string }) => error.code ?? String(error),
    );

  /** The highest role that the corpus gives them; null where it is not there for them. */
  async function roleOf(person: Pick<Reach, 'userId'>, id: string): Promise<Role | null | 'none'> {
    const { corpora, documents } = store();
    const viewer = await reachOf(person, 'viewer');
    const found = await codeOf(documents.list(viewer, id, {}));
    const listed = (await corpora.list(viewer, {})).data.some((corpus) => corpus.id === id);
    const read = await codeOf(
      corpora.find(viewer, id).then((corpus) => corpus ?? Promise.reject({ code: 'not_found' })),
    );
    // What is read by one way is read by each.
    expect([listed, read]).toEqual([found !== 'not_found', found]);
    if (found === 'not_found') return null;
    if (found !== null) return 'none';
    for (const role of ['admin', 'member'] as const) {
      const reach = await reachOf(person, role);
      if ((await codeOf(corpora.update(reach, id, { description: role }))) === null) return role;
    }
    return 'viewer';
  }

  it('is for its workspace, for the organization, or for who made it and those who lead', async () => {
    const ada = await newAccount(store(), 'Ada');
    const [admin, member, guest] = [
      await colleague(ada, 'admin'),
      await colleague(ada, 'member'),
      await colleague(ada, 'member'),
    ];
    const mallory = await newAccount(store(), 'Mallory');
    const roles = async (id: string) =>
      Promise.all([ada, admin, member, guest, mallory].map((person) => roleOf(person, id)));
    const give = async (workspaceId: string, role: Exclude<Role, 'owner'>) =>
      store().workspaceMembers.put(await reachOf(ada, 'admin'), workspaceId, guest.userId, role);
    const open = await corpusOf(ada);
    expect(await roles(open.id)).toEqual(['admin', 'admin', null, null, null]);
    await give(open.workspaceId, 'viewer');
    expect(await roleOf(guest, open.id)).toBe('viewer');
    await give(open.workspaceId, 'member');
    expect(await roleOf(guest, open.id)).toBe('member');
    const shared = await corpusOf(ada, 'organization');
    expect(await roles(shared.id)).toEqual(['admin', 'admin', 'viewer', 'viewer', null]);
    const closed = await corpusOf(ada, 'private');
    await give(closed.workspaceId, 'member');
    expect(await roles(closed.id)).toEqual(['admin', 'admin', null, null, null]);
  });

  it('is granted to people and to groups, in a role, as long as they belong to them', async () => {
    const ada = await newAccount(store(), 'Ada');
    const [grace, lin] = [await colleague(ada, 'viewer'), await colleague(ada, 'member')];
    const { id } = await corpusOf(ada, 'private');
    const admin = await reachOf(ada, 'admin');
    const { group } = await store().groups.create(admin, { organization_id: homeOf(ada), name: 'Readers' });
    await store().groups.addMember(admin, group.id, lin.userId);
    await grant(ada, id, [
      { principal: grace.userId, role: 'member' },
      { principal: group.id, role: 'viewer' },
    ]);
    expect([await roleOf(grace, id), await roleOf(lin, id)]).toEqual(['member', 'viewer']);
    // The higher of two counts.
    await grant(ada, id, [
      { principal: lin.userId, role: 'admin' },
      { principal: group.id, role: 'viewer' },
    ]);
    expect([await roleOf(grace, id), await roleOf(lin, id)]).toEqual([null, 'admin']);
    await grant(ada, id, [{ principal: group.id, role: 'viewer' }]);
    await store().groups.removeMember(admin, group.id, lin.userId);
    expect(await roleOf(lin, id)).toBeNull();
    await store().groups.addMember(admin, group.id, lin.userId);
    expect(await roleOf(lin, id)).toBe('viewer');
    await store().groups.delete(admin, group.id, '*');
    expect(await roleOf(lin, id)).toBeNull();
    expect((await store().corpora.access(admin, id)).access.grants).toEqual([]);
  });

  it('shows another tag of its access once a grant has gone with its group or its member, and takes the old one no more', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await colleague(ada, 'member');
    const { id } = await corpusOf(ada);
    const admin = await reachOf(ada, 'admin');
    const { group } = await store().groups.create(admin, { organization_id: homeOf(ada), name: 'Readers' });
    for (const [principal, end] of [
      [group.id, () => store().groups.delete(admin, group.id, '*')],
      [grace.userId, () => store().members.remove(admin, homeOf(ada), grace.userId)],
    ] as const) {
      const grants = [{ principal, role: 'viewer' as const }];
      const put = await store().corpora.putAccess(admin, id, { grants }, '*');
      expect(await store().corpora.access(admin, id)).toEqual(put);
      await end();
      const left = await store().corpora.access(admin, id);
      expect(left.access.grants).toEqual([]);
      expect(left.etag).not.toBe(put.etag);
      const stale = store().corpora.putAccess(admin, id, { grants: [] }, put.etag);
      expect(await codeOf(stale)).toBe('precondition_failed');
      await store().corpora.putAccess(admin, id, { grants: [] }, left.etag);
    }
  });

  it('granted to somebody is theirs no more once they have left, and not again when they come back', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await colleague(ada, 'member');
    const { id } = await corpusOf(ada);
    await grant(ada, id, [{ principal: grace.userId, role: 'member' }]);
    expect(await roleOf(grace, id)).toBe('member');
    const admin = await reachOf(ada, 'admin');
    await store().members.remove(admin, homeOf(ada), grace.userId);
    expect(await roleOf(grace, id)).toBeNull();
    expect((await store().corpora.access(admin, id)).access.grants).toEqual([]);
    await store().invitations.accept(grace, await inviteTo(ada, grace.email, 'member'), engine.clock.now());
    expect(await roleOf(grace, id)).toBeNull();
  });

  it('is granted to nobody of elsewhere, and a key that is bound to another workspace reaches none by it', async () => {
    const ada = await newAccount(store(), 'Ada');
    const grace = await colleague(ada, 'member');
    const mallory = await newAccount(store(), 'Mallory');
    const { id } = await corpusOf(ada);
    const stranger = codeOf(grant(ada, id, [{ principal: mallory.userId, role: 'viewer' }]));
    expect(await stranger).toBe('not_found');
    await grant(ada, id, [{ principal: grace.userId, role: 'viewer' }]);
    const reach = await reachOf(grace);
    const elsewhere = reach.workspaces.filter(({ organizationId }) => organizationId === homeOf(ada));
    const bound = {
      ...reach,
      ...{ memberships: [], organizationIds: [homeOf(ada)], workspaces: elsewhere },
      workspaceId: elsewhere[0]?.id,
    };
    expect((await store().corpora.list(reach, {})).data.map((corpus) => corpus.id)).toEqual([id]);
    expect((await store().corpora.list(bound, {})).data).toEqual([]);
    expect(await store().corpora.find(bound, id)).toBeNull();
  });
});
