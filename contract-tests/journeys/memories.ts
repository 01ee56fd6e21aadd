/** Journeys of memories: kept once, found by their words, changed in versions, and forgotten. */
import { expect, test } from 'vitest';
import { formOf } from '../access/wire.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/memories/{memory_id}';

export function memoryJourneys(target: () => Target): void {
  test('a memory is kept once, found by its words, changed in versions, and forgotten', async () => {
    const { client, liveOnly } = target();
    const body = { scope: 'workspace', kind: 'fact', content: 'Deploys happen on Tuesdays.' } as const;
    const made = await client.POST('/api/v1/memories', { body });
    expect(made.response.status).toBe(201);
    expectShape('Memory', made.data);
    const path = { memory_id: example.memory };
    await liveOnly(() => {
      path.memory_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/memories/${path.memory_id}`);
    });
    const again = await refusal(client.POST('/api/v1/memories', { body, ...preferring(409) }));
    expect(again).toMatchObject({ status: 409, code: 'duplicate' });

    const found = await client.POST('/api/v1/memories/search', { body: { query: 'deploys' } });
    expectShape('MemorySearchResult', found.data);
    expect(found.data.data.map(({ memory }) => memory.content)).toEqual([body.content]);
    const { data: page } = await client.GET('/api/v1/memories', { params: { query: { q: 'tuesd' } } });
    expectShape('MemoryPage', page);
    expect(page.data).toHaveLength(1);

    const read = await client.GET(url, { params: { path } });
    expectShape('Memory', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { content: 'Deploys happen on Thursdays.' } };
    const changed = await client.PATCH(url, change);
    expectShape('Memory', changed.data);
    expect(changed.data.version).toBe(2);
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const { data: versions } = await client.GET(`${url}/history`, { params: { path } });
    expectShape('MemoryVersionPage', versions);
    expect(versions.data.at(-1)?.content).toBe(body.content);

    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('memories come in as lines, go out as lines, and are purged', async () => {
    const { client, liveOnly } = target();
    const body = { file: '{"scope":"user","content":"Ada drinks tea."}\n{"scope":"user"}\n' };
    const imported = await client.POST('/api/v1/memories/import', { body, bodySerializer: formOf });
    expectShape('MemoryImportResult', imported.data);
    expect(imported.data).toMatchObject({ lines: 2, created: 1, failed: 1 });
    const exported = await client.GET('/api/v1/memories/export', {
      params: { query: { scope: 'user' } },
      parseAs: 'text',
    });
    const lines = exported.data
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines).toHaveLength(1);
    await liveOnly(() => {
      expect(lines[0]).toMatchObject({ scope: 'user', content: 'Ada drinks tea.' });
    });
    const purge = { scope: 'user', confirm: true } as const;
    const purged = await client.POST('/api/v1/memories/purge', { body: purge });
    expect([purged.response.status, purged.data]).toEqual([202, { purged: 1 }]);
    await liveOnly(async () => {
      const { data } = await client.GET('/api/v1/memories', { params: { query: { scope: 'user' } } });
      expect(data.data).toEqual([]);
    });
  });
}
