/** An agent that an agent has started, when the server is killed: both go on, it is started once and asked for once. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { PermissionRequest, Session } from './contract/api.ts';
import { hasEnded, replay, runThat, startCrashing } from './crash-checks.ts';
import type { NumberedEvent } from './runtime/transcript.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const errand = (prompt: string) => ({
  name: 'agent',
  arguments: { description: 'An errand', prompt, agent_slug: 'coder' },
});

test('both go on, and the question is the same', async () => {
  await upstream.script([
    {
      when: { step: 0, last_user: '^Go' },
      reply: { tool_calls: [errand('Write one.'), errand('Write two.')] },
    },
    { when: { last_user: '^Go' }, reply: { text: 'They said: {{last_tool_result}}' } },
    {
      when: { step: 0, last_user: '^Write (?<name>\\w+)' },
      reply: {
        tool_calls: [{ name: 'write', arguments: { file_path: '{{match.name}}.txt', content: 'x' } }],
      },
    },
    { reply: { text: 'Written.' } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const first = await startCrashing(folder);
  const client = clientOf(first, first.key);
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'Go.', permission_mode: 'ask' });
  const asked = () => requestsIn(stream.events);
  await expect.poll(() => asked().length).toBe(2);
  await first.kill9();

  const second = await startCrashing(folder);
  const next = clientOf(second, first.key);
  const waiting = await runThat(
    next,
    stream.runId,
    ({ resumptions, status }) => resumptions === 1 && status === 'waiting_permission',
  );
  const open = `/api/v1/sessions/${waiting.session_id}/permissions?status=pending`;
  const { body: listed } = await next.get<{ data: PermissionRequest[] }>(open);
  expect(listed.data.map(({ id }) => id).sort()).toEqual(
    asked()
      .map(({ id }) => id)
      .sort(),
  );
  for (const { reply_path, run_id } of asked()) {
    await runThat(next, run_id, ({ resumptions }) => resumptions === 1);
    const reply = await next.post(reply_path, { decision: 'allow_once' });
    expect(reply.status).toBe(200);
  }
  const run = await runThat(next, stream.runId, hasEnded);
  expect(run).toMatchObject({ status: 'completed', resumptions: 1 });
  const events = await replay(next, run, stream.events);
  expect(told(events, 'agent_started')).toBe(2);
  expect(told(events, 'agent_finished')).toBe(2);
  expect(progressIn(events)).toEqual(['write\n', 'write\n']);
  expect(requestsIn(events)).toHaveLength(2);
  expect(told(events, 'permission_resolved')).toBe(2);
  const agents = await agentsOf(next, run.session_id);
  expect(agents).toHaveLength(2);
  const { body: session } = await next.get<Session>(`/api/v1/sessions/${run.session_id}`);
  const used = [run, ...agents].map(({ usage }) => usage.input_tokens).reduce((sum, tokens) => sum + tokens);
  expect(session.usage.input_tokens).toBe(used);
  await second.kill9();
});

test('a question of an agent stays open, though its call is numbered as that of its starter', async () => {
  const write = { id: '0', name: 'write', arguments: { file_path: 'one.txt', content: 'x' } };
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [{ id: '0', ...errand('Write.') }] } },
    { when: { step: 0, last_user: '^Write' }, reply: { tool_calls: [write] } },
    { reply: { text: 'It said: {{last_tool_result}}' } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const first = await startCrashing(folder);
  const client = clientOf(first, first.key);
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'Go.', permission_mode: 'ask' });
  await expect.poll(() => requestsIn(stream.events).length).toBe(1);
  await first.kill9();
  const second = await startCrashing(folder);
  const next = clientOf(second, first.key);
  const [asked] = requestsIn(stream.events);
  const isAtWork = ({ resumptions }: { readonly resumptions: number }) => resumptions === 1;
  await runThat(next, stream.runId, (run) => isAtWork(run) && run.status === 'waiting_permission');
  await runThat(next, asked?.run_id ?? '', isAtWork);
  expect((await next.post(asked?.reply_path ?? '', { decision: 'allow_once' })).status).toBe(200);
  const run = await runThat(next, stream.runId, hasEnded);
  const events = await replay(next, run, stream.events);
  expect(events.at(-1)).toMatchObject({ data: { content: [{ text: expect.stringContaining('Created') }] } });
  expect(progressIn(events)).toEqual(['write\n']);
  expect([told(events, 'permission_resolved'), told(events, 'permission_expired')]).toEqual([1, 0]);
  await second.kill9();
});

test('an agent whose starter was stopped just before is stopped too', async () => {
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: [errand('Wait.')] } },
    { fail: { kind: 'hang' } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const first = await startCrashing(folder);
  const client = clientOf(first, first.key);
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'Go.' });
  await stream.until(({ name, data }) => name === 'runtime' && data.type === 'agent_started');
  expect((await client.send('POST', `/api/v1/runs/${stream.runId}/interrupt`)).status).toBe(202);
  await first.kill9();
  const second = await startCrashing(folder);
  const next = clientOf(second, first.key);
  const run = await runThat(next, stream.runId, hasEnded);
  expect(run.status).toBe('interrupted');
  const [agent] = await agentsOf(next, run.session_id);
  const status = async () => (await next.get<Session>(`/api/v1/sessions/${agent?.id}`)).body.status;
  await expect.poll(status).toBe('idle');
  await second.kill9();
});

function requestsIn(events: readonly NumberedEvent[]): PermissionRequest[] {
  return events.flatMap(({ name, data }) =>
    name === 'runtime' && data.type === 'permission_requested' ? [data.request] : [],
  );
}

/** What the agents do, as whoever follows their starter sees it. */
function progressIn(events: readonly NumberedEvent[]): string[] {
  return events.flatMap(({ name, data }) =>
    name === 'runtime' && data.type === 'tool_progress' ? [data.text] : [],
  );
}

function told(events: readonly NumberedEvent[], type: string): number {
  return events.filter(({ name, data }) => name === 'runtime' && data.type === type).length;
}

async function agentsOf(client: Client, sessionId: string): Promise<readonly Session[]> {
  return (await client.get<{ data: Session[] }>(`/api/v1/sessions?parent_id=${sessionId}`)).body.data;
}
