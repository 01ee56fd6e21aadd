/** The connections of this process to MCP servers that somebody keeps: bounded, shared where no login opens them, ended where a setting is changed. */
import type { Log } from '../../log.ts';
import { HeldServers } from './held-servers.ts';
import type { OwnMcpServer, OwnMcpServers } from './own-servers.ts';
import type { ConnectedServer } from './server.ts';

type Facts = Pick<OwnMcpServer, 'id' | 'userId' | 'mark'>;

export interface OwnConnectionsParts {
  readonly marks: OwnMcpServers['marks'];
  readonly log: Log;
  readonly most: number;
  /** How often settings are looked at that other nodes may have changed. */
  readonly lookMs: number;
}

export class OwnConnections {
  readonly #parts: OwnConnectionsParts;
  readonly #held: HeldServers<Facts>;
  #looking: NodeJS.Timeout | undefined;

  constructor(parts: OwnConnectionsParts) {
    this.#parts = parts;
    this.#held = new HeldServers(parts.most);
  }

  /** As HeldServers has it. The path is null for a remote server, which serves every workspace. */
  serverFor(
    own: OwnMcpServer,
    workspacePath: string | null,
    make: () => ConnectedServer,
  ): ConnectedServer | null {
    const { id, userId, mark } = own;
    const server = this.#held.serverFor(keyOf(own, workspacePath), { id, userId, mark }, make);
    if (server) server.entry = own.entry;
    this.#look();
    return server;
  }

  find(own: OwnMcpServer, workspacePath: string | null): ConnectedServer | null {
    return this.#held.find(keyOf(own, workspacePath), own.mark);
  }

  get ids(): readonly string[] {
    return this.#held.all.map(({ facts }) => facts.id);
  }

  /** Whether another one could be made. */
  get hasRoom(): boolean {
    return this.#held.hasRoom;
  }

  /** Ends all to a server, or those that one person's login has opened. */
  async end(id: string, userId?: string): Promise<void> {
    await this.#held.end(({ facts }) => facts.id === id && (userId === undefined || facts.userId === userId));
  }

  async endAll(): Promise<void> {
    await this.#held.end(() => true);
  }

  async close(): Promise<void> {
    clearTimeout(this.#looking);
    await this.endAll();
  }

  /** What was changed elsewhere ends here too, whether or not anybody asks for it again. */
  #look(): void {
    if (this.#looking !== undefined || this.#held.all.length === 0) return;
    this.#looking = setTimeout(() => {
      this.#endChanged()
        .catch((error: unknown) => this.#parts.log.warn({ err: error }, 'MCP servers were not looked after'))
        .finally(() => {
          this.#looking = undefined;
          this.#look();
        });
    }, this.#parts.lookMs).unref();
  }

  async #endChanged(): Promise<void> {
    const held = this.#held.all;
    const marks = await this.#parts.marks(held.map(({ facts }) => facts));
    const changed = new Set(held.filter(({ facts }, index) => facts.mark !== marks[index]));
    await this.#held.end((one) => changed.has(one));
  }
}

function keyOf({ id, userId }: Pick<OwnMcpServer, 'id' | 'userId'>, workspacePath: string | null): string {
  return JSON.stringify([id, userId, workspacePath]);
}
