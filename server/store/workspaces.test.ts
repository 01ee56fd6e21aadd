/** Workspaces in the store: whose they are, who works there, what goes with them. */
import { beforeAll, expect, it } from 'vitest';
import type { Role, WorkspaceMember } from '../contract/api.ts';
import { newId } from '../ids.ts';
import type { Reach } from './store.ts';
import { beginRun, endRun } from './test-runs.ts';
import { describeStores, newAccount, reachOfNobody } from './test-stores.ts';

describeStores('Workspaces', (store, engine) => {
  let ada: Reach;
  let organizationId: string;

  beforeAll(async () => {
    ada = await newAccount(store(), 'Ada');
    organizationId = ada.organizationIds[0] ?? '';
  });

  /** Somebody else of Ada's organization. */
  const colleague = async (role: Role): Promise<Reach> => {
    const { userId } = await newAccount(store(), role);
    const row = { organization_id: organizationId, user_id: userId, role, created_at: 2 };
    await engine.sql()('memberships').insert(row);
    return reachOf(userId);
  };
  /** What somebody reaches now, as their next request would have it. */
  const reachOf = async (userId: string, needs?: Role): Promise<Reach> => {
    const refreshHash = newId('login');
    const loginId = await store().logins.create({ userId, refreshHash, expiresAt: new Date('2027-01-01') });
    const owner = await store().principals.byLogin(loginId, new Date('2026-11-21'));
    const { memberships = [], workspaces = [] } = owner ?? {};
    const organizationIds = memberships.map((membership) => membership.organizationId);
    return { userId, memberships, organizationIds, workspaces, ...(needs && { needs }) };
  };
  const newWorkspace = async (more: object = {}, reach = ada) =>
    (await store().workspaces.create(reach, { name: 'Website', ...more })).workspace;
  const auditOf = async (id: string): Promise<string[]> =>
    engine.sql()('audit_entries').where({ target_id: id }).orderBy('sequence').pluck('action');
  const count = async (table: string, where: object): Promise<number> => {
    const [row] = await engine.sql()(table).where(where).count<{ count: number | string }[]>({ count: '*' });
    return Number(row?.count);
  };

  it('are made in an organization with all that holds for them, read back, and recorded', async () => {
    const rules = [{ tool: 'bash', pattern: '$(touch x)', decision: 'allow' as const }];
    const terms = {
      default_model: 'demo:demo-1',
      permission_mode: 'read_only',
      permission_rules: rules,
    } as const;
    const { workspace, etag } = await store().workspaces.create(ada, { name: 'Website', ...terms });
    expect(workspace).toMatchObject({
      ...terms,
      organization_id: organizationId,
      is_default: false,
      path: null,
    });
    expect(await store().workspaces.get(ada, workspace.id)).toEqual({ workspace, etag });
    expect(await store().workspaces.terms(workspace.id)).toEqual({
      path: null,
      model: 'demo:demo-1',
      permissionMode: 'read_only',
      permissionRules: rules,
    });
    expect(await auditOf(workspace.id)).toEqual(['workspace.create']);
  });

  it('are made by members, who are admins there, and by no viewer', async () => {
    const member = await colleague('member');
    const workspace = await newWorkspace({ organization_id: organizationId }, { ...member, needs: 'member' });
    const reach = await reachOf(member.userId, 'admin');
    await expect(store().workspaces.update(reach, workspace.id, { name: 'Ours' })).resolves.toMatchObject({
      workspace: { name: 'Ours' },
    });
    const viewer = { ...(await colleague('viewer')), needs: 'member' as const };
    await expect(newWorkspace({ organization_id: organizationId }, viewer)).rejects.toMatchObject({
      code: 'role_required',
    });
  });

  it('of others are not there, for whatever is asked of them', async () => {
    const { id } = await newWorkspace();
    const { workspaces, workspaceMembers, workspaceTrust } = store();
    for (const reach of [await newAccount(store(), 'Mallory'), await colleague('member'), reachOfNobody()]) {
      expect(await workspaces.get(reach, id)).toBeNull();
      expect(
        (await workspaces.list(reach, { organization_id: organizationId })).data.map((one) => one.id),
      ).not.toContain(id);
      for (const attempt of [
        () => workspaces.update(reach, id, { name: 'Mine' }),
        () => workspaces.stopRuns(reach, id),
        () => workspaces.delete(reach, id),
        () => workspaceMembers.list(reach, id, {}),
        () => workspaceMembers.put(reach, id, ada.userId, 'viewer'),
        () => workspaceMembers.remove(reach, id, ada.userId),
        () => workspaceTrust.change(reach, id, () => Promise.reject(new Error('nobody may come here'))),
      ])
        await expect(attempt()).rejects.toMatchObject({ code: 'not_found' });
    }
    const stranger = await newAccount(store(), 'Eve');
    await expect(newWorkspace({ organization_id: organizationId }, stranger)).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(newWorkspace({}, reachOfNobody())).rejects.toMatchObject({ code: 'not_found' });
  });

  it('are listed page by page, each once, in both orders', async () => {
    const grace = await newAccount(store(), 'Grace');
    const ids: string[] = [(await store().workspaces.defaultOf(grace))?.id ?? ''];
    for (const name of ['a', 'b', 'c']) {
      engine.clock.advance(1);
      ids.push((await newWorkspace({ name }, grace)).id);
    }
    for (const sort of ['created_at', '-created_at'] as const) {
      const seen: string[] = [];
      let cursor: string | null | undefined;
      do {
        const page = await store().workspaces.list(grace, { sort, limit: 2, ...(cursor && { cursor }) });
        seen.push(...page.data.map(({ id }) => id));
        cursor = page.next_cursor;
      } while (cursor);
      expect(seen).toEqual(sort === 'created_at' ? ids : ids.toReversed());
    }
  });

  it('are changed by merging, by one who has read them as they are, and recorded with what they were', async () => {
    const { workspace, etag } = await store().workspaces.create(ada, { name: 'Old', default_model: 'a:b' });
    const changed = await store().workspaces.update(ada, workspace.id, { default_model: null }, etag);
    expect(changed.workspace).toMatchObject({ name: 'Old', default_model: null });
    expect(changed.etag).not.toBe(etag);
    await expect(store().workspaces.update(ada, workspace.id, { name: 'Lost' }, etag)).rejects.toMatchObject({
      code: 'precondition_failed',
    });
    const entry = await engine
      .sql()('audit_entries')
      .where({ action: 'workspace.update', target_id: workspace.id })
      .first();
    expect(JSON.parse(entry.before)).toEqual({ default_model: 'a:b' });
    expect(JSON.parse(entry.after)).toEqual({ default_model: null });
  });

  it('changed at once by two who have read the same lose no change', async () => {
    const { workspace, etag } = await store().workspaces.create(ada, { name: 'Contended' });
    const outcomes = await Promise.allSettled(
      ['one', 'other'].map((name) => store().workspaces.update(ada, workspace.id, { name }, etag)),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  it('are given to people and groups of the organization alone, which counts at once and ends at once', async () => {
    const { id } = await newWorkspace();
    const members = store().workspaceMembers;
    const member = await colleague('viewer');
    expect(await members.put(ada, id, member.userId, 'member')).toMatchObject({
      member: { type: 'user', name: 'viewer', role: 'member' },
    });
    expect(await store().workspaces.get(await reachOf(member.userId, 'member'), id)).not.toBeNull();
    expect(await members.put(ada, id, member.userId, 'viewer')).toMatchObject({ member: { role: 'viewer' } });
    await expect(store().workspaces.get(await reachOf(member.userId, 'member'), id)).rejects.toMatchObject({
      code: 'role_required',
    });
    const group = {
      id: newId('group'),
      organization_id: organizationId,
      name: id,
      revision: 1,
      created_at: 1,
      updated_at: 1,
    };
    await engine.sql()('groups').insert(group);
    engine.clock.advance(1);
    expect(await members.put(ada, id, group.id, 'admin')).toMatchObject({
      member: { type: 'group', name: id, email: null },
    });
    const listed = (await members.list(ada, id, {})).data.map(({ type, role }: WorkspaceMember) => [
      type,
      role,
    ]);
    expect(listed).toEqual([
      ['user', 'viewer'],
      ['group', 'admin'],
    ]);
    await members.remove(ada, id, member.userId);
    expect(await store().workspaces.get(await reachOf(member.userId), id)).toBeNull();
    await expect(members.remove(ada, id, member.userId)).rejects.toMatchObject({ code: 'not_found' });
    const [stranger, foreign] = [await newAccount(store(), 'Stranger'), newId('group')];
    await engine
      .sql()('groups')
      .insert({ ...group, id: foreign, organization_id: stranger.organizationIds[0], name: 'theirs' });
    for (const principal of [stranger.userId, foreign, newId('user'), newId('group')])
      await expect(members.put(ada, id, principal, 'viewer')).rejects.toMatchObject({ code: 'not_found' });
    expect(await auditOf(id)).toEqual([
      'workspace.create',
      'workspace_member.create',
      'workspace_member.update',
      'workspace_member.create',
      'workspace_member.delete',
    ]);
  });

  it('do not list those who have left the organization', async () => {
    const { id } = await newWorkspace();
    const member = await colleague('member');
    await store().workspaceMembers.put(ada, id, member.userId, 'admin');
    await engine
      .sql()('memberships')
      .where({ organization_id: organizationId, user_id: member.userId })
      .delete();
    expect((await store().workspaceMembers.list(ada, id, {})).data).toEqual([]);
  });

  it('go with all that is in them, but for the default one', async () => {
    const { id } = await newWorkspace();
    await store().workspaceMembers.put(ada, id, (await colleague('member')).userId, 'viewer');
    const { session } = await store().sessions.create(ada, {
      workspace_id: id,
      title: 'Platypus',
      tags: ['t'],
    });
    const run = await beginRun(store(), ada, { sessionId: session.id, prompt: 'Carpenter' });
    expect(await store().workspaces.stopRuns(ada, id)).toEqual([run.runId]);
    expect(await store().transcript.readInterrupt(run.runId)).toBe('requested');
    await store().workspaceTrust.change(ada, id, async () => ({
      change: {
        action: 'workspace_trust.create',
        trusted: [{ file: 'service.json', sha256: 'a'.repeat(64), review: '' }],
        before: {},
        after: {},
      },
      result: null,
    }));
    const gone = await store().workspaces.delete(ada, id);
    expect(gone).toEqual({ path: null, sessionIds: [session.id], runIds: [run.runId] });
    expect(await store().workspaces.get(ada, id)).toBeNull();
    expect(await store().sessions.find(ada, session.id)).toBeNull();
    for (const table of [
      'sessions',
      'runs',
      'workspace_members',
      'workspace_trust',
      'workspace_events',
      'session_tags',
    ])
      expect(await count(table, { workspace_id: id }), table).toBe(0);
    expect(await count('messages', { session_id: session.id })).toBe(0);
    expect((await store().searches.find(ada, { query: 'platypus' }, {})).data).toEqual([]);
    // Whoever is still at work on a run of it finds that it is nobody's any more.
    expect(await store().transcript.readInterrupt(run.runId)).toBe('lease_lost');
    await expect(endRun(store(), run)).rejects.toMatchObject({ name: 'LeaseLost' });
    const standard = (await store().workspaces.defaultOf(ada))?.id ?? '';
    const refused = { code: 'workspace_is_default' };
    await expect(store().workspaces.stopRuns(ada, standard)).rejects.toMatchObject(refused);
    await expect(store().workspaces.delete(ada, standard)).rejects.toMatchObject(refused);
  });

  it('of two organizations never share a folder, nor lie in each other', async () => {
    const [grace, eve] = [await newAccount(store(), 'Grace'), await newAccount(store(), 'Eve')];
    await newWorkspace({ path: '/srv/projects/one' }, grace);
    await expect(newWorkspace({ path: '/srv/projects/one' }, grace)).resolves.toBeDefined();
    for (const path of ['/srv/projects/one', '/srv/projects/one/src', '/srv/projects', null])
      await expect(newWorkspace({ path }, eve)).rejects.toMatchObject({ code: 'path_refused' });
    await expect(newWorkspace({ path: '/srv/projects/one-more' }, eve)).resolves.toBeDefined();
  });

  it('asked for one folder at once by two organizations have it once', async () => {
    const people = [await newAccount(store(), 'Grace'), await newAccount(store(), 'Eve')];
    const outcomes = await Promise.allSettled(
      people.map((reach) => newWorkspace({ path: '/srv/contended' }, reach)),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  it('remember what is trusted until somebody says otherwise, which is recorded', async () => {
    const { id } = await newWorkspace();
    const change = (trusted: readonly { file: string; sha256: string; review: string }[] | undefined) =>
      store().workspaceTrust.change(ada, id, async (before) => ({
        change: {
          action: 'workspace_config.update',
          ...(trusted && { trusted }),
          before: {},
          after: { n: 1 },
        },
        result: before.map(({ file }) => file).sort(),
      }));
    const file = (name: string, letter = 'a') => ({ file: name, sha256: letter.repeat(64), review: name });
    expect(await change([file('a'), file('b')])).toEqual([]);
    const first = await store().workspaceTrust.of(id);
    engine.clock.advance(1000);
    expect(await change([file('a'), file('b', 'c')])).toEqual(['a', 'b']);
    expect(await change(undefined)).toEqual(['a', 'b']);
    const now = new Map((await store().workspaceTrust.of(id)).map((one) => [one.file, one]));
    expect(now.get('a')).toEqual(first.find((one) => one.file === 'a'));
    expect(now.get('b')).toMatchObject({ sha256: 'c'.repeat(64), trustedAt: engine.clock.now() });
    expect(await change([])).toEqual(['a', 'b']);
    expect(await store().workspaceTrust.of(id)).toEqual([]);
    const nothing = store().workspaceTrust.change(ada, id, async () => ({ change: null, result: 'same' }));
    expect(await nothing).toBe('same');
    expect((await auditOf(id)).filter((action) => action === 'workspace_config.update')).toHaveLength(4);
  });

  it('are trusted by the operator wherever they are, and by nobody else who does not belong there', async () => {
    const { id } = await newWorkspace();
    const operator = { ...(await newAccount(store(), 'Op')), operator: true };
    const look = async () => ({ change: null, result: 'seen' });
    expect(await store().workspaceTrust.change(operator, id, look)).toBe('seen');
    await expect(store().workspaceTrust.change(operator, newId('workspace'), look)).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(
      store().workspaceTrust.change({ ...operator, operator: false }, id, look),
    ).rejects.toMatchObject({
      code: 'not_found',
    });
  });
});
