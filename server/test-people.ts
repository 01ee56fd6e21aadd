/** An organization with somebody in each role, and a stranger, all made over HTTP: for tests of who may do what. */
import type { Role } from './contract/api.ts';
import type { Account, TestApp } from './test-app.ts';

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
  const { body: me } = await app.request('GET', '/api/v1/users/me', { token: owner.token });
  const [{ organization_id: organizationId, default_workspace_id: workspaceId }] = me.memberships;
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
