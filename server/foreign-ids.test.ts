/** What belongs to somebody else is answered exactly as what does not exist, on every operation of the contract with an id. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import contract from './contract/openapi.json' with { type: 'json' };
import { routes } from './contract/routes.ts';
import { type Account, type Json, readEvents, type TestApp, testApp } from './test-app.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;
/** What Ada has, by the place in a path that names it; `request_id` stands for two kinds. */
let ids: Record<string, string>;

beforeAll(async () => {
  app = await testApp();
  [ada, mallory] = [await app.register('ada'), await app.register('mallory')];
  const key = await app.request('POST', '/api/v1/auth/api-keys', { token: ada.token, body: { name: 'k' } });
  const agent = await app.request('POST', '/api/v1/agents', {
    token: ada.token,
    body: { slug: 'reviewer', description: 'Reviews.', instructions: 'You review.' },
  });
  const permission = await askedBy('Write a file named a.txt', 'permission_requested');
  const quota = await app.request('PUT', `/api/v1/quotas/user/${ada.user.id}`, {
    token: ada.token,
    body: { limits: { jobs: { hard: 1 } } },
  });
  const workspace = await app.request('POST', '/api/v1/workspaces', {
    token: ada.token,
    body: { name: 'Website' },
  });
  await app.request('PUT', `/api/v1/workspaces/${workspace.body.id}/members/${ada.user.id}`, {
    token: ada.token,
    body: { role: 'admin' },
  });
  const prompt = await askedBy('Ask me: what is your name?', 'prompt_requested');
  const { body: messages } = await app.request('GET', `/api/v1/sessions/${permission.session_id}/messages`, {
    token: ada.token,
  });
  const planned = { prompt: 'A better test', agent_slug: 'plan', model: 'demo:demo-1' };
  await app.request('POST', '/api/v1/query', { token: ada.token, body: planned });
  const plans = await app.request('GET', '/api/v1/plans', { token: ada.token });
  const entries = await app.request('GET', '/api/v1/audit/logs', { token: ada.token });
  const logins = await app.request('GET', '/api/v1/auth/logins', { token: ada.token });
  ids = {
    login_id: logins.body.data[0].id,
    message_id: messages.data[0].id,
    session_id: permission.session_id,
    run_id: permission.run_id,
    key_id: key.body.api_key.id,
    agent_id: agent.body.id,
    workspace_id: workspace.body.id,
    principal_id: ada.user.id,
    plan_id: plans.body.data[0].id,
    subject_type: quota.body.subject_type,
    subject_id: quota.body.subject_id,
    entry_id: entries.body.data[0].id,
    ...(await organizationOf()),
    'permissions/request_id': permission.id,
    'prompts/request_id': prompt.id,
    'prompts/session_id': prompt.session_id,
  };
});
afterAll(() => app.close());

/** What is for the operator is refused to everybody else, whatever it is asked of; a provider belongs to nobody. */
const withIds = routes.filter(
  ({ path, access }) => path.replace('{provider}', '').includes('{') && access.allow !== 'operator',
);

test.each(withIds.map(({ operationId, ...route }) => [operationId, route] as const))(
  '%s',
  async (_, { method, path }) => {
    const before = await owned();
    const ask = (filled: string) =>
      app.request(method.toUpperCase(), filled, { token: mallory.token, ...bodyOf(path, method) });
    const foreign = await ask(fill(path, (id) => id));
    const missing = await ask(fill(path, (id) => id.replace(/.{6}$/, '000000')));
    expect(foreign.status).toBe(404);
    const plain = ({ body }: { body: Json }) => ({ ...body, instance: '', request_id: '' });
    expect(plain(foreign)).toEqual(plain(missing));
    expect(await owned()).toEqual(before);
  },
);

test('there are such operations, and their owner gets through', async () => {
  expect(withIds.length).toBeGreaterThan(10);
  for (const { path } of withIds.filter(
    ({ method, operationId }) => method === 'get' && !operationId.startsWith('stream'),
  ))
    expect(
      (
        await app.request(
          'GET',
          fill(path, (id) => id),
          { token: ada.token },
        )
      ).status,
      path,
    ).toBe(200);
});

/** Her organization, with an invitation and a group in it. */
async function organizationOf(): Promise<Record<string, string>> {
  const { body: me } = await app.request('GET', '/api/v1/users/me', ada);
  const [{ organization_id }] = me.memberships;
  const invitations = `/api/v1/organizations/${organization_id}/invitations`;
  const invitation = await app.request('POST', invitations, {
    token: ada.token,
    body: { email: 'grace@example.com' },
  });
  const group = await app.request('POST', '/api/v1/groups', {
    token: ada.token,
    body: { organization_id, name: 'Readers' },
  });
  await app.request('PUT', `/api/v1/groups/${group.body.id}/members/${ada.user.id}`, ada);
  return {
    org_id: organization_id,
    user_id: ada.user.id,
    invitation_id: invitation.body.invitation.id,
    group_id: group.body.id,
  };
}

/** Streams a query of Ada's until it asks her something, and leaves it waiting. */
async function askedBy(prompt: string, type: string): Promise<Json> {
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token: ada.token,
    body: { prompt, model: 'demo:demo-1' },
  });
  for await (const { data } of readEvents(response)) if (data.type === type) return data.request;
  throw new Error(`${prompt}: no ${type}`);
}

function fill(path: string, change: (id: string) => string): string {
  const kind = /(permissions|prompts)\/\{/.exec(path)?.[1];
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[`${kind}/${name}`] ?? ids[name];
    if (id === undefined) throw new Error(`${path}: make a ${name} of Ada's in beforeAll`);
    return change(id);
  });
}

/** The first example of the contract, so that nothing but the id is wrong. */
function bodyOf(path: string, method: string): { body?: Json; headers?: Record<string, string> } {
  const item: Json = contract.paths[path as keyof typeof contract.paths]; // a path of the route table
  const [media] = Object.entries<Json>(item[method].requestBody?.content ?? {});
  if (!media) return {};
  const [example] = Object.values<Json>(media[1].examples);
  return { body: example.value, headers: { 'content-type': media[0] } };
}

/** All that Ada has and Mallory might have changed. */
async function owned(): Promise<Json[]> {
  const paths = [
    '/api/v1/sessions',
    '/api/v1/runs',
    '/api/v1/agents',
    '/api/v1/workspaces',
    '/api/v1/plans',
    '/api/v1/auth/api-keys',
    '/api/v1/quotas',
    '/api/v1/organizations',
    `/api/v1/organizations/${ids.org_id}/members`,
    `/api/v1/organizations/${ids.org_id}/invitations`,
    '/api/v1/groups',
    `/api/v1/groups/${ids.group_id}/members`,
  ];
  const questions = ['permissions', 'prompts'].map((kind) => `/api/v1/sessions/${ids.session_id}/${kind}`);
  const answers = [...paths, ...questions].map((path) => app.request('GET', path, { token: ada.token }));
  return (await Promise.all(answers)).map(({ body }) => body.data);
}
