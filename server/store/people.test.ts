/** People and what belongs to them, on both databases: the list, roles, deletion, and what others may not touch. */
import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Reach } from './store.ts';
import { refusals } from './test-organizations.ts';
import { beginRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('People', (store, engine) => {
  /** Somebody in the organization of another. */
  const join = async (boss: Reach, role: 'admin' | 'member' = 'member', name = 'Grace') => {
    const [organizationId = ''] = boss.organizationIds;
    const email = `${name.toLowerCase()}-${randomUUID()}@example.com`;
    const person = { email, name, passwordHash: 'hash', role, organizationId };
    return (await store().people.create(boss, person)).account;
  };
  const reachOf = async (userId: string): Promise<Reach> => {
    const login = { userId, refreshHash: randomUUID(), expiresAt: new Date('2027-01-01') };
    const owner = await store().principals.byLogin(await store().logins.create(login), engine.clock.now());
    if (!owner) throw new Error('nobody has this login');
    const organizationIds = owner.memberships.map(({ organizationId }) => organizationId);
    return { userId, memberships: owner.memberships, workspaces: owner.workspaces, organizationIds };
  };

  it('are listed by address, each once, and found by beginnings in any script', async () => {
    const boss = await newAccount(store(), 'Boss');
    const tag = randomUUID().slice(0, 8);
    for (const name of [`${tag} Zoë`, `${tag} Ádám`, `${tag} 李`, `${tag.toUpperCase()} Bob`])
      await join(boss, 'member', name);
    const names = async (q: string) =>
      (await store().people.list(boss, { q })).data.map(({ name }) => name.slice(9));
    expect((await names(tag)).toSorted()).toEqual(['Bob', 'Zoë', 'Ádám', '李'].toSorted());
    expect(await names(`${tag} á`)).toEqual(['Ádám']);
    expect(await names(`${tag} 李`)).toEqual(['李']);
    expect(await names('%')).toEqual([]);
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await store().people.list(boss, { limit: 2, ...(cursor && { cursor }) });
      seen.push(...page.data.map(({ email }) => email));
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    expect(seen).toHaveLength(5);
    expect(seen).toEqual(seen.toSorted());
  });

  it('are changed and deleted only as they were read, roles that others gave them meanwhile included', async () => {
    const boss = await newAccount(store(), 'Boss');
    const [organizationId = ''] = boss.organizationIds;
    const { id } = await join(boss);
    const other = await engine.open();
    const memberTag = async () =>
      (await store().members.list(boss, organizationId, {})).data.find(({ user_id }) => user_id === id)?.etag;
    const { etag } = await store().people.find(boss, id);
    await other.members.setRole(boss, organizationId, id, 'admin');
    const stale = { code: 'precondition_failed' };
    await expect(store().people.update(boss, id, { role: 'viewer' }, etag)).rejects.toMatchObject(stale);
    await expect(store().people.update(boss, id, { status: 'suspended' }, etag)).rejects.toMatchObject(stale);
    await expect(store().people.delete(boss, id, { ifMatch: etag })).rejects.toMatchObject(stale);
    for (let round = 0; round < 10; round += 1) {
      const [read, tag] = [await store().people.find(boss, id), await memberTag()];
      const [role, another] = round % 2 ? (['admin', 'owner'] as const) : (['viewer', 'member'] as const);
      const changes = [
        store().people.update(boss, id, { role }, read.etag),
        other.members.setRole(boss, organizationId, id, another, tag),
      ];
      expect(await refusals(changes)).toEqual(['precondition_failed']);
    }
  });

  it('who belong to two organizations of one admin are listed once', async () => {
    const [boss, other] = [await newAccount(store(), 'Boss'), await newAccount(store(), 'Other')];
    const { id } = await join(boss);
    await engine
      .sql()('memberships')
      .insert([
        { organization_id: other.organizationIds[0], user_id: id, role: 'member', created_at: 1 },
        { organization_id: other.organizationIds[0], user_id: boss.userId, role: 'admin', created_at: 2 },
      ]);
    const both = await reachOf(boss.userId);
    const { data } = await store().people.list(both, {});
    expect(data.map((person) => person.id).toSorted()).toEqual([boss.userId, other.userId, id].toSorted());
    expect(data.find((person) => person.id === id)?.memberships).toHaveLength(2);
    const seenByOther = await store().people.find(await reachOf(other.userId), id);
    expect(seenByOther.account).toMatchObject({ managed_by: null, memberships: [{ role: 'member' }] });
    const suspended = store().people.update(await reachOf(other.userId), id, { status: 'suspended' });
    await expect(suspended).rejects.toMatchObject({ code: 'role_required' });
  });

  it('keep an owner when all of them resign at once, on two nodes', async () => {
    const boss = await newAccount(store(), 'Boss');
    const other = await engine.open();
    const { id } = await join(boss, 'admin');
    await store().people.update(boss, id, { role: 'owner' });
    const second = await reachOf(id);
    const outcomes = await Promise.allSettled([
      store().people.update(boss, boss.userId, { role: 'member' }),
      other.people.update(second, id, { role: 'member' }),
    ]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const owners = await engine
      .sql()('memberships')
      .where({ organization_id: boss.organizationIds[0], role: 'owner' });
    expect(owners).toHaveLength(1);
  });

  it('made at once with one address are one account', async () => {
    const boss = await newAccount(store(), 'Boss');
    const email = `${randomUUID()}@example.com`;
    const person = { email, name: 'x', passwordHash: 'hash', role: 'member' as const };
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, () => store().people.create(boss, person)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'email_taken' });
  });

  it('that are suspended lose their logins and have their runs stopped, on every node', async () => {
    const boss = await newAccount(store(), 'Boss');
    const { id } = await join(boss);
    const person = await reachOf(id);
    const { runId } = await beginRun(store(), person);
    const login = { userId: id, refreshHash: randomUUID(), expiresAt: new Date('2027-01-01') };
    const loginId = await store().logins.create(login);
    const { stoppedRuns } = await store().people.update(boss, id, { status: 'suspended' });
    expect(stoppedRuns).toEqual([runId]);
    const other = await engine.open();
    expect(await other.transcript.readInterrupt(runId)).toBe('requested');
    const owner = await other.principals.byLogin(loginId, engine.clock.now());
    expect(owner).toMatchObject({ login: { ended: true }, user: { status: 'suspended' } });
  });

  it('are in the audit log with what was done to them', async () => {
    const boss = await newAccount(store(), 'Boss');
    const { id } = await join(boss);
    await store().people.update(boss, id, { role: 'viewer' });
    await store().people.update(boss, id, { status: 'suspended' });
    await store().people.update(boss, id, { status: 'active' });
    await store().people.revokeLogins(boss, id);
    await store().people.delete(boss, id, {});
    const entries: { action: string; organization_id: string; before: string; after: string }[] = await engine
      .sql()('audit_entries')
      .where({ target_id: id })
      .orderBy('sequence');
    expect(entries.map(({ action }) => action)).toEqual([
      ...[
        'user.create',
        'organization_member.update',
        'user.suspend',
        'user.reactivate',
        'user.revoke_logins',
      ],
      'user.delete',
    ]);
    for (const entry of entries) expect(entry.organization_id).toBe(boss.organizationIds[0]);
    expect(JSON.parse(entries[1]?.after ?? '')).toEqual({ role: 'viewer' });
    expect(JSON.stringify(entries)).not.toContain('argon2id');
  });

  it('that are deleted have invited nobody who is not there yet, and stand in the way of no other invitation', async () => {
    const boss = await newAccount(store(), 'Boss');
    const [organizationId = ''] = boss.organizationIds;
    const admin = await reachOf((await join(boss, 'admin')).id);
    const heir = await join(boss, 'admin');
    const other = await engine.open();
    const invitation = (email: string) => ({ email, role: 'member' as const, hash: randomUUID() });
    const email = `carol-${randomUUID()}@example.com`;
    await store().invitations.create(admin, organizationId, invitation(email));
    const lost = await Promise.allSettled([
      ...Array.from({ length: 4 }, (_, at) =>
        other.invitations.create(admin, organizationId, invitation(`${at}-${email}`)),
      ),
      store().people.delete(boss, admin.userId, { transferTo: heir.id }),
    ]);
    expect(lost.at(-1)?.status).toBe('fulfilled');
    expect((await store().invitations.list(boss, organizationId, {})).data).toEqual([]);
    const again = await store().invitations.create(boss, organizationId, invitation(email));
    expect(again.invitation).toMatchObject({ email, invited_by: boss.userId });
  });

  it('leave nothing of their own when they are deleted', async () => {
    const gone = await newAccount(store(), 'Gone');
    const operator = { ...(await newAccount(store(), 'Op')), operator: true };
    await store().sessions.create(gone, { title: 'gone' });
    await store().preferences.update(gone, { theme: 'dark' });
    const key = { name: 'k', scopes: ['query' as const], hash: randomUUID(), prefix: 'sk-AAAAAAAA' };
    await store().apiKeys.create(gone, key);
    await store().people.delete(operator, gone.userId, {});
    const [organization_id = ''] = gone.organizationIds;
    for (const [table, where] of [
      ['users', { id: gone.userId }],
      ['logins', { user_id: gone.userId }],
      ['api_keys', { user_id: gone.userId }],
      ['user_preferences', { user_id: gone.userId }],
      ['memberships', { user_id: gone.userId }],
      ['organizations', { id: organization_id }],
      ['workspaces', { organization_id }],
      ['sessions', { organization_id }],
    ] as const)
      expect(await engine.sql()(table).where(where), table).toEqual([]);
    expect(await store().principals.byApiKeyHash(key.hash, engine.clock.now())).toBeNull();
  });
});

