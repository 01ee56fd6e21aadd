import { expect, onTestFinished, test } from 'vitest';
import { createServiceClient } from './client.ts';
import { paginate } from './pagination.ts';
import { type Script, sendJson, startScriptedServer } from './scripted-server.ts';

async function listed(script: Script) {
  const server = await startScriptedServer(script);
  onTestFinished(server.close);
  const client = createServiceClient({ baseUrl: server.url });
  const list = paginate((page) =>
    client.GET('/api/v1/sessions', { params: { query: { ...page, limit: 2 } } }),
  );
  return { list, server };
}

const pages: Record<string, unknown> = {
  '/api/v1/sessions?limit=2': { data: [{ id: 'ses_1' }, { id: 'ses_2' }], next_cursor: 'b' },
  '/api/v1/sessions?cursor=b&limit=2': { data: [], next_cursor: 'c' },
  '/api/v1/sessions?cursor=c&limit=2': { data: [{ id: 'ses_3' }], next_cursor: null },
};

test('every entry of every page comes once and in order, empty pages in between', async () => {
  const { list } = await listed(({ url }, response) => sendJson(response, 200, pages[url]));
  const ids: string[] = [];
  for await (const session of list) ids.push(session.id);
  expect(ids).toEqual(['ses_1', 'ses_2', 'ses_3']);
});

test('a page is fetched only when it is reached', async () => {
  const { list, server } = await listed(({ url }, response) => sendJson(response, 200, pages[url]));
  for await (const session of list) if (session.id === 'ses_2') break;
  expect(server.received).toHaveLength(1);
});

test('a cursor that comes again is an error, not a loop', async () => {
  const { list, server } = await listed((_, response, count) =>
    sendJson(response, 200, { data: [{ id: `ses_${count}` }], next_cursor: count % 2 ? 'a' : 'b' }),
  );
  await expect(Array.fromAsync(list)).rejects.toThrow('read already');
  expect(server.received).toHaveLength(3);
});
