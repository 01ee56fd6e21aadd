/** Journeys of MCP servers: added, tried, looked into, changed by who has read them, connected anew, and deleted. */
import { expect, test } from 'vitest';
import { startMcp } from '../mcp/start-mcp.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const list = '/api/v1/mcp/servers';
const one = '/api/v1/mcp/servers/{server_id}';

export function mcpServerJourneys(target: () => Target): void {
  test('an MCP server is added, tried, looked into, changed, connected anew, and deleted', async () => {
    const { client, liveOnly } = target();
    const tracker = await startMcp();
    const headers = { 'X-Token': 'not-a-real-token' };
    const body = { scope: 'user', name: 'tracker', type: 'http', url: tracker.url, headers } as const;
    const made = await client.POST(list, { body });
    expect(made.response.status).toBe(201);
    expectShape('McpServer', made.data);
    const path = { server_id: example.mcpServer };
    await liveOnly(() => {
      path.server_id = made.data.id;
      expect(made.data).toMatchObject({ header_names: ['X-Token'], state: 'idle' });
      expect(made.response.headers.get('Location')).toBe(`${list}/${path.server_id}`);
    });
    const taken = await refusal(client.POST(list, { body, ...preferring(409) }));
    expect(taken).toMatchObject({ status: 409, code: 'name_taken' });

    const tried = await client.POST(`${one}/test`, { params: { path } });
    expectShape('McpServerTest', tried.data);
    expect(tried.data).toMatchObject({ ok: true, server: 'tracker 1.4.0', tool_count: 1 });
    const tools = await client.GET(`${one}/tools`, { params: { path } });
    expectShape('McpToolPage', tools.data);
    expect(tools.data.data.map(({ tool }) => tool)).toEqual(['list_issues']);
    const resources = await client.GET(`${one}/resources`, { params: { path } });
    expectShape('McpResourcePage', resources.data);
    const prompts = await client.GET(`${one}/prompts`, { params: { path } });
    expectShape('McpPromptPage', prompts.data);
    const { data: page } = await client.GET(list, { params: { query: { limit: 100 } } });
    expectShape('McpServerPage', page);
    await liveOnly(() =>
      expect(page.data.map(({ name, state }) => [name, state])).toEqual([['tracker', 'ready']]),
    );

    const read = await client.GET(one, { params: { path } });
    expectShape('McpServer', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { disabled_tools: ['delete_issue'] } };
    const changed = await client.PATCH(one, change);
    expectShape('McpServer', changed.data);
    expect(changed.data.disabled_tools).toEqual(['delete_issue']);
    const stale = await refusal(client.PATCH(one, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const anew = await client.POST(`${one}/reconnect`, { params: { path } });
    expect(anew.response.status).toBe(202);
    expectShape('McpServer', anew.data);
    await liveOnly(() => expect(anew.data.state).toBe('idle'));

    expect((await client.DELETE(one, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(one, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
    await tracker.stop();
  });

  test('a process is started for nobody but the operator, and for the operator it is', async () => {
    const { client, operator, liveOnly } = target();
    const body = { scope: 'user', name: 'local', type: 'stdio', command: 'true' } as const;
    await liveOnly(async () => {
      expect(await refusal(client.POST(list, { body }))).toMatchObject({
        status: 403,
        code: 'restricted_section',
      });
      const made = await operator.POST(list, { body: { ...body, scope: 'installation', disabled: true } });
      expect(made.data).toMatchObject({ command: 'true', state: 'disabled' });
      const path = { server_id: made.data.id };
      const seen = await client.GET(one, { params: { path } });
      expect(seen.data).toMatchObject({ name: 'local', command: null });
      expect((await operator.DELETE(one, { params: { path } })).response.status).toBe(204);
    });
  });

  test('a person logs in to an MCP server through their browser, and out again', async () => {
    const { client, liveOnly } = target();
    const tracker = await startMcp();
    const body = { scope: 'user', name: 'guarded', type: 'http', url: tracker.url } as const;
    const made = await client.POST(list, { body });
    const path = { server_id: example.mcpServer };
    await liveOnly(() => {
      path.server_id = made.data.id;
    });
    const begun = await client.POST(`${one}/oauth/start`, { params: { path }, body: { scopes: ['issues'] } });
    expect(begun.response.status).toBe(201);
    expectShape('McpOauthStarted', begun.data);
    const asked = new URL(begun.data.authorize_url).searchParams;
    const query = { state: asked.get('state') ?? 'unknown', code: 'of-the-tracker' };
    const { visitor } = target();
    const comeBack = () =>
      refusal(
        visitor.GET('/api/v1/mcp/oauth/callback', {
          params: { query },
          ...preferring(302),
        }),
      );
    await liveOnly(() => expect(asked.get('code_challenge_method')).toBe('S256'));
    const back = await comeBack();
    expect(back.status).toBe(302);
    await liveOnly(async () => {
      expect(back.headers.get('location')).toBe('/mcp/connected#mcp_server=guarded');
      expect(await comeBack()).toMatchObject({ status: 400, code: 'oauth_invalid' });
      await client.GET(`${one}/tools`, { params: { path } });
      expect(tracker.asked.at(-1)?.headers.authorization).toBe('Bearer of-the-tracker');
    });
    expect((await visitor.GET('/mcp/connected', { parseAs: 'text' })).data).toMatch(/^<!doctype html>/);
    expect((await client.DELETE(`${one}/oauth`, { params: { path } })).response.status).toBe(204);
    await client.DELETE(one, { params: { path } });
    await tracker.stop();
  });
}
