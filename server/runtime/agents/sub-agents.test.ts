/** Agents that agents start, in a runtime by itself: what they may do, and how they end. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { ClientConfig } from '../../contract/config.ts';
import { createMemoryTranscript, type MemoryTranscript } from '../memory/memory-transcript.ts';
import { createRuntime, type Query, type Runtime } from '../runtime.ts';
import { testFolder } from '../test-conversation.ts';
import { testQuery } from '../test-query.ts';
import type { NumberedEvent } from '../transcript.ts';

let upstream: Upstream;
let runtime: Runtime | undefined;
let transcript: MemoryTranscript;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterEach(() => runtime?.close());
afterAll(() => upstream.stop());

const errand = (prompt: string, more: object = {}) => ({
  name: 'agent',
  arguments: { description: 'An errand', prompt, ...more },
});
/** The parent's first answer starts agents, its second tells what they said. */
const parent = (...calls: object[]) => [
  { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: calls } },
  { when: { last_user: '^Go' }, reply: { text: 'They said: {{last_tool_result}}' } },
];

async function open(path: string, config: ClientConfig = {}): Promise<Runtime> {
  transcript = createMemoryTranscript();
  const scripted = {
    type: 'openai-compat' as const,
    base_url: `${upstream.url}/v1`,
    api_key: 'k',
    models: [{ id: 'm-1' }],
  };
  runtime = await createRuntime(
    { ...config, providers: { scripted } },
    { workspacePath: async () => path, transcript },
  );
  return runtime;
}

async function watch(
  at: Runtime,
  query: Partial<Query> = {},
  onEvent?: (event: NumberedEvent, runId: string) => void,
): Promise<NumberedEvent[]> {
  const { runId } = await at.start(testQuery('Go.', { onUnanswered: 'wait', ...query }));
  const events: NumberedEvent[] = [];
  const signal = AbortSignal.timeout(50_000);
  for await (const event of at.follow(runId, { after: 0, follow: true, signal })) {
    events.push(event);
    onEvent?.(event, runId);
  }
  return events;
}

function told<Type extends string>(events: readonly NumberedEvent[], type: Type) {
  return events.flatMap(({ name, data }) =>
    name === 'runtime' && data.type === type ? [data as Extract<typeof data, { type: Type }>] : [],
  );
}

function doneOf(events: readonly NumberedEvent[]) {
  const last = events.at(-1);
  if (last?.name !== 'done') throw new Error(`the run ended with ${JSON.stringify(last)}`);
  return last.data;
}

