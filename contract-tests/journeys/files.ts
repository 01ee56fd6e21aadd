/** Journeys of files: uploaded, found by their bytes, changed, downloaded whole and in part, and deleted. */
import { expect, test } from 'vitest';
import { formOf } from '../access/wire.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/files/{file_id}';

export function fileJourneys(target: () => Target): void {
  test('a file is uploaded, found by its bytes, changed, downloaded whole and in part, and deleted', async () => {
    const { client, liveOnly } = target();
    // Without metadata: the mock reads no JSON in the field of a form.
    const body = { filename: 'hello.txt', file: 'Hello, files!\n' };
    const made = await client.POST('/api/v1/files', { body, bodySerializer: formOf });
    expect(made.response.status).toBe(201);
    expectShape('StoredFile', made.data);
    const path = { file_id: example.file };
    await liveOnly(() => {
      path.file_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/files/${path.file_id}`);
    });
    const query = { sha256: made.data.sha256 };
    const { data: page } = await client.GET('/api/v1/files', { params: { query } });
    expectShape('FilePage', page);
    expect(page.data).toHaveLength(1);

    const read = await client.GET(url, { params: { path } });
    expectShape('StoredFile', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { filename: 'greeting.txt' } };
    const changed = await client.PATCH(url, change);
    expectShape('StoredFile', changed.data);
    expect(changed.data.filename).toBe('greeting.txt');
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });

    const whole = await client.GET(`${url}/content`, { params: { path }, parseAs: 'text' });
    expect([whole.response.status, whole.data]).toEqual([200, body.file]);
    const part = { path, header: { Range: 'bytes=0-4' } };
    const cut = await client.GET(`${url}/content`, {
      params: part,
      parseAs: 'text',
      ...preferring(206),
    });
    expect([cut.response.status, cut.data]).toEqual([206, 'Hello']);
    const beyond = { path, header: { Range: 'bytes=99-' } };
    const none = await refusal(client.GET(`${url}/content`, { params: beyond, ...preferring(416) }));
    expect(none).toMatchObject({ status: 416, code: 'range_not_satisfiable' });

    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });
}
