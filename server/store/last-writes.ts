/** What transactions write when their work is done: rows that many of them share are then locked last, and briefly. */
import type { Knex } from 'knex';
import type { Database } from './database.ts';

/** One kind of such rows. Nothing is written for work that fails. */
export class LastWrites<Item> {
  readonly #pending = new WeakMap<Knex.Transaction, Item[]>();

  add(sql: Knex.Transaction, item: Item): void {
    const items = this.#pending.get(sql);
    if (!items) throw new Error('Only a transaction that database.write has given can be added to');
    items.push(item);
  }

  /** The same database, whose transactions end with that. Of two kinds the outer one is written first. */
  over(
    database: Database,
    write: (sql: Knex.Transaction, items: readonly Item[]) => Promise<void>,
  ): Database {
    const ending =
      <T, Rest extends unknown[]>(work: (sql: Knex.Transaction, ...rest: Rest) => Promise<T>) =>
      async (sql: Knex.Transaction, ...rest: Rest): Promise<T> => {
        const items: Item[] = [];
        this.#pending.set(sql, items);
        const result = await work(sql, ...rest);
        if (items.length > 0) await write(sql, items);
        return result;
      };
    return {
      ...database,
      write: (scope, work) => database.write(scope, ending(work)),
      writeOfRun: (work) => database.writeOfRun(ending(work)),
      part: async (sql, work) => {
        const items: Item[] = [];
        const result = await database.part(sql, (part) => {
          this.#pending.set(part, items);
          return work(part);
        });
        // The rows would stay locked until the whole transaction ends, however early its part has.
        for (const item of items) this.add(sql, item);
        return result;
      },
    };
  }
}
