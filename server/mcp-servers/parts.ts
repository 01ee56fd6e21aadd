/** What MCP servers that somebody keeps are worked on with. */
import type { Log } from '../log.ts';
import type { KeptLogins, Sealing, StoredServer } from './stored.ts';

export interface McpServersParts {
  readonly records: {
    forRuns(who: {
      readonly userId: string;
      readonly workspaceId: string;
      readonly bound: boolean;
    }): Promise<readonly StoredServer[]>;
    connections(
      ids: readonly string[],
    ): Promise<
      ReadonlyMap<string, { readonly connection: number; readonly logins: ReadonlyMap<string, number> }>
    >;
    loggedInAt(id: string, userId: string): Promise<number | null>;
  };
  readonly sealing: Sealing;
  /** Why the guard of outgoing requests would not let anybody with an account reach the URL; null where it would. */
  readonly refusalOf: (url: string) => Error | null;
  /** Where one person's logins to one server are kept. */
  readonly loginsOf: (serverId: string, userId: string) => KeptLogins;
  readonly log: Log;
}
