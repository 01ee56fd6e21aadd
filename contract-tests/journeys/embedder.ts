/** Journeys of the embedder's settings: read, changed, and tested. */
import { expect, test } from 'vitest';
import { expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/settings/embedder';

export function embedderJourneys(target: () => Target): void {
  test('what embeds is read, changed with its ETag, and tested, by the operator', async () => {
    const { operator, client, liveOnly } = target();
    const read = await operator.GET(url);
    expectShape('EmbedderSettings', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const body = { batch_size: 32 };
    const changed = await operator.PATCH(url, { params: { header }, body });
    expectShape('EmbedderSettings', changed.data);
    expect(changed.data).toMatchObject(body);
    const stale = await refusal(operator.PATCH(url, { params: { header }, body, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const without = await refusal(operator.PATCH(url, { body, ...preferring(428) }));
    expect(without).toMatchObject({ status: 428, code: 'precondition_required' });
    const tested = await operator.POST(`${url}/test`);
    expectShape('EmbedderTest', tested.data);
    await liveOnly(async () => {
      expect(tested.data).toMatchObject({ ok: true, dimensions: read.data.dimensions });
      const header = { 'If-Match': '*' };
      const unsuited = await refusal(
        operator.PATCH(url, { params: { header }, body: { provider: 'nobody', model: 'none' } }),
      );
      expect(unsuited).toMatchObject({ status: 422, code: 'embedder_unsuited' });
      expect(await refusal(client.GET(url))).toMatchObject({ status: 403, code: 'role_required' });
      await operator.PATCH(url, { params: { header }, body: { batch_size: 64 } });
    });
  });
}
