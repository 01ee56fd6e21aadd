/** Invitations to organizations. */
import type { InvitationCreated } from '../contract/api.ts';
import type { Handler } from '../handler.ts';
import { invitationPage } from './pages/invitation-page.ts';
import { pageOnce, pageReply } from './pages/page.ts';

export const listInvitations: Handler<'listInvitations'> = async ({ principal, path, query }, { store }) => ({
  status: 200,
  body: await store.invitations.list(principal, path.org_id, query),
});

export const createInvitation: Handler<'createInvitation'> = async (call, { identity }) => {
  const { principal, path, body, keepMeanwhile } = call;
  const replyOf = (created: InvitationCreated) => {
    const Location = `/api/v1/organizations/${path.org_id}/invitations/${created.invitation.id}`;
    return { status: 201, headers: { Location }, body: created } as const;
  };
  const keep = (created: InvitationCreated, hiddenMs: number) => keepMeanwhile(replyOf(created), hiddenMs);
  return replyOf(await identity.invite(principal, path.org_id, body, keep));
};

export const revokeInvitation: Handler<'revokeInvitation'> = async ({ principal, path }, { store }) => {
  await store.invitations.revoke(principal, path.org_id, path.invitation_id);
  return { status: 204 };
};

export const acceptInvitation: Handler<'acceptInvitation'> = async ({ principal, body }, { identity }) => ({
  status: 200,
  body: await identity.acceptInvitation(principal, body),
});

export const getInvitationPage: Handler<'getInvitationPage'> = async ({ headers }, { settings }) =>
  pageReply(pageOf(settings.oidcProviders), headers['If-None-Match']);

const pageOf = pageOnce(invitationPage);
