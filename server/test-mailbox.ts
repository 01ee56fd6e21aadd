/** A real SMTP server on loopback that keeps what it is given, for tests. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';

export interface DeliveredMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Head and body as they came. */
  readonly source: string;
  /** The body with its soft line ends undone. */
  readonly text: string;
}

export interface Mailbox {
  readonly url: string;
  readonly mails: readonly DeliveredMail[];
  /** The next mail that this address gets; those that were asked for before do not count. */
  next(address: string): Promise<DeliveredMail>;
  close(): Promise<void>;
}

export async function startMailbox(options: SMTPServerOptions = {}): Promise<Mailbox> {
  const mails: DeliveredMail[] = [];
  const taken = new Set<DeliveredMail>();
  const waiting = new Set<() => void>();
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onData(stream, session, done) {
      text(stream).then((source) => {
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom ? mailFrom.address : '';
        mails.push({ from, to: rcptTo.map(({ address }) => address), source, text: bodyOf(source) });
        for (const look of waiting) look();
        done();
      }, done);
    },
    ...options,
  });
  server.on('error', () => undefined); // A client that goes away in the middle is no fault of the mailbox.
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const { port } = server.server.address() as AddressInfo; // a TCP server has no other kind of address
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    next: (address) =>
      new Promise((resolve) => {
        const look = () => {
          const found = mails.find((mail) => mail.to.includes(address) && !taken.has(mail));
          if (!found) return;
          taken.add(found);
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function bodyOf(source: string): string {
  const [, ...body] = source.split('\r\n\r\n');
  return body
    .join('\r\n\r\n')
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
