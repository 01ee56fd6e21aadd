/** Journeys of the storage settings: read, changed, and tested. */
import { expect, test } from 'vitest';
import { expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/settings/storage';

export function storageJourneys(target: () => Target): void {
  test('where files lie is read, changed with its ETag, and tested, by the operator', async () => {
    const { operator, liveOnly } = target();
    const read = await operator.GET(url);
    expectShape('StorageSettings', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const body = { max_file_bytes: 209_715_200, retention_days: 365 };
    const changed = await operator.PATCH(url, { params: { header }, body });
    expectShape('StorageSettings', changed.data);
    expect(changed.data).toMatchObject(body);
    const stale = await refusal(operator.PATCH(url, { params: { header }, body, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const without = await refusal(operator.PATCH(url, { body, ...preferring(428) }));
    expect(without).toMatchObject({ status: 428, code: 'precondition_required' });
    const tested = await operator.POST(`${url}/test`);
    expectShape('StorageTest', tested.data);
    await liveOnly(async () => {
      const tag = changed.response.headers.get('ETag') ?? '';
      const back = { max_file_bytes: 104_857_600, retention_days: null };
      await operator.PATCH(url, { params: { header: { 'If-Match': tag } }, body: back });
    });
  });
}
