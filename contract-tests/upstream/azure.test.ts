// OpenAI's own SDK for Azure judges the Azure dialect, by deployments and by the v1 paths.
import OpenAI, { AzureOpenAI } from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from './start-upstream.ts';

let upstream: Upstream;
let client: AzureOpenAI;

beforeAll(async () => {
  upstream = await startUpstream();
  client = new AzureOpenAI({
    endpoint: upstream.url,
    apiKey: 'azure-key',
    apiVersion: '2024-10-21',
    maxRetries: 0,
  });
});
afterAll(() => upstream.stop());

const model = 'our-deployment';
const messages = [{ role: 'user' as const, content: 'good morning' }]; // Narrows the literal for the SDK.

test('the path names the deployment and the version, and a header of its own has the key', async () => {
  await upstream.script([{ reply: { text: '{{model}}: {{last_user}}' } }]);
  const completion = await client.chat.completions.create({ model, messages });
  expect(completion.choices[0]?.message.content).toBe('our-deployment: good morning');
  const { path, headers } = await upstream.latest(() => true);
  expect(path).toBe('/openai/deployments/our-deployment/chat/completions?api-version=2024-10-21');
  expect(headers).toMatchObject({ 'api-key': 'azure-key' });
  expect(headers).not.toHaveProperty('authorization');
});

test('a stream begins with what the filter thinks of the prompt, in a frame without choices', async () => {
  await upstream.script([{ reply: { text: 'one two three' } }]);
  const stream = await client.chat.completions.create({ model, messages, stream: true });
  const [first, ...rest] = await Array.fromAsync(stream);
  expect(first).toMatchObject({ choices: [], prompt_filter_results: [{ prompt_index: 0 }] });
  expect(rest.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe('one two three');
});

test('tool calls in parallel and their results go through the SDK', async () => {
  const call = (name: string) => ({ name, arguments: { city: 'Oslo' } });
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [call('weather'), call('clock')] } },
    { when: { tool_results: 2 }, reply: { text: '{{last_tool_result}}' } },
  ]);
  const tools = ['weather', 'clock'].map((name) => ({
    type: 'function' as const, // Narrows the literal for the SDK.
    function: { name, parameters: { type: 'object', properties: {} } },
  }));
  const first = await client.chat.completions.create({ model, messages, tools });
  const said = first.choices[0]?.message;
  if (said === undefined) throw new Error('no answer');
  const results = (said.tool_calls ?? []).map(({ id }) => ({
    role: 'tool' as const, // Narrows the literal for the SDK.
    tool_call_id: id,
    content: `result of ${id}`,
  }));
  expect(results).toHaveLength(2);
  const second = await client.chat.completions.create({
    model,
    messages: [...messages, said, ...results],
    tools,
  });
  expect(second.choices[0]?.message.content).toBe(results[1]?.content);
});

test('the v1 paths take the deployment as the model, and tokens of Entra ID', async () => {
  await upstream.script([{ reply: { text: 'hello' } }]);
  const entra = new OpenAI({ baseURL: `${upstream.url}/openai/v1`, apiKey: 'a-token', maxRetries: 0 });
  const completion = await entra.chat.completions.create({ model, messages });
  expect(completion.choices[0]?.message.content).toBe('hello');
  expect((await upstream.latest(() => true)).headers.authorization).toBe('Bearer a-token');
});

test('models are listed by both kinds of paths', async () => {
  await upstream.script([], ['gpt-a', 'gpt-b']);
  const newer = new OpenAI({ baseURL: `${upstream.url}/openai/v1`, apiKey: 'a-token', maxRetries: 0 });
  for (const one of [client, newer])
    expect((await one.models.list()).data).toMatchObject([{ id: 'gpt-a', object: 'model' }, { id: 'gpt-b' }]);
  expect((await upstream.requests()).map(({ path }) => path)).toEqual([
    ...['/openai/models?api-version=2024-10-21', '/openai/v1/models'],
  ]);
});

// No SDK of a bearable size lists them: the form is that of Microsoft's reference.
test('the deployments of a project are listed for tokens alone, and each page names the next one', async () => {
  const ids = ['one', 'two', 'three'];
  await upstream.script([], ids, { page_size: 2 });
  const place = `${upstream.url}/api/projects/ours/deployments?api-version=v1`;
  const authorization = 'Bearer a-token';
  interface Page {
    readonly value: readonly { readonly type: string; readonly name: string }[];
    readonly nextLink?: string;
  }
  const page = async (url = '') => (await (await fetch(url, { headers: { authorization } })).json()) as Page; // the form is what is tested
  const first = await page(place);
  const second = await page(first.nextLink);
  expect([...first.value, ...second.value].map(({ type, name }) => [type, name])).toEqual(
    ids.map((id) => ['ModelDeployment', id]),
  );
  expect(second).not.toHaveProperty('nextLink');
  expect((await fetch(place, { headers: { 'api-key': 'k' } })).status).toBe(401);
  const unversioned = place.replace('v1', 'latest');
  expect((await fetch(unversioned, { headers: { authorization } })).status).toBe(404);
});

test.each([
  [401, OpenAI.AuthenticationError, '401'],
  [404, OpenAI.NotFoundError, 'DeploymentNotFound'],
  [429, OpenAI.RateLimitError, '429'],
  [500, OpenAI.InternalServerError, 'InternalServerError'],
])(
  'a scripted %i becomes the error class of the SDK, in the words of the gateway',
  async (status, errorClass, code) => {
    await upstream.script([{ fail: { kind: 'status', status, message: 'as scripted', retry_after: '7' } }]);
    const error = await client.chat.completions.create({ model, messages }).catch((it: unknown) => it);
    expect(error).toBeInstanceOf(errorClass);
    expect(error).toMatchObject({ status, code, error: { message: 'as scripted' } });
    expect(error instanceof OpenAI.APIError && error.headers?.get('retry-after')).toBe('7');
  },
);

test('a prompt that the filter refuses is a bad request of a code of its own', async () => {
  await upstream.script([{ fail: { kind: 'status', status: 400, code: 'content_filter' } }]);
  await expect(client.chat.completions.create({ model, messages })).rejects.toMatchObject({
    status: 400,
    code: 'content_filter',
    error: { innererror: { code: 'ResponsibleAIPolicyViolation' } },
  });
});

test.each(['', '2024', 'latest'])('a deployment with the version %j is not found', async (apiVersion) => {
  const response = await fetch(
    `${upstream.url}/openai/deployments/x/chat/completions${apiVersion && `?api-version=${apiVersion}`}`,
    { method: 'POST', headers: { 'api-key': 'k' }, body: '{}' },
  );
  expect(response.status).toBe(404);
  expect(await response.json()).toEqual({ error: { code: '404', message: 'Resource not found' } });
});

test('a request without a key is refused', async () => {
  const response = await fetch(`${upstream.url}/openai/v1/chat/completions`, { method: 'POST', body: '{}' });
  expect(response.status).toBe(401);
});