describeStores('A key', (store, engine) => {
  const now = () => engine.clock.now();
  const later = (seconds: number) => new Date(now().getTime() + seconds * 1000);
  const newKey = () => ({ name: 'k', scopes: ['query' as const], hash: randomUUID(), prefix: 'sk-AAAAAAAA' });

  it('is found by its old secret as long as that is good, and told which it was', async () => {
    const reach = await newAccount(store());
    const first = newKey();
    const { apiKey } = await store().apiKeys.create(reach, first);
    const [second, third] = [randomUUID(), randomUUID()];
    const secret = (hash: string) => ({ hash, prefix: 'sk-BBBBBBBB' });
    await store().apiKeys.rotate(reach, apiKey.id, secret(second), later(60));
    const byOld = await store().principals.byApiKeyHash(first.hash, now());
    expect(byOld?.apiKey).toMatchObject({ id: apiKey.id, secretNumber: 1, oldestSecret: 1 });
    expect(await store().principals.byApiKeyHash(first.hash, later(60))).toBeNull();
    await store().apiKeys.rotate(reach, apiKey.id, secret(third), later(60));
    expect(await store().principals.byApiKeyHash(first.hash, now())).toBeNull();
    expect((await store().principals.byApiKeyHash(third, now()))?.apiKey).toMatchObject({
      secretNumber: 3,
      oldestSecret: 2,
    });
    expect((await store().principals.byApiKey(apiKey.id, later(61)))?.apiKey).toMatchObject({
      oldestSecret: 3,
    });
  });

  it('whose workspace is gone reaches nothing', async () => {
    const reach = await newAccount(store());
    const [workspace] = reach.workspaces;
    const key = { ...newKey(), workspace_id: workspace?.id ?? '' };
    await store().apiKeys.create(reach, key);
    const place = { id: workspace?.id, organizationId: workspace?.organizationId };
    expect((await store().principals.byApiKeyHash(key.hash, now()))?.apiKey.workspace).toEqual(place);
    await engine.sql()('workspaces').where({ id: workspace?.id }).delete();
    const owner = await store().principals.byApiKeyHash(key.hash, now());
    expect(owner?.apiKey.workspace).toEqual({ id: workspace?.id, organizationId: null });
  });
});
