/** Journeys of somebody who limits what may be used, meets the limit, and asks what was used. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { example, expectShape, newAccount, preferring, refusal, type Target } from './target.ts';

export function quotaJourneys(target: () => Target): void {
  test('an account limits its requests, uses them up, is told when there are more, and takes the limit away', async () => {
    const { visitor, clientWith, liveOnly } = target();
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
    const client = clientWith(pair.access_token);
    const url = '/api/v1/quotas/{subject_type}/{subject_id}';
    const path = { subject_type: 'user' as const, subject_id: example.user };
    await liveOnly(() => {
      path.subject_id = pair.user.id;
      return untilFarFromNewMonth();
    });
    // By the month: before a day ends it would be waited thirty times as often.
    const limits = { requests: { month: { soft: 0, hard: 1 } } };
    const put = await client.PUT(url, { params: { path }, body: { limits } });
    expectShape('Quota', put.data);
    const body = { prompt: 'Say hello.', model: 'demo:demo-1' };
    const { response } = await client.POST('/api/v1/query', { body });
    await liveOnly(() => expect(response.headers.get('X-Quota-Notice')).toContain('1 are used'));
    // The mock would name a time to wait, and the client would wait.
    await liveOnly(async () => {
      const refused = await refusal(client.POST('/api/v1/query', { body }));
      expect(refused.status).toBe(429);
      expect(refused.code).toBe('quota_exceeded');
      expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(0);
    });
    const { data: own } = await client.GET('/api/v1/quotas');
    expectShape('QuotaUseList', own);
    await liveOnly(() => expect(own.data).toMatchObject([{ resource: 'requests', used: 1, hard: 1 }]));
    const read = await client.GET(url, { params: { path } });
    expectShape('Quota', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    expect((await client.DELETE(url, { params: { path, header } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
    await liveOnly(async () => {
      expect((await client.POST('/api/v1/query', { body })).response.status).toBe(200);
    });
  });

  test('what was used is told by day, model, user and key', async () => {
    const { client, liveOnly } = target();
    await client.POST('/api/v1/query', { body: { prompt: 'Say hello.', model: 'demo:demo-1' } });
    for (const group_by of ['day', 'model', 'user', 'key'] as const) {
      const { data: page } = await client.GET('/api/v1/usage', { params: { query: { group_by } } });
      expectShape('UsagePage', page);
      await liveOnly(() => {
        const requests = page.data.reduce((sum, entry) => sum + entry.requests, 0);
        expect(requests).toBeGreaterThan(0);
      });
    }
  });
}

/** The client asks again by itself where it is told to wait for so long, and the use of a new month is not refused. */
const longestWaitMs = 30_000;

/** What was used in the month counts from its first moment, in UTC: within these seconds it would be forgotten. */
async function untilFarFromNewMonth(): Promise<void> {
  const now = new Date();
  const leftMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - now.getTime();
  // A timer may be a millisecond early.
  if (leftMs < longestWaitMs + 10_000) await sleep(leftMs + 10);
}
