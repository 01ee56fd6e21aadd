/** Journeys of somebody who runs or meets the server: is it well, what is it, what can it do, how does it refuse. */
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { operations } from '../contract.ts';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

export function systemJourneys(target: () => Target): void {
  test('the server is alive, ready, and says its versions', async () => {
    const { visitor, liveOnly } = target();
    expectShape('Health', (await visitor.GET('/health')).data);
    const { data: ready } = await visitor.GET('/ready');
    expectShape('Readiness', ready);
    await liveOnly(() => expect(ready.providers).toContain('scripted'));
    expectShape('Version', (await visitor.GET('/api/v1/version')).data);
  });

  test('metrics are counted, for Prometheus and for the caller', async () => {
    const { visitor, client, liveOnly } = target();
    const { data: text, response } = await visitor.GET('/metrics', { parseAs: 'text' });
    expect(response.headers.get('Content-Type')).toMatch(/^text\/plain/);
    await liveOnly(() => expect(text).toMatch(/^# TYPE \w+ (counter|histogram|gauge)$/m));
    const { data: snapshot } = await client.GET('/api/v1/metrics');
    expectShape('MetricsSnapshot', snapshot);
  });

  test('the contracts are served, and read anew only when they change', async () => {
    const { visitor, liveOnly } = target();
    const { data: json, response } = await visitor.GET('/openapi.json');
    const { data: yaml } = await visitor.GET('/openapi.yaml', { parseAs: 'text' });
    const { data: sdk } = await visitor.GET('/openapi.sdk.json');
    const { data: schema } = await visitor.GET('/schemas/service.json');
    const { data: page } = await visitor.GET('/docs', { parseAs: 'text' });
    await liveOnly(() => {
      expect(parse(yaml)).toEqual(json);
      expect(sdk).toMatchObject({ openapi: '3.1.0' });
      expect(schema).toHaveProperty('$schema');
      for (const { operationId } of operations) expect(page).toContain(operationId);
    });
    const params = { header: { 'If-None-Match': response.headers.get('ETag') ?? '' } };
    const same = await refusal(visitor.GET('/openapi.json', { params, ...preferring(304) }));
    expect(same.status).toBe(304);
  });

  test('tools are listed by name', async () => {
    const { client, liveOnly } = target();
    const { data: page } = await client.GET('/api/v1/tools', { params: { query: { limit: 100 } } });
    expectShape('ToolPage', page);
    await liveOnly(() => {
      const names = page.data.map(({ name }) => name);
      expect(names).toEqual([...names].sort());
      expect(names).toEqual(expect.arrayContaining(['bash', 'edit', 'view', 'write']));
      expect(page.next_cursor).toBeNull();
    });
  });

  test('a picture is made, a text is spoken, and a sound is written down', async () => {
    const { client, liveOnly } = target();
    const { data: made } = await client.POST('/api/v1/media/images', { body: { prompt: 'A cat.' } });
    expectShape('GeneratedImages', made);
    const { data: spoken } = await client.POST('/api/v1/media/speech', { body: { text: 'Good morning.' } });
    expectShape('Speech', spoken);
    const { data: heard } = await client.POST('/api/v1/media/transcriptions', {
      body: {
        audio: spoken.audio.media_type === 'audio/wav' ? spoken.audio.data : 'UklGRiQAAABXQVZFZm10IA==',
      },
    });
    expectShape('Transcription', heard);
    await liveOnly(() => {
      expect(made).toMatchObject({ model: 'scripted:painter-1', images: [{ media_type: 'image/png' }] });
      expect(spoken).toMatchObject({ model: 'scripted:speaker-1', audio: { media_type: 'audio/wav' } });
      expect(heard).toMatchObject({
        model: 'scripted:listener-1',
        text: expect.stringContaining('audio.wav'),
      });
    });
  });

  test('a message is created in the Messages shape, whole and streamed', async () => {
    const { client } = target();
    const body = {
      model: 'demo:demo-1',
      max_tokens: 256,
      messages: [{ role: 'user' as const, content: 'Say hello.' }],
    };
    const whole = await client.POST('/v1/messages', { body });
    expectShape('MessagesResponse', whole.data);
    expect(whole.response.headers.get('request-id')).toBeTruthy();
    const streamed = await client.POST('/v1/messages', {
      body: { ...body, stream: true },
      headers: { Accept: 'text/event-stream' },
      parseAs: 'text',
    });
    expect(streamed.response.headers.get('Content-Type')).toMatch(/^text\/event-stream/);
    expect(streamed.data).toMatch(/event: message_start\n[\s\S]*event: message_stop\n/);
    const refused = await refusal(
      client.POST('/v1/messages', { body: { ...body, max_tokens: -1 }, ...preferring(400) }),
    );
    expect(refused).toMatchObject({ status: 400, code: 'invalid_request_error' });
  });

  test('models are listed and looked up, and tokens are counted, in the Messages shape', async () => {
    const { client } = target();
    const { data: models } = await client.GET('/v1/models');
    expectShape('MessagesModelPage', models);
    expect(models.data.length).toBeGreaterThan(0);
    const path = { model_id: models.data[0]?.id ?? '' };
    const { data: model } = await client.GET('/v1/models/{model_id}', { params: { path } });
    expectShape('MessagesModelInfo', model);
    const body = { model: model.id, messages: [{ role: 'user' as const, content: 'Say hello.' }] };
    const { data: count } = await client.POST('/v1/messages/count_tokens', { body });
    expectShape('MessagesTokenCount', count);
    expect(count.input_tokens).toBeGreaterThan(0);
  });

  test('without a credential nothing but the public is answered', async () => {
    const { visitor, liveOnly } = target();
    const refused = await refusal(visitor.GET('/api/v1/sessions'));
    expect(refused).toMatchObject({ status: 401, code: 'credential_missing' });
    expect(refused.headers.get('WWW-Authenticate')).toMatch(/^Bearer/);
    expect(refused.requestId).toMatch(/^req_/);
    await liveOnly(async () => {
      const wrong = visitor.GET('/api/v1/sessions', { headers: { Authorization: 'Bearer sk-nonsense' } });
      expect(await refusal(wrong)).toMatchObject({ status: 401, code: 'credential_invalid' });
    });
  });

  test('a wrong request is told each place that is wrong', async () => {
    const { client, url, liveOnly } = target();
    // Past the types of the client, which would not let such a body be written.
    const body = { prompt: 5, colour: 'green' } as unknown as { prompt: string };
    const refused = await refusal(client.POST('/api/v1/query', { body, ...preferring(400) }));
    expect(refused).toMatchObject({ status: 400, code: 'invalid_request' });
    await liveOnly(async () => {
      expect(refused.errors.map(({ pointer }) => pointer).sort()).toEqual(['/colour', '/prompt']);
      const path = await fetch(`${url}/api/v1/nothing`);
      expect([path.status, await path.json()]).toMatchObject([404, { code: 'operation_not_found' }]);
      const method = await fetch(`${url}/api/v1/sessions/${example.session}`, { method: 'PUT' });
      expect([method.status, await method.json()]).toMatchObject([405, { code: 'method_not_allowed' }]);
      expect(method.headers.get('Allow')).toContain('PATCH');
    });
  });
}
