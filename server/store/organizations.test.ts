/** Organizations, their members and invitations where many act at once, and what a deletion leaves: on both engines. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { AuditRow } from './audit-chain.ts';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { homeOf, organizationTools, refusals } from './test-organizations.ts';
import { beginRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Organizations', (store, engine) => {
  const { reachOf, inviteTo, colleague, rolesIn, nodes } = organizationTools(store, engine);

  it('keep an owner, although all of them leave at once', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const owners: Reach[] = [owner];
    for (let n = 1; n < 10; n += 1) owners.push(await colleague(owner, 'owner'));
    const [one, other] = await nodes();
    const reaches = await Promise.all(owners.map((person) => reachOf(person, 'admin')));
    const codes = await refusals(
      reaches.map((reach, n) => (n % 2 ? one : other).members.remove(reach, home, reach.userId)),
    );
    expect(codes).toEqual(['last_owner']);
    expect(await rolesIn(home)).toEqual(['owner']);
  });

  it('keep an owner, although each demotes the next at once, and nobody acts by a role that is gone', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const owners: Reach[] = [owner];
    for (let n = 1; n < 8; n += 1) owners.push(await colleague(owner, 'owner'));
    const [one, other] = await nodes();
    const reaches = await Promise.all(owners.map((person) => reachOf(person, 'admin')));
    const codes = await refusals(
      reaches.map((reach, n) => {
        const next = reaches[(n + 1) % reaches.length]?.userId ?? '';
        return (n % 2 ? one : other).members.setRole(reach, home, next, 'viewer');
      }),
    );
    const roles = await rolesIn(home);
    const left = roles.filter((role) => role === 'owner').length;
    expect(left).toBeGreaterThan(0);
    // Each refusal left one as they were: either the last owner, or somebody whom a former owner meant.
    expect(codes.length).toBe(left);
    for (const code of codes) expect(['last_owner', 'role_required']).toContain(code);
  });

  it('are left and managed by what one is now, not by what one was when the request began', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const [admin, viewer] = [await colleague(owner, 'admin'), await colleague(owner, 'viewer')];
    const before = await reachOf(admin, 'admin');
    await store().members.setRole(await reachOf(owner, 'admin'), home, admin.userId, 'member');
    expect(
      await refusals([
        store().members.setRole(before, home, viewer.userId, 'member'),
        store().members.remove(before, home, viewer.userId),
        store().invitations.create(before, home, { email: 'x@example.com', hash: randomUUID() }),
      ]),
    ).toEqual(['role_required', 'role_required', 'role_required']);
    await store().members.remove(await reachOf(owner, 'admin'), home, admin.userId);
    expect(await refusals([store().members.setRole(before, home, viewer.userId, 'member')])).toEqual([
      'not_found',
    ]);
  });

  it('have one slug each, also in a race, and find another where it was made from the name', async () => {
    const owner = await newAccount(store(), 'Owner');
    const [one, other] = await nodes();
    const create = (n: number, slug?: string) =>
      (n % 2 ? one : other).organizations.create(owner, { name: 'Same Name', ...(slug && { slug }) });
    const numbers = Array.from({ length: 10 }, (_, n) => n);
    const given = `given-${engine.dialect}`;
    expect(await refusals(numbers.map((n) => create(n, given)))).toEqual(Array(9).fill('slug_taken'));
    const made = await Promise.all(numbers.map((n) => create(n)));
    const slugs = made.map(({ organization }) => organization.slug);
    expect(new Set(slugs).size).toBe(10);
    expect(slugs).toContain('same-name');
  });

  it('are owned by nobody beyond the limit, also where two are made at once', async () => {
    const owner = await newAccount(store(), 'Owner');
    const created = (name: string) => store().organizations.create(owner, { name });
    for (let owned = 1; owned < 99; owned += 1) await created('Many');
    const createAtOnce = () => refusals([created('One'), created('Other'), created('Third')]);
    // On PostgreSQL none can begin before all have come.
    const refused =
      engine.dialect === 'sqlite'
        ? createAtOnce
        : await engine.sql().transaction(async (sql) => {
            await sql('users').where({ id: owner.userId }).forUpdate();
            const attempts = createAtOnce();
            await expect.poll(() => waiting(engine.sql())).toBe(3);
            return () => attempts;
          });
    expect(await refused()).toEqual(['organization_limit', 'organization_limit']);
    const owned = engine.sql()('memberships').where({ user_id: owner.userId, role: 'owner' });
    expect(await owned).toHaveLength(100);
  });

  it('are listed to a key that is bound to a workspace where it belongs to them, and it makes none and changes no account', async () => {
    const owner = await newAccount(store(), 'Owner');
    const { organization } = await store().organizations.create(owner, { name: 'Another' });
    const whole = await reachOf(owner);
    const [workspace] = whole.workspaces;
    const bound = {
      ...{ userId: owner.userId, memberships: [], organizationIds: [homeOf(owner)] },
      ...{ workspaces: workspace ? [workspace] : [], workspaceId: workspace?.id },
    };
    const listed = async (reach: Reach) =>
      (await store().organizations.list(reach, {})).data.map(({ id }) => id);
    expect(await listed(whole)).toEqual([homeOf(owner), organization.id]);
    expect(await listed(bound)).toEqual([homeOf(owner)]);
    expect(await store().organizations.find(bound, organization.id)).toBeNull();
    expect(
      await refusals([
        store().organizations.create(bound, { name: 'Third' }),
        store().users.update(bound, { name: 'Mallory' }),
        store().preferences.update(bound, { theme: 'dark' }),
        store().logins.revoke(bound, 'log_none'),
        store().oidc.unlink(bound, 'https://issuer.example'),
      ]),
    ).toEqual(Array(5).fill('role_required'));
  });

  it('take an invitation once, by login or by registration, whoever is faster', async () => {
    const owner = await newAccount(store(), 'Owner');
    const person = await newAccount(store(), 'Guest');
    const hash = await inviteTo(owner, person.email, 'member');
    const [one, other] = await nodes();
    const uses = Array.from({ length: 50 }, (_, n) =>
      (n % 2 ? one : other).invitations.accept(person, hash, engine.clock.now()),
    );
    expect(await refusals(uses)).toEqual(Array(49).fill('invitation_gone'));
    expect(await rolesIn(homeOf(owner))).toHaveLength(2);

    const email = `${randomUUID()}@example.com`;
    const hashOfTheirs = await inviteTo(owner, email, 'viewer');
    const token = { kind: 'invitation', hash: hashOfTheirs, at: engine.clock.now() } as const;
    const account = { email, name: 'New', passwordHash: 'argon2id', token };
    const accounts = Array.from({ length: 20 }, (_, n) => (n % 2 ? one : other).users.createAccount(account));
    expect(await refusals(accounts)).toEqual(Array(19).fill('registration_refused'));
    expect(await rolesIn(homeOf(owner))).toHaveLength(3);
  });

  it('invite an address once, however it is spelled and however many do it at once', async () => {
    const owner = await reachOf(await newAccount(store(), 'Owner'), 'admin');
    const [one, other] = await nodes();
    const invitations = Array.from({ length: 10 }, (_, n) =>
      (n % 2 ? one : other).invitations.create(owner, homeOf(owner), {
        email: n % 3 ? 'twice@example.com' : 'TWICE@example.com',
        hash: randomUUID(),
      }),
    );
    expect(await refusals(invitations)).toEqual(Array(9).fill('already_invited'));
  });

  it('have no groups with people who have left, also where both happen at once', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const reach = await reachOf(owner, 'admin');
    const { group } = await store().groups.create(reach, { organization_id: home, name: 'Readers' });
    const people = await Promise.all(Array.from({ length: 8 }, () => newAccount(store(), 'Guest')));
    for (const person of people)
      await store().invitations.accept(
        person,
        await inviteTo(owner, person.email, 'member'),
        engine.clock.now(),
      );
    const [one, other] = await nodes();
    await Promise.allSettled(
      people.flatMap(({ userId }, n) => {
        const add = () => one.groups.addMember(reach, group.id, userId);
        const remove = () => other.members.remove(reach, home, userId);
        return n % 2 ? [add(), remove()] : [remove(), add()];
      }),
    );
    expect(await rolesIn(home)).toEqual(['owner']);
    expect(await engine.sql()('group_members').where({ group_id: group.id })).toEqual([]);
  });

  it('stop the runs of those who leave or may only look, and of nobody else', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const [leaver, looker] = [await colleague(owner, 'member'), await colleague(owner, 'member')];
    const workspace_id = (await store().workspaces.defaultOf(owner))?.id ?? '';
    const runOf = async (person: Reach): Promise<string> => {
      const reach = await reachOf(person, 'member');
      const { session } = await store().sessions.create(reach, { workspace_id });
      return (await beginRun(store(), reach, { sessionId: session.id })).runId;
    };
    const runs = [await runOf(owner), await runOf(leaver), await runOf(looker)];
    const reach = await reachOf(owner, 'admin');
    await store().members.remove(reach, home, leaver.userId);
    await store().members.setRole(reach, home, looker.userId, 'viewer');
    const asked = await engine.sql()('runs').whereIn('id', runs).orderBy('id').pluck('interrupt_requested');
    expect(asked).toEqual([null, 'requested', 'requested']);
  });

  it('leave nothing behind but what the audit log tells of them, and what was used', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    await colleague(owner, 'member');
    await inviteTo(owner, 'waiting@example.com', 'viewer');
    const manager = await reachOf(owner, 'admin');
    const { group } = await store().groups.create(manager, { organization_id: home, name: 'Readers' });
    await store().groups.addMember(manager, group.id, owner.userId);
    const { session } = await store().sessions.create(owner, { title: 'Walrus', tags: ['t'] });
    const { runId } = await beginRun(store(), owner, { sessionId: session.id, prompt: 'Carpenter' });
    const workspace = await store().workspaces.defaultOf(owner);
    await store().agents.create(
      manager,
      { organizationId: home, workspaceId: workspace?.id ?? null },
      { slug: 'a', description: 'x', instructions: 'x' },
    );
    await engine.sql()('runs').where({ id: runId }).update({ status: 'completed', ended_at: 1 });
    await store().organizations.create(owner, { name: 'Elsewhere' });
    const reach = await reachOf(owner, 'owner');
    const tables = await tenantTables();
    const before = await rowsOf(home, tables);
    expect(before).toMatchObject({
      sessions: 1,
      runs: 1,
      groups: 1,
      group_members: 1,
      invitations: 2,
      agents: 1,
    });
    const found = await store().organizations.find(reach, home);
    await store().organizations.delete(reach, home, found?.etag);
    // Until the folder of its workspace is gone.
    expect(await store().deletedWorkspaces.list()).toContain(workspace?.id);
    await store().deletedWorkspaces.forget(workspace?.id ?? '');
    expect(await rowsOf(home, tables)).toEqual({});
    expect(await store().searches.find(reach, { query: 'walrus' }, {})).toMatchObject({ data: [] });
    const last = await engine
      .sql()<AuditRow>('audit_entries')
      .where({ organization_id: home })
      .orderBy('sequence');
    expect(last.at(-1)).toMatchObject({
      action: 'organization.delete',
      actor_id: owner.userId,
      target_id: home,
    });
    expect(last.at(-1)?.before).toContain('"sessions":1');
  });

  it('are told of in the audit log: who did what to whom, and no token', async () => {
    const owner = await newAccount(store(), 'Owner');
    const home = homeOf(owner);
    const person = await newAccount(store(), 'Guest');
    const hash = await inviteTo(owner, person.email, 'viewer');
    await store().invitations.accept(person, hash, engine.clock.now());
    const reach = await reachOf(owner, 'admin');
    await store().members.setRole(reach, home, person.userId, 'member');
    const { group } = await store().groups.create(reach, { organization_id: home, name: 'Readers' });
    await store().groups.update(reach, group.id, { name: 'Writers' });
    await store().groups.addMember(reach, group.id, person.userId);
    await store().groups.addMember(reach, group.id, person.userId);
    await store().groups.removeMember(reach, group.id, person.userId);
    await store().groups.delete(reach, group.id);
    await store().organizations.update(reach, home, { name: 'Renamed', settings: { invitation_days: 3 } });
    await store().members.remove(reach, home, person.userId);
    const entries = await engine
      .sql()<AuditRow>('audit_entries')
      .where({ organization_id: home })
      .orderBy('sequence');
    const told = entries.map(({ action, actor_id, target_id }) => [action, actor_id, target_id]);
    const by = owner.userId;
    expect(told.filter(([action]) => /^(organization|group|invitation)/.test(action ?? ''))).toEqual([
      ['invitation.create', by, expect.stringMatching(/^ivt_/)],
      ['invitation.accept', person.userId, expect.stringMatching(/^ivt_/)],
      ['organization_member.update', by, person.userId],
      ['group.create', by, group.id],
      ['group.update', by, group.id],
      ['group_member.create', by, group.id],
      ['group_member.delete', by, group.id],
      ['group.delete', by, group.id],
      ['organization.update', by, home],
      ['organization_member.delete', by, person.userId],
    ]);
    expect(entries.find(({ action }) => action === 'organization_member.update')).toMatchObject({
      before: '{"role":"viewer"}',
      after: '{"role":"member"}',
    });
    expect(JSON.stringify(entries)).not.toContain(hash);
  });

  /** Every table whose rows belong to an organization, but for the log and what was used, which outlive it. */
  const tenantTables = async (): Promise<string[]> => {
    const names: string[] =
      engine.dialect === 'sqlite'
        ? await engine.sql()('sqlite_master').where({ type: 'table' }).pluck('name')
        : await engine.sql()('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
    const columns = await Promise.all(names.map((name) => engine.sql()(name).columnInfo()));
    const outlive = ['audit_entries', 'usage_days', 'usage_counters'];
    return names.filter((name, n) => !outlive.includes(name) && 'organization_id' in (columns[n] ?? {}));
  };
  const rowsOf = async (organization_id: string, tables: string[]): Promise<Record<string, number>> => {
    const counts: Record<string, number> = {};
    for (const table of tables) {
      const [row] = await engine.sql()(table).where({ organization_id }).count({ count: '*' });
      if (Number(row?.count) > 0) counts[table] = Number(row?.count);
    }
    return counts;
  };
});
