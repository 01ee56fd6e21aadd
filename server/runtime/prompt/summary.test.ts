/** A long conversation is summed up before the model's window is full, and goes on from there. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import { dialects, doneOf, errorOf, modelRuntime, told } from '../test-models.ts';
import { summaryRequest } from './summary-request.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

const window = 10_000;
const small = { big: { context_window: window, cost_per_1m_in: 1, cost_per_1m_out: 1 } };
const summaries = {
  when: { system: '^Sum up the conversation' },
  reply: { text: 'They want bread.', usage: { input: 700, output: 30 } },
};
/** One tool call, with as many tokens counted. */
const step = (input: number, more: object = {}) => ({
  when: { step: 0, ...more },
  reply: { tool_calls: [{ name: 'glob', arguments: { pattern: '*' } }], usage: { input, output: 50 } },
});
const done = { reply: { text: 'Done.', usage: { input: 100, output: 5 } } };

async function sent(): Promise<string[]> {
  const requests = await upstream.requests();
  return requests.map(({ body }) => JSON.stringify((body as { messages: unknown }).messages));
}

describe.each(dialects)('a run whose window is nearly full (%s)', (type) => {
  test('`providers.*.models[].context_window` says when: it is summed up, and the run goes on', async () => {
    await upstream.script([summaries, step(7960, { last_user: '^Bake' }), done]);
    const { ask, transcript } = await modelRuntime(upstream, { type, models: small });
    const events = await ask('Bake bread, please.');
    expect(doneOf(events)).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'Done.' }],
      usage: { input_tokens: 7960 + 700 + 100, output_tokens: 50 + 30 + 5 },
      cost: (7960 + 700 + 100 + 50 + 30 + 5) / 1_000_000,
    });
    const [summarized] = told(events, 'session_summarized');
    expect(summarized).toMatchObject({ reason: 'window_full', context: { window } });
    expect(summarized?.context.used).toBeLessThan(200);
    const stored = await transcript.readMessages('ses_1');
    expect(stored.map(({ role, summary }) => [role, summary])).toEqual([
      ['user', false],
      ['assistant', false],
      ['tool', false],
      ['assistant', true],
      ['assistant', false],
    ]);
    expect(stored[3]).toMatchObject({
      id: summarized?.message_id,
      model: 'house:big',
      parts: [{ text: 'They want bread.' }],
      usage: { input_tokens: 700 },
      cost: 0.00073,
    });
    const [, asked, after] = await sent();
    // The model sums up text, calls and results of tools among it, and then sees no call any more.
    expect(asked).toContain('Assistant calls glob');
    expect(after).toContain('They want bread.');
    expect(after).toContain('Bake bread, please.');
    expect(after).not.toContain('glob');
    // Nothing of the summary is streamed as an answer.
    const text = events.flatMap(({ name, data }) =>
      name === 'message' && 'text' in data ? [data.text] : [],
    );
    expect(text.join('')).toBe('Done.');
  });

  test('is not summed up before that', async () => {
    await upstream.script([summaries, step(7500), done]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    expect(told(await ask('Bake'), 'session_summarized')).toEqual([]);
  });

  test('is what later prompts begin at, with what was said since', async () => {
    await upstream.script([summaries, step(9000, { last_user: '^Bake' }), done]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    await ask('Bake bread, please.');
    await ask('And a cake.');
    const last = (await sent()).at(-1) ?? '';
    expect(last).toContain('They want bread.');
    expect(last).toContain('Done.');
    expect(last).toContain('And a cake.');
    expect(last).not.toContain('glob');
  });

  test('is summed up before the first call where the last run has filled it', async () => {
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { text: 'Baked.', usage: { input: 9000, output: 10 } } },
      done,
    ]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    expect(told(await ask('Bake'), 'session_summarized')).toEqual([]);
    const events = await ask('And a cake.');
    expect(told(events, 'session_summarized')).toHaveLength(1);
    expect((await sent()).at(-1)).toContain('And a cake.');
  });

  test('is summed up before a prompt that nobody has answered, which stays whole with its pictures', async () => {
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { text: 'Baked.', usage: { input: 9000, output: 10 } } },
      done,
    ]);
    const { ask, transcript } = await modelRuntime(upstream, { type, models: small });
    await ask('Bake');
    const text = `And a cake. ${'Sweet. '.repeat(1500)}Without nuts.`;
    const picture = { type: 'file' as const, media_type: 'image/png', data: 'iVBORw0KGgo=' };
    const messages = [{ role: 'user' as const, parts: [{ type: 'text' as const, text }, picture] }];
    expect(told(await ask('', { messages }), 'session_summarized')).toHaveLength(1);
    await ask('And now?');
    const [, summed, asked, after] = await sent();
    expect(summed).toContain('Baked.');
    expect(summed).not.toContain('And a cake.');
    for (const request of [asked, after]) {
      expect(request).toMatch(/They want bread\..*And a cake\. .*Without nuts\./);
      expect(request).toContain(picture.data);
      expect(request).not.toContain('Baked.');
    }
    const stored = await transcript.readMessages('ses_1');
    expect(stored.map(({ role, summary }) => (summary ? 'summary' : role))).toEqual([
      ...['user', 'assistant', 'summary', 'user', 'assistant'],
      ...['user', 'assistant'],
    ]);
  });

  test('is summed up before the prompt that came with a history, which stays whole', async () => {
    await upstream.script([summaries, done]);
    const { ask, transcript } = await modelRuntime(upstream, { type, models: small });
    const text = `And a cake. ${'Sweet. '.repeat(1500)}Without nuts.`;
    const said = (role: 'user' | 'assistant', words: string) => ({
      ...{ role, parts: [{ type: 'text' as const, text: words }] },
    });
    const messages = [said('user', 'Bake'), said('assistant', 'Baked. '.repeat(4000)), said('user', text)];
    expect(told(await ask('', { messages }), 'session_summarized')).toHaveLength(1);
    const [summed, asked] = await sent();
    expect(summed).toContain('Baked.');
    expect(summed).not.toContain('And a cake.');
    expect(asked).toMatch(/They want bread\..*And a cake\. .*Without nuts\./);
    expect(asked).not.toContain('Baked.');
    await ask('And now?');
    const stored = await transcript.readMessages('ses_1');
    expect(stored.map(({ role, summary }) => (summary ? 'summary' : role))).toEqual([
      ...['user', 'assistant', 'summary', 'user', 'assistant'],
      ...['user', 'assistant'],
    ]);
  });

  test("is summed up before what a client's tool gave, which stays whole behind its call", async () => {
    const call = { name: 'get_weather', arguments: { place: 'Bern' } };
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { tool_calls: [call], usage: { input: 9000, output: 10 } } },
      done,
    ]);
    const { ask, transcript } = await modelRuntime(upstream, { type, models: small });
    const callerTools = [{ name: 'get_weather', description: '', inputSchema: { type: 'object' } }];
    const request = { limits: {}, summary: null, callerTools };
    await ask('Bake', { request });
    const [use] = (await transcript.readMessages('ses_1')).at(-1)?.parts ?? [];
    const result = {
      ...{
        type: 'tool_result' as const,
        tool_use_id: use?.type === 'tool_use' ? use.id : '',
        name: 'get_weather',
      },
      ...{ content: `Rain. ${'More rain. '.repeat(500)}Then sun.`, is_error: false },
    };
    const events = await ask('', { request, messages: [{ role: 'tool', parts: [result] }] });
    expect(told(events, 'session_summarized')).toHaveLength(1);
    await ask('And now?', { request });
    const [, summed, asked, after] = await sent();
    expect(summed).not.toContain('Then sun.');
    for (const body of [asked, after])
      expect(body).toMatch(/They want bread\..*get_weather.*Bern.*Rain\. .*Then sun\./);
  });

  test('is summed up whole, however short the answer is to be; what is cut off stands for nothing', async () => {
    await upstream.script([summaries, step(7960, { last_user: '^Bake' }), done]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    const generation = { maxTokens: 50, stopSequences: ['END'] };
    expect(told(await ask('Bake bread.', { generation }), 'session_summarized')).toHaveLength(1);
    const [answer, summary] = await upstream.requests();
    expect(JSON.stringify(answer?.body)).toContain('END');
    expect(JSON.stringify(summary?.body)).not.toContain('END');
    expect(summary?.body).not.toMatchObject({ max_tokens: 50 });

    const cut = { ...summaries, reply: { text: 'They want', stop_reason: 'max_tokens' } };
    await upstream.script([cut, step(7960, { last_user: '^Bake' }), done]);
    const another = await modelRuntime(upstream, { type, models: small });
    const events = await another.ask('Bake bread.');
    expect(told(events, 'session_summarized')).toEqual([]);
    expect(told(events, 'notice_given')).toMatchObject([
      { message: expect.stringContaining('without an end') },
    ]);
  });

  test('what a summary has used that breaks off, or comes empty, counts as well', async () => {
    const { when, reply } = summaries;
    const usedAfter = async (broken: object) => {
      const first = { when, times: 1, reply: { text: 'They want bread and butter.', chunk_size: 4 } };
      const rules = [{ ...first, ...broken }, { when, reply }, step(7960, { last_user: '^Bake' }), done];
      await upstream.script(rules);
      const { ask } = await modelRuntime(upstream, { type, models: small });
      const { usage, cost } = doneOf(await ask('Bake bread, please.'));
      const used = usage.input_tokens + usage.output_tokens;
      expect(cost).toBeCloseTo(used / 1_000_000, 9);
      return used - (7960 + 50 + 100 + 5);
    };
    // Asked again, with an estimate of what was read and heard before.
    expect(await usedAfter({ fail: { kind: 'cut', after_chunks: 6 } })).toBeGreaterThan(700 + 30 + 10);
    expect(await usedAfter({ reply: { usage: { input: 700, output: 9 } } })).toBe(700 + 9);
  });

  test('`options.disable_auto_summarize` keeps it as it is, also where the provider refuses it then', async () => {
    await upstream.script([
      summaries,
      step(9900, { last_user: '^Bake' }),
      { fail: { kind: 'status', status: 400, message: 'prompt is too long: 10001 tokens' } },
    ]);
    const options = { disable_auto_summarize: true };
    const { ask } = await modelRuntime(upstream, { type, models: small, options });
    const events = await ask('Bake');
    expect(errorOf(events)).toMatch(/^provider_prompt_too_long: .*too long/);
    expect(told(events, 'session_summarized')).toEqual([]);
    expect(await upstream.requests()).toHaveLength(2);
  });

  test('goes on unsummed where no summary can be had, and says so', async () => {
    await upstream.script([
      { when: { system: '^Sum up' }, fail: { kind: 'status', status: 500 } },
      step(9000, { last_user: '^Bake' }),
      done,
    ]);
    const options = { limits: { max_attempts: 2 } };
    const { ask } = await modelRuntime(upstream, { type, models: small, options });
    const events = await ask('Bake');
    expect(doneOf(events).stop_reason).toBe('end_turn');
    expect(told(events, 'notice_given')).toMatchObject([{ message: expect.stringContaining('summed up') }]);
  });

  test('is not asked to be summed up before each step where that has failed', async () => {
    const steps = Array.from({ length: 4 }, (_, at) => step(9000, { step: at, last_user: '^Bake' }));
    await upstream.script([
      { when: { system: '^Sum up' }, reply: { text: '', usage: { input: 700, output: 0 } } },
      ...steps,
      done,
    ]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    const events = await ask('Bake');
    expect(doneOf(events).stop_reason).toBe('end_turn');
    expect(told(events, 'notice_given')).toHaveLength(1);
    const systems = (await upstream.requests()).map(({ body }) => JSON.stringify(body));
    expect(systems.filter((sent) => sent.includes('Sum up the conversation'))).toHaveLength(1);
  });

  test('without a known window is never summed up by itself', async () => {
    await upstream.script([summaries, step(900_000, { last_user: '^Bake' }), done]);
    const { ask } = await modelRuntime(upstream, { type });
    const events = await ask('Bake');
    expect(told(events, 'session_summarized')).toEqual([]);
    expect(told(events, 'usage_updated').at(-1)).toMatchObject({ context: { window: null } });
  });
});

