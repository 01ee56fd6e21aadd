/** Journeys of workspaces: made, changed, given to people, their settings changed by who has read them, and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/workspaces/{workspace_id}';

export function workspaceJourneys(target: () => Target): void {
  test('a workspace is made, listed, read, changed and deleted; the default one stays', async () => {
    const { client, liveOnly } = target();
    const made = await client.POST('/api/v1/workspaces', { body: { name: 'Website' } });
    expect(made.response.status).toBe(201);
    expectShape('Workspace', made.data);
    const path = { workspace_id: example.workspace };
    await liveOnly(() => {
      path.workspace_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/workspaces/${path.workspace_id}`);
    });
    const nowhere = { body: { name: 'x', path: '/etc' }, ...preferring(403) };
    const refused = await refusal(client.POST('/api/v1/workspaces', nowhere));
    expect(refused).toMatchObject({ status: 403, code: 'path_refused' });

    const { data: page } = await client.GET('/api/v1/workspaces', { params: { query: { limit: 100 } } });
    expectShape('WorkspacePage', page);
    await liveOnly(() => expect(page.data.map(({ name }) => name)).toEqual(['Website', 'Default']));

    const read = await client.GET(url, { params: { path } });
    expectShape('Workspace', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { default_model: 'demo:demo-1' } };
    const changed = await client.PATCH(url, change);
    expectShape('Workspace', changed.data);
    expect(changed.data.default_model).toBe('demo:demo-1');
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });

    const standard = page.data.at(-1)?.id ?? '';
    const kept = { params: { path: { workspace_id: standard } }, ...preferring(409) };
    expect(await refusal(client.DELETE(url, kept))).toMatchObject({ code: 'workspace_is_default' });
    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
  });

  test('a role is given, listed, and taken back', async () => {
    const { client, liveOnly } = target();
    const path = { workspace_id: example.workspace, principal_id: example.member };
    await liveOnly(async () => {
      path.workspace_id = (await client.POST('/api/v1/workspaces', { body: { name: 'Shared' } })).data.id;
      path.principal_id = (await client.GET('/api/v1/users/me')).data.id;
    });
    const one = `${url}/members/{principal_id}` as const;
    const { data: member } = await client.PUT(one, { params: { path }, body: { role: 'member' } });
    expectShape('WorkspaceMember', member);
    expect(member.role).toBe('member');
    const { data: page } = await client.GET(`${url}/members`, { params: { path } });
    expectShape('WorkspaceMemberPage', page);
    expect(page.data.map(({ principal_id }) => principal_id)).toContain(path.principal_id);
    expect((await client.DELETE(one, { params: { path } })).response.status).toBe(204);
  });

  test('settings are read with their origins, changed by who has read them, and trusted by the operator alone', async () => {
    const { client, liveOnly } = target();
    const path = { workspace_id: example.workspace };
    await liveOnly(async () => {
      path.workspace_id = (await client.POST('/api/v1/workspaces', { body: { name: 'Settled' } })).data.id;
    });
    const config = `${url}/config` as const;
    const read = await client.GET(config, { params: { path } });
    expectShape('WorkspaceConfig', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const body = { models: { large: { provider: 'demo', model: 'demo-1' } } };
    const changed = await client.PATCH(config, { params: { path, header }, body });
    expectShape('WorkspaceConfig', changed.data);
    const setting = changed.data.settings.find(({ key }) => key === 'models.large.model');
    expect(setting).toMatchObject({ value: 'demo-1', origin: { path: '.service/service.json' } });
    const blind = await refusal(client.PATCH(config, { params: { path }, body, ...preferring(428) }));
    expect(blind).toMatchObject({ status: 428, code: 'precondition_required' });
    const guard = { hooks: { pre_tool_use: [{ command: 'true' }] } };
    const restricted = { params: { path, header: { 'If-Match': '*' } }, body: guard, ...preferring(403) };
    expect(await refusal(client.PATCH(config, restricted))).toMatchObject({ code: 'restricted_section' });

    const { data: trust } = await client.GET(`${url}/trust`, { params: { path } });
    expectShape('WorkspaceTrust', trust);
    const files = trust.files.map(({ path: file, sha256 }) => ({ path: file, sha256: sha256 ?? '' }));
    const asked = { params: { path }, body: { files }, ...preferring(403) };
    const refused = await refusal(client.POST(`${url}/trust`, asked));
    expect(refused.status).toBe(403);
    expect((await client.DELETE(`${url}/trust`, { params: { path } })).response.status).toBe(204);
  });
}
