/** What MCP servers that somebody keeps are worked on with. */
import type { Log } from '../log.ts';
import type { Sealing, StoredServer } from './stored.ts';

export interface McpServersParts {
  readonly records: {
    forRuns(who: { readonly userId: string; readonly workspaceId: string }): Promise<readonly StoredServer[]>;
    connections(ids: readonly string[]): Promise<ReadonlyMap<string, number>>;
  };
  readonly sealing: Sealing;
  /** Why the guard of outgoing requests would not let anybody with an account reach the URL; null where it would. */
  readonly refusalOf: (url: string) => Error | null;
  readonly log: Log;
}