describe.each(dialects)('a conversation that the provider refuses for its length (%s)', (type) => {
  const tooLong =
    type === 'anthropic'
      ? { kind: 'status', status: 400, message: 'prompt is too long: 210000 tokens > 200000 maximum' }
      : { kind: 'status', status: 400, code: 'context_length_exceeded', message: 'maximum context length' };

  test('is summed up once and sent again, with the whole prompt', async () => {
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { text: 'Baked.' } },
      { times: 1, fail: tooLong },
      done,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    await ask('Bake');
    const events = await ask(`And a cake. ${'Sweet. '.repeat(1500)}Without nuts.`);
    expect(told(events, 'session_summarized')).toMatchObject([{ reason: 'prompt_refused' }]);
    expect(doneOf(events)).toMatchObject({ content: [{ type: 'text', text: 'Done.' }] });
    const [, , summed, again] = await sent();
    expect(summed).not.toContain('And a cake.');
    expect(again).toMatch(/They want bread\..*And a cake\. .*Without nuts\./);
  });

  test('fails where that did not help, and the session goes on from the summary', async () => {
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { text: 'Baked.' } },
      { times: 2, fail: tooLong },
      done,
    ]);
    const { ask } = await modelRuntime(upstream, { type });
    await ask('Bake');
    expect(errorOf(await ask('And a cake.'))).toMatch(/^provider_prompt_too_long: .*too long/);
    expect(doneOf(await ask('Well?')).stop_reason).toBe('end_turn');
  });

  test('is no reason to leave the prompt out where it was the store that did not take the summary', async () => {
    await upstream.script([
      summaries,
      { when: { last_user: '^Bake' }, reply: { text: 'Baked.' } },
      { times: 1, fail: tooLong },
      done,
    ]);
    const kept = createMemoryTranscript();
    const transcript: typeof kept = {
      ...kept,
      commitStep: async (step) => {
        if (step.messages.some(({ summary }) => summary)) throw new Error('the store cannot write it');
        return kept.commitStep(step);
      },
    };
    const { ask } = await modelRuntime(upstream, { type, runtime: { transcript } });
    await ask('Bake');
    expect(errorOf(await ask('And a cake.'))).toMatch(/^internal_error: /);
    const stored = await kept.readMessages('ses_1');
    expect(stored.map(({ excluded }) => excluded)).toEqual([false, false, false]);
  });

  test('fails at once where the prompt alone is too long, and is left out later', async () => {
    await upstream.script([{ when: { last_user: 'huge' }, fail: tooLong }, done]);
    const { ask } = await modelRuntime(upstream, { type });
    expect(errorOf(await ask('huge'))).toMatch(/^provider_prompt_too_long: .*too long/);
    expect(doneOf(await ask('Well?')).stop_reason).toBe('end_turn');
    expect((await sent()).at(-1)).not.toContain('huge');
  });
});