describe('an agent that an agent starts', () => {
  test('sees its errand alone, has the tools of its own profile, and gives back its last answer', async () => {
    const { path } = await testFolder();
    await upstream.script([
      ...parent(errand('Find it.')),
      { reply: { text: '{{last_user}} with {{tools}}' } },
    ]);
    const at = await open(path);
    const events = await watch(at);
    const { content } = doneOf(events).tool_results[0] ?? { content: '' };
    expect(content).toMatch(/^Find it\. with /);
    for (const tool of ['view', 'grep']) expect(content).toContain(tool);
    for (const tool of ['write', 'bash', 'agent', 'ask_user'])
      expect(content).not.toMatch(new RegExp(`\\b${tool}\\b`));
    const [started] = told(events, 'agent_started');
    expect(started).toMatchObject({ agent_slug: 'task', description: 'An errand' });
    expect(told(events, 'agent_finished')).toMatchObject(
      [{ ...started, type: 'agent_finished', status: 'completed', description: undefined }].map(
        ({ description: _, ...one }) => one,
      ),
    );
    const messages = await transcript.readMessages(started?.session_id ?? '');
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant']);
  });

  test('asks people through the stream of the run that started it, under the same mode', async () => {
    const { path } = await testFolder();
    await upstream.script([
      ...parent(errand('Write it.', { agent_slug: 'coder' })),
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'x' } }] },
      },
      { reply: { text: 'Written: {{last_tool_result}}' } },
    ]);
    const at = await open(path);
    const events = await watch(at, {}, ({ data }, runId) => {
      if (!('type' in data) || data.type !== 'permission_requested') return;
      expect(data.request.run_id).not.toBe(runId);
      transcript.answerPermission(data.request.id, 'allow_once');
      at.wake(data.request.run_id);
    });
    expect(told(events, 'permission_requested')).toHaveLength(1);
    expect(told(events, 'permission_resolved')).toMatchObject([{ decision: 'allow_once' }]);
    expect(existsSync(join(path, 'a.txt'))).toBe(true);
  });

  test('remembers what was granted for the session, also in what is started next', async () => {
    const { path } = await testFolder();
    const write = (name: string) => ({
      when: { step: 0, last_user: name },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path: `${name}.txt`, content: 'x' } }] },
    });
    await upstream.script([
      {
        when: { step: 0, last_user: '^Go' },
        reply: { tool_calls: [errand('one', { agent_slug: 'coder' })] },
      },
      {
        when: { step: 1, last_user: '^Go' },
        reply: { tool_calls: [errand('two', { agent_slug: 'coder' })] },
      },
      write('one'),
      write('two'),
      { reply: { text: 'Done.' } },
    ]);
    const at = await open(path);
    const events = await watch(at, {}, ({ data }) => {
      if (!('type' in data) || data.type !== 'permission_requested') return;
      transcript.answerPermission(data.request.id, 'allow_session');
      at.wake(data.request.run_id);
    });
    expect(told(events, 'agent_started')).toHaveLength(2);
    expect(told(events, 'permission_requested')).toHaveLength(1);
    expect(existsSync(join(path, 'two.txt'))).toBe(true);
  });

  test('may do no more than who started it: neither by its mode, nor by its tools', async () => {
    const { path } = await testFolder();
    await upstream.script([
      ...parent(errand('Write it.', { agent_slug: 'coder' })),
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'x' } }] },
      },
      { reply: { text: 'I have {{tools}} and got {{last_tool_result}}' } },
    ]);
    const at = await open(path);
    for (const query of [
      { agentSlug: 'plan', permissionMode: 'bypass' as const },
      { permissionMode: 'read_only' as const },
    ]) {
      const { content } = doneOf(await watch(at, query)).tool_results[0] ?? { content: '' };
      expect(content).toMatch(/There is no tool write|read_only/);
    }
    expect(existsSync(join(path, 'a.txt'))).toBe(false);
  });

  test('is guarded by the same hooks', async () => {
    const { path } = await testFolder();
    await upstream.script([
      ...parent(errand('Write it.', { agent_slug: 'coder' })),
      {
        when: { step: 0 },
        reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'x' } }] },
      },
      { reply: { text: '{{last_tool_result}}' } },
    ]);
    const hooks = { pre_tool_use: [{ matcher: '^write$', command: 'echo Not here. >&2; exit 2' }] };
    const at = await open(path, { hooks });
    const events = await watch(at, { permissionMode: 'bypass' });
    expect(doneOf(events).tool_results[0]?.content).toContain('Not here.');
    expect(existsSync(join(path, 'a.txt'))).toBe(false);
  });

  test('is stopped with the run that started it', async () => {
    const { path } = await testFolder();
    await upstream.script([...parent(errand('Wait.')), { fail: { kind: 'hang' } }]);
    const at = await open(path);
    const events = await watch(at, {}, ({ data }, runId) => {
      if (!('type' in data) || data.type !== 'agent_started') return;
      transcript.requestInterrupt(runId);
      at.wake(runId);
    });
    expect(doneOf(events).status).toBe('interrupted');
    const childRun = told(events, 'agent_started')[0]?.run_id ?? '';
    expect((await transcript.readEvents(childRun, 0, 100)).at(-1)).toMatchObject({
      name: 'done',
      data: { status: 'interrupted', interrupt_reason: 'requested' },
    });
    expect(told(events, 'agent_finished')).toMatchObject([{ status: 'interrupted' }]);
  });

  test('leaves no command at work in the background when it has ended', async () => {
    const { path } = await testFolder();
    const beat = 'while :; do date +%N > beat; sleep 0.05; done';
    await upstream.script([
      ...parent(errand('Keep the beat.', { agent_slug: 'coder' })),
      {
        when: { step: 0, last_user: 'beat' },
        reply: { tool_calls: [{ name: 'bash', arguments: { command: beat, run_in_background: true } }] },
      },
      {
        when: { step: 1, last_user: 'beat' },
        reply: {
          tool_calls: [{ name: 'bash', arguments: { command: 'until [ -s beat ]; do sleep 0.05; done' } }],
        },
      },
      { reply: { text: 'It beats.' } },
    ]);
    const at = await open(path);
    expect(doneOf(await watch(at, { permissionMode: 'bypass' })).status).toBe('completed');
    expect(existsSync(join(path, 'beat'))).toBe(true);
    const beats = async () => {
      const before = readFileSync(join(path, 'beat'), 'utf8');
      await setTimeout(500);
      return readFileSync(join(path, 'beat'), 'utf8') !== before;
    };
    await expect.poll(beats, { timeout: 10_000 }).toBe(false);
  });

  test('that fails is told so to the model, which goes on', async () => {
    const { path } = await testFolder();
    await upstream.script([...parent(errand('Fail.')), { fail: { kind: 'status', status: 401 } }]);
    const events = await watch(await open(path));
    expect(told(events, 'agent_finished')).toMatchObject([{ status: 'failed' }]);
    expect(doneOf(events).tool_results).toMatchObject([{ is_error: true }]);
    expect(doneOf(events).status).toBe('completed');
  });

  test('that nobody knows is told so to the model', async () => {
    const { path } = await testFolder();
    await upstream.script(parent(errand('x', { agent_slug: 'poet' })));
    const events = await watch(await open(path));
    expect(doneOf(events).tool_results[0]?.content).toContain('no agent profile "poet"');
    expect(told(events, 'agent_started')).toEqual([]);
  });

  test('runs beside others that were started in the same step', async () => {
    const { path } = await testFolder();
    // Each waits for the other: only where both are at work is either of them released.
    await upstream.script([
      ...parent(errand('First.'), errand('Second.')),
      { reply: { text: 'Done: {{last_user}}', hold_after_chunks: 1 } },
    ]);
    const at = await open(path);
    let started = 0;
    const events = await watch(at, {}, ({ data }) => {
      if (!('type' in data) || data.type !== 'agent_started') return;
      started += 1;
      if (started === 2) void releaseWhenHeld();
    });
    const contents = doneOf(events).tool_results.map(({ content }) => content);
    expect(contents).toEqual(['Done: First.', 'Done: Second.']);
  });

  test('has a name in the tool, with what it is good for', async () => {
    const { path, file } = await testFolder();
    await file('.service/agents/reviewer.md', '---\ndescription: Reads a change.\n---\nYou review.\n');
    await upstream.script([{ reply: { text: 'Hi.' } }]);
    await watch(await open(path));
    const [first] = await upstream.requests();
    const sent = JSON.stringify(first?.body);
    expect(sent).toContain('- reviewer: Reads a change.');
    expect(sent).not.toContain('- plan:');
  });
});

