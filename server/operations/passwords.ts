/** Passwords that are forgotten or changed, and the second factor. */
import type { Handler } from '../handler.ts';
import { pageReply } from './pages/page.ts';
import { resetPage } from './pages/reset-page.ts';

export const requestPasswordReset: Handler<'requestPasswordReset'> = async (
  { body, origin },
  { identity },
) => ({
  status: 202,
  body: await identity.requestPasswordReset(body.email, origin),
});

export const resetPassword: Handler<'resetPassword'> = async ({ body, origin }, { identity }) => {
  await identity.resetPassword(body, origin);
  return { status: 204 };
};

export const createPasswordResetLink: Handler<'createPasswordResetLink'> = async (
  { principal, body },
  { identity },
) => ({
  status: 201,
  body: await identity.createPasswordResetLink(principal, body.email),
});

export const changePassword: Handler<'changePassword'> = async ({ principal, body }, { identity }) => {
  await identity.changePassword(principal, body);
  return { status: 204 };
};

export const getPasswordResetPage: Handler<'getPasswordResetPage'> = async ({ headers }) =>
  pageReply(resetPage, headers['If-None-Match']);

export const getMfa: Handler<'getMfa'> = async ({ principal }, { identity }) => ({
  status: 200,
  body: await identity.mfa(principal),
});

export const enrollMfa: Handler<'enrollMfa'> = async ({ principal, body }, { identity }) => ({
  status: 201,
  headers: { Location: '/api/v1/auth/mfa' },
  body: await identity.enrollMfa(principal, body.password),
});

export const confirmMfa: Handler<'confirmMfa'> = async ({ principal, body }, { identity }) => ({
  status: 200,
  body: await identity.confirmMfa(principal, body.code),
});

export const disableMfa: Handler<'disableMfa'> = async ({ principal, headers }, { identity }) => {
  await identity.disableMfa(principal, headers['x-service-otp']);
  return { status: 204 };
};
