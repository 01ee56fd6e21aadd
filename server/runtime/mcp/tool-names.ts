/** The names under which models know the tools of MCP servers. */
import { createHash } from 'node:crypto';

/** The strictest of the providers takes no longer one. */
const longestName = 64;
const markLength = 8;

/** A tool of a server. */
export interface ServerTool {
  readonly server: string;
  readonly tool: string;
}

/**
 * One name for each, `mcp_<server>_<tool>`. Names that cannot be told apart all get a mark made from the two, so that
 * none of them depends on which was there first: what was allowed to one is never given to another.
 */
export function nameTools<Named extends ServerTool>(tools: readonly Named[]): ReadonlyMap<string, Named> {
  const groups = Map.groupBy(tools, plainName);
  return new Map(
    tools.map((tool) => {
      const alone = groups.get(plainName(tool))?.length === 1;
      return [alone ? plainName(tool) : markedName(tool), tool];
    }),
  );
}

function plainName({ server, tool }: ServerTool): string {
  const name = sanitized(server, tool);
  return name.length > longestName ? markedName({ server, tool }) : name;
}

function markedName({ server, tool }: ServerTool): string {
  const mark = createHash('sha256').update(`${server}\0${tool}`).digest('hex').slice(0, markLength);
  return `${sanitized(server, tool).slice(0, longestName - markLength - 1)}_${mark}`;
}

function sanitized(server: string, tool: string): string {
  return `mcp_${server}_${tool}`.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
}
