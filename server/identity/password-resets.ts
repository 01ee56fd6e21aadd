/** Forgotten passwords: a link that is good once, sent behind an answer that is the same for every address. */
import { placeOf } from '../address-place.ts';
import type { Clock } from '../clock.ts';
import type { Account, PasswordResetLink, PasswordResetRequested, User } from '../contract/api.ts';
import type { Log } from '../log.ts';
import { Problem } from '../problem.ts';
import { normalisedEmail } from './accounts.ts';
import { answered, type LoginBrake } from './login-brake.ts';
import type { Notices } from './notices.ts';
import { hashOf, newResetToken } from './opaque-tokens.ts';
import { hashPassword } from './passwords.ts';
import type { Principal } from './principal.ts';
import type { Actor, Origin, PasswordRecords } from './records.ts';

export interface PasswordResets {
  /** Answers before it looks whether there is such an account. */
  request(email: string, origin: Origin): Promise<PasswordResetRequested>;
  /** For the operator, who hands it on. Throws `not_found`. */
  createLink(principal: Principal, email: string): Promise<PasswordResetLink>;
  /** Whether one more may be sent a welcome; counts it. */
  mayWelcome(principal: Principal, email: string): Promise<boolean>;
  /** For somebody whose account is new: null where it is `mailed` to them, once `commit` has made the account last. */
  welcome(
    principal: Principal,
    user: Pick<Account, 'email' | 'managed_by'>,
    mailed: boolean,
    commit: () => Promise<void>,
  ): Promise<PasswordResetLink | null>;
  /** Throws `reset_link_expired`. */
  reset(token: string, password: string, origin: Origin): Promise<void>;
  /** Waits for the mails that are under way. */
  settled(): Promise<void>;
}

interface Parts {
  readonly records: PasswordRecords;
  readonly brake: LoginBrake;
  readonly notices: Notices;
  readonly clock: Clock;
  readonly log: Log;
}

interface LinkTerms {
  readonly seconds?: number;
  readonly mailed?: boolean;
  readonly organizationId?: string | null;
}

const linkSeconds = 3600;
/** Who did not ask for a link may not look at their mail the same day. */
const welcomeSeconds = 7 * 24 * 3600;
/** More at once are refused: what goes on behind answers has a bound too. */
const mostUnderWay = 200;

export function createPasswordResets(parts: Parts): PasswordResets {
  const { records, brake, notices, clock, log } = parts;
  const underWay = new Set<Promise<void>>();

  async function newLink(
    email: string,
    actor: Actor,
    { seconds = linkSeconds, mailed = false, organizationId = null }: LinkTerms = {},
  ) {
    const { secret, hash } = newResetToken();
    const expiresAt = new Date(clock.now().getTime() + seconds * 1000);
    const user = await records.addReset({ email, hash, expiresAt, mailed, organizationId }, actor);
    return user && { user, token: secret, expiresAt };
  }

  const shown = ({ user, token, expiresAt }: NonNullable<Awaited<ReturnType<typeof newLink>>>) => ({
    link: notices.linkTo(token),
    token,
    email: user.email,
    expires_at: expiresAt.toISOString(),
  });

  /** A second mail within minutes helps nobody, and a hundredth is an attack on whoever gets it. */
  async function sendLink(email: string, actor: Actor): Promise<void> {
    if (!(await brake.quietly('forgot_account', email))) return;
    if (!notices.canSend) return tellOperator(await records.noteForgotten(email, actor));
    const link = await newLink(email, actor, { mailed: true });
    if (link) notices.forgotten(link.user, link.token);
  }

  function tellOperator(user: User | null): void {
    if (!user) return;
    log.warn(
      { user_id: user.id },
      'somebody forgot a password, and no mail is sent here: make the link with createPasswordResetLink',
    );
  }

  return {
    async request(given, origin) {
      await brake.guard('forgot_address', placeOf(origin.address));
      if (underWay.size >= mostUnderWay)
        throw new Problem('overloaded', 'Too many people ask for a new password; try again in a moment.');
      const work: Promise<void> = sendLink(normalisedEmail(given), { userId: null, origin })
        .catch((error: unknown) =>
          log.error({ err: error, request_id: origin.requestId }, 'a link to a new password was not sent'),
        )
        .finally(() => underWay.delete(work));
      underWay.add(work);
      return { link_from: notices.canSend ? 'mail' : 'operator', expires_in: linkSeconds };
    },
    async createLink(principal, email) {
      const link = await newLink(normalisedEmail(email), principal);
      if (!link) throw new Problem('not_found', 'No account has this e-mail address.');
      return shown(link);
    },
    mayWelcome: async (principal, email) =>
      notices.canSend && (await brake.letter({ id: principal.userId }, normalisedEmail(email))),
    async welcome(principal, { email, managed_by: organizationId }, mailed, commit) {
      const link = await newLink(email, principal, { seconds: welcomeSeconds, mailed, organizationId });
      if (!link) throw new Error('the account is gone that was just made');
      if (!mailed) return shown(link);
      await commit();
      notices.welcome(link.user, link.token);
      return null;
    },
    async reset(token, password, origin) {
      const guarded = await brake.guard('reset_link', placeOf(origin.address));
      const hash = hashOf(token);
      // Looked up before the costly part: nobody buys hashing time with tokens that they made up.
      const use = async () =>
        (await records.isOpen(hash, clock.now()))
          ? records.reset(hash, await hashPassword(password), { userId: null, origin }, clock.now())
          : null;
      const used = await answered(guarded, use());
      if (!used)
        throw new Problem(
          'reset_link_expired',
          'The link was used, has expired, or is none of this server; ask for a new one.',
        );
      await guarded.forget();
      await brake.restart(used.user, origin.address);
      notices.passwordChanged(used.user, used.removed > 0);
    },
    async settled() {
      await Promise.all(underWay);
    },
  };
}
