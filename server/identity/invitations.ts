/** Invitations into organizations: a secret that goes to the person who is meant, and what they do with it. */
import type { Clock } from '../clock.ts';
import type { InvitationAccept, InvitationCreate, InvitationCreated, Membership } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { normalisedEmail } from './accounts.ts';
import type { KeepMeanwhile } from './kept-requests.ts';
import type { LoginBrake } from './login-brake.ts';
import type { Mail, Mailer, Notices } from './notices.ts';
import { hashOf, newInvitationToken } from './opaque-tokens.ts';
import type { Principal } from './principal.ts';
import type { IdentityRecords } from './records.ts';

export interface Invitations {
  create(
    principal: Principal,
    organizationId: string,
    body: InvitationCreate,
    keep: KeepMeanwhile<InvitationCreated>,
  ): Promise<InvitationCreated>;
  accept(principal: Principal, body: InvitationAccept): Promise<Membership>;
}

interface InvitationOptions {
  readonly records: Pick<IdentityRecords, 'invitations'>;
  readonly brake: Pick<LoginBrake, 'letter'>;
  readonly notices: Pick<Notices, 'addressProved'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly mailer?: Mailer | null | undefined;
  readonly publicUrl?: string | null | undefined;
}

/** An invitation that waits longer is one that nobody remembers. */
const mostDays = 90;
/** For so long nobody is given the answer of a process that may be at its letter still. */
const hiddenMs = 60_000;
/** A letter that took longer shows nothing of whose the address is: its link may have been given to whoever invited. */
const provingMs = hiddenMs / 2;

export function createInvitations(options: InvitationOptions): Invitations {
  const { records, brake, notices, clock, log, mailer = null, publicUrl = null } = options;

  /** Where the letter does not go out, whoever invites has the link, and can give it on. */
  async function sent(from: Principal, mail: Mail): Promise<boolean> {
    if (!mailer || !(await brake.letter({ id: from.userId }, mail.to))) return false;
    try {
      await mailer.send(mail);
      return true;
    } catch (error) {
      log.error({ err: error }, 'an invitation could not be sent by mail');
      return false;
    }
  }

  return {
    async create(principal, organizationId, body, keep) {
      requireTimely(body.expires_at, clock);
      const { secret, hash } = newInvitationToken();
      const { invitation, organizationName } = await records.invitations.create(principal, organizationId, {
        ...body,
        email: normalisedEmail(body.email),
        hash,
      });
      const link = linkTo(publicUrl, secret, invitation.email);
      const shown = { invitation, sent: false, link, token: secret };
      const since = performance.now();
      // A mail may take half a minute, and a request with an Idempotency-Key keeps others from writing until then.
      await keep(shown, hiddenMs);
      const gone = await sent(principal, {
        to: invitation.email,
        subject: 'An invitation',
        text: letterText(publicUrl ?? 'this server', principal.email, organizationName, link),
      });
      if (!gone) return shown;
      if (performance.now() - since < provingMs)
        await records.invitations.noteMailed(principal, organizationId, invitation.id);
      return { invitation, sent: true, link: null, token: null };
    },
    async accept(principal, { token }) {
      const { membership, removed } = await records.invitations.accept(principal, hashOf(token), clock.now());
      if (removed > 0) notices.addressProved({ id: principal.userId, email: principal.email });
      return membership;
    },
  };
}

/** The secret stands behind the `#`, which no browser sends and no proxy logs. */
function linkTo(publicUrl: string | null, token: string, email: string): string {
  return `${publicUrl ?? ''}/invitation#${new URLSearchParams({ token, email })}`;
}

/** What others have written stands on lines of its own, and on one line each. */
function letterText(here: string, invitedBy: string, organizationName: string, link: string): string {
  return `You are invited into an organization at ${here}.

Organization: ${organizationName.replaceAll(/\s+/g, ' ')}
Invited by: ${invitedBy}

Accept here, with your account or a new one; the link can be used once:

${link}

If you do not know who invites you, leave it.
`;
}

function requireTimely(expiresAt: string | undefined, clock: Clock): void {
  if (expiresAt === undefined) return;
  const ahead = Date.parse(expiresAt) - clock.now().getTime();
  if (ahead > 0 && ahead <= mostDays * 86_400_000) return;
  const message = `must be a moment in the future, at most ${mostDays} days from now`;
  throw new Problem('invalid_request', `body/expires_at: ${message}`, {
    errors: [{ in: 'body', pointer: '/expires_at', message, code: 'future' }],
  });
}
