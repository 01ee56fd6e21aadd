/** The end of what somebody may be given: by whichever way, over all organizations, and where two give at once. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { workspaceLimits } from './given-workspaces.ts';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { homeOf, organizationTools, refusals } from './test-organizations.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('The workspaces of somebody', (store, engine) => {
  const { reachOf, inviteTo, colleague } = organizationTools(store, engine);
  const { given } = workspaceLimits;
  beforeAll(() => void Object.assign(workspaceLimits, { given: 3 }));
  afterAll(() => void Object.assign(workspaceLimits, { given }));

  const workspaceOf = async (by: Reach, organization_id = homeOf(by)): Promise<string> => {
    const named = { name: 'Website', organization_id };
    return (await store().workspaces.create(await reachOf(by, 'member'), named)).workspace.id;
  };
  const give = async (by: Reach, workspace: string, to: string, role: 'viewer' | 'member' = 'member') =>
    store().workspaceMembers.put(await reachOf(by, 'admin'), workspace, to, role);
  const newGroup = async (by: Reach): Promise<string> => {
    const named = { organization_id: homeOf(by), name: randomUUID() };
    return (await store().groups.create(await reachOf(by, 'admin'), named)).group.id;
  };
  const add = async (by: Reach, group: string, { userId }: Reach) =>
    store().groups.addMember(await reachOf(by, 'admin'), group, userId);

  it('are no more than anybody may have, by whichever way and from whomever they come', async () => {
    const [owner, other] = [await newAccount(store(), 'Owner'), await newAccount(store(), 'Other')];
    const person = await colleague(owner, 'member');
    const toOther = await inviteTo(other, person.email, 'member');
    await store().invitations.accept(person, toOther, engine.clock.now());
    const [readers, writers] = [await newGroup(owner), await newGroup(owner)];
    await add(owner, readers, person);
    const own = await workspaceOf(person, homeOf(owner));
    await give(other, await workspaceOf(other), person.userId);
    await give(owner, await workspaceOf(owner), readers);
    await give(owner, await workspaceOf(owner), writers);
    expect((await reachOf(person)).workspaces).toHaveLength(6);

    const another = await workspaceOf(owner);
    const beyond = {
      code: 'workspace_limit',
      message: `${person.email} would be in more than 3 workspaces, those of all their groups and organizations counted; take them out of some first.`,
    };
    await expect(give(owner, another, person.userId)).rejects.toMatchObject(beyond);
    await expect(give(owner, another, readers)).rejects.toMatchObject(beyond);
    await expect(add(owner, writers, person)).rejects.toMatchObject(beyond);
    await expect(workspaceOf(person, homeOf(owner))).rejects.toMatchObject({
      code: 'workspace_limit',
      message:
        'You would be in more than 3 workspaces, those of all your groups and organizations counted; delete some first.',
    });
    const left = await engine.sql()('workspace_members').where({ workspace_id: another });
    expect(left).toEqual([]);

    // What gives them no other workspace, and what others have, is as before.
    await give(owner, own, person.userId, 'viewer');
    await add(owner, await newGroup(owner), person);
    await give(owner, another, writers);
    await give(owner, another, (await colleague(owner, 'member')).userId);
    await store().groups.removeMember(await reachOf(owner, 'admin'), readers, person.userId);
    await give(owner, another, person.userId);
  });

  it('are no more where a group has more than that before they come into it', async () => {
    const owner = await newAccount(store(), 'Owner');
    const person = await colleague(owner, 'viewer');
    const group = await newGroup(owner);
    for (let count = 0; count < 4; count += 1) await give(owner, await workspaceOf(owner), group);
    await expect(add(owner, group, person)).rejects.toMatchObject({ code: 'workspace_limit' });
  });

  it('are no more where two organizations give at once', async () => {
    const [owner, other] = [await newAccount(store(), 'Owner'), await newAccount(store(), 'Other')];
    const person = await colleague(owner, 'member');
    const toOther = await inviteTo(other, person.email, 'member');
    await store().invitations.accept(person, toOther, engine.clock.now());
    for (let count = 0; count < 2; count += 1) await give(owner, await workspaceOf(owner), person.userId);
    const places = [
      { node: store(), reach: await reachOf(owner, 'admin'), workspace: await workspaceOf(owner) },
      {
        node: await engine.open(),
        reach: await reachOf(other, 'admin'),
        workspace: await workspaceOf(other),
      },
    ];
    const giveAtOnce = () =>
      refusals(
        places.map(({ node, reach, workspace }) =>
          node.workspaceMembers.put(reach, workspace, person.userId, 'member'),
        ),
      );
    // On PostgreSQL neither can write before both have come.
    const refused =
      engine.dialect === 'sqlite'
        ? giveAtOnce
        : await engine.sql().transaction(async (sql) => {
            await sql('users').where({ id: person.userId }).forUpdate();
            const given = giveAtOnce();
            await expect.poll(() => waiting(engine.sql())).toBe(2);
            return () => given;
          });
    expect(await refused()).toEqual(['workspace_limit']);
    expect(await engine.sql()('workspace_members').where({ user_id: person.userId })).toHaveLength(3);
  });
});
