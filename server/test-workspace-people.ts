/** People in each role around one workspace, for tests over HTTP. */
import { join } from 'node:path';
import knex from 'knex';
import type { Account, Json, TestApp } from './test-app.ts';

/** Who may come to a workspace of Ada's organization, and who may not. */
export interface WorkspacePeople {
  /** Owner of the organization. */
  readonly owner: Account;
  /** Admin of the workspace, and a member of the organization. */
  readonly admin: Account;
  readonly member: Account;
  readonly viewer: Account;
  /** Of the organization, but not of the workspace. */
  readonly colleague: Account;
  /** Owner of another organization. */
  readonly stranger: Account;
  readonly organizationId: string;
  /** The default workspace of the organization. */
  readonly defaultWorkspaceId: string;
  /** Makes whoever has this credential an admin of the workspace, and a member of its organization. */
  admit(token: string, workspaceId: string): Promise<void>;
  newWorkspace(
    more?: object,
  ): Promise<{ readonly workspace: Json; readonly path: string; readonly etag: string }>;
}

let groups = 0;

/** Registers them; each workspace that is made is given to all who belong there. */
export async function workspacePeople(app: TestApp): Promise<WorkspacePeople> {
  groups += 1;
  const register = (name: string) => app.register(`${name}-${groups}`);
  const [owner, stranger] = [await register('owner'), await register('stranger')];
  const others = {
    admin: await register('admin'),
    member: await register('member'),
    viewer: await register('viewer'),
    colleague: await register('colleague'),
  };
  const me = await app.request('GET', '/api/v1/users/me', { token: owner.token });
  const { organization_id, default_workspace_id } = me.body.memberships[0];
  await joinOrganization(
    app,
    organization_id,
    Object.values(others).map(({ user }) => user.id),
  );
  return {
    ...others,
    owner,
    stranger,
    organizationId: organization_id,
    defaultWorkspaceId: default_workspace_id,
    async admit(token, workspaceId) {
      const { body } = await app.request('GET', '/api/v1/users/me', { token });
      const isMember = body.memberships.some((one: Json) => one.organization_id === organization_id);
      if (!isMember) await joinOrganization(app, organization_id, [body.id]);
      const member = `/api/v1/workspaces/${workspaceId}/members/${body.id}`;
      await app.request('PUT', member, { token: owner.token, body: { role: 'admin' } });
    },
    async newWorkspace(more = {}) {
      const body = { name: 'Website', ...more };
      const made = await app.request('POST', '/api/v1/workspaces', { token: owner.token, body });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      const path = `/api/v1/workspaces/${made.body.id}`;
      for (const role of ['admin', 'member', 'viewer'] as const)
        await app.request('PUT', `${path}/members/${others[role].user.id}`, {
          token: owner.token,
          body: { role },
        });
      return { workspace: made.body, path, etag: made.headers.get('etag') ?? '' };
    },
  };
}

async function joinOrganization(
  app: TestApp,
  organization_id: string,
  userIds: readonly string[],
): Promise<void> {
  const filename = join(app.services.settings.dataDirectory, 'service.db');
  const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
  const row = { organization_id, role: 'member', created_at: Date.now() };
  // After their own organization, which is the one that they act in unless they name another.
  await sql('memberships').insert(userIds.map((user_id) => ({ ...row, user_id })));
  await sql.destroy();
}
