/** Keeps the compiled statements of a connection to SQLite: of a small query, to compile it is half of the work. */

/** What node-sqlite3 calls back with: `this` is the statement, which tells what it has changed. */
type Done = (this: unknown, error: Error | null, rows?: unknown) => void;

type Method = 'all' | 'run';

interface Statement extends Record<Method, (bindings: readonly unknown[], done: Done) => unknown> {
  finalize(): void;
}

/** As much of a connection of node-sqlite3 as is used, by knex too. */
export interface Connection
  extends Record<Method, (sql: string, bindings: readonly unknown[] | undefined, done: Done) => unknown> {
  prepare(sql: string, prepared: (error: Error | null) => void): Statement;
  close(done: (error: Error | null) => void): void;
}

/** More than all requests of a busy server have; lists of several lengths are several statements. */
const most = 200;

/** Values stay with their statement until its next use: large ones are not held for so long. */
const mostCharacters = 16_384;

/** Those that come again and again. Others may need that no statement knows the tables that they change. */
const keepable = /^\s*(select|insert|update|delete|with|begin|commit|rollback)\b/i;

/** SQLite itself compiles a kept statement anew where tables have changed since. Closing gives all of them up. */
export function keepStatements(connection: Connection): void {
  const kept = new Map<string, Statement>();
  const close = connection.close.bind(connection);
  for (const method of ['all', 'run'] as const) {
    const once = connection[method].bind(connection);
    connection[method] = (sql, bindings, done) => {
      if (!keepable.test(sql) || isLarge(bindings ?? [])) return once(sql, bindings, done);
      return ask(method, sql, bindings ?? [], done);
    };
  }
  connection.close = (done) => {
    for (const statement of kept.values()) statement.finalize();
    kept.clear();
    close(done);
  };

  function ask(method: Method, sql: string, bindings: readonly unknown[], done: Done): unknown {
    const present = kept.get(sql);
    // Whoever could not compile it is told by `prepare` alone.
    const statement = present ?? connection.prepare(sql, (error) => error && done.call(null, error));
    if (present) remember(sql, present);
    return statement[method](bindings, function (error, rows) {
      // One that failed may stand in the middle of its work, and hold a lock by that.
      if (error) forget(sql, statement);
      else if (kept.get(sql) !== statement) remember(sql, statement);
      done.call(this, error, rows);
    });
  }

  /** The least recently used goes first. */
  function remember(sql: string, statement: Statement): void {
    const other = kept.get(sql);
    if (other !== statement) other?.finalize();
    kept.delete(sql);
    kept.set(sql, statement);
    const [oldest] = kept;
    if (kept.size > most && oldest) forget(...oldest);
  }

  function forget(sql: string, statement: Statement): void {
    if (kept.get(sql) === statement) kept.delete(sql);
    statement.finalize();
  }
}

function isLarge(bindings: readonly unknown[]): boolean {
  let characters = 0;
  for (const value of bindings)
    if (typeof value === 'string' || value instanceof Uint8Array) characters += value.length;
  return characters > mostCharacters;
}
