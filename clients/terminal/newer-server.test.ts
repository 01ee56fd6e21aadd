/** A server of a later version says what this command has no words for: it is shown as it is, and nothing ends over it. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { launcher, testHome } from './test-command.ts';
import { openTestTerminal } from './test-terminal.ts';

const time = '2027-01-31T18:00:00Z';
const ids = { session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza', run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tza' };
const used = { usage: { input_tokens: 1, output_tokens: 1, cached_input_tokens: 0 }, cost: 0 };
const session = {
  ...{ id: ids.session_id, title: 'A title', model: 'demo:demo-1', status: 'dreaming' },
  ...{ created_at: time, updated_at: time },
};
const plan = {
  ...{ id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tza', session_id: session.id, title: 'A plan', content: 'Do it.' },
  // Every object inherits something of this name.
  ...{ status: 'constructor', version: 1, comment: null, carried_out_by: null, updated_at: time, steps: [] },
};
const inspection = {
  ...{ session_id: session.id, status: 'dreaming', agent_slug: 'coder', model: 'demo:demo-1', run: null },
  ...{ queue: [], permission_requests: [], prompt_requests: [], tools: [], jobs: [], unavailable: null },
  todos: [{ content: 'Look', status: 'delegated', active_form: 'Looking' }],
  context: { used: 1, window: null, estimated: 1, parts: [] },
  extensions: [{ extension: 'mcp', name: 'tracker', state: 'hibernating', detail: null }],
};
const asked = { ...ids, tool_call_id: 'call_1', status: 'pending', created_at: time, expires_at: time };
const permission = (id: string, options: readonly string[]) => ({
  ...{ ...asked, id: `per_01k9w6r3h2e7xv5q0c8m4b1tz${id}`, tool_name: 'ship', action: 'deploy', path: '.' },
  ...{ description: 'Ships it.', params: {}, diff: null, grants: [], options },
});
const prompt = {
  ...{ ...asked, id: 'prm_01k9w6r3h2e7xv5q0c8m4b1tza' },
  questions: [
    { id: 'q', type: 'slider', text: 'How much?', choices: [{ id: 'a', label: 'Little' }] },
    { id: 'r', type: 'yes_no', text: 'Sure?', optional: true },
  ],
};
const done = {
  ...{ ...ids, ...used, id: 'msg_1', model: 'demo:demo-1', status: 'interrupted', stop_reason: 'moved' },
  ...{ interrupt_reason: 'moved_away', content: [], tool_uses: [], tool_results: [], rag_results: [] },
};
/** Each waits for the answer to the one before, if that is a question that can be answered. */
const events = [
  ['runtime', { type: 'plan_updated', ...ids, plan: { ...plan, status: 'parked' } }],
  [
    'runtime',
    { type: 'permission_requested', ...ids, request: permission('a', ['allow_hour', 'allow_once']) },
  ],
  ['runtime', { type: 'prompt_requested', ...ids, request: prompt }],
  ['runtime', { type: 'permission_requested', ...ids, request: permission('b', ['allow_hour']) }],
  ['done', done],
] as const;

async function startNewerServer(): Promise<{ url: string; heard: unknown[]; finish: () => void }> {
  const heard: unknown[] = [];
  let stream: ServerResponse | null = null;
  let sent = 0;
  const send = (count: number) => {
    for (; sent < count; sent += 1) {
      const [event, data] = events[sent] ?? [];
      stream?.write(`id: ${sent + 1}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
  };
  const answers: Readonly<Record<string, object>> = {
    [`/api/v1/sessions/${session.id}`]: session,
    [`/api/v1/sessions/${session.id}/inspect`]: inspection,
    [`/api/v1/plans/${plan.id}`]: plan,
  };
  const server = createServer(async (request, response) => {
    const { method, url = '' } = request;
    const body = method === 'POST' ? JSON.parse(await text(request)) : null;
    if (url === '/api/v1/query/stream') {
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
      return send(2);
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answers[url] ?? {}));
    if (method !== 'POST') return;
    heard.push(body);
    // The answer to the second question brings the third, which none can be given to.
    send(heard.length + 2);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  return { url: `http://127.0.0.1:${port}`, heard, finish: () => send(events.length) };
}

test.each([
  [['plans', 'show', plan.id], /^A plan\nconstructor · plan_/],
  [['sessions', 'inspect', session.id], /To do {6}delegated: Look\n[\s\S]*MCP {8}tracker {2}hibernating\n/],
])('states that are not known here are shown as they are: service %j', async (words, shown) => {
  const { url } = await startNewerServer();
  const variables = { SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: url };
  const ended = await testHome().service(words, { variables });
  expect(ended).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(shown) });
});

test('questions with answers that are not known here can be answered as far as they are', async () => {
  const [home, { url, heard, finish }] = [testHome(), await startNewerServer()];
  const terminal = await openTestTerminal([launcher, 'run', 'go'], {
    cwd: home.project,
    environment: { ...home.environment, SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: url },
  });
  const question = await terminal.shows('a allow once');
  expect(question).toMatch(
    /▤ A plan \(parked, version 1\)\n\? ship asks to deploy in this folder\n {2}Ships it\.\n {2}The server would also take, and this version does not know: allow_hour\n/,
  );
  expect(question).not.toContain('undefined');
  await terminal.press('a');
  await terminal.shows(/How much\?[\s\S]*In your own words:/);
  await terminal.press('1', '0', 'Enter');
  await terminal.shows(/Sure\?[\s\S]*\(Enter: leave it open\) \[y\/n\]/);
  await terminal.press('Enter');
  await terminal.shows(
    /asks to deploy[\s\S]*→ The server takes no answer that this command knows \(allow_hour\)/,
  );
  finish();
  const { screen, code } = await terminal.end();
  expect(code).toBe(1);
  expect(screen).toContain('The run was interrupted (moved_away).');
  expect(heard).toEqual([
    { decision: 'allow_once' },
    { answers: [{ question_id: 'q', fill_in_text: '10' }, { question_id: 'r' }] },
  ]);
});
