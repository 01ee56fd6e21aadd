/** People in each role, and strangers, all made over HTTP: for tests of who may do what. */
import type { Role } from './contract/api.ts';
import type { Account, Json, TestApp } from './test-app.ts';

/** Real accounts. All but the stranger work in the same default workspace. */
export interface People extends Readonly<Record<Role | 'stranger', Account>> {
  readonly organizationId: string;
  /** The default workspace of the organization, where requests go that name none. */
  readonly workspaceId: string;
}

/** Everybody there is, the highest role first: `test.each(everybody)`. */
export const everybody = ['owner', 'admin', 'member', 'viewer', 'stranger'] as const;

/**
 * Registers five people. The owner has registered by themselves; admin, member and viewer with invitations, so that they
 * belong nowhere else. `name` sets their addresses apart from those of another call: `acme-owner@example.com`.
 */
export async function makePeople(app: TestApp, name = 'acme'): Promise<People> {
  const owner = await app.register(`${name}-owner`);
  const { organizationId, workspaceId } = await homeOf(app, owner);
  const enter = (role: Role) => registerIn(app, { organizationId, owner }, `${name}-${role}`, role);
  return {
    organizationId,
    workspaceId,
    owner,
    admin: await enter('admin'),
    member: await enter('member'),
    viewer: await enter('viewer'),
    stranger: await app.register(`${name}-stranger`),
  };
}

type Organization = Pick<People, 'organizationId' | 'owner'>;

/** Another person, who registers with an invitation into the organization and belongs nowhere else. */
export async function registerIn(
  app: TestApp,
  organization: Organization,
  name: string,
  role: Role,
): Promise<Account> {
  return app.register(name, {
    invitation_token: await invite(app, organization, `${name}@example.com`, role),
  });
}

/** Brings somebody who has an account into the organization. */
export async function bringIn(
  app: TestApp,
  organization: Organization,
  account: Account,
  role: Role,
): Promise<void> {
  const token = await invite(app, organization, account.email, role);
  const sent = { token: account.token, body: { token } };
  const { status, body } = await app.request('POST', '/api/v1/invitations/accept', sent);
  if (status !== 200) throw new Error(`${account.email} could not join: ${JSON.stringify(body)}`);
}

/** The token of a new invitation by the owner. */
export async function invite(
  app: TestApp,
  { organizationId, owner }: Organization,
  email: string,
  role: Role,
): Promise<string> {
  const path = `/api/v1/organizations/${organizationId}/invitations`;
  const { status, body } = await app.request('POST', path, { token: owner.token, body: { email, role } });
  if (status !== 201) throw new Error(`${email} could not be invited: ${JSON.stringify(body)}`);
  return body.token;
}

/** The organization that somebody came into first, and its default workspace. */
export async function homeOf(
  app: TestApp,
  { token }: Pick<Account, 'token'>,
): Promise<Pick<People, 'organizationId' | 'workspaceId'>> {
  const { body } = await app.request('GET', '/api/v1/users/me', { token });
  const [{ organization_id: organizationId, default_workspace_id: workspaceId }] = body.memberships;
  return { organizationId, workspaceId };
}

/** Another login of somebody who has a password. */
export async function logIn(
  app: TestApp,
  { email, password }: Pick<Account, 'email' | 'password'>,
): Promise<Account> {
  const { status, body } = await app.request('POST', '/api/v1/auth/login', { body: { email, password } });
  if (status !== 200) throw new Error(`${email} could not log in: ${JSON.stringify(body)}`);
  return { user: body.user, email, password, token: body.access_token, refreshToken: body.refresh_token };
}

/** The operator with a password and a login, for what no key may do. Their key goes on. */
export async function logInOperator(app: TestApp): Promise<Account> {
  const token = app.operatorKey;
  const { email } = (await app.request('GET', '/api/v1/users/me', { token })).body;
  const link = await app.request('POST', '/api/v1/auth/password/links', { token, body: { email } });
  const password = 'the password of the operator';
  const body = { token: link.body.token, password };
  const { status } = await app.request('POST', '/api/v1/auth/password/reset', { body });
  if (status !== 204) throw new Error('the operator could not choose a password');
  return logIn(app, { email, password });
}

/** Who may come to a workspace of an organization, and who may not. Each has an organization of their own, too. */
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
  readonly workspaceId: string;
  /** A workspace that is given to all who belong there. */
  newWorkspace(
    more?: object,
  ): Promise<{ readonly workspace: Json; readonly path: string; readonly etag: string }>;
  /** Makes somebody else admin of a workspace. */
  admit(account: Account, workspaceId: string): Promise<void>;
}

let groups = 0;

export async function makeWorkspacePeople(app: TestApp): Promise<WorkspacePeople> {
  groups += 1;
  const register = (name: string) => app.register(`${name}-${groups}`);
  const [owner, stranger] = [await register('owner'), await register('stranger')];
  const home = await homeOf(app, owner);
  const organization = { ...home, owner };
  const join = async (name: string) => {
    const account = await register(name);
    await bringIn(app, organization, account, 'member');
    return account;
  };
  const others = {
    admin: await join('admin'),
    member: await join('member'),
    viewer: await join('viewer'),
    colleague: await join('colleague'),
  };
  const give = (path: string, { user }: Account, role: Role) =>
    app.request('PUT', `${path}/members/${user.id}`, { token: owner.token, body: { role } });
  return {
    ...others,
    ...home,
    owner,
    stranger,
    async newWorkspace(more = {}) {
      const body = { name: 'Website', ...more };
      const made = await app.request('POST', '/api/v1/workspaces', { token: owner.token, body });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      const path = `/api/v1/workspaces/${made.body.id}`;
      for (const role of ['admin', 'member', 'viewer'] as const) await give(path, others[role], role);
      return { workspace: made.body, path, etag: made.headers.get('etag') ?? '' };
    },
    async admit(account, workspaceId) {
      const { body: me } = await app.request('GET', '/api/v1/users/me', account);
      const isMember = me.memberships.some((one: Json) => one.organization_id === home.organizationId);
      if (!isMember) await bringIn(app, organization, account, 'member');
      await give(`/api/v1/workspaces/${workspaceId}`, account, 'admin');
    },
  };
}
