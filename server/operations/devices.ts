/** Device logins (RFC 8628): programs ask, people confirm. */
import type { Handler } from '../handler.ts';
import { devicePage } from './pages/device-page.ts';
import { pageOnce, pageReply } from './pages/page.ts';

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

/** What it shows of an account its script asks for. */
export const getDevicePage: Handler<'getDevicePage'> = async ({ headers }, { settings }) =>
  pageReply(pageOf(settings.oidcProviders), headers['If-None-Match']);

const pageOf = pageOnce(devicePage);
