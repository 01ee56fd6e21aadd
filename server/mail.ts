/** Sends mail through the operator's SMTP server: plain text, to one address, tried again where trying helps. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Transporter } from 'nodemailer';

export interface MailMessage {
  /** One address, without a name. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export interface Mail {
  /** Resolves once the server has taken it. Rejects where it did not, after some attempts. */
  send(message: MailMessage): Promise<void>;
  /** No further attempt; what is under way ends within its time limits. */
  close(): void;
}

export interface MailOptions {
  /** smtp:// or smtps://, with user and password where the server wants them. */
  readonly smtpUrl: string;
  /** The sender: an address, or a name and an address in angle brackets. */
  readonly from: string;
  /** The pauses before the second attempt and those after it. */
  readonly pausesMs?: readonly number[];
}

const limits = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 20_000 };
const defaultPausesMs = [1000, 5000];

export function createMail({ smtpUrl, from, pausesMs = defaultPausesMs }: MailOptions): Mail {
  let transport: Promise<Transporter> | null = null;
  const stop = new AbortController();

  async function attempt(message: MailMessage, pauses: readonly number[]): Promise<void> {
    transport ??= openTransport(smtpUrl, from).catch((error: unknown) => {
      // A file that could not be read, as where too many are open, may be there the next time.
      transport = null;
      throw error;
    });
    try {
      await (await transport).sendMail({
        // As an object: a text would be parsed, and a comma in it make two addresses.
        to: { name: '', address: message.to },
        subject: message.subject,
        text: message.text,
      });
    } catch (error) {
      const [pause, ...later] = pauses;
      if (pause === undefined || !isPassing(error)) throw error;
      await sleep(pause, undefined, { signal: stop.signal });
      await attempt(message, later);
    }
  }

  return {
    async send(message) {
      refuseLineBreaks(message);
      await attempt(message, pausesMs).catch((error: unknown) => {
        throw unsent(error, message);
      });
    },
    close() {
      stop.abort();
      // Whoever waits for one that could not be opened is told.
      transport?.then(
        (opened) => opened.close(),
        () => undefined,
      );
    },
  };
}

/** Loading what sends mail is a tenth of the start of a server, and most send none. */
async function openTransport(smtpUrl: string, from: string): Promise<Transporter> {
  const { createTransport } = await import('nodemailer');
  return createTransport(
    // A line of the URL goes before these: `?requireTLS=false`, for whoever knows why.
    { url: smtpUrl, ...limits, ...(mustEncrypt(smtpUrl) && { requireTLS: true }) },
    // A message is text that we wrote: nothing in it is a file or an address to be read.
    { from, disableFileAccess: true, disableUrlAccess: true },
  );
}

/** A password must not cross a network in clear. */
function mustEncrypt(smtpUrl: string): boolean {
  const { username, hostname, searchParams } = new URL(smtpUrl);
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  return username !== '' && !local && !searchParams.has('requireTLS');
}

/** Filters quote the links that they refuse, and why a mail was not sent goes to the log: the tokens in it are left out. */
function unsent(error: unknown, { text }: MailMessage): Error {
  const why = error instanceof Error ? error.message : String(error);
  const tokens = text.match(/[\w-]{20,}/g) ?? [];
  return new Error(
    `It was not sent: ${tokens.reduce((said, one) => said.replaceAll(one, '[redacted]'), why)}`,
  );
}

/** RFC 5321 §4.2.1: codes from 500 on are final. Whatever has no code is the connection. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'responseCode' in error ? error.responseCode : undefined;
  return typeof code !== 'number' || code < 500;
}

/** A line break in a header would begin another header. The library takes them out; here nobody may even try. */
function refuseLineBreaks({ to, subject }: MailMessage): void {
  for (const value of [to, subject])
    if (/\p{Cc}/u.test(value)) throw new Error('The header of a mail holds a control character.');
  if (!/^[^\s@<>,;:"()[\]\\]+@[^\s@<>,;:"()[\]\\]+$/.test(to))
    throw new Error('A mail goes to one plain address.');
}
