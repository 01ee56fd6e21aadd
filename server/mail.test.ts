/** Mail goes to a real SMTP server, to one address, and nothing that stands in it becomes a header. */
import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import type { SMTPServerAuthentication } from 'smtp-server';
import { expect, onTestFinished, test } from 'vitest';
import { createMail, type MailOptions } from './mail.ts';
import { startMailbox } from './test-mailbox.ts';

const from = 'Service <service@example.com>';

async function open(options: Partial<MailOptions> = {}, server: Parameters<typeof startMailbox>[0] = {}) {
  const mailbox = await startMailbox(server);
  const mail = createMail({ smtpUrl: mailbox.url, from, pausesMs: [], ...options });
  onTestFinished(async () => {
    mail.close();
    await mailbox.close();
  });
  return { mailbox, mail };
}

const letter = {
  to: 'ada@example.com',
  subject: 'A new password',
  text: 'Zürich: https://x.example/#token=1\n',
};

test('a mail arrives with its sender, its one recipient and its text', async () => {
  const { mailbox, mail } = await open();
  await mail.send(letter);
  const [arrived] = mailbox.mails;
  expect(arrived).toMatchObject({ from: 'service@example.com', to: ['ada@example.com'] });
  expect(arrived?.source).toMatch(/^From: Service <service@example.com>\r$/m);
  expect(arrived?.source).toMatch(/^Subject: A new password\r$/m);
  expect(arrived?.text).toContain('https://x.example/#token=1');
});

test.each([
  ['a line break in the address', { to: 'ada@example.com\r\nBcc: eve@example.com' }],
  ['a line break in the subject', { subject: 'Hello\nBcc: eve@example.com' }],
  ['two addresses', { to: 'ada@example.com,eve@example.com' }],
  ['a name before the address', { to: 'Eve <eve@example.com>' }],
  ['an address that is none', { to: 'ada' }],
])('%s is refused before anything is sent', async (_, change) => {
  const { mailbox, mail } = await open();
  await expect(mail.send({ ...letter, ...change })).rejects.toThrow(/header|address/);
  expect(mailbox.mails).toEqual([]);
});

test('what looks like a header in the text stays text', async () => {
  const { mailbox, mail } = await open();
  await mail.send({ ...letter, text: 'Hello\r\n.\r\nRCPT TO:<eve@example.com>\r\nBcc: eve@example.com\n' });
  expect(mailbox.mails).toHaveLength(1);
  expect(mailbox.mails[0]?.to).toEqual(['ada@example.com']);
  expect(mailbox.mails[0]?.source.split('\r\n\r\n')[0]).not.toContain('eve@example.com');
});

test('a server that is busy is asked again; one that refuses for good is not', async () => {
  let asked = 0;
  const answering = (codes: readonly number[]) => ({
    onMailFrom: (_address: unknown, _session: unknown, done: (error?: Error | null) => void) => {
      const responseCode = codes[asked];
      asked += 1;
      done(responseCode === undefined ? null : Object.assign(new Error('no'), { responseCode }));
    },
  });
  const busy = await open({ pausesMs: [1, 1] }, answering([451, 451]));
  await busy.mail.send(letter);
  expect([asked, busy.mailbox.mails.length]).toEqual([3, 1]);
  asked = 0;
  const refusing = await open({ pausesMs: [1, 1] }, answering([550, 550]));
  await expect(refusing.mail.send(letter)).rejects.toThrow();
  expect([asked, refusing.mailbox.mails.length]).toEqual([1, 0]);
});

test('of a link that a server quotes where it refuses the mail, the token is told nobody', async () => {
  const token = randomBytes(32).toString('base64url');
  const quoted = { message: 'nothing' };
  const { mail } = await open(
    {},
    {
      onData(stream, _session, done) {
        stream.resume().on('end', () => {
          const refusal = new Error(`5.7.1 https://x.example/#token=${token} is on a list`);
          quoted.message = refusal.message;
          done(Object.assign(refusal, { responseCode: 554 }));
        });
      },
    },
  );
  const why: unknown = await mail
    .send({ ...letter, text: `Go to https://x.example/#token=${token}\n` })
    .catch((error: unknown) => error);
  expect(quoted.message).toContain(token);
  expect(inspect(why)).toContain('554 5.7.1 https://x.example/#token=[redacted] is on a list');
  expect(inspect(why)).not.toContain(token);
});

test('a password is sent to no server in clear, but to one on this machine', async () => {
  const known = { user: 'mailer', password: 's3cret' };
  const users: string[] = [];
  const server = {
    allowInsecureAuth: true,
    onAuth: (
      { username, password }: SMTPServerAuthentication,
      _session: unknown,
      done: (error: Error | null, answer?: { user: string }) => void,
    ) => {
      if (username === known.user && password === known.password) users.push(known.user);
      done(null, { user: username ?? '' });
    },
  };
  const { mailbox } = await open({}, server);
  const withUser = mailbox.url.replace('//', `//${known.user}:${known.password}@`);
  const local = createMail({ smtpUrl: withUser, from, pausesMs: [] });
  await local.send(letter);
  expect(users).toEqual(['mailer']);
  // The same machine by a name that could be any other's.
  const away = createMail({
    smtpUrl: withUser.replace('127.0.0.1', '[::ffff:127.0.0.1]'),
    from,
    pausesMs: [],
  });
  await expect(away.send(letter)).rejects.toThrow(/TLS/i);
  expect(users).toEqual(['mailer']);
  local.close();
  away.close();
});
