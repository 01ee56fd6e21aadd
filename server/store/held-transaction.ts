/** Several calls of the store as one transaction: all that a request writes is there with its answer, or nothing is. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Knex } from 'knex';
import type { Database, Scope } from './database.ts';
import { problemOf } from './database-errors.ts';
import { nameScope } from './postgres.ts';

/** Called with the transaction when it begins, before anything else is done in it. */
type Begin = (sql: Knex.Transaction) => Promise<void>;

const current = new AsyncLocalStorage<HeldTransaction>();

/** The transaction that the caller works in; null where each call is one of its own. */
export function heldTransaction(): HeldTransaction | null {
  const held = current.getStore();
  return held && !held.over ? held : null;
}

/** All that `work` has the store write, in one transaction: it is there once `work` has ended well, or not at all. */
export async function inOneTransaction<T>(database: Database, work: () => Promise<T>): Promise<T> {
  const held = new HeldTransaction(database, async () => undefined);
  try {
    const result = await held.run(work);
    await held.commit();
    return result;
  } catch (error) {
    await held.abandon(error);
    throw error;
  }
}

/**
 * Sets going what others do with that which the caller has written: they see it only once it is committed, and would else
 * work in a transaction that is not theirs.
 */
export function whenCommitted(work: () => void): void {
  const held = heldTransaction();
  if (held) held.afterwards(work);
  else current.exit(work);
}

/** Does for others, too, what one caller has asked for: in no transaction of that one. */
export function outsideHeld<T>(work: () => T): T {
  return current.exit(work);
}

/** The same database, whose calls join the transaction that their caller works in. */
export function joinsHeld(database: Database): Database {
  return {
    ...database,
    read: (scope, work) => {
      const held = heldTransaction();
      return held?.begun ? held.join(scope, work) : database.read(scope, work);
    },
    write: (scope, work) => heldTransaction()?.join(scope, work) ?? database.write(scope, work),
    writeOfRun: (work) =>
      // It is committed with all else that the request writes.
      heldTransaction()?.join('installation', (sql) => work(sql, () => undefined)) ??
      database.writeOfRun(work),
  };
}

/**
 * Begins with the first thing that is written, since what is only looked at needs no lock. What still goes on behind the
 * caller once it is over is on its own.
 */
export class HeldTransaction {
  over = false;
  readonly #database: Database;
  readonly #begin: Begin;
  readonly #finished = Promise.withResolvers<void>();
  #opened: Promise<Knex.Transaction> | null = null;
  #ended: Promise<void> = Promise.resolve();
  /** One after the other: they share a connection, and what it is told of their scope. */
  #last: Promise<unknown> = Promise.resolve();
  readonly #afterwards: (() => void)[] = [];

  constructor(database: Database, begin: Begin) {
    this.#database = database;
    this.#begin = begin;
    this.#finished.promise.catch(() => undefined);
  }

  get begun(): boolean {
    return this.#opened !== null;
  }

  /** Whatever `work` calls of the store happens in here. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return current.run(this, work);
  }

  /** A part that fails leaves nothing, and the rest as it was. */
  join<T>(scope: Scope, work: (sql: Knex.Transaction) => Promise<T>): Promise<T> {
    const part = this.#last.then(async () => {
      const sql = await this.#open();
      try {
        await this.#name(sql, scope);
        return await this.#database.part(sql, work);
      } catch (error) {
        throw problemOf(error);
      }
    });
    this.#last = part.catch(() => undefined);
    return part;
  }

  /** Does the last of it, and commits. */
  async commit(last?: Begin): Promise<void> {
    if (last) await this.join('installation', last);
    this.over = true;
    await this.#last;
    this.#finished.resolve();
    await this.#ended;
    for (const work of this.#afterwards) current.exit(work);
  }

  /** Called once it is committed, and not at all where it is abandoned. */
  afterwards(work: () => void): void {
    this.#afterwards.push(work);
  }

  /** As if nothing had been written. */
  async abandon(error: unknown): Promise<void> {
    if (this.over) return;
    this.over = true;
    await this.#last;
    this.#finished.reject(error);
    await this.#ended.catch(() => undefined);
  }

  #open(): Promise<Knex.Transaction> {
    if (this.#opened) return this.#opened;
    const { promise, resolve, reject } = Promise.withResolvers<Knex.Transaction>();
    this.#opened = promise;
    this.#ended = this.#database.write('installation', async (sql) => {
      await this.#begin(sql);
      resolve(sql);
      await this.#finished.promise;
      // What is written last is of all its parts, whomever the last of them was for.
      await this.#name(sql, 'installation');
    });
    this.#ended.catch(reject);
    return promise;
  }

  async #name(sql: Knex.Transaction, scope: Scope): Promise<void> {
    if (this.#database.dialect === 'postgresql') await nameScope(sql, scope);
  }
}
