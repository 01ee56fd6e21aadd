/** What a page does with the client; the test of browsers bundles it, and calls it there. */
import { createServiceClient } from './client.ts';
import { streamQuery, streamRunEvents } from './stream.ts';

const client = createServiceClient({
  baseUrl: new URL(import.meta.url).origin,
  token: 'sk-test',
  retries: { limit: 3, baseDelayMs: 1, maxDelayMs: 2 },
});

export async function createSession() {
  return (await client.POST('/api/v1/sessions', { body: { title: 'Grüße' } })).data;
}

export async function deleteSession() {
  const params = { path: { session_id: 'ses_1' } };
  const { data, response } = await client.DELETE('/api/v1/sessions/{session_id}', { params });
  return { hasData: data !== undefined, status: response.status };
}

export async function logOut() {
  const { data, response } = await client.POST('/api/v1/auth/logout', { body: {} });
  return { hasData: data !== undefined, status: response.status };
}

export async function uploadPart() {
  const { response } = await client.PATCH('/api/v1/files/uploads/{upload_id}', {
    params: { path: { upload_id: 'upl_1' }, header: { 'Upload-Offset': 0 } },
    headers: { 'Content-Type': 'application/octet-stream' },
    body: '',
    bodySerializer: () => new Blob(['some bytes']),
  });
  return { status: response.status, offset: response.headers.get('Upload-Offset') };
}

export async function uploadFile() {
  const form = new FormData();
  form.set('file', new Blob(['Hello']), 'hello.txt');
  return (await client.POST('/api/v1/files', { body: { file: '' }, bodySerializer: () => form })).data;
}

export async function ask() {
  const read = [];
  for await (const { id, event } of streamQuery(client, { prompt: 'Hi' })) read.push([id, event]);
  return read;
}

export async function leave() {
  const events = streamRunEvents(client, 'run_2');
  const first = await events.next();
  const next = events.next();
  await events.return();
  return [first.value?.id, (await next).done];
}
