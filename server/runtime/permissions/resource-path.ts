/** The paths by which permission patterns name what MCP servers have to read: `/mcp/<server>/<uri>`. */

/** The folder of a server, or the one resource of it; no file of a machine is meant by them. */
export function resourcePath(server: string, uri?: string): string {
  return `/mcp/${nameIn(server)}${uri === undefined ? '' : `/${nameIn(uri)}`}`;
}

/** As one name: a URI such as `..` must not lead to another server. */
function nameIn(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length));
}
