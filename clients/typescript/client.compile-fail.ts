/** What must not compile. Each line below is an error of its own; the check of types fails if one of them is none. */
import type { ServiceClient } from './client.ts';
import { paginate } from './pagination.ts';
import { replyPermission } from './reply.ts';
import { streamQuery, streamRunEvents } from './stream.ts';

/** Never called: the compiler alone reads it. */
export async function wrongCalls(client: ServiceClient): Promise<void> {
  const params = { path: { session_id: 'ses_1' } };

  // @ts-expect-error There is no such path.
  await client.GET('/api/v1/sesions');
  // @ts-expect-error The path does not know the method.
  await client.POST('/api/v1/users/me', { body: {} });
  // @ts-expect-error The path needs its parameter.
  await client.GET('/api/v1/sessions/{session_id}');
  // @ts-expect-error The parameter has another name.
  await client.GET('/api/v1/sessions/{session_id}', { params: { path: { id: 'ses_1' } } });
  // @ts-expect-error The list has no such filter.
  await client.GET('/api/v1/sessions', { params: { query: { colour: 'red' } } });
  // @ts-expect-error The order is none that the list has.
  await client.GET('/api/v1/sessions', { params: { query: { sort: 'title' } } });
  // @ts-expect-error The operation needs a body.
  await client.POST('/api/v1/sessions');
  // @ts-expect-error The body lacks its prompt.
  await client.POST('/api/v1/query', { body: { model: 'demo:demo-1' } });
  // @ts-expect-error The title is text.
  await client.POST('/api/v1/sessions', { body: { title: 5 } });
  // @ts-expect-error A session has no such member.
  await client.POST('/api/v1/sessions', { body: { title: 'First', colour: 'red' } });
  // @ts-expect-error A present member may not be undefined.
  await client.POST('/api/v1/sessions', { body: { title: undefined } });
  // @ts-expect-error There is no such option of a call.
  await client.GET('/api/v1/sessions', { parms: {} });
  // @ts-expect-error How requests are sent is said once, where the client is made.
  await client.GET('/api/v1/sessions', { fetch: (request: Request) => fetch(request) });
  // @ts-expect-error A request of another's making would be sent without what the client does to its own.
  await client.GET('/api/v1/sessions', { middleware: [] });
  // @ts-expect-error Where the server is, too.
  await client.GET('/api/v1/sessions', { baseUrl: 'http://127.0.0.1:9' });
  // @ts-expect-error Ids are checked before they become part of a path.
  await client.GET('/api/v1/sessions/{session_id}', { params, pathSerializer: (path: string) => path });
  // @ts-expect-error A GET has no body.
  await client.GET('/api/v1/sessions', { body: {} });
  // @ts-expect-error A session has no such member to read.
  (await client.GET('/api/v1/sessions/{session_id}', { params })).data.colour;
  // @ts-expect-error A deletion answers nothing.
  (await client.DELETE('/api/v1/sessions/{session_id}', { params })).data.id;
  // @ts-expect-error Text is not JSON: it has to be read as text.
  (await client.GET('/metrics')).data.length;
  // @ts-expect-error Nor are lines of JSON.
  (await client.GET('/api/v1/audit/logs/export')).data.length;
  // @ts-expect-error No call follows a redirect, which would lead the credential elsewhere.
  await client.GET('/api/v1/sessions', { redirect: 'follow' });
  // @ts-expect-error Only lists have pages.
  void paginate((page) => client.GET('/api/v1/users/me', { params: { query: page } }));
  // @ts-expect-error The query of a stream lacks its prompt.
  void streamQuery(client, { model: 'demo:demo-1' });
  // @ts-expect-error There is no such decision.
  await replyPermission(client, { session_id: 'ses_1', id: 'prm_1' }, { decision: 'perhaps' });

  for await (const event of streamRunEvents(client, 'run_1')) {
    // @ts-expect-error Only a narrowed event has the data of its name.
    event.data.stop_reason;
    // @ts-expect-error There is no such event.
    if (event.event === 'finished') return;
    // @ts-expect-error A runtime event has no such type.
    if (event.event === 'runtime' && event.data.type === 'tool_begun') return;
  }
}
