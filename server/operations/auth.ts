/** Registering, logging in and out. */
import type { Handler } from '../handler.ts';

export const registerUser: Handler<'registerUser'> = async ({ body, origin }, { identity }) => ({
  status: 201,
  headers: { Location: '/api/v1/users/me' },
  body: await identity.register(body, origin),
});

export const login: Handler<'login'> = async ({ body, origin }, { identity }) => ({
  status: 200,
  body: await identity.login(body, origin),
});

export const getAuthConfig: Handler<'getAuthConfig'> = async (_call, { settings, mail }) => ({
  status: 200,
  body: {
    registration: settings.registration,
    password: true,
    password_reset: mail ? 'mail' : 'operator',
    mfa: ['totp'],
    providers: settings.oidcProviders.map(({ name, label }) => ({ id: name, name: label })),
  },
});

export const refreshToken: Handler<'refreshToken'> = async ({ body, origin }, { identity }) => ({
  status: 200,
  body: await identity.refresh(body.refresh_token, origin),
});

export const logout: Handler<'logout'> = async ({ principal, body }, { identity }) => {
  await identity.logout(principal, body?.all_devices ?? false);
  return { status: 204 };
};
