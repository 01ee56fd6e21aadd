/** The keys that sign access tokens: the private half sealed by whoever stores it here. */
import type { StoreParts } from './parts.ts';

export interface SigningKey {
  readonly kid: string;
  readonly sealedPrivateKey: string;
  readonly publicJwk: Readonly<Record<string, unknown>>;
  readonly createdAt: Date;
}

export interface SigningKeys {
  /** The newest first. */
  list(): Promise<readonly SigningKey[]>;
  add(key: Omit<SigningKey, 'createdAt'>): Promise<void>;
  /** Forgets a key whose tokens have all expired. */
  remove(kid: string): Promise<void>;
}

interface SigningKeyRow {
  kid: string;
  sealed_private_key: string;
  public_jwk: string;
  created_at: number;
}

export function signingKeyRepository({ database, clock }: StoreParts): SigningKeys {
  return {
    list: () =>
      database.read('installation', async (sql) => {
        const rows = await sql<SigningKeyRow>('signing_keys').orderBy([
          { column: 'created_at', order: 'desc' },
          { column: 'kid', order: 'desc' },
        ]);
        return rows.map(toSigningKey);
      }),
    add: ({ kid, sealedPrivateKey, publicJwk }) =>
      database.write('installation', async (sql) => {
        await sql('signing_keys').insert({
          kid,
          sealed_private_key: sealedPrivateKey,
          public_jwk: JSON.stringify(publicJwk),
          created_at: clock.now().getTime(),
        });
      }),
    remove: (kid) =>
      database.write('installation', async (sql) => {
        await sql<SigningKeyRow>('signing_keys').where({ kid }).delete();
      }),
  };
}

function toSigningKey(row: SigningKeyRow): SigningKey {
  return {
    kid: row.kid,
    sealedPrivateKey: row.sealed_private_key,
    publicJwk: JSON.parse(row.public_jwk),
    createdAt: new Date(row.created_at),
  };
}
