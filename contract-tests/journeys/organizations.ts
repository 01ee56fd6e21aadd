/** Journeys of organizations: made, changed, filled with people by invitation, divided into groups, and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

const organization = '/api/v1/organizations/{org_id}';
const group = '/api/v1/groups/{group_id}';

/** An account of its own: what others do with theirs has one organization in view. */
async function founder({ visitor, clientWith }: Target): Promise<Target['client']> {
  const { data } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
  return clientWith(data.access_token);
}

export function organizationJourneys(target: () => Target): void {
  test('an organization is made, listed, read, changed by who has read it, and deleted', async () => {
    const { liveOnly } = target();
    const client = await founder(target());
    const made = await client.POST('/api/v1/organizations', { body: { name: 'Difference Engines' } });
    expect(made.response.status).toBe(201);
    expectShape('Organization', made.data);
    const path = { org_id: example.organization };
    await liveOnly(() => {
      path.org_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/organizations/${path.org_id}`);
    });
    const { data: page } = await client.GET('/api/v1/organizations');
    expectShape('OrganizationPage', page);
    const read = await client.GET(organization, { params: { path } });
    expectShape('Organization', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { settings: { invitation_days: 7 } } };
    const changed = await client.PATCH(organization, change);
    expectShape('Organization', changed.data);
    const stale = await refusal(client.PATCH(organization, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const unread = await refusal(client.DELETE(organization, { params: { path }, ...preferring(428) }));
    expect(unread).toMatchObject({ status: 428, code: 'precondition_required' });
    const newest = { 'If-Match': changed.response.headers.get('ETag') ?? '' };
    const gone = await client.DELETE(organization, { params: { path, header: newest } });
    expect(gone.response.status).toBe(204);
  });

  test('a person is invited, accepts, gets another role, and leaves; another invitation is revoked', async () => {
    const { visitor, clientWith, liveOnly } = target();
    const client = await founder(target());
    const { data: made } = await client.POST('/api/v1/organizations', { body: { name: 'Team' } });
    const path = { org_id: made.id };
    const account = newAccount();
    const { data: guest } = await visitor.POST('/api/v1/auth/register', { body: account });
    const invitations = `${organization}/invitations` as const;
    const invite = (email: string) =>
      client.POST(invitations, { params: { path }, body: { email, role: 'viewer' } });
    const invited = await invite(account.email);
    expect(invited.response.status).toBe(201);
    expectShape('InvitationCreated', invited.data);
    const { data: list } = await client.GET(invitations, { params: { path } });
    expectShape('InvitationPage', list);

    const { data: page } = await visitor.GET('/invitation', { parseAs: 'text' });
    expect(page).toMatch(/^<!doctype html>/);
    const body = { token: invited.data.token ?? '' };
    const { data: membership } = await clientWith(guest.access_token).POST('/api/v1/invitations/accept', {
      body,
    });
    expectShape('Membership', membership);
    const again = clientWith(guest.access_token).POST('/api/v1/invitations/accept', {
      body,
      ...preferring(410),
    });
    expect(await refusal(again)).toMatchObject({ status: 410, code: 'invitation_gone' });

    const revoked = await invite('revoked@example.com');
    const ids = { ...path, invitation_id: revoked.data.invitation.id };
    const revocation = await client.DELETE(`${invitations}/{invitation_id}`, { params: { path: ids } });
    expect(revocation.response.status).toBe(204);

    const { data: members } = await client.GET(`${organization}/members`, { params: { path } });
    expectShape('OrganizationMemberPage', members);
    const member = { ...path, user_id: example.colleague };
    await liveOnly(() => {
      expect(members.data.map(({ role }) => role)).toEqual(['owner', 'viewer']);
      member.user_id = guest.user.id;
    });
    const url = `${organization}/members/{user_id}` as const;
    const { data: admin } = await client.PUT(url, { params: { path: member }, body: { role: 'admin' } });
    expectShape('OrganizationMember', admin);
    expect(admin.role).toBe('admin');
    const { data: me } = await client.GET('/api/v1/users/me');
    const own = { ...path, user_id: me.id };
    const last = await refusal(client.DELETE(url, { params: { path: own }, ...preferring(409) }));
    expect(last).toMatchObject({ status: 409, code: 'last_owner' });
    const left = await clientWith(guest.access_token).DELETE(url, { params: { path: member } });
    expect(left.response.status).toBe(204);
  });

  test('a group is made, listed, read, changed, filled, emptied, and deleted', async () => {
    const { client, liveOnly } = target();
    const { data: me } = await client.GET('/api/v1/users/me');
    const organization_id = me.memberships[0]?.organization_id ?? '';
    const made = await client.POST('/api/v1/groups', { body: { organization_id, name: 'Designers' } });
    expect(made.response.status).toBe(201);
    expectShape('Group', made.data);
    const path = { group_id: example.group };
    await liveOnly(() => {
      path.group_id = made.data.id;
    });
    const same = client.POST('/api/v1/groups', {
      body: { organization_id, name: 'Designers' },
      ...preferring(409),
    });
    expect(await refusal(same)).toMatchObject({ status: 409, code: 'name_taken' });
    expectShape('GroupPage', (await client.GET('/api/v1/groups')).data);
    expectShape('Group', (await client.GET(group, { params: { path } })).data);
    const changed = await client.PATCH(group, { params: { path }, body: { name: 'Engineers' } });
    expectShape('Group', changed.data);
    const member = { params: { path: { ...path, user_id: me.id } } };
    expect((await client.PUT(`${group}/members/{user_id}`, member)).response.status).toBe(204);
    const { data: people } = await client.GET(`${group}/members`, { params: { path } });
    expectShape('GroupMemberPage', people);
    await liveOnly(() => expect(people.data.map(({ user_id }) => user_id)).toEqual([me.id]));
    expect((await client.DELETE(`${group}/members/{user_id}`, member)).response.status).toBe(204);
    expect((await client.DELETE(group, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(group, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });
}
