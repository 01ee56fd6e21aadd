/** The page on which a browser ends that has logged somebody in to an MCP server. */
import { page } from './page.ts';

export const connectedPage = page({
  title: 'MCP servers',
  otherwise:
    'Read the server with <code>GET /api/v1/mcp/servers</code>: its state says whether you are logged in.',
  forms: '',
  script: `
const server = fragment.get('mcp_server') ?? 'the server';
const failure = {
  access_denied: 'You were not logged in to ' + server + ': you, or the page that you come from, refused.',
  mcp_server_failed: 'You were not logged in to ' + server + ': its authorization server could not be used. Begin again.',
}[fragment.get('mcp_error')];
if (failure) show(null, failure);
else if (fragment.has('mcp_server')) show(null, 'You are logged in to ' + server + '. You can close this page.');
else show(null, 'This page tells how a login to an MCP server has ended; there is none to tell of.');
`,
});
