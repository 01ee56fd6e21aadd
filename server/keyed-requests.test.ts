/** Many requests with keys at once on PostgreSQL: what one of them holds, the others must not wait for in a circle. */
import { describe, expect, inject, test } from 'vitest';
import { startServer, temporaryFolder } from './server-process.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { startMailbox } from './test-mailbox.ts';

describe.skipIf(inject('postgresUrl') === null)('on PostgreSQL', () => {
  test('more people than there are connections are made and written to at once', async () => {
    const mailbox = await startMailbox();
    const { server, ask } = await start({
      SERVICE_SMTP_URL: mailbox.url,
      SERVICE_MAIL_FROM: 'service@example.com',
      SERVICE_PUBLIC_URL: 'https://service.example.com',
    });
    const { id: organization_id } = await ask('POST', '/organizations', { name: 'Staff' });
    const people = Array.from({ length: 24 }, (_, index) => `person-${index}@example.com`);
    const answers = await Promise.all(
      people.map(async (email) => {
        const body = { email, name: 'P', organization_id, send_invite: true };
        return (await ask('POST', '/users', body, email)).status;
      }),
    );
    expect(answers).toEqual(people.map(() => 201));
    await Promise.all(people.map((email) => mailbox.next(email)));
    await server.stop();
    await mailbox.close();
  });

  test('queries that make their session, and others in sessions that are there, are counted at once', async () => {
    const { server, ask } = await start();
    const { id } = await ask('GET', '/users/me');
    const limits = { requests: { day: { hard: 1000 } } };
    expect((await ask('PUT', `/quotas/user/${id}`, { limits })).status).toBe(200);
    const query = { prompt: 'Hello', model: 'demo:demo-1' };
    const sessions = await Promise.all(Array.from({ length: 24 }, () => ask('POST', '/sessions', {})));
    const answers = await Promise.all(
      sessions.flatMap((session, index) => [
        ask('POST', '/query', query, `query-${index}`),
        ask('POST', '/query', { ...query, session_id: session.id }),
      ]),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    await server.stop();
  });
});

async function start(variables: Record<string, string> = {}) {
  const folder = await temporaryFolder();
  const places = {
    DATABASE_URL: await newDatabase(),
    SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
  };
  const server = await startServer({ folder, variables: { ...places, ...variables } });
  const ask = async (method: string, path: string, body?: object, key?: string) => {
    const response = await fetch(`${server.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${server.key}`,
        ...(body && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const { id = '' } = (await response.json()) as { id?: string }; // as the contract has it
    return { status: response.status, id };
  };
  return { server, ask };
}
