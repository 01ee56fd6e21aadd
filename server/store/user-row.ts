/** The row of a person: as it is made, and as the contract shows it. */
import type { Knex } from 'knex';
import type { User } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { isDuplicate } from './database-errors.ts';
import { emailKey } from './email-key.ts';
import { timestamp } from './timestamps.ts';

export interface UserRow {
  id: string;
  email: string;
  email_key: string;
  name: string;
  password_hash: string;
  /** When somebody first showed that the address is theirs; null where an account waits for that. */
  address_proved_at: number | null;
  avatar: string | null;
  status: User['status'];
  managed_by: string | null;
  name_key: string;
  operator: boolean;
  revision: number;
  created_at: number;
  updated_at: number;
}

export interface NewUser {
  readonly email: string;
  readonly name: string;
  readonly passwordHash: string;
}

/** An account, and which password it had then: what is begun by this is not good for another. */
export interface UserThen {
  readonly user: User;
  readonly passwordHash: string;
}

export function toUserThen(row: UserRow): UserThen {
  return { user: toUser(row), passwordHash: row.password_hash };
}

/** Whether the account still has this password and is active; it stays so until the transaction ends. */
export async function holdUnchanged(
  sql: Knex.Transaction,
  userId: string,
  passwordHash: string,
): Promise<boolean> {
  const columns = ['status', 'password_hash'] as const;
  const row = await sql<UserRow>('users')
    .where({ id: userId })
    .forShare()
    .first(...columns);
  return row?.status === 'active' && row.password_hash === passwordHash;
}

/** An account as it is stored first. */
export function userRow({ email, name, passwordHash }: NewUser, now: number): UserRow {
  return {
    id: newId('user'),
    email,
    email_key: emailKey(email),
    name,
    name_key: nameKey(name),
    avatar: null,
    status: 'active',
    managed_by: null,
    password_hash: passwordHash,
    address_proved_at: null,
    operator: false,
    revision: 1,
    created_at: now,
    updated_at: now,
  };
}

/** Throws `email_taken`. */
export async function insertUser(sql: Knex.Transaction, user: UserRow): Promise<void> {
  try {
    await sql('users').insert(user);
  } catch (error) {
    if (!isDuplicate(error)) throw error;
    throw new Problem(
      'email_taken',
      'An account with this e-mail address exists; log in, or use another address.',
    );
  }
}

/** By which a name is searched for. */
export function nameKey(name: string): string {
  return name.normalize('NFC').toLowerCase();
}

export function toUser(row: UserRow): User {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    avatar: row.avatar,
    operator: Boolean(row.operator),
    status: row.status,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
