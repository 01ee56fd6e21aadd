/** The connections of this process to MCP servers that somebody keeps: bounded, shared where no login opens them, ended where a setting is changed. */
import type { Log } from '../../log.ts';
import type { OwnMcpServer, OwnMcpServers } from './own-servers.ts';
import type { ConnectedServer } from './server.ts';

interface Held {
  readonly own: Pick<OwnMcpServer, 'id' | 'userId' | 'mark'>;
  /** Null for a remote server, which serves every workspace. */
  readonly workspacePath: string | null;
  readonly server: ConnectedServer;
}

export interface OwnConnectionsParts {
  readonly marks: OwnMcpServers['marks'];
  readonly log: Log;
  readonly most: number;
  /** How often settings are looked at that other nodes may have changed. */
  readonly lookMs: number;
}

export class OwnConnections {
  readonly #parts: OwnConnectionsParts;
  /** The one that was used last stands last. */
  readonly #held = new Map<string, Held>();
  #looking: NodeJS.Timeout | undefined;

  constructor(parts: OwnConnectionsParts) {
    this.#parts = parts;
  }

  /** The one that is there, or that is made; null where there are as many as may be, and all at work. */
  serverFor(
    own: OwnMcpServer,
    workspacePath: string | null,
    make: () => ConnectedServer,
  ): ConnectedServer | null {
    const key = keyOf(own, workspacePath);
    const found = this.#held.get(key);
    if (found) this.#held.delete(key);
    if (found?.own.mark === own.mark) {
      this.#held.set(key, found);
      found.server.entry = own.entry;
      return found.server;
    }
    if (found) void found.server.close();
    if (!this.#makeRoom()) return null;
    const { id, userId, mark } = own;
    const server = make();
    this.#held.set(key, { own: { id, userId, mark }, workspacePath, server });
    this.#look();
    return server;
  }

  find(own: OwnMcpServer, workspacePath: string | null): ConnectedServer | null {
    const found = this.#held.get(keyOf(own, workspacePath));
    return found?.own.mark === own.mark ? found.server : null;
  }

  get ids(): readonly string[] {
    return [...this.#held.values()].map(({ own }) => own.id);
  }

  /** Whether another one could be made. */
  get hasRoom(): boolean {
    return this.#held.size < this.#parts.most || [...this.#held.values()].some(({ server }) => !server.busy);
  }

  /** Ends all to a server, or those that one person's login has opened. */
  async end(id: string, userId?: string): Promise<void> {
    await this.#drop(({ own }) => own.id === id && (userId === undefined || own.userId === userId));
  }

  async endAll(): Promise<void> {
    await this.#drop(() => true);
  }

  async close(): Promise<void> {
    clearTimeout(this.#looking);
    await this.endAll();
  }

  async #drop(isUnwanted: (held: Held) => boolean): Promise<void> {
    const unwanted = [...this.#held].filter(([, held]) => isUnwanted(held));
    for (const [key] of unwanted) this.#held.delete(key);
    await Promise.all(unwanted.map(([, { server }]) => server.close()));
  }

  #makeRoom(): boolean {
    if (this.#held.size < this.#parts.most) return true;
    const free = [...this.#held].find(([, { server }]) => !server.busy);
    if (!free) return false;
    this.#held.delete(free[0]);
    void free[1].server.close();
    return true;
  }

  /** What was changed elsewhere ends here too, whether or not anybody asks for it again. */
  #look(): void {
    clearTimeout(this.#looking);
    if (this.#held.size === 0) return;
    this.#looking = setTimeout(() => {
      this.#endChanged()
        .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'MCP servers were not looked after'))
        .finally(() => this.#look());
    }, this.#parts.lookMs).unref();
  }

  async #endChanged(): Promise<void> {
    const held = [...this.#held.values()];
    const marks = await this.#parts.marks(held.map(({ own }) => own));
    const changed = new Set(held.filter(({ own }, index) => own.mark !== marks[index]));
    await this.#drop((one) => changed.has(one));
  }
}

function keyOf({ id, userId }: Pick<OwnMcpServer, 'id' | 'userId'>, workspacePath: string | null): string {
  return JSON.stringify([id, userId, workspacePath]);
}
