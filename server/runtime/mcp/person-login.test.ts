/** Logins of people through a browser that is elsewhere, with a real authorization server on loopback that takes its time. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createOutbound } from '../../outbound/outbound.ts';
import { createLoginFlows } from './person-login.ts';
import { type OauthServer, startOauthServer } from './test-oauth-server.ts';

const redirectUrl = 'http://127.0.0.1:9/callback';
const outbound = createOutbound({ shared: () => false });
const ample = { requestMs: 20_000, wholeMs: 30_000 };
/** For what is to succeed, on a busy machine too. */
const patient = createLoginFlows(outbound, ample);

const begin = (flows: typeof patient, { url }: OauthServer) =>
  flows.begin(new URL(url), {}, { redirectUrl, state: 's' });

/** What the person comes back with. */
async function visit(authorizeUrl: string): Promise<string> {
  const { headers } = await fetch(authorizeUrl, { redirect: 'manual' });
  return new URL(headers.get('location') ?? '').searchParams.get('code') ?? '';
}

/** Each answer is late, and none of them by itself too late. */
function slowDown(server: OauthServer, ms: number): void {
  server.pauses.before = () => delay(ms);
}

test('the requests of a beginning, and of an end, have a time together', async () => {
  const server = await startOauthServer();
  slowDown(server, 1500);
  const hasty = createLoginFlows(outbound, { ...ample, wholeMs: 3000 });
  await expect(begin(hasty, server)).rejects.toThrow('the login failed');
  slowDown(server, 0);
  const { authorizeUrl, attempt } = await begin(patient, server);
  const code = await visit(authorizeUrl);
  expect(JSON.parse(await patient.finish(new URL(server.url), attempt, { code }))).toHaveProperty('tokens');
});

test.each([
  ['two megabytes', 'x'.repeat(2 * 1024 ** 2)],
  [
    'half a million objects, which take a hundred times their bytes',
    Array.from({ length: 500_000 / 2 }, () => ({})),
  ],
])(
  'an authorization server that says more of itself than can be held is not heard out: %s',
  async (_what, more) => {
    const server = await startOauthServer();
    server.claims.authorization = { more };
    await expect(begin(patient, server)).rejects.toThrow('the login failed');
  },
);

test('tokens are taken back within the time of one request, or counted as not taken back', async () => {
  const server = await startOauthServer();
  const { authorizeUrl, attempt } = await begin(patient, server);
  const answer = { code: await visit(authorizeUrl) };
  const login = await patient.finish(new URL(server.url), attempt, answer);
  slowDown(server, 1500);
  const hasty = createLoginFlows(outbound, { ...ample, requestMs: 2000 });
  expect(await hasty.takeBack(login)).toBe(false);
});
