/** Journeys of provider settings: made, listed, read, changed by who has read them, used and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const list = '/api/v1/settings/providers';
const one = '/api/v1/settings/providers/{setting_id}';

export function providerSettingJourneys(target: () => Target): void {
  test('a provider setting is made, listed, read without its key, changed, and deleted', async () => {
    const { client, liveOnly } = target();
    const body = {
      scope: 'organization' as const,
      provider_id: 'gateway',
      type: 'openai-compat' as const,
      base_url: 'https://llm.example.com/v1',
      api_key: 'not-a-real-key',
      models: [{ id: 'llama-4-70b' }],
      disable: true,
    };
    const made = await client.POST(list, { body });
    expect(made.response.status).toBe(201);
    expectShape('ProviderSetting', made.data);
    const path = { setting_id: example.providerSetting };
    await liveOnly(() => {
      path.setting_id = made.data.id;
      expect(made.data).toMatchObject({ api_key_set: true, name: 'gateway' });
      expect(made.response.headers.get('Location')).toBe(`${list}/${path.setting_id}`);
    });
    const taken = await refusal(client.POST(list, { body, ...preferring(409) }));
    expect(taken).toMatchObject({ status: 409, code: 'name_taken' });
    await liveOnly(async () => {
      const inside = { ...body, name: 'Inside', base_url: 'http://169.254.169.254/v1' };
      expect(await refusal(client.POST(list, { body: inside }))).toMatchObject({
        status: 400,
        code: 'invalid_request',
      });
    });

    const { data: page } = await client.GET(list, { params: { query: { limit: 100 } } });
    expectShape('ProviderSettingPage', page);
    const read = await client.GET(one, { params: { path } });
    expectShape('ProviderSetting', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { name: 'Our gateway' } };
    const changed = await client.PATCH(one, change);
    expectShape('ProviderSetting', changed.data);
    expect(changed.data.name).toBe('Our gateway');
    const stale = await refusal(client.PATCH(one, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });

    expect((await client.DELETE(one, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(one, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('a provider setting is tried, and its models are listed, looked for, described, and described no longer', async () => {
    const { client, liveOnly } = target();
    const place = { base_url: 'http://127.0.0.1:9/v1', api_key: 'not-a-real-key', models: [{ id: 'big' }] };
    const body = { scope: 'user' as const, provider_id: 'gateway', name: 'With models', ...place };
    const made = await client.POST(list, { body });
    const setting = { setting_id: example.providerSetting };
    await liveOnly(() => {
      setting.setting_id = made.data.id;
    });
    const tried = await refusal(
      client.POST(`${one}/test`, { params: { path: setting }, ...preferring(502) }),
    );
    expect(tried.status).toBe(502);
    const begun = await client.POST(`${one}/models/refresh`, { params: { path: setting } });
    expect(begun.response.status).toBe(202);
    expectShape('ModelDiscovery', begun.data);
    const { data: page } = await client.GET(`${one}/models`, { params: { path: setting } });
    expectShape('KnownModelPage', page);
    const path = { ...setting, model_id: 'meta/llama-4:70b' };
    const url = `${one}/models/{model_id}` as const;
    const described = await client.PUT(url, { params: { path }, body: { context_window: 131_072 } });
    expectShape('KnownModel', described.data);
    await liveOnly(() => expect(described.response.status).toBe(201));
    const read = await client.GET(url, { params: { path } });
    expectShape('KnownModel', read.data);
    await liveOnly(async () => {
      expect(read.data).toMatchObject({ model: 'gateway:meta/llama-4:70b', sources: ['custom'] });
      const header = { 'If-Match': '"1"' };
      const stale = await refusal(client.PUT(url, { params: { path, header }, body: {} }));
      expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    });
    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    await client.DELETE(one, { params: { path: setting } });
  });

  test('default models are chosen by who has read them, and one that nobody has is refused', async () => {
    const { client, liveOnly } = target();
    const url = '/api/v1/settings/providers/default-models';
    const before = await client.GET(url);
    expectShape('DefaultModels', before.data);
    const header = { 'If-Match': before.response.headers.get('ETag') ?? '' };
    const change = { params: { header }, body: { large: 'vendor:vendor-1' } };
    const chosen = await client.PUT(url, change);
    expectShape('DefaultModels', chosen.data);
    await liveOnly(() => expect(chosen.data.large).toBe('vendor:vendor-1'));
    const stale = await refusal(client.PUT(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });
    const unknown = await refusal(client.PUT(url, { body: { large: 'nobody:none' }, ...preferring(422) }));
    expect(unknown.status).toBe(422);
    await liveOnly(() => expect(unknown.code).toBe('model_unknown'));
    expect((await client.PUT(url, { body: {} })).response.status).toBe(200);
  });

  test('a provider setting is to be connected with OAuth: begun, refused for a code of nobody, and taken back', async () => {
    const { client, liveOnly } = target();
    const body = { scope: 'user' as const, provider_id: 'anthropic', name: 'To connect', disable: true };
    const made = await client.POST(list, { body });
    const path = { setting_id: example.providerSetting };
    await liveOnly(() => {
      path.setting_id = made.data.id;
    });
    const urls = {
      auth_url: 'https://auth.example.com/authorize',
      token_url: 'https://auth.example.com/token',
    };
    const begun = await client.POST(`${one}/oauth/start`, {
      params: { path },
      body: { flow: 'code', client: { client_id: 'service', ...urls } },
    });
    expectShape('ProviderOauthStarted', begun.data);
    await liveOnly(() => expect(begun.data.authorize_url).toContain(begun.data.state));
    const wrong = { state: 'nobodys', code: 'nobodys' };
    const refused = await refusal(
      client.POST(`${one}/oauth/complete`, { params: { path }, body: wrong, ...preferring(400) }),
    );
    expect(refused.status).toBe(400);
    await liveOnly(() => expect(refused.code).toBe('oauth_invalid'));
    const { data } = await client.GET(`${one}/oauth`, { params: { path } });
    expectShape('ProviderOauth', data);
    await liveOnly(() => expect(data.connected).toBe(false));
    expect((await client.DELETE(`${one}/oauth`, { params: { path } })).response.status).toBe(204);
  });
}
