/** MCP servers that people, workspaces, organizations and the operator keep besides those of the settings. */
import type { McpServer } from '../../contract/config.ts';
import type { LoginKeeper } from './login-keeper.ts';

/** One that counts for somebody, as it is now. */
export interface OwnMcpServer {
  readonly id: string;
  readonly name: string;
  /** With its secrets; every value is meant as it stands there. */
  readonly entry: McpServer;
  /** Another one where connections that were made before are to end. */
  readonly mark: string;
  /** The one person whose login may open it, who shares the connection with nobody; null where none does. */
  readonly userId: string | null;
  readonly logins: LoginKeeper;
  /** Why it cannot be used at all; null where it can. */
  readonly fault: string | null;
}

/** A connection that is held, as it is asked after. */
export type HeldServer = Pick<OwnMcpServer, 'id' | 'userId'>;

export interface OwnMcpServers {
  /** One of each name, that which counts. */
  of(asker: {
    readonly userId: string;
    readonly workspaceId: string;
    readonly bound?: boolean | undefined;
  }): Promise<readonly OwnMcpServer[]>;
  /** The marks as they are now, in the order of the servers; null for one that is gone. */
  marks(held: readonly HeldServer[]): Promise<readonly (string | null)[]>;
}

/** Of a program that keeps none. */
export const noOwnServers: OwnMcpServers = {
  of: async () => [],
  marks: async (held) => held.map(() => null),
};
