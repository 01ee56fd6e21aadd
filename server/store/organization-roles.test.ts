/** What goes with a role that is taken away, and which owners count: on both engines. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { homeOf, organizationTools, refusals } from './test-organizations.ts';
import { beginRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('A role in an organization', (store, engine) => {
  const { reachOf, inviteTo, colleague, rolesIn, nodes } = organizationTools(store, engine);

  const theOperator = async (): Promise<Reach> => ({
    ...(await newAccount(store(), 'Op')),
    operator: true,
  });
  const invitedBy = async ({ userId }: Reach): Promise<string[]> =>
    engine.sql()('invitations').where({ invited_by: userId, used_at: null }).orderBy('role').pluck('role');
  const workspaceIn = async (owner: Reach): Promise<string> => {
    const input = { organization_id: homeOf(owner), name: 'Website' };
    return (await store().workspaces.create(await reachOf(owner), input)).workspace.id;
  };
  /** A run of somebody's in a workspace that they have a role in. */
  const runIn = async (person: Reach, workspace_id: string): Promise<string> => {
    const reach = await reachOf(person, 'member');
    const { session } = await store().sessions.create(reach, { workspace_id });
    return (await beginRun(store(), reach, { sessionId: session.id })).runId;
  };
  const interruptOf = async (id: string): Promise<string | null> =>
    (await engine.sql()('runs').where({ id }).first('interrupt_requested')).interrupt_requested;

  it('of a suspended owner keeps no organization: the last who can act neither leaves, nor is lowered, nor deleted', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const [other, operator] = [await colleague(owner, 'owner'), await theOperator()];
    await store().people.update(operator, other.userId, { status: 'suspended' });
    const reach = await reachOf(owner, 'admin');
    const attempts = () => [
      store().members.setRole(reach, home, owner.userId, 'admin'),
      store().members.remove(reach, home, owner.userId),
      store().people.update(reach, owner.userId, { role: 'member' }),
      store().people.update(operator, owner.userId, { role: 'member' }),
      store().people.delete(operator, owner.userId, {}),
    ];
    expect(await refusals(attempts())).toEqual(Array(5).fill('last_owner'));
    expect(await rolesIn(home)).toEqual(['owner', 'owner']);
    await store().people.update(operator, other.userId, { status: 'active' });
    await store().members.remove(reach, home, owner.userId);
    expect(await rolesIn(home)).toEqual(['owner']);
  });

  it('is kept by one owner, whichever ways the others go at once', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const owners: Reach[] = [owner];
    for (let n = 1; n < 8; n += 1) owners.push(await colleague(owner, 'owner'));
    const [operator, [one, other]] = [await theOperator(), await nodes()];
    const reaches = await Promise.all(owners.map((person) => reachOf(person, 'admin')));
    const ways = [
      (reach: Reach) => one.members.remove(reach, home, reach.userId),
      (reach: Reach) => other.people.delete(operator, reach.userId, {}),
      (reach: Reach) => other.people.update(reach, reach.userId, { role: 'viewer', organization_id: home }),
      (reach: Reach) => one.members.setRole(reach, home, reach.userId, 'member'),
    ];
    const codes = await refusals(
      reaches.map((reach, n) => ways[n % ways.length]?.(reach) ?? Promise.reject()),
    );
    expect(codes).toEqual(['last_owner']);
    expect((await rolesIn(home)).filter((role) => role === 'owner')).toHaveLength(1);
  });

  it('that is lowered takes along the invitations that it allowed, by either way', async () => {
    const owner = await newAccount(store(), 'Owner');
    const second = await colleague(owner, 'owner');
    const invite = async () => {
      for (const role of ['owner', 'admin', 'viewer'] as const) {
        const input = { email: `${randomUUID()}@example.com`, role, hash: randomUUID() };
        await store().invitations.create(await reachOf(second, 'admin'), homeOf(owner), input);
      }
    };
    const reach = await reachOf(owner, 'admin');
    const person = { organization_id: homeOf(owner) };
    await invite();
    await store().people.update(reach, second.userId, { ...person, role: 'admin' });
    expect(await invitedBy(second)).toEqual(['admin', 'viewer']);
    await store().members.setRole(reach, homeOf(owner), second.userId, 'owner');
    expect(await invitedBy(second)).toEqual(['admin', 'viewer']);
    await store().people.update(reach, second.userId, { ...person, role: 'member' });
    expect(await invitedBy(second)).toEqual([]);
  });

  it('that is lowered stops the runs that it allowed, and no others', async () => {
    const owner = await newAccount(store(), 'Owner');
    const admin = await colleague(owner, 'admin');
    const [given, ungiven] = [await workspaceIn(owner), await workspaceIn(owner)];
    const reach = await reachOf(owner, 'admin');
    await store().workspaceMembers.put(reach, given, admin.userId, 'member');
    const home = (await store().workspaces.defaultOf(owner))?.id ?? '';
    const runs = {
      home: await runIn(admin, home),
      given: await runIn(admin, given),
      ungiven: await runIn(admin, ungiven),
      ofTheOwner: await runIn(owner, ungiven),
    };
    const change = { organization_id: homeOf(owner) };
    const first = await store().people.update(reach, admin.userId, { ...change, role: 'member' });
    expect(first.stoppedRuns).toEqual([runs.ungiven]);
    const second = await store().members.setRole(reach, homeOf(owner), admin.userId, 'viewer');
    expect(second.stoppedRuns.toSorted()).toEqual([runs.home, runs.ungiven].toSorted());
    expect(await interruptOf(runs.given)).toBeNull();
    const third = await store().members.remove(reach, homeOf(owner), admin.userId);
    expect(third.stoppedRuns).toContain(runs.given);
    expect(await interruptOf(runs.ofTheOwner)).toBeNull();
  });

  it('in a workspace stops runs when it is taken, from a person or from their group', async () => {
    const owner = await newAccount(store(), 'Owner');
    const [alone, grouped] = [await colleague(owner, 'member'), await colleague(owner, 'member')];
    const workspace = await workspaceIn(owner);
    const reach = await reachOf(owner, 'admin');
    const { group } = await store().groups.create(reach, { organization_id: homeOf(owner), name: 'Readers' });
    await store().groups.addMember(reach, group.id, grouped.userId);
    await store().workspaceMembers.put(reach, workspace, alone.userId, 'member');
    await store().workspaceMembers.put(reach, workspace, group.id, 'member');
    const runs = [await runIn(alone, workspace), await runIn(grouped, workspace)];
    const lowered = await store().workspaceMembers.put(reach, workspace, alone.userId, 'viewer');
    expect(lowered).toMatchObject({ member: { role: 'viewer' }, stoppedRuns: [runs[0]] });
    const out = await store().groups.removeMember(reach, group.id, grouped.userId);
    expect(out.stoppedRuns).toEqual([runs[1]]);
    await store().groups.addMember(reach, group.id, grouped.userId);
    const again = await runIn(grouped, workspace);
    expect((await store().groups.delete(reach, group.id)).stoppedRuns).toContain(again);
  });

  it('ends with all that was given by it, also where more is given at that moment', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const people = await Promise.all(Array.from({ length: 8 }, () => newAccount(store(), 'Guest')));
    for (const person of people)
      await store().invitations.accept(
        person,
        await inviteTo(owner, person.email, 'member'),
        engine.clock.now(),
      );
    const workspace = await workspaceIn(owner);
    const reach = await reachOf(owner, 'admin');
    const [one, other] = await nodes();
    await Promise.allSettled(
      people.flatMap(({ userId }, n) => {
        const give = () => one.workspaceMembers.put(reach, workspace, userId, 'member');
        const remove = () => other.members.remove(reach, home, userId);
        return n % 2 ? [give(), remove()] : [remove(), give()];
      }),
    );
    expect(await rolesIn(home)).toEqual(['owner']);
    expect(await engine.sql()('workspace_members').where({ workspace_id: workspace })).toEqual([]);
  });

  it('is not given by somebody who is suspended when the invitation is accepted', async () => {
    const owner = await newAccount(store(), 'Owner');
    const [second, operator] = [await colleague(owner, 'owner'), await theOperator()];
    const guest = await newAccount(store(), 'Guest');
    const hash = randomUUID();
    const input = { email: guest.email, role: 'member' as const, hash };
    await store().invitations.create(await reachOf(second, 'admin'), homeOf(owner), input);
    await store().people.update(operator, second.userId, { status: 'suspended' });
    const accept = () => store().invitations.accept(guest, hash, engine.clock.now());
    expect(await refusals([accept()])).toEqual(['invitation_gone']);
    await store().people.update(operator, second.userId, { status: 'active' });
    expect(await accept()).toMatchObject({ membership: { role: 'member' } });
  });

  it('is for people of the domains that the organization takes, also where an account is made for them', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const reach = await reachOf(owner, 'admin');
    await store().organizations.update(reach, home, { settings: { email_domains: ['example.org'] } });
    const person = (email: string) => ({
      email,
      name: 'Grace',
      passwordHash: 'hash',
      role: 'member' as const,
      organizationId: home,
    });
    for (const by of [reach, await theOperator()])
      expect(await refusals([store().people.create(by, person(`${randomUUID()}@example.com`))])).toEqual([
        'email_domain_refused',
      ]);
    const made = await store().people.create(reach, person(`${randomUUID().toUpperCase()}@EXAMPLE.org`));
    expect(made.account.memberships).toMatchObject([{ organization_id: home, role: 'member' }]);
  });

  it('lets the operator alone list what they do not belong to, page after page', async () => {
    const operator = await theOperator();
    const made = [await newAccount(store(), 'One'), await newAccount(store(), 'Two')].map(homeOf);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await store().organizations.list(operator, {
        all: true,
        limit: 2,
        ...(cursor && { cursor }),
      });
      seen.push(...page.data.map(({ id }) => id));
      const own = page.data.filter(({ role }) => role !== null).map(({ id }) => id);
      expect(operator.organizationIds).toEqual(expect.arrayContaining(own));
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    expect(seen).toEqual(seen.toSorted());
    expect(seen).toEqual(expect.arrayContaining([...made, homeOf(operator)]));
    const own = await store().organizations.list(operator, {});
    expect(own.data.map(({ id }) => id)).toEqual([homeOf(operator)]);
    const stranger = await newAccount(store(), 'Stranger');
    expect(await refusals([store().organizations.list(stranger, { all: true })])).toEqual(['role_required']);
  });

  it('and an account that nobody shares go with the folders that the server made, and leave those that were there', async () => {
    const [owner, operator] = [await newAccount(store(), 'Owner'), await theOperator()];
    const own = await workspaceIn(owner);
    const path = `/srv/${randomUUID()}`;
    const input = { organization_id: homeOf(owner), name: 'Project', path };
    await store().workspaces.create(await reachOf(owner), input);
    const home = (await store().workspaces.defaultOf(owner))?.id ?? '';
    const { session } = await store().sessions.create(owner, {});
    const gone = await store().people.delete(operator, owner.userId, {});
    expect(gone.workspaceIds.toSorted()).toEqual([home, own].toSorted());
    expect(gone.sessionIds).toEqual([session.id]);
    const entries = await engine
      .sql()('audit_entries')
      .where({ organization_id: homeOf(owner) });
    expect(entries.map(({ action }) => action)).toContain('organization.delete');
  });
});
