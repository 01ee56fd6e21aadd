/** Where the caller's account is logged in. */
import type { Handler } from '../handler.ts';

export const listLogins: Handler<'listLogins'> = async ({ principal, query }, { store }) => ({
  status: 200,
  body: await store.logins.list(principal, principal.credentialId, query),
});

export const revokeLogin: Handler<'revokeLogin'> = async ({ principal, path }, { store }) => {
  await store.logins.revoke(principal, path.login_id);
  return { status: 204 };
};
