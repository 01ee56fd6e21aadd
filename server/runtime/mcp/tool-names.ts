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
 * One name for each, `mcp_<server>_<tool>`. Names that cannot be told apart get a mark made from the two, so that none of
 * them depends on which was there first, or is there now: what was allowed to one is never given to another.
 *
 * @param servers - The names of all servers that are set, be they connected or not.
 */
export function nameTools<Named extends ServerTool>(
  tools: readonly Named[],
  servers: readonly string[],
): ReadonlyMap<string, Named> {
  const groups = Map.groupBy(tools, plainName);
  return new Map(
    tools.map((tool) => {
      const alone = groups.get(plainName(tool))?.length === 1 && !mayBeOfAnother(tool, servers);
      return [alone ? plainName(tool) : markedName(tool), tool];
    }),
  );
}

/** With `git` and `git_hub`, the tool `hub_delete` of the first looks like `delete` of the second, which keeps that name. */
function mayBeOfAnother({ server, tool }: ServerTool, servers: readonly string[]): boolean {
  const own = sanitized(server, '');
  return servers.some((other) => {
    const begin = sanitized(other, '');
    return other !== server && begin.length >= own.length && sanitized(server, tool).startsWith(begin);
  });
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
