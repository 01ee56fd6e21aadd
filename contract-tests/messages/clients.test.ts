/** The vendor's SDKs, of today and of the line before, through the server to models of another vendor and of their own. */
import Anthropic from '@anthropic-ai/sdk';
import Legacy from '@anthropic-ai/sdk-legacy';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { everyBeta, everything } from './everything.ts';
import { cutPlaces, playedModel } from './played-model.ts';

let live: Live;
beforeAll(async () => {
  live = await startLive({ SERVICE_KEEPALIVE_SECONDS: '0.1' });
});
afterAll(() => live?.stop());

const weather = {
  name: 'get_weather',
  description: 'Tells the weather of a place.',
  input_schema: { type: 'object' as const, properties: { place: { type: 'string' as const } } },
};

beforeEach(() =>
  live.upstream.script([
    {
      when: { tool_results: 0, offers_tool: 'get_weather' },
      reply: {
        text: 'I look.',
        tool_calls: [
          { name: 'get_weather', arguments: { place: 'Rome' } },
          { name: 'get_weather', arguments: { place: 'Oslo' } },
        ],
      },
    },
    { when: { tool_results: 2 }, reply: { text: 'Last was: {{last_tool_result}}' } },
    { reply: { text: 'You said: {{last_user}}' } },
  ]),
);

const question = { role: 'user' as const, content: 'Is it raining?' };

describe.each([
  ['today', 'another vendor', 'scripted:scripted-1'],
  ['today', 'its own vendor', 'vendor:vendor-1'],
  ['the line before', 'another vendor', 'scripted:scripted-1'],
  ['the line before', 'its own vendor', 'vendor:vendor-1'],
])('the SDK of %s and a model of %s', (line, _vendor, model) => {
  // The calls that are made here are the same in both; today's types stand for them.
  const client = (apiKey = live.server.operatorKey) => {
    const settings = { baseURL: live.server.url, apiKey, maxRetries: 0 };
    return line === 'today' ? new Anthropic(settings) : (new Legacy(settings) as unknown as Anthropic);
  };
  const request = { model, max_tokens: 200, tools: [weather], messages: [question] };

  test('go through a tool loop of two calls at once, streamed and whole', async () => {
    const first = await client().messages.stream(request).finalMessage();
    const whole = await client().messages.create(request);
    expect(first.stop_reason).toBe('tool_use');
    expect(first.content).toMatchObject([
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', name: 'get_weather', input: { place: 'Rome' } },
      { type: 'tool_use', name: 'get_weather', input: { place: 'Oslo' } },
    ]);
    expect(whole.content).toMatchObject(first.content.map(({ type }) => ({ type })));
    expect(first.usage).toMatchObject(counts(whole));
    const results = first.content.flatMap((block) =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: `Rain, says ${block.name}.` }]
        : [],
    );
    const last = await client().messages.create({
      ...request,
      messages: [
        question,
        { role: 'assistant', content: first.content as Anthropic.ContentBlockParam[] }, // as it came
        { role: 'user', content: results },
      ],
    });
    expect(last).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'Last was: Rain, says get_weather.' }],
    });
  });

  test('list models, look one up and count tokens', async () => {
    const models = await Array.fromAsync(client().models.list({ limit: 1 }));
    expect(models.map(({ id }) => id)).toEqual(['scripted:scripted-1', 'vendor:vendor-1']);
    expect(await client().models.retrieve(model)).toMatchObject({ id: model, type: 'model' });
    const { input_tokens } = await client().messages.countTokens({ model, messages: [question] });
    expect(input_tokens).toBeGreaterThan(0);
  });

  test('send pictures and documents', async () => {
    const answer = await client().messages.create({
      ...request,
      tools: [],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
            {
              type: 'document',
              source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjQK' },
            },
            { type: 'text', text: 'What is this?' },
          ],
        },
      ],
    });
    expect(answer.content).toMatchObject([{ text: 'You said: What is this?' }]);
    const body = JSON.stringify((await live.upstream.requests()).at(-1)?.body);
    for (const data of ['iVBORw0KGgo=', 'JVBERi0xLjQK']) expect(body).toContain(data);
  });

  describe('where the model thinks, fails or breaks off', () => {
    beforeEach(() => live.upstream.script(playedModel));
    const Errors = line === 'today' ? Anthropic : (Legacy as unknown as typeof Anthropic);
    const saying = (content: string) => ({ ...request, messages: [{ role: 'user' as const, content }] });

    test('show its thoughts, whole and streamed', async () => {
      const thinking = { type: 'enabled' as const, budget_tokens: 1024 };
      const asked = { ...saying('think'), max_tokens: 2000, thinking };
      const content = [
        { type: 'thinking', thinking: 'Let me see.' },
        { type: 'text', text: 'Yes.' },
      ];
      expect(await client().messages.create(asked)).toMatchObject({ content });
      expect(await client().messages.stream(asked).finalMessage()).toMatchObject({ content });
    });

    test('get an answer in a form', async () => {
      const schema = { type: 'object', properties: { city: { type: 'string' }, rains: { type: 'boolean' } } };
      const format = { type: 'json_schema' as const, schema };
      const { content } = await client().messages.create({ ...saying('report'), output_config: { format } });
      const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
      expect(JSON.parse(text)).toEqual({ city: 'Rome', rains: true });
    });

    test.each([
      ['a wrong key', 401, 'authentication_error', Errors.AuthenticationError],
      ['an unknown model', 404, 'not_found_error', Errors.NotFoundError],
      ['fail with 529', 529, 'overloaded_error', Errors.InternalServerError],
      ['fail with 500', 502, 'api_error', Errors.InternalServerError],
    ] as const)('are told of %s by its class, whole and streamed', async (what, status, type, Kind) => {
      const sdk = client(what === 'a wrong key' ? 'sk-wrong' : undefined);
      const asked = { ...saying(what), ...(what === 'an unknown model' && { model: 'no:such' }) };
      // One after the other: a call that fails before anybody listens ends the test run.
      for (const call of [
        () => sdk.messages.create(asked),
        () => sdk.messages.stream(asked).finalMessage(),
      ]) {
        const error: unknown = await call().catch((error: unknown) => error);
        expect(error).toBeInstanceOf(Kind);
        expect(error).toMatchObject({
          status,
          error: { error: { type } },
          requestID: expect.stringMatching(/^req_/),
        });
      }
    });

    test('leave a stream, which ends the call of the provider', async () => {
      const stream = client().messages.stream(saying('hang'));
      stream.on('text', () => stream.abort());
      expect(await stream.done().catch((error: unknown) => error)).toBeInstanceOf(Errors.APIUserAbortError);
      expect((await live.upstream.latest(({ outcome }) => outcome !== 'open')).outcome).toBe('aborted');
    });

    test.each(['cut the text', 'end the text', 'cut the call'])(
      'are never given half an answer for a whole one: %s after each chunk',
      async (what) => {
        const ends = await Promise.all(cutPlaces.map((after) => ended(`${what} after ${after}`)));
        // Behind the last chunk there is nothing left to cut.
        const broken = ends.findIndex((end) => !(end instanceof Errors.APIError));
        expect(broken === -1 ? ends.length : broken).toBeGreaterThan(5);
        const [failed, whole] = broken === -1 ? [ends, []] : [ends.slice(0, broken), ends.slice(broken)];
        for (const error of failed) expect(String(error)).toContain('cut its answer');
        const complete =
          what === 'cut the call' ? { input: { place: 'Rome' } } : { text: 'Rain in Rome, as ever.' };
        for (const message of whole) expect(message).toMatchObject({ content: [complete] });
      },
    );

    /** The message that the client took for whole, or what it threw. */
    const ended = (words: string): Promise<unknown> =>
      client()
        .messages.stream(saying(words))
        .finalMessage()
        .catch((error: unknown) => error);
  });
});