describe.each(dialects)('large results at the end of a conversation (%s)', (type) => {
  const rules = [{ tool: 'bash', decision: 'allow' as const }];
  const session = { id: 'ses_1', workspaceId: 'ws_1', agentSlug: 'coder', model: null, systemPrompt: null };
  const print = (name: string) => ({
    name: 'bash',
    arguments: { command: `echo begin-${name}; head -c 8000 /dev/zero | tr '\\0' x; echo; echo end-${name}` },
  });
  const names = ['one', 'two', 'three', 'four'];

  test('share the window with each other and with what was said before', async () => {
    await upstream.script([
      summaries,
      {
        when: { last_user: '^Mend', step: 0 },
        reply: { text: 'The cause is in module 7.', tool_calls: [print('early')] },
      },
      {
        when: { last_user: '^Mend', step: 1 },
        reply: {
          text: 'I read four files.',
          tool_calls: names.map(print),
          usage: { input: 4000, output: 50 },
        },
      },
      done,
    ]);
    const { ask } = await modelRuntime(upstream, { type, models: small });
    const events = await ask('Mend the parser.', { session: { ...session, permissionRules: rules } });
    expect(told(events, 'session_summarized')).toHaveLength(1);
    const asked = (await sent()).at(-2) ?? '';
    for (const said of ['Mend the parser.', 'The cause is in module 7.', 'begin-early', 'I read four files.'])
      expect(asked).toContain(said);
    for (const name of names) {
      expect(asked).toContain(`bash gave: begin-${name}`);
      expect(asked).toContain(`end-${name}`);
    }
    expect(asked).not.toContain('left out');
    // No more of the window than is meant for it, and most of that.
    expect(asked.length / 3.5).toBeLessThan(window * 0.65);
    expect(asked.length / 3.5).toBeGreaterThan(window * 0.3);
  });

  test('cut also the first message where that alone is too long, and leave the oldest ones out', () => {
    const text = (said: string) => ({ type: 'text' as const, text: said });
    const conversation = [
      { role: 'user' as const, parts: [text(`Begin ${'話'.repeat(15_000)} done`)] },
      ...Array.from({ length: 400 }, (_, index) => ({
        role: 'assistant' as const,
        parts: [text(`${index}: ${'word '.repeat(20)}`)],
      })),
    ];
    const [message] = summaryRequest(conversation, 8000);
    const [part] = message?.parts ?? [];
    const shown = part?.type === 'text' ? part.text : '';
    expect(Buffer.byteLength(shown) / 3.5).toBeLessThan(8000 * 0.62);
    expect(shown).toMatch(/Begin 話+ \[…\] 話+ done/);
    expect(shown).toMatch(/\[\d+ messages are left out here\.\]/);
    expect(shown).toContain('399: word');
    expect(shown).not.toContain('\ufffd');
  });
});

