/**
 * A session with the service from beginning to end: it streams a query, answers the permission request of a tool call,
 * hears from the workspace that the run has ended, and lists the messages. Run it with `node example.ts`; SERVICE_URL and SERVICE_TOKEN say where and as whom, and
 * without a token it registers an account. It ends with an error where the service does not do what it should.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServiceClient } from './client.ts';
import { streamEvents } from './events.ts';
import { paginate } from './pagination.ts';
import { replyPermission } from './reply.ts';
import { streamQuery } from './stream.ts';

const baseUrl = process.env.SERVICE_URL ?? 'http://127.0.0.1:8090';
const token = process.env.SERVICE_TOKEN ?? (await register());
const client = createServiceClient({ baseUrl, token });
const signal = AbortSignal.timeout(60_000);

const { data: session } = await client.POST('/api/v1/sessions', { body: { title: 'Example' }, signal });

const workspace = streamEvents(client, { sessionId: session.id, types: ['run_ended'], signal });
await workspace.next(); // It is open: nothing that happens from now on is missed.

let written = '';
let asked = 0;
let stopReason: string | null = null;
const prompt = `Please write a file named hello-${Date.now()}.txt`;
const query = { prompt, session_id: session.id, model: 'demo:demo-1' };
for await (const { event, data } of streamQuery(client, query, { signal })) {
  if (event === 'message' && data.type === 'text_delta') {
    process.stdout.write(data.text);
    written += data.text;
  } else if (event === 'runtime' && data.type === 'permission_requested') {
    console.log(`\n[${data.request.description} I allow it once.]`);
    asked += 1;
    await replyPermission(client, data.request, { decision: 'allow_once' }, { signal });
  } else if (event === 'done') {
    stopReason = data.stop_reason;
  } else if (event === 'error') {
    throw new Error(`The run failed: ${data.error}`);
  }
}
console.log();

let ended: string | null = null;
for await (const { event, data } of workspace) {
  if (event === 'error') throw new Error(`The workspace cannot be followed: ${data.error}`);
  if (event !== 'workspace' || data.event.type !== 'run_ended') continue;
  ended = data.event.status;
  break;
}

const roles: string[] = [];
const path = { session_id: session.id };
const messages = paginate((page) =>
  client.GET('/api/v1/sessions/{session_id}/messages', { params: { path, query: page }, signal }),
);
for await (const message of messages) roles.push(message.role);
console.log(`The session holds ${roles.length} messages: ${roles.join(', ')}.`);

assert.equal(asked, 1, 'The tool call should have needed one permission.');
assert.equal(stopReason, 'end_turn', 'The run should have come to its end.');
assert.equal(ended, 'completed', 'The workspace should have told so.');
assert.match(written, /\S/, 'The answer should have a text.');
assert.deepEqual(
  roles,
  ['user', 'assistant', 'tool', 'assistant'],
  'The session should hold the whole exchange.',
);

async function register(): Promise<string> {
  const account = { email: `example-${randomUUID()}@example.com`, password: randomUUID() };
  const { data } = await createServiceClient({ baseUrl }).POST('/api/v1/auth/register', { body: account });
  return data.access_token;
}
