/** Accounts that an organization makes for its people, who then choose a password of their own. */
import type { AccountCreate, AccountCreated } from '../contract/api.ts';
import { newAccount } from './accounts.ts';
import type { KeepMeanwhile } from './kept-requests.ts';
import { newPassword } from './opaque-tokens.ts';
import type { PasswordResets } from './password-resets.ts';
import type { Principal } from './principal.ts';
import type { PeopleRecords } from './records.ts';

interface Parts {
  readonly people: PeopleRecords;
  readonly resets: Pick<PasswordResets, 'mayWelcome' | 'welcome'>;
  readonly keep: KeepMeanwhile<AccountCreated>;
}

/** The account has a password that nobody knows, until its owner has set one. */
export async function createPerson(
  principal: Principal,
  { email, name, role = 'member', organization_id, send_invite }: AccountCreate,
  { people, resets, keep }: Parts,
): Promise<AccountCreated> {
  // Counted before anything is written: who holds a transaction must not wait for another connection.
  const mailed = send_invite && (await resets.mayWelcome(principal, email));
  const { account: user } = await people.create(principal, {
    ...(await newAccount(email, newPassword(), name)),
    role,
    organizationId: organization_id,
  });
  // The letter goes out behind the answer, which is this whatever becomes of it.
  const commit = () => keep({ user, password_link: null }, 0);
  return { user, password_link: await resets.welcome(principal, user, mailed, commit) };
}
