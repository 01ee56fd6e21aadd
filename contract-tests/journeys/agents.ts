/** Journeys of agent profiles: one is made, listed, changed by who has read it, named by a query, and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/agents/{agent_id}';

export function agentJourneys(target: () => Target): void {
  test('an agent profile is made, listed, read, changed, named by a query, and deleted', async () => {
    const { client, liveOnly } = target();
    const body = { slug: 'reviewer', description: 'Reviews.', instructions: 'You review.', tools: ['view'] };
    const made = await client.POST('/api/v1/agents', { body });
    expect(made.response.status).toBe(201);
    expectShape('Agent', made.data);
    const path = { agent_id: example.agent };
    await liveOnly(() => {
      path.agent_id = made.data.id ?? '';
      expect(made.response.headers.get('Location')).toBe(`/api/v1/agents/${path.agent_id}`);
    });
    const taken = await refusal(client.POST('/api/v1/agents', { body, ...preferring(409) }));
    expect(taken).toMatchObject({ status: 409, code: 'slug_taken' });

    const { data: page } = await client.GET('/api/v1/agents', { params: { query: { limit: 100 } } });
    expectShape('AgentPage', page);
    await liveOnly(() =>
      expect(page.data.map(({ slug }) => slug)).toEqual(['coder', 'plan', 'research', 'reviewer', 'task']),
    );

    const read = await client.GET(url, { params: { path } });
    expectShape('Agent', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { name: 'Reviewer' } };
    const changed = await client.PATCH(url, change);
    expectShape('Agent', changed.data);
    expect(changed.data.name).toBe('Reviewer');
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });

    const asked = await client.POST('/api/v1/query', { body: { prompt: 'Hello', agent_slug: 'reviewer' } });
    expectShape('QueryResponse', asked.data);

    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });
}
