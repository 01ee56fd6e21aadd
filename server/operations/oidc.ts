/** Logging in through OpenID Connect: browsers that go to a provider and come back. */
import type { Handler, Services } from '../handler.ts';

/** Longer than an attempt and the code after it. */
const cookieSeconds = 660;
const attemptSeconds = 600;
const defaultReturn = '/device';

export const startOidcLogin: Handler<'startOidcLogin'> = async ({ path, query }, services) => {
  const returnTo = query.return_to ?? defaultReturn;
  const { page, browser } = await services.identity.oidc.start(path.provider, returnTo, null);
  const headers = { ...onTheWay, Location: page, 'Set-Cookie': cookie(services, browser, cookieSeconds) };
  return { status: 302, headers };
};

export const completeOidcLogin: Handler<'completeOidcLogin'> = async (call, services) => {
  const { path, query, cookies, origin } = call;
  const browser = cookies[cookieName(services)];
  const Location = await services.identity.oidc.complete(path.provider, query, browser, origin);
  return { status: 302, headers: { ...onTheWay, Location } };
};

export const linkOidcLogin: Handler<'linkOidcLogin'> = async ({ principal, path, body }, services) => {
  const returnTo = body?.return_to ?? defaultReturn;
  const { page, browser } = await services.identity.oidc.start(path.provider, returnTo, principal);
  return {
    status: 200,
    headers: { 'Set-Cookie': cookie(services, browser, cookieSeconds) },
    body: { authorization_url: page, expires_in: attemptSeconds },
  };
};

export const getOidcLink: Handler<'getOidcLink'> = async ({ principal, path }, { identity }) => ({
  status: 200,
  body: { provider: path.provider, identities: await identity.oidc.linked(path.provider, principal) },
});

export const unlinkOidcLogin: Handler<'unlinkOidcLogin'> = async ({ principal, path }, { identity }) => {
  await identity.oidc.unlink(path.provider, principal);
  return { status: 204 };
};

export const redeemLoginCode: Handler<'redeemLoginCode'> = async ({ body, cookies, origin }, services) => {
  const browser = cookies[cookieName(services)];
  const pair = await services.identity.oidc.redeem(body.login_code, browser, origin);
  return { status: 200, headers: { 'Set-Cookie': cookie(services, '', 0) }, body: pair };
};

/** The address of such a page holds what no other site is to learn, and the answer is for one browser. */
const onTheWay = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' };

/** With the prefix no other host can have set it, a neighbour below the same domain neither. */
function cookieName({ baseUrl }: Services): 'service_oidc' | '__Host-service_oidc' {
  return baseUrl().startsWith('https:') ? '__Host-service_oidc' : 'service_oidc';
}

/** `Lax`: it comes along when the provider sends the browser back, and with no request that another site makes. */
function cookie(services: Services, value: string, seconds: number): string {
  const name = cookieName(services);
  const secure = name === 'service_oidc' ? '' : '; Secure';
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
}
