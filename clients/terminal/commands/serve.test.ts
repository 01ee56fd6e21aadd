/** `service serve` and `service invite` hand over to the server of this installation. */
import { createServiceClient } from '@service/client';
import { expect, test } from 'vitest';
import { testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';

test('serve listens until it is told to stop, and invite lets one person register there', async () => {
  const home = testHome();
  const variables = { SERVICE_DATA_DIR: `${home.home}/data`, SERVICE_REGISTRATION: 'invite' };
  const server = home.start(['serve', '--port', '0'], { variables });
  await server.until(() => /listening on http:\S+\n/.test(server.stdout()));
  const baseUrl = /http:\/\/127\.0\.0\.1:\d+/.exec(server.stdout())?.[0] ?? '';
  const invitation = await home.service(['invite'], { variables });
  expect(invitation).toMatchObject({ code: 0, stdout: expect.stringMatching(/^inv_[\w-]{43}\n$/) });
  const body = { email: 'ada@example.com', password: 'correct-horse-battery' };
  const client = createServiceClient({ baseUrl });
  await expect(client.POST('/api/v1/auth/register', { body })).rejects.toMatchObject({ status: 403 });
  await client.POST('/api/v1/auth/register', {
    body: { ...body, invitation_token: invitation.stdout.trim() },
  });
  server.child.kill('SIGTERM');
  expect((await server.ended).code).toBe(0);

  const verified = await home.service(['audit', 'verify'], { variables });
  expect(verified).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^The audit log holds: \d+ entries/),
  });
  const anchor = `99999:${'0'.repeat(64)}`;
  const cut = await home.service(['audit', 'verify', '--anchor', anchor], { variables });
  expect(cut).toMatchObject({ code: 1, stdout: expect.stringContaining('truncated') });
});

test('a port that is taken, and a wrong setting, are told with what to do', async () => {
  const { url } = await startTestServer();
  const home = testHome();
  const serve = (...args: string[]) => home.service(['serve', '--data-dir', `${home.home}/data`, ...args]);
  const taken = await serve('--port', new URL(url).port);
  expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining('Choose another with --port') });
  expect(await serve('--port', 'many')).toMatchObject({ code: 2, stderr: expect.stringContaining('--port') });
});

test.each(['serve', 'invite', 'audit verify'])(
  '%s --help lists the settings of the server',
  async (command) => {
    const ended = await testHome().service([...command.split(' '), '--help']);
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('SERVICE_DATA_DIR') });
  },
);
