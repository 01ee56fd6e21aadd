/** Where logins to remote MCP servers are kept: whoever runs the agent hands in a place; in memory otherwise. */

/** Keeps one text per server, a secret, by the server's address. */
export interface LoginKeeper {
  /** How long `locked` is sure to keep others away. */
  readonly holdsMs?: number;
  /**
   * Rejects with an error named `LoginUnreadable` where a person can mend it: its message is what there is to say of the
   * server, and holds no secret.
   */
  read(server: string): Promise<string | null>;
  write(server: string, secret: string): Promise<void>;
  remove(server: string): Promise<void>;
  /** Runs what renews a login while nobody else does: a refresh token is good for one use. */
  locked<Result>(server: string, action: () => Promise<Result>): Promise<Result>;
}

/** Forgets everything with the process. */
export function keepLoginsInMemory(): LoginKeeper {
  const kept = new Map<string, string>();
  const last = new Map<string, Promise<unknown>>();
  return {
    holdsMs: 90_000,
    read: async (server) => kept.get(server) ?? null,
    write: async (server, secret) => void kept.set(server, secret),
    remove: async (server) => void kept.delete(server),
    async locked(server, action) {
      const before = last.get(server);
      const mine = (async () => {
        // How the one before ended is his caller's business.
        await before?.catch(() => undefined);
        return await action();
      })();
      last.set(server, mine);
      return await mine;
    },
  };
}
