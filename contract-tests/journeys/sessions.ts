/** Journeys of a session: it is made, found, changed, asked, and deleted; and an agent asks back. */
import type { PermissionRequest, PromptRequest } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { replyPermission, replyPrompt } from '@service/client/reply';
import { type RunEvent, streamQuery } from '@service/client/stream';
import { expect, test } from 'vitest';
import { example, expectShape, nobodys, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/sessions/{session_id}';

export function sessionJourneys(target: () => Target): void {
  test('a session is made, read, changed by who has read it, and deleted', async () => {
    const { client, liveOnly } = target();
    const made = await client.POST('/api/v1/sessions', { body: { title: 'New idea', tags: ['a'] } });
    expect(made.response.status).toBe(201);
    expectShape('Session', made.data);
    const path = { session_id: made.data.id };
    await liveOnly(() =>
      expect(made.response.headers.get('Location')).toBe(`/api/v1/sessions/${made.data.id}`),
    );

    const read = await client.GET(url, { params: { path } });
    expectShape('Session', read.data);
    await liveOnly(() => expect(read.data).toEqual(made.data));
    const etag = read.response.headers.get('ETag') ?? '';
    const header = { 'If-None-Match': etag };
    const same = await refusal(client.GET(url, { params: { path, header }, ...preferring(304) }));
    expect(same).toMatchObject({ status: 304, code: 'not_modified' });

    const change = { params: { path, header: { 'If-Match': etag } }, body: { title: 'First steps' } };
    const changed = await client.PATCH(url, change);
    expectShape('Session', changed.data);
    expect(changed.data.title).toBe('First steps');
    await liveOnly(() => expect(changed.response.headers.get('ETag')).not.toBe(etag));
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const held = client.DELETE(url, { params: change.params, ...preferring(412) });
    expect(await refusal(held)).toMatchObject({ status: 412, code: 'precondition_failed' });

    const deleted = await client.DELETE(url, { params: { path } });
    expect(deleted.response.status).toBe(204);
    expect(await refusal(client.GET(url, { params: { path }, ...preferring(404) }))).toMatchObject({
      status: 404,
      code: 'not_found',
    });
  });

  test('sessions are listed page after page, in order, by tag, and with the cursor of that list only', async () => {
    const { client, liveOnly } = target();
    const titles = ['one', 'two', 'three', 'four', 'five'];
    for (const title of titles) await client.POST('/api/v1/sessions', { body: { title, tags: ['paged'] } });
    const query = { limit: 2, tag: 'paged', sort: 'created_at' as const };
    const found: string[] = [];
    for await (const session of paginate((page) =>
      client.GET('/api/v1/sessions', { params: { query: { ...query, ...page } } }),
    )) {
      expectShape('Session', session);
      found.push(session.title);
    }
    await liveOnly(() => expect(found).toEqual(titles));
    const { data: page } = await client.GET('/api/v1/sessions', { params: { query } });
    expectShape('SessionPage', page);
    await liveOnly(async () => {
      const cursor = page.next_cursor ?? '';
      const other = client.GET('/api/v1/sessions', { params: { query: { cursor, tag: 'other' } } });
      expect(await refusal(other)).toMatchObject({ status: 400, code: 'invalid_cursor' });
    });
  });

  test('a session of somebody else is not there', async () => {
    const { visitor, client, clientWith, liveOnly } = target();
    const { data: session } = await client.POST('/api/v1/sessions', { body: {} });
    const body = { email: `stranger-${Math.random()}@example.com`, password: 'correct-horse-battery' };
    const { data: pair } = await visitor.POST('/api/v1/auth/register', { body });
    const stranger = clientWith(pair.access_token);
    const params = { path: { session_id: session.id } };
    const theirs = await refusal(stranger.GET(url, { params, ...preferring(404) }));
    const nothing = { path: { session_id: `ses_${nobodys}` } };
    const none = await refusal(stranger.GET(url, { params: nothing, ...preferring(404) }));
    expect([theirs.status, theirs.code, theirs.detail]).toEqual([none.status, none.code, none.detail]);
    await liveOnly(async () => expect((await stranger.GET('/api/v1/sessions')).data.data).toEqual([]));
  });

  test('a query is answered and its messages are kept', async () => {
    const { client, liveOnly } = target();
    const { data: session } = await client.POST('/api/v1/sessions', { body: {} });
    const { data: answer } = await client.POST('/api/v1/query', {
      body: { prompt: 'Say hello.', session_id: session.id },
    });
    expectShape('QueryResponse', answer);
    expect(answer.status).toBe('completed');
    const params = { path: { session_id: session.id } };
    const { data: messages } = await client.GET(`${url}/messages`, { params });
    expectShape('MessagePage', messages);
    expect(messages.data.map(({ role }) => role)).toEqual(['user', 'assistant']);
    await liveOnly(async () => {
      expect(answer).toMatchObject({
        session_id: session.id,
        content: [{ type: 'text', text: 'You said: Say hello.' }],
      });
      const read = await client.GET(url, { params });
      expect(read.data).toMatchObject({ message_count: 2, status: 'idle' });
    });
  });

  test('a query that names what does not exist is refused, and leaves nothing behind', async () => {
    const { client, liveOnly } = target();
    const count = async () => (await client.GET('/api/v1/metrics')).data.sessions;
    const before = await count();
    for (const [code, body] of [
      ['not_found', { prompt: 'Hi', session_id: `ses_${nobodys}` }],
      ['corpus_not_found', { prompt: 'Hi', corpus_id: 'none' }],
      ['agent_not_found', { prompt: 'Hi', agent_slug: 'none' }],
      ['model_not_found', { prompt: 'Hi', model: 'nobody:none' }],
    ] as const) {
      const refused = await refusal(client.POST('/api/v1/query', { body, ...preferring(404) }));
      expect(refused.status).toBe(404);
      await liveOnly(() => expect(refused.code).toBe(code));
    }
    expect(await count()).toBe(before);
  });

  test('a tool call waits for a permission, is allowed once, and the first answer stands', async () => {
    const { client, liveOnly } = target();
    let request: Pick<PermissionRequest, 'id' | 'session_id'> = {
      id: example.permission,
      session_id: example.session,
    };
    let rest: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      rest = streamQuery(client, {
        prompt: 'use tool write with {"file_path": "hello.txt", "content": "Hi"}',
      });
      request = await permissionRequestOf(rest);
      expectShape('PermissionRequest', request);
    });
    const answered = await replyPermission(client, request, { decision: 'allow_once' });
    expectShape('PermissionRequest', answered);
    expect(answered).toMatchObject({ status: 'answered', decision: 'allow_once' });
    await liveOnly(async () => {
      const events = await remaining(rest);
      expect(named(events)).toContain('permission_resolved');
      expect(named(events)).toContain('tool_finished');
      expect(events.at(-1)).toMatchObject({
        event: 'done',
        data: { tool_results: [{ name: 'write', is_error: false }] },
      });
      const late = await refusal(replyPermission(client, request, { decision: 'deny' }));
      expect(late).toMatchObject({ status: 409, code: 'already_answered' });
    });
    const params = { path: { session_id: request.session_id }, query: { status: 'answered' as const } };
    const { data: page } = await client.GET(`${url}/permissions`, { params });
    expectShape('PermissionRequestPage', page);
    expect(page.data).toHaveLength(1);
  });

  test('a denied tool call does not run, and the model is told why', async () => {
    const { client, liveOnly } = target();
    let request: Pick<PermissionRequest, 'id' | 'session_id'> = {
      id: example.permission,
      session_id: example.session,
    };
    let rest: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      rest = streamQuery(client, { prompt: 'use tool bash with {"command": "touch never"}' });
      request = await permissionRequestOf(rest);
    });
    const reply = { decision: 'deny' as const, message: 'Not today.' };
    expectShape('PermissionRequest', await replyPermission(client, request, reply));
    await liveOnly(async () => {
      const done = (await remaining(rest)).at(-1);
      expect(done).toMatchObject({
        event: 'done',
        data: { tool_results: [{ name: 'bash', is_error: true }] },
      });
      expect(JSON.stringify(done)).toContain('Not today.');
    });
  });

  test('an agent asks a question and goes on with the answer', async () => {
    const { client, liveOnly } = target();
    let request: Pick<PromptRequest, 'id' | 'session_id'> = {
      id: example.prompt,
      session_id: example.session,
    };
    let rest: AsyncGenerator<RunEvent> | undefined;
    await liveOnly(async () => {
      const questions = [{ id: 'colour', type: 'free_text', text: 'Which colour?' }];
      rest = streamQuery(client, { prompt: `use tool ask_user with ${JSON.stringify({ questions })}` });
      request = await promptRequestOf(rest);
      expectShape('PromptRequest', request);
    });
    const answers = [{ question_id: 'colour', fill_in_text: 'green' }];
    const answered = await replyPrompt(client, request, { answers });
    expectShape('PromptRequest', answered);
    expect(answered).toMatchObject({ status: 'answered', answers });
    await liveOnly(async () => {
      const done = (await remaining(rest)).at(-1);
      expect(done).toMatchObject({
        event: 'done',
        data: { tool_results: [{ name: 'ask_user', is_error: false }] },
      });
      expect(JSON.stringify(done?.data)).toContain('green');
      const late = await refusal(replyPrompt(client, request, { cancelled: true }));
      expect(late).toMatchObject({ status: 409, code: 'already_answered' });
    });
    const params = { path: { session_id: request.session_id } };
    const { data: page } = await client.GET(`${url}/prompts`, { params });
    expectShape('PromptRequestPage', page);
  });
}

async function permissionRequestOf(events: AsyncGenerator<RunEvent>): Promise<PermissionRequest> {
  for (let next = await events.next(); !next.done; next = await events.next()) {
    const { event, data } = next.value;
    if (event === 'runtime' && data.type === 'permission_requested') return data.request;
  }
  throw new Error('The run ended without asking for permission');
}

async function promptRequestOf(events: AsyncGenerator<RunEvent>): Promise<PromptRequest> {
  for (let next = await events.next(); !next.done; next = await events.next()) {
    const { event, data } = next.value;
    if (event === 'runtime' && data.type === 'prompt_requested') return data.request;
  }
  throw new Error('The run ended without asking a question');
}

async function remaining(events: AsyncGenerator<RunEvent> | undefined): Promise<RunEvent[]> {
  return events ? Array.fromAsync(events) : [];
}

function named(events: readonly RunEvent[]): string[] {
  return events.flatMap(({ event, data }) => (event === 'runtime' ? [data.type] : []));
}
