/** Journeys of searching the web: how it is set, and what is found. */
import { expect, test } from 'vitest';
import { expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/web/search/settings';

export function webSearchJourneys(target: () => Target): void {
  test('the web is searched as the operator has set it', async () => {
    const { operator, client, liveOnly } = target();
    const read = await operator.GET(url);
    expectShape('WebSearchSettings', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const body = { max_results: 5, deny_domains: ['pinterest.com'] };
    const changed = await operator.PATCH(url, { params: { header }, body });
    expectShape('WebSearchSettings', changed.data);
    expect(changed.data).toMatchObject(body);
    const stale = await refusal(operator.PATCH(url, { params: { header }, body, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const without = await refusal(operator.PATCH(url, { body, ...preferring(428) }));
    expect(without).toMatchObject({ status: 428, code: 'precondition_required' });
    const { data: engines } = await client.GET('/api/v1/web/search/engines');
    expectShape('WebSearchEngines', engines);
    const { data: found } = await client.POST('/api/v1/web/search', { body: { query: 'lighthouses' } });
    expectShape('WebSearchResults', found);
    await liveOnly(async () => {
      expect(found.results).toHaveLength(5);
      const any = { 'If-Match': '*' };
      const fixed = await refusal(operator.PATCH(url, { params: { header: any }, body: { engine: null } }));
      expect(fixed).toMatchObject({ status: 409, code: 'set_by_environment' });
      await operator.PATCH(url, { params: { header: any }, body: { max_results: 10, deny_domains: [] } });
    });
  });
}