describe('the limits of the settings', () => {
  const nested = [
    ...parent(errand('Deeper.', { agent_slug: 'coder' })),
    {
      when: { step: 0, last_user: '^Deeper', offers_tool: 'agent' },
      reply: { tool_calls: [errand('Deepest.', { agent_slug: 'coder' })] },
    },
    { reply: { text: '{{last_user}} {{tools}}' } },
  ];

  test.each([
    [0, 0],
    [1, 1],
    [2, 2],
  ])('`options.limits.max_agent_depth` of %i lets agents start %i deep', async (max_agent_depth, deep) => {
    const { path } = await testFolder();
    await upstream.script(nested);
    await watch(await open(path, { options: { limits: { max_agent_depth } } }));
    const requests = await upstream.requests();
    const errands = requests.filter(({ body }) => /"Deeper\.|"Deepest\./.test(JSON.stringify(body)));
    const asked = ['"Deeper."', '"Deepest."'].filter((text) =>
      errands.some(({ body }) => {
        const { messages } = body as { messages: { role: string; content: unknown }[] };
        return messages.some(({ role, content }) => role === 'user' && JSON.stringify(content) === text);
      }),
    );
    expect(asked).toHaveLength(deep);
  });

  test('`options.limits.max_agents` counts all that a run starts, and tells the model', async () => {
    const { path } = await testFolder();
    await upstream.script([
      ...parent(errand('First.'), errand('Second.'), errand('Third.')),
      { reply: { text: 'Done: {{last_user}}' } },
    ]);
    const events = await watch(await open(path, { options: { limits: { max_agents: 2 } } }));
    expect(told(events, 'agent_started')).toHaveLength(2);
    const refused = doneOf(events).tool_results.filter(({ is_error }) => is_error);
    expect(refused).toHaveLength(1);
    expect(refused[0]?.content).toContain('2 agents at most');
  });

  const busy = {
    reply: {
      tool_calls: [{ name: 'glob', arguments: { pattern: '{{step}}.txt' } }],
      usage: { input: 900, output: 100 },
    },
  };

  test('`options.limits.max_tokens` is of a run and its agents together', async () => {
    const { path } = await testFolder();
    await upstream.script([...parent(errand('First.'), errand('Second.')), busy]);
    const events = await watch(await open(path, { options: { limits: { max_tokens: 5000 } } }));
    expect(doneOf(events).stop_reason).toBe('token_limit');
    const used = told(events, 'agent_finished').map(({ usage }) => usage.input_tokens + usage.output_tokens);
    const most = used.reduce((sum, tokens) => sum + tokens, 0);
    // Both may ask once more beside each other, where one alone would have had 5000 for itself.
    expect(most).toBeGreaterThanOrEqual(4000);
    expect(most).toBeLessThanOrEqual(6000);
  });

  test('those that a query asks for hold for its agents, too', async () => {
    const { path } = await testFolder();
    await upstream.script([...parent(errand('First.')), busy]);
    const request = { limits: { max_steps: 3 }, summary: null };
    const events = await watch(await open(path), { request });
    expect(told(events, 'agent_finished')).toMatchObject([{ usage: { input_tokens: 2700 } }]);
  });
});

/** Lets the answers go on once both are held. */
async function releaseWhenHeld(): Promise<void> {
  const open = async () => (await upstream.requests()).filter(({ outcome }) => outcome === 'open');
  await expect.poll(async () => (await open()).length).toBe(2);
  await upstream.release();
}
