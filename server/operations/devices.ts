/** Device logins (RFC 8628): programs ask, people confirm. */
import { createHash } from 'node:crypto';
import { type Handler, isCurrent, type Services } from '../handler.ts';
import { devicePage, devicePagePolicy } from './device-page.ts';

export const startDeviceLogin: Handler<'startDeviceLogin'> = async ({ body, origin }, { identity }) => ({
  status: 200,
  body: await identity.devices.start(body?.client_name, origin),
});

export const pollDeviceLogin: Handler<'pollDeviceLogin'> = async ({ body, origin }, { identity }) => ({
  status: 200,
  body: await identity.devices.poll(body.device_code, origin),
});

export const getDeviceLogin: Handler<'getDeviceLogin'> = async ({ principal, query }, { identity }) => ({
  status: 200,
  body: await identity.devices.find(principal, query.user_code),
});

export const replyDeviceLogin: Handler<'replyDeviceLogin'> = async ({ principal, body }, { identity }) => {
  await identity.devices.reply(principal, body.user_code, body.decision);
  return { status: 204 };
};

/** The same for everybody: what it shows of an account its script asks for. */
export const getDevicePage: Handler<'getDevicePage'> = async ({ headers }, { settings }) => {
  const { html, etag } = pageOf(settings);
  if (isCurrent(headers['If-None-Match'], etag)) return { status: 304, headers: { ETag: etag } };
  const guards = { 'Content-Security-Policy': devicePagePolicy, 'Referrer-Policy': 'no-referrer' };
  return { status: 200, type: 'text/html', headers: { ETag: etag, ...guards }, body: html };
};

const pages = new WeakMap<object, { readonly html: string; readonly etag: string }>();

/** Made at the first request: the settings do not change while the server runs. */
function pageOf(settings: Services['settings']): { readonly html: string; readonly etag: string } {
  const made = pages.get(settings);
  if (made) return made;
  const html = devicePage(settings.oidcProviders);
  const hash = createHash('sha256').update(html).digest('base64url');
  const page = { html, etag: `"${hash.slice(0, 27)}"` };
  pages.set(settings, page);
  return page;
}
