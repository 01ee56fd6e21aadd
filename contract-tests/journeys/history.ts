/** Journeys through what a session remembers: found, branched off from, rated, gone back on. */
import { expect, test } from 'vitest';
import { expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/sessions/{session_id}';

export function historyJourneys(target: () => Target): void {
  test('what was said is found, branched off from, put otherwise and deleted', async () => {
    const { client, liveOnly } = target();
    const { data: answer } = await client.POST('/api/v1/query', { body: { prompt: 'Say platypus.' } });
    const path = { session_id: answer.session_id };
    const { data: messages } = await client.GET(`${url}/messages`, { params: { path } });
    const message_id = messages.data[0]?.id ?? '';

    const found = await client.POST('/api/v1/sessions/search', {
      body: { query: 'platyp', in: ['message'] },
    });
    expectShape('SearchPage', found.data);
    await liveOnly(() =>
      expect(found.data.data.map(({ message_id: id }) => id)).toEqual(
        messages.data.map(({ id }) => id).reverse(),
      ),
    );

    const forked = await client.POST(`${url}/fork`, {
      params: { path },
      body: { at_message_id: message_id },
    });
    expectShape('Session', forked.data);
    expect(forked.response.status).toBe(201);
    const fork = { session_id: forked.data.id };
    await liveOnly(() => expect(forked.data).toMatchObject({ parent_id: path.session_id, message_count: 1 }));

    const params = { path: { ...path, message_id } };
    const read = await client.GET(`${url}/messages/{message_id}`, { params });
    expectShape('Message', read.data);
    const rated = await client.PATCH(`${url}/messages/{message_id}`, {
      params,
      body: { feedback: { rating: 'up' } },
    });
    expectShape('Message', rated.data);
    await liveOnly(async () => {
      expect(rated.data).toEqual({ ...read.data, feedback: { rating: 'up' } });
      const edited = await client.PATCH(`${url}/messages/{message_id}`, {
        params,
        body: { text: 'Say echidna.' },
      });
      expect(edited.data.id).not.toBe(message_id);
      const left = await client.GET(`${url}/messages`, { params: { path } });
      expect(left.data.data).toEqual([edited.data]);
    });

    const copies = await client.GET(`${url}/messages`, { params: { path: fork } });
    const copy = { path: { ...fork, message_id: copies.data.data[0]?.id ?? '' } };
    const deleted = await client.DELETE(`${url}/messages/{message_id}`, { params: copy });
    expect(deleted.response.status).toBe(204);
    const gone = client.GET(`${url}/messages/{message_id}`, { params: copy, ...preferring(404) });
    expect(await refusal(gone)).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('what a session changed is told, looked at before it is undone, and undone', async () => {
    const { client, liveOnly } = target();
    const { data: session } = await client.POST('/api/v1/sessions', {
      body: { permission_rules: [{ tool: 'write', decision: 'allow' }] },
    });
    const path = { session_id: session.id };
    const prompt = 'use tool write with {"file_path": "journey.txt", "content": "Hello!\\n"}';
    await client.POST('/api/v1/query', { body: { prompt, session_id: session.id } });
    const { data: diff } = await client.GET(`${url}/diff`, { params: { path } });
    expectShape('SessionDiff', diff);
    await liveOnly(() => expect(diff.files).toMatchObject([{ path: 'journey.txt', status: 'added' }]));
    const { data: messages } = await client.GET(`${url}/messages`, { params: { path } });
    const to_message_id = messages.data[0]?.id ?? '';
    const looked = await client.POST(`${url}/revert`, {
      params: { path },
      body: { to_message_id, dry_run: true },
    });
    expectShape('SessionReverted', looked.data);
    expect(looked.data.dry_run).toBe(true);
    await liveOnly(async () => {
      const { data: reverted } = await client.POST(`${url}/revert`, {
        params: { path },
        body: { to_message_id },
      });
      expect(reverted).toEqual({ ...looked.data, dry_run: false });
      expect(reverted.files).toMatchObject([{ path: 'journey.txt', status: 'deleted' }]);
      expect((await client.GET(`${url}/diff`, { params: { path } })).data.files).toEqual([]);
    });
    const again = client.POST(`${url}/revert`, {
      params: { path },
      body: { to_message_id },
      ...preferring(409),
    });
    expect((await refusal(again)).status).toBeGreaterThanOrEqual(400);
  });
}
