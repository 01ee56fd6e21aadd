/** Journeys of an admin who wants to know who did what, and whether the record is whole. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

export function auditJourneys(target: () => Target): void {
  test('what was done is listed, found, read, exported, and held against its chain', async () => {
    const { client, liveOnly } = target();
    const made = await client.POST('/api/v1/auth/api-keys', { body: { name: 'Watched' } });
    const id = made.data.api_key.id;
    const query = { target: id, action: 'api_key.create', outcome: 'success' as const };
    const { data: page } = await client.GET('/api/v1/audit/logs', { params: { query } });
    expectShape('AuditEntryPage', page);
    await liveOnly(() => {
      expect(page.data).toMatchObject([{ action: 'api_key.create', target: { type: 'api_key', id } }]);
      expect(JSON.stringify(page)).not.toContain(made.data.key);
    });

    const path = { entry_id: example.entry };
    await liveOnly(() => {
      path.entry_id = page.data[0]?.id ?? '';
    });
    const place = '/api/v1/audit/logs/{entry_id}';
    expectShape('AuditEntry', (await client.GET(place, { params: { path } })).data);
    const nobodys = { entry_id: 'aud_01k9w6r3h2e7xv5q0c8m4b1tzz' };
    const missing = await refusal(client.GET(place, { params: { path: nobodys }, ...preferring(404) }));
    expect(missing).toMatchObject({ status: 404, code: 'not_found' });

    const lines = await client.GET('/api/v1/audit/logs/export', { params: { query }, parseAs: 'text' });
    expect(lines.response.headers.get('Content-Disposition')).toContain('attachment');
    await liveOnly(() => {
      const [line = ''] = String(lines.data).split('\n');
      expectShape('AuditEntry', JSON.parse(line));
    });
    const { data: verification } = await client.GET('/api/v1/audit/logs/verify');
    expectShape('AuditVerification', verification);
    expect(verification.valid).toBe(true);
  });
}
