/** Connections of one process to MCP servers: as many as may be, of which the longest unused goes first. */
import type { ConnectedServer } from './server.ts';

/** What is known of a connection; `mark` says whether it still fits. */
interface Known {
  readonly mark: string;
}

/** One connection. */
interface Held<Facts extends Known> {
  readonly facts: Facts;
  readonly server: ConnectedServer;
}

export class HeldServers<Facts extends Known> {
  readonly #most: number;
  /** The one that was used last stands last. */
  readonly #held = new Map<string, Held<Facts>>();

  constructor(most: number) {
    this.#most = most;
  }

  /** The one that is there, or that is made; null where there are as many as may be, and all at work. */
  serverFor(key: string, facts: Facts, make: () => ConnectedServer): ConnectedServer | null {
    const found = this.#held.get(key);
    if (found) this.#held.delete(key);
    if (found?.facts.mark === facts.mark) {
      this.#held.set(key, found);
      return found.server;
    }
    if (found) void found.server.close();
    if (!this.#makeRoom()) return null;
    const server = make();
    this.#held.set(key, { facts, server });
    return server;
  }

  find(key: string, mark: string): ConnectedServer | null {
    const found = this.#held.get(key);
    return found?.facts.mark === mark ? found.server : null;
  }

  get all(): readonly Held<Facts>[] {
    return [...this.#held.values()];
  }

  /** Whether another one could be made. */
  get hasRoom(): boolean {
    return this.#held.size < this.#most || this.all.some(({ server }) => !server.busy);
  }

  /** Ends those that are not wanted. */
  async end(isUnwanted: (held: Held<Facts>) => boolean): Promise<void> {
    const unwanted = [...this.#held].filter(([, held]) => isUnwanted(held));
    for (const [key] of unwanted) this.#held.delete(key);
    await Promise.all(unwanted.map(([, { server }]) => server.close()));
  }

  #makeRoom(): boolean {
    if (this.#held.size < this.#most) return true;
    const unused = [...this.#held].filter(([, { server }]) => !server.busy);
    // One that is being connected to gives way all the same: those that never answer would fill all places.
    const free = unused.find(([, { server }]) => !server.connecting) ?? unused[0];
    if (!free) return false;
    this.#held.delete(free[0]);
    void free[1].server.close();
    return true;
  }
}
