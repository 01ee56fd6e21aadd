/** Many requests with keys at once on PostgreSQL: what one of them holds, the others must not wait for in a circle. */
import { describe, expect, inject, test } from 'vitest';
import { startServer, temporaryFolder } from './server-process.ts';
import { newDatabase, newMasterKey } from './test-database.ts';
import { startMailbox } from './test-mailbox.ts';

describe.skipIf(inject('postgresUrl') === null)('on PostgreSQL', () => {
  test('more people than there are connections are made and written to at once', async () => {
    const mailbox = await startMailbox();
    const folder = await temporaryFolder();
    const server = await startServer({
      folder,
      variables: {
        DATABASE_URL: await newDatabase(),
        SERVICE_MASTER_KEY_FILE: await newMasterKey(folder),
        SERVICE_SMTP_URL: mailbox.url,
        SERVICE_MAIL_FROM: 'service@example.com',
        SERVICE_PUBLIC_URL: 'https://service.example.com',
      },
    });
    const ask = (method: string, path: string, body?: object, key?: string) =>
      fetch(`${server.url}/api/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${server.key}`,
          'content-type': 'application/json',
          ...(key !== undefined && { 'idempotency-key': key }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
    const made = await ask('POST', '/organizations', { name: 'Staff' });
    const { id: organization_id } = (await made.json()) as { id: string }; // as the contract has it
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
});
