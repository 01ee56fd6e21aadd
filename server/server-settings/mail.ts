/** Through whom the server sends mail, and as whom. */
import { Fault, type SettingSource } from './setting-source.ts';
import { plainEmail } from './value-forms.ts';

export interface MailSettings {
  /** The mail server; null where this server sends no mail. */
  readonly smtpUrl: string | null;
  /** The sender of its mails; set where `smtpUrl` is. */
  readonly mailFrom: string | null;
}

export function readMail(source: SettingSource): MailSettings {
  return {
    smtpUrl: source.read<string | null>({
      variable: 'SERVICE_SMTP_URL',
      meaning:
        'The mail server, as smtps://user:password@mail.example.com; without it the operator hands links on. SERVICE_SMTP_URL_FILE names a file that holds it.',
      fallback: null,
      secret: true,
      parse: smtpAddress,
    }),
    mailFrom: source.read<string | null>({
      variable: 'SERVICE_MAIL_FROM',
      flag: 'mail-from',
      meaning: 'The sender of the mails, as "Service <service@example.com>"; with SERVICE_SMTP_URL.',
      fallback: null,
      parse: mailSender,
    }),
  };
}

function smtpAddress(text: string): string | Fault {
  const usable = URL.canParse(text) && /^smtps?:\/\/[^/]/.test(text) && new URL(text).hostname !== '';
  return usable
    ? text
    : new Fault('must begin with smtp:// or smtps://, as smtps://user:password@mail.example.com.');
}

function mailSender(text: string): string | Fault {
  const address = /^[^<>\p{Cc}]*<([^<>]+)>$/u.exec(text)?.[1] ?? text;
  return plainEmail.test(address)
    ? text
    : new Fault('must be an e-mail address, or a name and an address as "Service <service@example.com>".');
}
