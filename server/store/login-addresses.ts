/** Where accounts have logged in from: the brake holds strangers apart from those who come from such an address. */
import type { StoreParts } from './parts.ts';
import { sweepTable } from './sweeps.ts';
import type { UserRow } from './user-row.ts';

export interface LoginAddresses {
  /** Whether the account with this e-mail address has logged in from there, lately if so asked. An unknown one never has. */
  isKnown(email: string, address: string, withinMs?: number): Promise<boolean>;
  remember(userId: string, address: string): Promise<void>;
  /** Forgets those that were last used before; answers with how many there were. */
  prune(before: Date): Promise<number>;
}

interface LoginAddressRow {
  user_id: string;
  address: string;
  last_used_at: number;
}

export function loginAddressRepository({ database, clock }: StoreParts): LoginAddresses {
  return {
    isKnown: (email, address, withinMs) =>
      database.read('installation', async (sql) => {
        const account = sql<UserRow>('users').where({ email_key: email.toLowerCase() }).select('id');
        const row = await sql<LoginAddressRow>('login_addresses')
          .whereIn('user_id', account)
          .where({ address })
          .where('last_used_at', '>', withinMs === undefined ? 0 : clock.now().getTime() - withinMs)
          .first('address');
        return row !== undefined;
      }),
    remember: (userId, address) =>
      database.write('installation', async (sql) => {
        const last_used_at = clock.now().getTime();
        await sql('login_addresses')
          .insert({ user_id: userId, address, last_used_at })
          .onConflict(['user_id', 'address'])
          .merge({ last_used_at });
      }),
    prune: (before) => sweepTable(database, 'login_addresses', 'last_used_at', before.getTime()),
  };
}
