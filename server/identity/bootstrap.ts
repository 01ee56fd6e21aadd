/** The first start: how the account that runs the installation comes to be, once. */
import type { Clock } from '../clock.ts';
import type { User } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { allScopes } from '../scopes.ts';
import { newAccount } from './accounts.ts';
import type { ApiKeys } from './api-keys.ts';
import { newBootstrapToken, newPassword } from './opaque-tokens.ts';
import { toPrincipal } from './principal.ts';
import type { IdentityRecords, ShownToken } from './records.ts';

/** What decides who becomes the operator. */
export interface FirstStart {
  /** Whether the server listens on loopback only. */
  readonly loopback: boolean;
  /** Whether the command has the server inside its process: the operator is made, and no key is stored. */
  readonly inProcess?: boolean;
  /** SERVICE_ADMIN_EMAIL and SERVICE_ADMIN_PASSWORD: both or neither. */
  readonly adminEmail?: string | null | undefined;
  readonly adminPassword?: string | null | undefined;
}

/** What a first start shows, once. */
export type FirstCredential =
  /** On loopback: the operator's account was made, and this key acts for it. */
  | { readonly kind: 'operator'; readonly email: string; readonly apiKey: string }
  /** The operator's account was made from the settings; whoever set the password knows it. */
  | { readonly kind: 'admin'; readonly email: string }
  /** Elsewhere: whoever registers with this token becomes the operator. */
  | { readonly kind: 'token'; readonly token: string; readonly expiresAt: Date };

/** Puts it where people read it; settles once it is there. */
export type Show = (credential: FirstCredential) => Promise<void>;

type Records = Pick<IdentityRecords, 'users' | 'invitations' | 'transaction'>;

/** The account of a newcomer, who need not log in to begin. It has a password that nobody knows. */
const loopbackEmail = 'operator@service.local';
const tokenDays = 7;

/**
 * Null once there is an operator. Until then every start makes a new token, and only the newest one is good: a token
 * that was printed and lost locks nobody out, and a restart renews one that has expired. The operator's key is shown in
 * the transaction that makes both: who dies before has made nobody, and no later start gives out a key.
 */
export async function bootstrap(
  start: FirstStart,
  records: Records,
  keys: ApiKeys,
  clock: Clock,
  show: Show,
): Promise<FirstCredential | null> {
  const admin = adminOf(start);
  if (await records.users.hasOperator()) return null;
  const expiresAt = new Date(clock.now().getTime() + tokenDays * 86_400_000);
  const { secret, hash } = newBootstrapToken();
  await records.invitations.withdraw('bootstrap');
  await records.invitations.add({ kind: 'bootstrap', hash, expiresAt });
  if (!admin && !start.loopback) return shown({ kind: 'token', token: secret, expiresAt }, show);
  return records.transaction(async () => {
    const user = await makeOperator(
      admin ?? { email: loopbackEmail, password: newPassword() },
      { kind: 'bootstrap', hash, at: clock.now() },
      records,
    );
    if (!user || start.inProcess) return null;
    const { email } = user;
    if (admin) return shown({ kind: 'admin', email }, show);
    return shown({ kind: 'operator', email, apiKey: await firstKey(user, keys) }, show);
  });
}

async function shown(credential: FirstCredential, show: Show): Promise<FirstCredential> {
  await show(credential);
  return credential;
}

/** Null where another process was faster. */
async function makeOperator(
  { email, password }: Account,
  token: ShownToken,
  { users }: Records,
): Promise<User | null> {
  const account = await newAccount(email, password);
  try {
    return await users.createAccount({ ...account, token });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.code === 'registration_refused' || (await users.hasOperator())) return null;
    if (error.code !== 'email_taken') throw error;
    throw new Error(`${account.email} is an account already, and not the operator: name another address.`);
  }
}

async function firstKey(user: User, keys: ApiKeys): Promise<string> {
  const maker = toPrincipal(
    { user, memberships: [], workspaces: [] },
    { kind: 'login', id: 'first start', scopes: allScopes },
  );
  return (await keys.create(maker, { name: 'First start' })).key;
}

interface Account {
  readonly email: string;
  readonly password: string;
}

/** The same rules as the contract has for an account. */
function adminOf({ adminEmail, adminPassword }: FirstStart): Account | null {
  if (!adminEmail && !adminPassword) return null;
  if (!adminEmail || !adminPassword) {
    throw new Error('Set SERVICE_ADMIN_EMAIL and SERVICE_ADMIN_PASSWORD both, or neither.');
  }
  if (!/^[\x21-\x3f\x41-\x7e]+@[\x21-\x3f\x41-\x7e]+$/.test(adminEmail) || adminEmail.length > 254) {
    throw new Error('SERVICE_ADMIN_EMAIL is not an e-mail address.');
  }
  if (adminPassword.length < 10 || adminPassword.length > 1024) {
    throw new Error('SERVICE_ADMIN_PASSWORD must have between 10 and 1024 characters.');
  }
  return { email: adminEmail, password: adminPassword };
}
