/** What accounts are told by mail: links to a new password, and changes that their owner should know of. */
import type { Log } from '../log.ts';

/** A mail in plain text. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Whatever sends mail; the assembly hands in the real one. */
export interface Mailer {
  send(mail: Mail): Promise<void>;
}

interface Recipient {
  readonly id: string;
  readonly email: string;
}

export interface Notices {
  /** Whether there is a mail server. */
  readonly canSend: boolean;
  /** Where the token is used: behind the `#`, which no browser sends and no proxy logs. */
  linkTo(token: string): string;
  forgotten(user: Recipient, token: string): void;
  /** Of an account that somebody has made for them. */
  welcome(user: Recipient, token: string): void;
  /** `keysRemoved` where API keys, links with providers or the second factor went with the old one. */
  passwordChanged(user: Recipient, keysRemoved?: boolean): void;
  /** Other ways in went, since an invitation that was mailed has shown whose the address is. */
  addressProved(user: Recipient): void;
  secondFactorChanged(user: Recipient, state: 'on' | 'off'): void;
  /** Waits for the mails that are under way. */
  settled(): Promise<void>;
}

const page = '/reset-password';

export function createNotices(mailer: Mailer | null, publicUrl: string | null, log: Log): Notices {
  const underWay = new Set<Promise<void>>();
  const linkTo = (token: string) => `${(publicUrl ?? '').replace(/\/$/, '')}${page}#token=${token}`;
  const here = publicUrl ?? 'this server';

  /** What has been done is not undone for want of a mail, and its caller does not wait for one. */
  function tell(user: Recipient, subject: string, text: string): void {
    if (!mailer) return;
    const work: Promise<void> = mailer
      .send({ to: user.email, subject, text })
      .catch((error: unknown) => log.error({ err: error, user_id: user.id }, 'a mail was not sent'))
      .finally(() => underWay.delete(work));
    underWay.add(work);
  }

  return {
    canSend: mailer !== null,
    linkTo,
    forgotten(user, token) {
      tell(user, 'A new password', forgottenText(here, linkTo(token)));
    },
    welcome(user, token) {
      tell(user, 'Your new account', welcomeText(here, linkTo(token)));
    },
    passwordChanged(user, keysRemoved = false) {
      const what = `Your password was changed${keysRemoved ? whatWent : ''}`;
      tell(user, 'Your password was changed', changedText(here, what));
    },
    addressProved(user) {
      tell(
        user,
        'Keys of your account were removed',
        changedText(here, `You accepted an invitation${whatWent}`),
      );
    },
    secondFactorChanged(user, state) {
      const what = `The second factor of your account was switched ${state}`;
      tell(user, `Second factor switched ${state}`, changedText(here, what));
    },
    async settled() {
      await Promise.all(underWay);
    },
  };
}

function forgottenText(here: string, link: string): string {
  return `Somebody asked for a new password for your account at ${here}.

Choose one here, within an hour; the link can be used once:

${link}

If it was not you, leave it: without this link nothing changes.
`;
}

function welcomeText(here: string, link: string): string {
  return `An account was made for you at ${here}.

Choose your password here, within a week; the link can be used once:

${link}

If you know nothing of this, leave it: without this link nobody can log in.
`;
}

const whatWent =
  ', and the API keys, provider logins and second factor of the account were removed, since nobody had shown before that this address is theirs,';

function changedText(here: string, what: string): string {
  return `${what} at ${here}.

If it was not you, ask for a new password at once, and tell whoever runs the server.
`;
}
