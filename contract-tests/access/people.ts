/** The people of the matrix: two organizations, those who belong to neither, and the operator. */
import { createServiceClient, type ServiceClient } from '@service/client';
import type { Role } from '@service/client/api';
import type { Server } from '../start-server.ts';

/** Somebody who is logged in. */
export interface Person {
  readonly id: string;
  readonly email: string;
  readonly token: string;
  readonly client: ServiceClient;
}

/** An organization with a workspace that is not its default one. */
export interface Organization {
  readonly owner: Person;
  readonly id: string;
  readonly workspaceId: string;
  /** Of the installation that it is in, whose things are the operator's alone. */
  readonly operator: ServiceClient;
  /** The ids of what was made in it: nobody from elsewhere may ever be shown one. */
  readonly secrets: Set<string>;
}

/** That of the contract's examples: what they say of their account is then true of everybody. */
export const password = 'correct-horse-battery';

export function visitor({ url }: Server): ServiceClient {
  return createServiceClient({ baseUrl: url });
}

/** With `invitation_token` they join the organization of who invited them; without one they get their own. */
export async function register(server: Server, email: string, invitation_token?: string): Promise<Person> {
  const body = { email, password, ...(invitation_token !== undefined && { invitation_token }) };
  const { data } = await visitor(server).POST('/api/v1/auth/register', { body });
  return personOf(server, email, data);
}

export async function logIn(server: Server, email: string): Promise<Person> {
  const { data } = await visitor(server).POST('/api/v1/auth/login', { body: { email, password } });
  return personOf(server, email, data);
}

function personOf(
  { url }: Server,
  email: string,
  { access_token: token, user }: { readonly access_token: string; readonly user: { readonly id: string } },
): Person {
  return { id: user.id, email, token, client: createServiceClient({ baseUrl: url, token }) };
}

/** The organization that a newcomer has by registering, and a workspace in it. */
export async function found(server: Server, email: string): Promise<Organization> {
  const owner = await register(server, email);
  const { data: me } = await owner.client.GET('/api/v1/users/me');
  const id = me.memberships[0]?.organization_id ?? '';
  const workspaceId = await newWorkspace({ owner, id });
  const operator = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  return { owner, id, workspaceId, operator, secrets: new Set([owner.id, id, workspaceId]) };
}

export async function newWorkspace({ owner, id }: Pick<Organization, 'owner' | 'id'>): Promise<string> {
  const body = { name: 'Website', organization_id: id };
  return (await owner.client.POST('/api/v1/workspaces', { body })).data.id;
}

/** Makes somebody a member of the organization alone, in the same role of one of its workspaces where one is named. */
export async function join(
  server: Server,
  organization: Organization,
  role: Exclude<Role, 'owner'>,
  { email, workspaceId }: { readonly email: string; readonly workspaceId?: string },
): Promise<Person> {
  const { owner, id: org_id, secrets } = organization;
  const { data } = await owner.client.POST('/api/v1/organizations/{org_id}/invitations', {
    params: { path: { org_id } },
    body: { email, role },
  });
  const person = await register(server, email, data.token ?? '');
  secrets.add(person.id);
  if (workspaceId !== undefined)
    await owner.client.PUT('/api/v1/workspaces/{workspace_id}/members/{principal_id}', {
      params: { path: { workspace_id: workspaceId, principal_id: person.id } },
      body: { role },
    });
  return person;
}

/** The operator has a key from the first start; a link for a new password makes it a person who can log in. */
export async function logInAsOperator(server: Server): Promise<Person> {
  const withKey = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  const { email } = (await withKey.GET('/api/v1/users/me')).data;
  const { data: link } = await withKey.POST('/api/v1/auth/password/links', { body: { email } });
  await visitor(server).POST('/api/v1/auth/password/reset', { body: { token: link.token, password } });
  return logIn(server, email);
}
