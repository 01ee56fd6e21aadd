/** Runs begin for those alone who may run agents there at that moment, on both engines. */
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { homeOf, organizationTools } from './test-organizations.ts';
import { beginRun, newKey } from './test-runs.ts';
import { describeStore, describeStores, newAccount } from './test-stores.ts';

const roleRequired = { code: 'role_required' };
const credentialInvalid = { code: 'credential_invalid' };

describeStores('A run that begins', (store, engine) => {
  const { reachOf, colleague } = organizationTools(store, engine);
  const inWorkspace = async (owner: Reach) => {
    const input = { organization_id: homeOf(owner), name: 'Website' };
    return (await store().workspaces.create(await reachOf(owner), input)).workspace.id;
  };
  const sessionOf = async (person: Reach, workspace_id?: string): Promise<string> => {
    const input = workspace_id === undefined ? {} : { workspace_id };
    return (await store().sessions.create(await reachOf(person, 'member'), input)).session.id;
  };
  /** Somebody of another's organization, who belongs nowhere else. */
  const member = async (owner: Reach): Promise<Reach> => {
    const person = await colleague(owner, 'member');
    await engine
      .sql()('memberships')
      .where({ user_id: person.userId })
      .whereNot({ organization_id: homeOf(owner) })
      .delete();
    return reachOf(person);
  };

  it.each([
    ['removed', roleRequired, (by: Reach, id: string) => store().members.remove(by, homeOf(by), id)],
    [
      'a viewer',
      roleRequired,
      (by: Reach, id: string) => store().members.setRole(by, homeOf(by), id, 'viewer'),
    ],
    [
      'suspended',
      credentialInvalid,
      (by: Reach, id: string) =>
        store().people.update({ ...by, operator: true }, id, { status: 'suspended' }),
    ],
    [
      'deleted',
      credentialInvalid,
      (by: Reach, id: string) => store().people.delete({ ...by, operator: true }, id, {}),
    ],
  ] as const)('does not where its person is %s by then', async (_what, refusal, act) => {
    const owner = await newAccount(store(), 'Owner');
    const person = await member(owner);
    const sessionId = await sessionOf(person);
    await beginRun(store(), person, { sessionId });
    await act(await reachOf(owner, 'admin'), person.userId);
    await expect(beginRun(store(), person, { sessionId })).rejects.toMatchObject(refusal);
  });

  it('does as long as a workspace is given to its person, or to their group', async () => {
    const owner = await newAccount(store(), 'Owner');
    const [alone, grouped] = [await member(owner), await member(owner)];
    const workspace = await inWorkspace(owner);
    const reach = await reachOf(owner, 'admin');
    const { group } = await store().groups.create(reach, { organization_id: homeOf(owner), name: 'Writers' });
    await store().groups.addMember(reach, group.id, grouped.userId);
    for (const id of [alone.userId, group.id])
      await store().workspaceMembers.put(reach, workspace, id, 'member');
    const [one, other] = [await sessionOf(alone, workspace), await sessionOf(grouped, workspace)];
    await beginRun(store(), alone, { sessionId: one });
    await beginRun(store(), grouped, { sessionId: other });
    await store().workspaceMembers.put(reach, workspace, alone.userId, 'viewer');
    await store().groups.removeMember(reach, group.id, grouped.userId);
    for (const [person, sessionId] of [
      [alone, one],
      [grouped, other],
    ] as const)
      await expect(beginRun(store(), person, { sessionId })).rejects.toMatchObject(roleRequired);
  });

  it.each([
    ['revoked', (by: Reach, id: string) => store().apiKeys.revoke(by, id)],
    ['disabled', (by: Reach, id: string) => store().apiKeys.update(by, id, { disabled: true })],
    [
      'past its end',
      (by: Reach, id: string) =>
        store().apiKeys.update(by, id, { expires_at: engine.clock.now().toISOString() }),
    ],
  ] as const)('does not with a key that is %s by then', async (_what, act) => {
    const person = await newAccount(store());
    const id = await newKey(store(), person);
    await beginRun(store(), person, { apiKeyId: id });
    await act(person, id);
    await expect(beginRun(store(), person, { apiKeyId: id })).rejects.toMatchObject(credentialInvalid);
    await beginRun(store(), person);
  });
});

describeStore('postgresql', 'A run that is being stored', (store, engine) => {
  const { reachOf, colleague } = organizationTools(store, engine);

  it.each([
    ['removal', (by: Reach, id: string) => store().members.remove(by, homeOf(by), id)],
    [
      'suspension',
      async (by: Reach, id: string) =>
        (await store().people.update({ ...by, operator: true }, id, { status: 'suspended' })).stoppedRuns,
    ],
  ] as const)('is found by a %s at that moment, which waits for it', async (_what, act) => {
    const owner = await newAccount(store(), 'Owner');
    const person = await reachOf(await colleague(owner, 'member'));
    const [workspace] = person.workspaces.filter(({ organizationId }) => organizationId === homeOf(owner));
    const { session } = await store().sessions.create(
      { ...person, needs: 'member' },
      { workspace_id: workspace?.id ?? '' },
    );
    const by = await reachOf(owner, 'admin');
    const { begun, ended } = await engine
      .sql()
      .transaction(async (sql) => {
        // It is read, and nothing is stored in it.
        await sql.raw('lock table runs in exclusive mode');
        const storing = beginRun(store(), person, { sessionId: session.id });
        await expect.poll(() => waiting(engine.sql())).toBe(1);
        const ending = act(by, person.userId);
        await expect.poll(() => waiting(engine.sql())).toBe(2);
        return { begun: storing, ended: ending };
      })
      .then(async ({ begun, ended }) => ({ begun: await begun, ended: await ended }));
    const stopped = 'stoppedRuns' in ended ? ended.stoppedRuns : ended;
    expect(stopped).toEqual([begun.runId]);
  });
});
