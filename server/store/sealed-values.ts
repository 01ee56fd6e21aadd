/** Every place where the store keeps what somebody has sealed, for the day on which the master key changes. */
import type { Knex } from 'knex';
import type { Database } from './database.ts';

/** A sealed value, and the row that it is bound to. */
export interface SealedValue {
  readonly rowId: string;
  /** The columns that the row is found by. */
  readonly row: Readonly<Record<string, string>>;
  readonly sealed: string;
}

export interface SealedValues {
  /** Some of those that were not sealed with this key, from the first on or behind one of them; none behind the last. */
  notUnder(keyId: string, after: SealedValue | null): Promise<readonly SealedValue[]>;
  /** Puts another one in the place of this value, unless somebody has changed it meanwhile. */
  replace(value: SealedValue, sealed: string): Promise<void>;
}

interface Column {
  readonly table: string;
  readonly column: string;
  /** The columns whose values, in this order, make the id that a value is bound to. */
  readonly key: readonly string[];
}

/** A new column with sealed values has its line here; a test looks through the database for those that have none. */
export const sealedColumns: readonly Column[] = [
  { table: 'signing_keys', column: 'sealed_private_key', key: ['kid'] },
  { table: 'second_factors', column: 'sealed_secret', key: ['user_id'] },
  { table: 'provider_oauth', column: 'sealed_tokens', key: ['setting_id'] },
  { table: 'provider_oauth_attempts', column: 'sealed_attempt', key: ['setting_id'] },
  { table: 'provider_settings', column: 'secrets', key: ['id'] },
  { table: 'mcp_logins', column: 'sealed_login', key: ['server_id', 'user_id'] },
  { table: 'mcp_login_attempts', column: 'sealed_attempt', key: ['state_hash'] },
  { table: 'mcp_servers', column: 'secrets', key: ['id'] },
  { table: 'storage_places', column: 'sealed_credentials', key: ['place'] },
  { table: 'web_search_settings', column: 'sealed_api_key', key: ['id'] },
  { table: 'skill_repositories', column: 'sealed_token', key: ['id'] },
  { table: 'kept_requests', column: 'reply', key: ['principal_id', 'idempotency_key'] },
];

const page = 200;

export function sealedValues(database: Database): SealedValues {
  return {
    notUnder: (keyId, after) =>
      database.read('installation', async (sql) => {
        const begun = after ? sealedColumns.indexOf(placeOf(after)) : 0;
        for (const [index, place] of sealedColumns.slice(begun).entries()) {
          const values = await valuesIn(sql, place, keyId, index === 0 ? after : null);
          if (values.length > 0) return values;
        }
        return [];
      }),
    replace: (value, other) =>
      database.write('installation', async (sql) => {
        const { table, column } = placeOf(value);
        // The value alone would tell its row, as no other has its nonce; but no index leads to it.
        await sql(table)
          .where({ ...value.row, [column]: value.sealed })
          .update(column, other);
      }),
  };
}

function placeOf({ rowId }: SealedValue): Column {
  const [table] = rowId.split('/', 1);
  const place = sealedColumns.find((one) => one.table === table);
  if (!place) throw new Error(`${rowId} is in none of the columns with sealed values`);
  return place;
}

/** In the order of the key, whose index finds the place to go on from: what was sealed anew is not walked past again. */
async function valuesIn(
  sql: Knex,
  { table, column, key }: Column,
  keyId: string,
  after: SealedValue | null,
): Promise<SealedValue[]> {
  const some = sql(table).whereNotNull(column).whereNot(column, 'like', `v1.${keyId}.%`);
  if (after)
    some.whereRaw(`(${key.map(() => '??')}) > (${key.map(() => '?')})`, [
      ...key,
      ...key.map((name) => after.row[name] ?? ''),
    ]);
  const rows: Record<string, string>[] = await some
    .orderBy([...key])
    .limit(page)
    .select([...key, column]);
  return rows.map(({ [column]: sealed = '', ...row }) => ({
    rowId: [table, ...key.map((name) => row[name])].join('/'),
    row,
    sealed,
  }));
}
