/** A server that dies while a letter is on its way: the same request gets an answer all the same. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { startCrashing } from './crash-checks.ts';
import { temporaryFolder } from './server-process.ts';
import type { Json } from './test-app.ts';
import { canShiftClocks, shiftedClocks } from './test-clock.ts';

/** A mail server that greets nobody, and tells when somebody has come. */
async function silentMailServer() {
  const reached = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    reached.resolve();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { reached: reached.promise, url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function ask(url: string, key: string, path: string, body?: object) {
  const answer = await fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': 'one' },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: answer.status, body: (await answer.json()) as Json };
}

test.skipIf(!canShiftClocks)(
  'an invitation whose letter a kill has stopped is answered with its link, once no process can be at it',
  async () => {
    const folder = await temporaryFolder();
    const clock = await (await shiftedClocks(folder))('server');
    const mail = await silentMailServer();
    const variables = {
      ...clock.variables,
      SERVICE_SMTP_URL: mail.url,
      SERVICE_MAIL_FROM: 's@example.com',
      SERVICE_PUBLIC_URL: 'https://s.example.com',
    };
    const first = await startCrashing(folder, variables);
    const { key } = first;
    const me = await ask(first.url, key, '/api/v1/users/me');
    const path = `/api/v1/organizations/${me.body.memberships[0].organization_id}/invitations`;
    const body = { email: 'new@example.com', role: 'member' };
    const cut = ask(first.url, key, path, body).catch(() => null);
    await mail.reached;
    await first.kill9();
    expect(await cut).toBeNull();
    const second = await startCrashing(folder, variables);
    expect(await ask(second.url, key, path, body)).toMatchObject({
      ...{ status: 409, body: { code: 'idempotency_key_in_use' } },
    });
    await clock.shift(1);
    const again = await ask(second.url, key, path, body);
    expect(again).toMatchObject({ status: 201, body: { sent: false, invitation: { email: body.email } } });
    const [, token = ''] = /#token=(inv_[\w-]+)&/.exec(again.body.link) ?? [];
    expect(token).toBe(again.body.token);
    const { email } = body;
    const registered = { email, password: 'correct-horse-battery', name: 'New', invitation_token: token };
    expect((await ask(second.url, key, '/api/v1/auth/register', registered)).status).toBe(201);
  },
);
