/** A provider's answer that is cut at any point is an error that each SDK of the vendor understands, on both wires. */
import Anthropic from '@anthropic-ai/sdk';
import Legacy from '@anthropic-ai/sdk-legacy';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Live, startLive } from '../live.ts';

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

const reply = {
  reasoning: 'Let me see what there is.',
  text: 'I look at it for you.',
  tool_calls: [{ name: 'get_weather', arguments: { place: 'Rome, in the morning' } }],
};

/** Where a frame of the upstream holds these words, by the dialect: the answer is cut behind the first, or before it. */
const points: readonly { where: string; scripted: RegExp | null; vendor: RegExp | null }[] = [
  { where: 'before the headers', scripted: null, vendor: null },
  { where: 'before the first block', scripted: /"role"/, vendor: /message_start/ },
  { where: 'in a thought', scripted: /reasoning_content":"[^"]/, vendor: /thinking_delta/ },
  { where: 'between two blocks', scripted: /reasoning_content":"\."/, vendor: /content_block_stop/ },
  { where: 'in a text', scripted: /"content":"[^"]/, vendor: /text_delta/ },
  { where: 'at the begin of a call', scripted: /"name":"get_weather"/, vendor: /"type":"tool_use"/ },
  { where: 'in the input of a call', scripted: /"arguments":"[^"]/, vendor: /"partial_json":"[^"]/ },
  { where: 'before message_delta', scripted: /orning/, vendor: /orning/ },
  { where: 'behind message_delta', scripted: /finish_reason":"\w/, vendor: /message_delta/ },
];

/** Garbage is the same wherever it stands. */
const ways = points.flatMap((point) => [
  { ...point, kind: 'cut' },
  { ...point, kind: 'end' },
  ...(point.where === 'in a text' ? [{ ...point, kind: 'garbage' }] : []),
]);

const request = {
  max_tokens: 4000,
  thinking: { type: 'enabled' as const, budget_tokens: 1024 },
  tools: [weather],
  messages: [{ role: 'user' as const, content: 'Is it raining?' }],
};

const settings = () => ({ baseURL: live.server.url, apiKey: live.server.operatorKey, maxRetries: 0 });

describe.each(['scripted', 'vendor'] as const)('an answer of the provider %s', (provider) => {
  const model = `${provider}:${provider}-1`;
  /** The frames that the provider sends where nothing fails. */
  let whole: readonly string[] = [];

  beforeAll(async () => {
    await live.upstream.script([{ reply }]);
    whole = await framesOf(provider);
  });

  // On the other wire an answer is complete with the reason of its end: not every server says anything behind it.
  const broken = ways.filter(
    ({ where, kind }) => provider === 'vendor' || where !== 'behind message_delta' || kind !== 'end',
  );

  test.each(broken)(
    'that ends $where ($kind) is an error of each SDK',
    async ({ where, kind, [provider]: pattern }) => {
      const at = pattern === null ? 0 : whole.findIndex((frame) => pattern.test(frame)) + 1;
      if (pattern !== null) expect(at, where).toBeGreaterThan(0);
      await live.upstream.script([
        { reply, fail: { kind, ...(at > 0 || kind === 'end' ? { after_chunks: at } : {}) } },
      ]);
      for (const [Sdk, thinking] of [
        [Anthropic, request.thinking],
        [Legacy as unknown as typeof Anthropic, undefined], // the calls that are made here are the same
      ] as const) {
        const client = new Sdk(settings());
        const asked = { ...request, model, ...(thinking ? {} : { thinking: { type: 'disabled' as const } }) };
        for (const call of [
          () => client.messages.stream(asked).finalMessage(),
          () => drained(client, asked),
          () => client.messages.create(asked),
        ]) {
          const error = await call().then(
            () => null,
            (reason: unknown) => reason,
          );
          expect(error).toBeInstanceOf(Sdk.APIError);
          expect(error).toMatchObject({ error: { type: 'error', error: { type: 'api_error' } } });
        }
      }
    },
  );
});

/** As somebody reads it who does not put the answer together. */
async function drained(client: Anthropic, asked: Anthropic.MessageCreateParamsNonStreaming): Promise<void> {
  await Array.fromAsync(await client.messages.create({ ...asked, stream: true }));
}

/** Asked for as the server asks for it. */
async function framesOf(provider: 'scripted' | 'vendor'): Promise<readonly string[]> {
  const path = provider === 'vendor' ? '/v1/messages' : '/v1/chat/completions';
  const { thinking, tools, ...said } = request;
  const body = provider === 'vendor' ? { ...said, thinking, tools } : said;
  const response = await fetch(live.upstream.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
      'x-api-key': 'k',
      authorization: 'Bearer k',
    },
    body: JSON.stringify({ ...body, model: `${provider}-1`, stream: true }),
  });
  return (await response.text()).split('\n\n').filter(Boolean);
}
