/** What an agent can do on this server. */
import type { Handler } from '../handler.ts';
import { Problem } from '../problem.ts';
import { askerIn } from './asked-session.ts';

export const listTools: Handler<'listTools'> = async ({ query, principal }, { runtime, store }) => {
  const workspace =
    query.workspace_id === undefined
      ? await store.workspaces.defaultOf(principal)
      : await store.workspaces.find(principal, query.workspace_id);
  if (!workspace) throw new Problem('not_found', 'No workspace has this id, or it is not yours.');
  const listed = await runtime.toolsIn(askerIn(principal, workspace.id));
  const tools = [...listed].sort((a, b) => (a.name < b.name ? -1 : 1));
  const start = query.cursor === undefined ? 0 : positionAfter(query.cursor, tools);
  const data = tools.slice(start, start + query.limit);
  const last = data.at(-1);
  const more = last && start + query.limit < tools.length;
  return { status: 200, body: { data, next_cursor: more ? cursorOf(last.name) : null } };
};

/** Tools are listed by name, so a name is the cursor, made opaque like every other. */
function cursorOf(name: string): string {
  return Buffer.from(`tool:${name}`).toString('base64url');
}

function positionAfter(cursor: string, tools: readonly { readonly name: string }[]): number {
  const position = tools.findIndex(({ name }) => cursorOf(name) === cursor);
  if (position < 0)
    throw new Problem(
      'invalid_cursor',
      'This cursor does not belong to the list of tools; begin again without it.',
    );
  return position + 1;
}
