/** Runs the same tests on both engines, each file with databases of its own. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import knex, { type Knex } from 'knex';
import { afterAll, beforeAll, describe, inject } from 'vitest';
import type { Clock } from '../clock.ts';
import { createLog } from '../log.ts';
import { createDatabase, type LastingDatabase } from '../test-database.ts';
import { openStore, type Reach, type Store } from './store.ts';

/** A clock that stands still until a test turns it. */
export interface TestClock extends Clock {
  advance(milliseconds: number): void;
}

/** One engine with an empty database. */
export interface TestEngine {
  readonly dialect: 'sqlite' | 'postgresql';
  readonly clock: TestClock;
  /** The URL of this file's database. */
  url(): string;
  /** Another store on this file's database, as another process would have. Closed after the last test. */
  open(): Promise<Store>;
  /** Plain SQL, past the store. */
  sql(): Knex;
}

type OpenTestStore = () => Store;

type Define = (store: OpenTestStore, engine: TestEngine) => void;

/** `define` is called for each engine; `store()` is the opened store, inside tests and hooks. */
export function describeStores(title: string, define: Define): void {
  describeStore('sqlite', `${title} on SQLite`, define);
  describeStore('postgresql', `${title} on PostgreSQL`, define);
}

/** For what one engine alone has. Without a PostgreSQL here, its part is skipped by name. */
export function describeStore(dialect: TestEngine['dialect'], title: string, define: Define): void {
  if (dialect === 'sqlite') describe(title, () => withStore(dialect, newSqliteFile, define));
  else if (inject('postgresUrl') === null)
    describe.skip(title, () => withStore(dialect, newSqliteFile, define));
  else describe(title, () => withStore(dialect, createDatabase, define));
}

function withStore(
  dialect: TestEngine['dialect'],
  create: () => Promise<LastingDatabase>,
  define: Define,
): void {
  const opened: { destroy(): Promise<void> }[] = [];
  const made: { database?: LastingDatabase; store?: Store; sql?: Knex } = {};
  const clock = testClock();
  const open = async (): Promise<Store> => {
    const store = await openStore(engine.url(), { clock, log: createLog('silent') });
    opened.push({ destroy: () => store.close() });
    return store;
  };
  const engine: TestEngine = {
    dialect,
    clock,
    url: () => given(made.database).url,
    open,
    sql: () => given(made.sql),
  };
  beforeAll(async () => {
    made.database = await create();
    made.store = await open();
    made.sql = plainSql(dialect, made.database.url);
    opened.push(made.sql);
  });
  afterAll(async () => {
    for (const connection of opened) await connection.destroy();
    await made.database?.remove();
  });
  define(() => given(made.store), engine);
}

function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The store is open only inside tests and hooks.');
  return value;
}

function testClock(): TestClock {
  let now = Date.parse('2026-11-21T08:00:00.000Z');
  return {
    now: () => new Date(now),
    advance: (milliseconds) => {
      now += milliseconds;
    },
  };
}

/** Where one will be. */
export async function newSqliteFile(): Promise<LastingDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'service-store-'));
  return {
    url: `sqlite:${join(folder, 'service.db')}`,
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

function plainSql(dialect: TestEngine['dialect'], url: string): Knex {
  if (dialect === 'postgresql') return knex({ client: 'pg', connection: url, pool: { min: 0, max: 2 } });
  const filename = url.slice('sqlite:'.length);
  return knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
}

/** Of two people together. */
export function bothOf(one: Reach, other: Reach): Reach {
  return {
    userId: one.userId,
    memberships: [...one.memberships, ...other.memberships],
    organizationIds: [...one.organizationIds, ...other.organizationIds],
    workspaces: [...one.workspaces, ...other.workspaces],
  };
}

/** Who belongs nowhere. */
export function reachOfNobody(userId = 'usr_none'): Reach {
  return { userId, memberships: [], organizationIds: [], workspaces: [] };
}

let accounts = 0;

/** A new account, and what it reaches. */
export async function newAccount(store: Store, name = 'Ada'): Promise<Reach & { readonly email: string }> {
  accounts += 1;
  const email = `${name.toLowerCase()}-${accounts}@example.com`;
  const { id: userId } = await store.users.createAccount({ email, name, passwordHash: 'argon2id' });
  const loginId = await store.logins.create({
    userId,
    refreshHash: `first-${userId}`,
    expiresAt: new Date('2027-01-01'),
  });
  const owner = await store.principals.byLogin(loginId, new Date('2026-11-21'));
  const { memberships, workspaces } = given(owner ?? undefined);
  const organizationIds = memberships.map(({ organizationId }) => organizationId);
  return { userId, email, memberships, organizationIds, workspaces };
}
