/** What a run has spent, may spend and has summed up, when the server is killed: whoever continues it goes on from there. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { Run, Session } from './contract/api.ts';
import { hasEnded, messagesOf, runThat, startCrashing, textIn } from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';

const held = { text: 'Held for a while.', hold_after_chunks: 2 };
const glob = (pattern: string) => [{ name: 'glob', arguments: { pattern } }];

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

/** Kills the server as soon as the run is where it is to die, and gives the one that comes after it. */
async function killed(
  begin: (client: Client) => Promise<string>,
  isThere: (run: Run, asked: number) => boolean,
): Promise<{ readonly client: Client; readonly run: Run }> {
  const folder = await temporaryFolder();
  await writeSettings(folder, {
    models: { large: { provider: 'scripted', model: 'm' } },
    providers: {
      scripted: {
        ...{ type: 'openai-compat', base_url: `${upstream.url}/v1`, api_key: 'k' },
        models: [{ id: 'm', context_window: 10_000, cost_per_1m_in: 1, cost_per_1m_out: 1 }],
      },
    },
  });
  const first = await startCrashing(folder);
  const client = clientOf(first, first.key);
  const runId = await begin(client);
  await expect
    .poll(
      async () => {
        const { body } = await client.get<Run>(`/api/v1/runs/${runId}`);
        return isThere(body, (await upstream.requests()).length);
      },
      { timeout: 60_000 },
    )
    .toBe(true);
  await first.kill9();
  const second = await startCrashing(folder);
  const next = clientOf(second, first.key);
  return { client: next, run: await runThat(next, runId, hasEnded, 30_000) };
}

test('a limit of a query holds for the run after its process has died, and counts what was spent before', async () => {
  const busy = (pattern: string) => ({ tool_calls: glob(pattern), usage: { input: 900, output: 100 } });
  // Nothing of the answer is there when the process dies, so that none of it is paid for.
  const unheard = { ...held, first_byte_delay_ms: 8000 };
  await upstream.script([{ when: { step: 2 }, times: 1, reply: unheard }, { reply: busy('{{step}}.txt') }]);
  const { run, client } = await killed(
    async (asked) =>
      (await asked.stream('/api/v1/query/stream', { prompt: 'x', limits: { max_steps: 4 } })).runId,
    (_run, asked) => asked === 3,
  );
  expect(run).toMatchObject({
    status: 'completed',
    stop_reason: 'step_limit',
    steps: 4,
    resumptions: 1,
    usage: { input_tokens: 3600, output_tokens: 400 },
    cost: 0.004,
  });
  const { body } = await client.get<Session>(`/api/v1/sessions/${run.session_id}`);
  expect(body).toMatchObject({ cost: 0.004, usage: { input_tokens: 3600 } });
});

test('arguments of a call that broke off are paid for once, however often the process dies before the next answer', async () => {
  const write = { name: 'write', arguments: { file_path: 'a.txt', content: 'word '.repeat(4000) } };
  await upstream.script([
    { times: 1, reply: { tool_calls: [write], hold_after_chunks: 6 } },
    { times: 1, fail: { kind: 'hang' } },
    { reply: { text: 'Done.', usage: { input: 100, output: 5 } } },
  ]);
  const folder = await temporaryFolder();
  await writeSettings(folder, scriptedSettings(upstream.url));
  const first = await startCrashing(folder);
  const client = clientOf(first, first.key);
  const stream = await client.stream('/api/v1/query/stream', { prompt: 'Go.' });
  await stream.until(({ name, data }) => name === 'message' && data.type === 'tool_input_delta');
  await first.kill9();
  const second = await startCrashing(folder);
  const { usage } = await runThat(clientOf(second, first.key), stream.runId, (run) => run.resumptions === 1);
  // What the instructions and the tools take is read as well.
  expect(usage.input_tokens).toBeGreaterThan(1000);
  expect(usage.output_tokens).toBeGreaterThan(0);
  await expect.poll(async () => (await upstream.requests()).length).toBe(2);
  await second.kill9();
  const third = await startCrashing(folder);
  expect(await runThat(clientOf(third, first.key), stream.runId, hasEnded)).toMatchObject({
    status: 'completed',
    resumptions: 2,
    usage: { input_tokens: usage.input_tokens + 100, output_tokens: usage.output_tokens + 5 },
  });
});

