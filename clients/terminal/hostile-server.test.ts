/** What a server sends besides what it should: a terminal obeys none of it, and the system opens nothing by it. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { testHome } from './test-command.ts';

/** Clears the screen, gives it another title, and erases the line before. */
const evil = 'x\u001b[2J\u001b]0;mine\u0007\u009b1A\u202e';
const time = '2027-01-31T18:00:00Z';
const session = {
  ...{ id: `ses_${evil}abcdef`, title: 'A title', model: 'demo:demo-1', status: evil },
  ...{ created_at: evil, updated_at: time },
};
const job = {
  ...{
    id: `job_${evil}abcdef`,
    name: 'A job',
    status: evil,
    pause_reason: evil,
    runs_begun: 1,
    max_runs: null,
  },
  ...{ cron: evil, interval_s: null, run_at: null, timezone: evil, next_runs: [evil] },
  ...{ last_run: { occurrence: time, status: evil, reason: evil, error: null, missed: 0 } },
  ...{ agent_slug: 'coder', prompt: 'Ask.' },
};
const plan = {
  ...{
    id: `plan_${evil}abcdef`,
    session_id: session.id,
    title: 'A plan',
    content: 'Do it.',
    status: 'draft',
  },
  ...{ version: 1, comment: null, carried_out_by: evil, updated_at: time },
};
const run = { run_id: 'run_1', session_id: session.id };
const events = [
  ['runtime', { type: 'run_started', ...run, model: 'demo:demo-1', agent_slug: 'coder' }],
  ['runtime', { type: 'model_retried', ...run, model: 'demo:demo-1', attempt: 2, reason: evil }],
  ['runtime', { type: 'model_replaced', ...run, from: 'a:a', to: evil, reason: evil }],
  ['runtime', { type: 'run_resumed', ...run, step: evil }],
  ['runtime', { type: 'plan_updated', ...run, plan: { ...plan, status: 'proposed' } }],
  ['error', { error: `provider_failed: ${evil}` }],
];
const list = (...data: readonly object[]) => ({ data, has_more: false, next_cursor: null });
const mcpServer = { id: 'mcp_1', name: 'tracker', scope: 'user', args: [], state: 'ready' };

const skill = {
  ...{ id: `skl_${evil}abcdef`, name: 'tidy', description: null, scope: 'user', source: evil },
  ...{ enabled: true, error: null, disabled_by: null, shadowed_by: null, workspace_id: null },
};
const repository = {
  ...{ id: 'skr_1', name: 'tools', url: 'https://x', state: 'proposed', error: null, applied_commit: evil },
};
const proposed = {
  ...{ name: 'tidy', change: evil, description: evil, errors: [], path: evil },
  files: [{ path: evil, change: 'added', size: evil, executable: false, diff: null }],
};

const answers: Readonly<Record<string, object>> = {
  '/api/v1/sessions': list(session),
  '/api/v1/sessions/import': session,
  '/api/v1/scheduler/jobs': list(job),
  '/api/v1/plans': list(plan),
  '/api/v1/skills': list(skill),
  [`/api/v1/skills/${encodeURIComponent(skill.id)}/files`]: {
    ...{ data: [{ path: evil, size: evil, executable: false }], truncated: false },
  },
  '/api/v1/skills/repositories': list(repository),
  '/api/v1/skills/repositories/skr_1/proposal': { commit: evil, skills: [proposed], skipped: [] },
  '/api/v1/memories/import': { lines: evil, created: evil, duplicates: evil, failed: 0, errors: [] },
  '/api/v1/mcp/servers': list(mcpServer),
  '/api/v1/mcp/servers/mcp_1/oauth/start': { authorize_url: 'file:///etc/hostname' },
  [`/api/v1/sessions/${encodeURIComponent(session.id)}/messages`]: list(),
};

async function startHostileServer(): Promise<string> {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://127.0.0.1');
    if (pathname === '/api/v1/query/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const [at, [event, data]] of events.entries())
        response.write(`id: ${at + 1}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
      return void response.end();
    }
    const answer = searchParams.get('archived') === 'true' ? list() : answers[pathname];
    const type = answer ? 'application/json' : 'application/problem+json';
    response.writeHead(answer ? 200 : 404, { 'content-type': type }).end(JSON.stringify(answer ?? {}));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // It listens on TCP.
  return `http://127.0.0.1:${port}`;
}

test.each([
  ['run', 'hello'],
  ['sessions', 'show', 'abcdef'],
  ['sessions', 'import'],
  ['jobs', 'show', 'abcdef'],
  ['plans', 'show', 'abcdef'],
  ['skills', 'show', 'tidy'],
  ['skills', 'repositories', 'show', 'tools'],
  ['memories', 'import'],
])('what a server sends is written as escapes: service %s %s', async (...words) => {
  const server = await startHostileServer();
  const variables = { SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: server };
  const { stdout, stderr } = await testHome().service(words, { variables, input: '{}' });
  expect(`${stdout}${stderr}`).toContain('x\\e[2J\\e]0;mine\\u{7}\\u{9b}1A\\u{202e}');
  expect(`${stdout}${stderr}`).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
});

test('an address that is no page is not opened', async () => {
  const variables = { SERVICE_API_KEY: 'sk-x', SERVICE_SERVER: await startHostileServer() };
  const ended = await testHome().service(['mcp', 'login', 'tracker'], { variables });
  const stderr = expect.stringMatching(/^service: The page that the server names is none\.\n$/);
  expect(ended).toMatchObject({ code: 4, stderr });
});