describe.each([
  ['another vendor', 'scripted:scripted-1'],
  ['its own vendor', 'vendor:vendor-1'],
])('the SDK of today and a model of %s', (vendor, model) => {
  const client = () =>
    new Anthropic({ baseURL: live.server.url, apiKey: live.server.operatorKey, maxRetries: 0 });
  const texts = [{ text: 'Last was: Rain.' }];
  const told = async () => (await live.upstream.requests()).at(-1)?.body;
  beforeEach(() => live.upstream.script([{ reply: { text: 'Last was: {{last_tool_result}}' } }]));

  test('take every optional parameter at once, whole and streamed', async () => {
    const request = { ...everything, model };
    expect(await client().messages.create(request)).toMatchObject({ model, content: texts });
    const sent = await told();
    expect(await client().messages.stream(request).finalMessage()).toMatchObject({ model, content: texts });
    const { user_profile_id: _header, workspace_id: _another, ...rest } = everything;
    const own = { ...rest, model: 'vendor-1' };
    const other = { max_tokens: 4000, stop: ['END'], parallel_tool_calls: false };
    expect(sent).toMatchObject(vendor === 'its own vendor' ? own : other);
  });

  test('take every optional parameter of the betas at once, whole and streamed', async () => {
    const request = { ...everyBeta, model };
    expect(await client().beta.messages.create(request)).toMatchObject({ model, content: texts });
    const { betas: _header, thread: _ours, output_format: _older, ...rest } = everyBeta;
    const { user_profile_id: _another, workspace_id: _third, ...body } = rest;
    if (vendor === 'its own vendor') expect(await told()).toMatchObject({ ...body, model: 'vendor-1' });
    const streamed = await client().beta.messages.stream(request).finalMessage();
    expect(streamed).toMatchObject({ model, content: texts });
  });
});

function counts({ usage }: Anthropic.Message) {
  return { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens };
}
