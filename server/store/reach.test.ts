/** What roles in organizations, workspaces and groups let somebody reach. */
import { beforeAll, expect, it } from 'vitest';
import type { Role } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Reach } from './store.ts';
import { beginRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('The reach of a caller', (store, engine) => {
  let owner: Reach & { readonly email: string };
  let organization_id: string;
  let sessionId: string;
  let runId: string;
  const times = { created_at: 1, updated_at: 1 };
  const workspace = newId('workspace');

  beforeAll(async () => {
    owner = await newAccount(store(), 'Owner');
    organization_id = owner.organizationIds[0] ?? '';
    await engine
      .sql()('workspaces')
      .insert({ ...times, id: workspace, organization_id, name: 'w', is_default: false });
    sessionId = (await store().sessions.create(owner, { workspace_id: workspace, title: 'Walrus' })).session
      .id;
    ({ runId } = await beginRun(store(), owner, { sessionId, prompt: 'Carpenter' }));
  });

  /** Another person, a member of the organization in this role. */
  const colleague = async (role: Role): Promise<string> => {
    const { userId } = await newAccount(store(), role);
    await engine.sql()('memberships').insert({ organization_id, user_id: userId, role, created_at: 1 });
    return userId;
  };
  const give = (given: { user_id?: string; group_id?: string }, role: Role, workspace_id = workspace) =>
    engine
      .sql()('workspace_members')
      .insert({
        ...given,
        organization_id,
        workspace_id,
        principal_id: given.user_id ?? given.group_id,
        role,
        created_at: 1,
      });
  const reachOf = async (userId: string, needs?: Role): Promise<Reach> => {
    const loginId = await store().logins.create({
      userId,
      refreshHash: newId('login'),
      expiresAt: new Date('2027-01-01'),
    });
    const owner = await store().principals.byLogin(loginId, new Date('2026-11-21'));
    const { memberships = [], workspaces = [] } = owner ?? {};
    const organizationIds = memberships.map(({ organizationId }) => organizationId);
    return { userId, memberships, organizationIds, workspaces, ...(needs && { needs }) };
  };
  const seenBy = async (reach: Reach) => ({
    found: (await store().sessions.find(reach, sessionId)) !== null,
    run: (await store().runs.find(reach, runId)) !== null,
    listed: (await store().sessions.list(reach, { workspace_id: workspace })).data.length > 0,
    runs: (await store().runs.list(reach, {})).data.length > 0,
    searched: (await store().searches.find(reach, { query: 'walrus' }, {})).data.length > 0,
    said: (await store().searches.find(reach, { query: 'carpenter', in: ['message'] }, {})).data.length > 0,
    workspace: (await store().workspaces.find(reach, workspace)) !== null,
  });
  const all = {
    found: true,
    run: true,
    listed: true,
    runs: true,
    searched: true,
    said: true,
    workspace: true,
  };
  const nothing = Object.fromEntries(Object.keys(all).map((name) => [name, false]));

  it('is every workspace of the organization for owners and admins', async () => {
    expect(await seenBy(await reachOf(owner.userId))).toEqual(all);
    expect(await seenBy(await reachOf(await colleague('admin')))).toEqual(all);
  });

  it('is for members and viewers the default workspace alone, until they are given another', async () => {
    for (const role of ['member', 'viewer'] as const) {
      const userId = await colleague(role);
      expect(await seenBy(await reachOf(userId))).toEqual(nothing);
      await give({ user_id: userId }, 'viewer');
      expect(await seenBy(await reachOf(userId))).toEqual(all);
    }
  });

  it('comes through groups too, and the highest role counts', async () => {
    const userId = await colleague('viewer');
    const group_id = newId('group');
    await engine
      .sql()('groups')
      .insert({ ...times, id: group_id, organization_id, name: 'readers', revision: 1 });
    await engine.sql()('group_members').insert({ organization_id, group_id, user_id: userId, created_at: 1 });
    await give({ group_id }, 'member');
    expect(await seenBy(await reachOf(userId))).toEqual(all);
    await give({ user_id: userId }, 'viewer');
    const update = store().sessions.update(await reachOf(userId, 'member'), sessionId, {
      title: 'Walrus too',
    });
    await expect(update).resolves.toMatchObject({ session: { title: 'Walrus too' } });
    const approve = store().sessions.update(await reachOf(userId, 'admin'), sessionId, { title: 'No' });
    await expect(approve).rejects.toMatchObject({ code: 'role_required' });
  });

  it('ends with the membership, whatever was given in the organization', async () => {
    const userId = await colleague('member');
    await give({ user_id: userId }, 'admin');
    await engine.sql()('memberships').where({ organization_id, user_id: userId }).delete();
    expect(await seenBy(await reachOf(userId))).toEqual(nothing);
  });

  it('lets a viewer look, and names the role that a change needs', async () => {
    const userId = await colleague('member');
    await give({ user_id: userId }, 'viewer');
    const reach = await reachOf(userId, 'member');
    const refused = { code: 'role_required', message: expect.stringContaining('needs the role member') };
    const changes = [
      () => store().sessions.update(reach, sessionId, { title: 'No' }),
      () => store().sessions.delete(reach, sessionId),
      () => store().runs.requestInterrupt(reach, runId, 'requested'),
      () => store().sessions.create(reach, { workspace_id: workspace }),
      () => store().history.fork(reach, sessionId, {}),
      () => store().queue.clear(reach, sessionId),
    ];
    for (const change of changes) await expect(change()).rejects.toMatchObject(refused);
    // At home the same person may.
    await expect(store().sessions.create(reach, {})).resolves.toBeDefined();
  });

  it('is never more than what is asked for, with more workspaces than a list walks one by one', async () => {
    const userId = await colleague('member');
    const others = Array.from({ length: 60 }, () => newId('workspace'));
    await engine
      .sql()('workspaces')
      .insert(others.map((id) => ({ ...times, id, organization_id, name: 'other', is_default: false })));
    for (const id of others) await give({ user_id: userId }, 'viewer', id);
    expect(await seenBy(await reachOf(userId))).toEqual(nothing);
    await give({ user_id: userId }, 'viewer');
    expect(await seenBy(await reachOf(userId))).toEqual(all);
  });
});
