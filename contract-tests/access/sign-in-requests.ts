/** The requests of those who log in, and of what belongs to their own login: each credential in them is good once. */
import { codeNow } from '../one-time-code.ts';
import { Browser } from '../openid/start-openid.ts';
import { logIn, type Person, password, visitor } from './people.ts';
import type { RequestPlace, Special, SpecialRequest } from './special-request.ts';

export const signInRequests: Readonly<Record<string, Special>> = {
  refreshToken: async ({ world }) => {
    const body = { email: world.cast.ours.owner.email, password };
    const { data } = await visitor(world.server).POST('/api/v1/auth/login', { body });
    return { body: { refresh_token: data.refresh_token } };
  },
  /** The login that ends is one that nobody else uses. */
  logout: async ({ world, sender }) =>
    sender.person ? { token: (await logIn(world.server, sender.person.email)).token } : {},
  resetPassword: async ({ world }) => {
    const { operator, spare } = world.cast;
    const body = { email: spare.email };
    const { data } = await operator.client.POST('/api/v1/auth/password/links', { body });
    return { body: { token: data.token } };
  },
  /** To what it is: the others who log in as this person know it. */
  changePassword: () => ({ body: { new_password: password } }),
  confirmMfa,
  disableMfa,
  getDeviceLogin: async (place) => {
    if (!place.sender.person) return { query: { user_code: 'BCDF-GHJK' } };
    const { user_code, deny } = await newDevice(place);
    return { query: { user_code }, undo: deny };
  },
  replyDeviceLogin: async (place) =>
    place.sender.person ? { body: { user_code: (await newDevice(place)).user_code } } : {},
  startDeviceLogin: (place) => ({
    undo: ({ text }) => reply(place.world.cast.ours.owner, JSON.parse(text).user_code, 'deny'),
  }),
  pollDeviceLogin: async (place) => {
    const { device_code, user_code } = await newDevice(place);
    await reply(place.world.cast.ours.owner, user_code, 'allow');
    return { body: { device_code } };
  },
  /** The person has said no to the provider. */
  completeOidcLogin: async (place) => {
    const { state, cookie } = await goToProvider(place);
    return { query: { state, error: 'access_denied' }, headers: { cookie } };
  },
  redeemLoginCode: async (place) => {
    const { page, cookie } = await goToProvider(place);
    const back = await new Browser().follow(page, ({ origin }) => origin === place.world.server.url);
    const { headers } = await fetch(back, { headers: { cookie }, redirect: 'manual' });
    const fragment = new URLSearchParams(headers.get('location')?.split('#')[1]);
    return { body: { login_code: fragment.get('login_code') }, headers: { cookie } };
  },
};

async function confirmMfa({ sender: { person } }: RequestPlace): Promise<SpecialRequest> {
  if (!person) return {};
  const code = await enroll(person);
  return {
    body: { code },
    async undo({ text }) {
      const [recoveryCode = ''] = JSON.parse(text).recovery_codes;
      const params = { header: { 'x-service-otp': recoveryCode } };
      await person.client.DELETE('/api/v1/auth/mfa', { params });
    },
  };
}

async function disableMfa({ sender: { person } }: RequestPlace): Promise<SpecialRequest> {
  if (!person) return { headers: { 'x-service-otp': '123456' } };
  const body = { code: await enroll(person) };
  const { data } = await person.client.POST('/api/v1/auth/mfa/confirm', { body });
  return { headers: { 'x-service-otp': data.recovery_codes[0] ?? '' } };
}

/** The first code of a second factor. */
async function enroll({ client }: Person): Promise<string> {
  const { data } = await client.POST('/api/v1/auth/mfa/enroll', { body: { password } });
  return codeNow(data.secret);
}

/** A device that waits; only so many may, so that each is answered in the end. */
async function newDevice({ world, sender }: RequestPlace) {
  const { data } = await visitor(world.server).POST('/api/v1/auth/device/code', { body: {} });
  const person = sender.person ?? world.cast.ours.owner;
  return { ...data, deny: () => reply(person, data.user_code, 'deny') };
}

async function reply({ client }: Person, user_code: string, decision: 'allow' | 'deny'): Promise<void> {
  await client.POST('/api/v1/auth/device/reply', { body: { user_code, decision } });
}

/** The page of the provider, and the cookie by which the server knows this browser. */
async function goToProvider({ world: { server } }: RequestPlace) {
  const { headers } = await fetch(`${server.url}/api/v1/auth/oidc/corp/authorize`, { redirect: 'manual' });
  const page = headers.get('location') ?? '';
  const [cookie = ''] = (headers.get('set-cookie') ?? '').split(';');
  return { page, cookie, state: new URL(page).searchParams.get('state') ?? '' };
}