describe.each(dialects)('a tool result as large as the window (%s)', (type) => {
  const big = { big: { context_window: 4000 } };
  const shout = { name: 'bash', arguments: { command: "head -c 29000 /dev/zero | tr '\\0' x" } };
  const rules = [{ tool: 'bash', decision: 'allow' as const }];

  test('is cut for the model, and kept whole for people', async () => {
    await upstream.script([
      { when: { step: 0 }, reply: { tool_calls: [shout], usage: { input: 100, output: 10 } } },
      done,
    ]);
    const { ask, transcript } = await modelRuntime(upstream, { type, models: big });
    const session = { id: 'ses_1', workspaceId: 'ws_1', agentSlug: 'coder', model: null, systemPrompt: null };
    const options = { disable_auto_summarize: true };
    const unsummed = await modelRuntime(upstream, { type, models: big, options });
    await unsummed.ask('Go', { session: { ...session, permissionRules: rules } });
    expect((await sent()).at(-1)).toContain('Cut here');
    const [, , result] = await unsummed.transcript.readMessages('ses_1');
    const [part] = result?.parts ?? [];
    expect(part?.type === 'tool_result' && part.content.length).toBeGreaterThan(29_000);
    // Summed up, the run goes on as well.
    const events = await ask('Go', { session: { ...session, permissionRules: rules } });
    expect(doneOf(events).stop_reason).toBe('end_turn');
    expect((await transcript.readMessages('ses_1')).at(-1)?.parts).toMatchObject([{ text: 'Done.' }]);
  });

  test('does not loop for ever: the run ends where each step fills the window again', async () => {
    await upstream.script([
      summaries,
      { reply: { tool_calls: [shout], usage: { input: 3900, output: 10 } } },
    ]);
    const { ask } = await modelRuntime(upstream, { type, models: big });
    const events = await ask('Go', {
      session: {
        ...{ id: 'ses_1', workspaceId: 'ws_1', agentSlug: 'coder', model: null, systemPrompt: null },
        permissionRules: rules,
      },
    });
    expect(doneOf(events)).toMatchObject({ stop_reason: 'loop_detected' });
    expect(told(events, 'session_summarized')).toHaveLength(3);
    expect(told(events, 'notice_given').at(-1)?.message).toContain('window');
  });
});
