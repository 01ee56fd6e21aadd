/** Accounts: who may register, and whose password is right. */
import { placeOf } from '../address-place.ts';
import type { Clock } from '../clock.ts';
import type { LoginRequest, RegisterRequest, User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { answered, type LoginBrake } from './login-brake.ts';
import { hashOf } from './opaque-tokens.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import type { IdentityRecords, Origin, ShownToken, UserThen } from './records.ts';

export interface Accounts {
  /** Throws `registration_refused`, `email_taken`, or `too_many_attempts` where too many tokens were not good. */
  register(body: RegisterRequest, origin?: Origin): Promise<User>;
  /** The account, if the password is its own. */
  check(body: LoginRequest): Promise<UserThen>;
}

/** Who may register: anybody, or whoever has an invitation. */
export type Registration = 'open' | 'invite';

export function createAccounts(
  { users, invitations }: Pick<IdentityRecords, 'users' | 'invitations'>,
  brake: LoginBrake,
  registration: Registration,
  clock: Clock,
): Accounts {
  async function create(body: RegisterRequest, token?: ShownToken, origin?: Origin): Promise<User> {
    const account = await newAccount(body.email, body.password, body.name);
    return users.createAccount({ ...account, token, origin });
  }

  return {
    async register(body, origin) {
      const token = tokenOf(body, clock.now());
      if (!token && registration === 'invite') throw invitationNeeded();
      // Whoever may register without a token is not counted: a whole office comes from one address.
      if (!token) return create(body, token, origin);
      const guarded = await brake.guard('registration_token', placeOf(origin?.address ?? null));
      // Looked up before the costly part: nobody buys hashing time with tokens that they made up.
      const register = () => create(body, token, origin);
      const user = await answered(guarded, invitations.requireOpen(token).then(register));
      await guarded.forget();
      return user;
    },
    async check(body) {
      const email = normalisedEmail(body.email);
      const account = await users.findForLogin(email);
      const matches = await verifyPassword(account?.passwordHash ?? null, body.password);
      if (!account || !matches)
        throw new Problem('login_failed', 'The e-mail address or the password is wrong.', {
          concerns: account ? { type: 'user', id: account.user.id } : { type: 'email', id: email },
        });
      return account;
    },
  };
}

/** An account as it is stored; without a name it is called by what stands before the @. */
export async function newAccount(
  given: string,
  password: string,
  name?: string,
): Promise<{ email: string; name: string; passwordHash: string }> {
  const email = normalisedEmail(given);
  return {
    email,
    name: name ?? email.slice(0, email.lastIndexOf('@')),
    passwordHash: await hashPassword(password),
  };
}

/**
 * One spelling for each address: lower case. The contract lets ASCII in alone, so that no letter of another script
 * passes for one of these; nothing is cut off or folded.
 */
export function normalisedEmail(email: string): string {
  return email.toLowerCase();
}

/** A token that was sent has to be good, whether or not one is needed here. */
function tokenOf({ bootstrap_token, invitation_token }: RegisterRequest, at: Date): ShownToken | undefined {
  if (bootstrap_token !== undefined) return { kind: 'bootstrap', hash: hashOf(bootstrap_token), at };
  if (invitation_token !== undefined) return { kind: 'invitation', hash: hashOf(invitation_token), at };
  return undefined;
}

function invitationNeeded(): Problem {
  return new Problem(
    'registration_refused',
    'Ask the operator for an invitation token and send it as invitation_token.',
  );
}