test('a fallback stays for the rest of the run: what it had said is booked as its own, and it is asked again', async () => {
  await upstream.script(
    [
      { when: { model: '^big' }, fail: { kind: 'status', status: 401 } },
      { times: 1, reply: { ...held, text: 'word '.repeat(200), hold_after_chunks: 6 } },
      { reply: { text: 'Done by {{model}}.' } },
    ],
    ['big', 'small'],
  );
  const folder = await temporaryFolder();
  const price = (cost: number) => ({ cost_per_1m_in: cost, cost_per_1m_out: cost });
  await writeSettings(folder, {
    models: { large: { provider: 'scripted', model: 'big', fallbacks: ['scripted:small'] } },
    providers: {
      scripted: {
        ...{ type: 'openai-compat', base_url: `${upstream.url}/v1`, api_key: 'k' },
        models: [
          { id: 'big', ...price(1000) },
          { id: 'small', ...price(1) },
        ],
      },
    },
  });
  const first = await startCrashing(folder);
  const stream = await clientOf(first, first.key).stream('/api/v1/query/stream', { prompt: 'Go.' });
  await stream.until(({ name }) => name === 'message');
  await first.kill9();
  const second = await startCrashing(folder);
  const client = clientOf(second, first.key);
  const run = await runThat(client, stream.runId, hasEnded);
  expect(run).toMatchObject({ status: 'completed', resumptions: 1 });
  const answers = (await messagesOf(client, run.session_id)).filter(({ role }) => role === 'assistant');
  expect(answers.map(({ model }) => model)).toEqual(['scripted:small', 'scripted:small']);
  for (const { usage, cost } of answers)
    expect(cost).toBeCloseTo(((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0)) / 1_000_000, 9);
  expect(textIn(answers.at(-1))).toBe('Done by small.');
});

test('a run that was summed up goes on from the summary, which is written once', async () => {
  await upstream.script([
    { when: { system: '^Sum up' }, reply: { text: 'All of it.' } },
    {
      when: { last_user: '^Bake', step: 0 },
      reply: { tool_calls: glob('*'), usage: { input: 9500, output: 9 } },
    },
    { times: 1, reply: held },
    { reply: { text: 'Baked.' } },
  ]);
  const { run, client } = await killed(
    async (asked) => (await asked.stream('/api/v1/query/stream', { prompt: 'Bake bread.' })).runId,
    (_run, asked) => asked === 3,
  );
  expect(run).toMatchObject({ status: 'completed', stop_reason: 'end_turn', steps: 2, resumptions: 1 });
  const messages = await messagesOf(client, run.session_id);
  expect(messages.filter(({ summary }) => summary)).toHaveLength(1);
  expect(textIn(messages.at(-1))).toBe('Baked.');
  const sent = JSON.stringify((await upstream.latest(() => true)).body);
  expect(sent).toContain('All of it.');
  expect(sent).toContain('Bake bread.');
  expect(sent).not.toContain('tool_call_id');
});

test('a summary that was asked for is written by whoever continues its run', async () => {
  await upstream.script([
    { when: { system: '^Sum up' }, times: 1, reply: held },
    { when: { system: '^Sum up.*Keep names' }, reply: { text: 'Summed up.' } },
    { reply: { text: 'Hello.' } },
  ]);
  const { run, client } = await killed(
    async (asked) => {
      const { body } = await asked.post<{ session_id: string }>('/api/v1/query', { prompt: 'x' });
      const path = `/api/v1/sessions/${body.session_id}/summarize`;
      return (await asked.post<Run>(path, { instructions: 'Keep names.' })).body.id;
    },
    (_run, asked) => asked === 2,
  );
  expect(run).toMatchObject({ status: 'completed', stop_reason: 'end_turn', steps: 0, resumptions: 1 });
  const messages = await messagesOf(client, run.session_id);
  expect(messages.map(({ role, summary }) => [role, summary])).toEqual([
    ['user', false],
    ['assistant', false],
    ['assistant', true],
  ]);
  expect(textIn(messages.at(-1))).toBe('Summed up.');
});
