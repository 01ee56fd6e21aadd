/** Journeys of files: uploaded, found by their bytes, changed, downloaded whole and in part, and deleted. */
import { expect, test } from 'vitest';
import { formOf } from '../access/wire.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/files/{file_id}';

export function fileJourneys(target: () => Target): void {
  test('a file is uploaded, found by its bytes, changed, downloaded whole and in part, and deleted', async () => {
    const { client, liveOnly } = target();
    const body = { filename: 'hello.txt', metadata: { ticket: 'A-1' }, file: 'Hello, files!\n' };
    const made = await client.POST('/api/v1/files', { body, bodySerializer: formOf });
    expect(made.response.status).toBe(201);
    expectShape('StoredFile', made.data);
    expect(made.data.metadata).toEqual(body.metadata);
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

    const told = await client.GET(`${url}/text`, { params: { path } });
    expectShape('FileText', told.data);
    expect(told.data).toMatchObject({ status: 'ready', text: body.file, next_offset: null });

    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('an upload is begun, gone on with, completed, and another given up', async () => {
    const { client, liveOnly } = target();
    const content = 'Hello, world!\n';
    const sha256 = 'd9014c4624844aa5bac314773d6b689ad467fa4e1d1a50a1b8a99d5a95f72ff5';
    const begin = () =>
      client.POST('/api/v1/files/uploads', { body: { filename: 'hello.txt', size: 14, sha256 } });
    const begun = await begin();
    expect(begun.response.status).toBe(201);
    expectShape('FileUploadState', begun.data);
    const upload_id = begun.data.id;
    const append = (offset: number, part: string) =>
      client.PATCH('/api/v1/files/uploads/{upload_id}', {
        params: { path: { upload_id }, header: { 'Upload-Offset': offset } },
        headers: { 'Content-Type': 'application/octet-stream' },
        body: part,
        bodySerializer: (bytes) => bytes,
      });
    expect((await append(0, content.slice(0, 5))).response.status).toBe(204);
    await liveOnly(async () => {
      const wrong = await refusal(append(0, content));
      expect([wrong.status, wrong.code, wrong.headers.get('Upload-Offset')]).toEqual([
        ...[409, 'upload_conflict', '5'],
      ]);
    });
    expect((await append(5, content.slice(5))).response.status).toBe(204);
    const complete = '/api/v1/files/uploads/{upload_id}/complete';
    const made = await client.POST(complete, { params: { path: { upload_id } } });
    expect(made.response.status).toBe(201);
    expectShape('StoredFile', made.data);
    expect(made.data).toMatchObject({ size: 14, sha256 });
    const other = (await begin()).data.id;
    const gone = { params: { path: { upload_id: other } } };
    expect((await client.DELETE('/api/v1/files/uploads/{upload_id}', gone)).response.status).toBe(204);
  });
}
