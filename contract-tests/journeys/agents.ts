/** Journeys of agent profiles and of plans: made, listed, changed by who has read them, decided on, and deleted. */
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

  test('a plan is proposed, changed, rejected, changed again, approved once, carried out, and deleted', async () => {
    const { client, liveOnly } = target();
    const place = '/api/v1/plans/{plan_id}';
    const asked = { prompt: 'A better test', agent_slug: 'plan', model: 'demo:demo-1' };
    const { data: answer } = await client.POST('/api/v1/query', { body: asked });
    const query = { session_id: answer.session_id };
    const { data: page } = await client.GET('/api/v1/plans', { params: { query } });
    expectShape('PlanPage', page);
    const path = { plan_id: page.data[0]?.id ?? '' };
    await liveOnly(() => expect(page.data).toHaveLength(1));
    const read = await client.GET(place, { params: { path } });
    expectShape('Plan', read.data);

    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { title: 'Mend the flaky test' } };
    expectShape('Plan', (await client.PATCH(place, change)).data);
    const without = { params: { path }, body: { title: 'Mend it' }, ...preferring(428) };
    expect(await refusal(client.PATCH(place, without))).toMatchObject({ code: 'precondition_required' });
    const stale = await refusal(client.PATCH(place, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const rejected = await client.POST(`${place}/reject`, {
      params: { path },
      body: { comment: 'Too much.' },
    });
    expectShape('Plan', rejected.data);
    expect(rejected.data.status).toBe('rejected');
    const any = { 'If-Match': '*' };
    await client.PATCH(place, { params: { path, header: any }, body: { content: 'Only look.' } });
    const text = await client.GET(`${place}/content`, { params: { path }, parseAs: 'text' });
    await liveOnly(() => expect(text.data).toBe('# Mend the flaky test\n\nOnly look.\n'));
    const { data: versions } = await client.GET(`${place}/versions`, { params: { path } });
    expectShape('PlanVersionPage', versions);
    await liveOnly(() => expect(versions.data.map(({ version }) => version)).toEqual([3, 2, 1]));

    const approval = { params: { path }, body: { comment: 'Begin with the tests.', model: 'demo:demo-1' } };
    const approved = await client.POST(`${place}/approve`, approval);
    expect(approved.response.status).toBe(202);
    expectShape('Run', approved.data);
    const twice = await refusal(client.POST(`${place}/approve`, { ...approval, ...preferring(409) }));
    expect(twice).toMatchObject({ status: 409, code: 'already_answered' });
    await liveOnly(() =>
      expect.poll(async () => (await client.GET(place, { params: { path } })).data.status).toBe('done'),
    );
    expect((await client.DELETE(place, { params: { path } })).response.status).toBe(204);
  });
}
