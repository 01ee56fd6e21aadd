/** What belongs to somebody else is answered exactly as what does not exist, on every operation of the contract with an id. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { routes } from './contract/routes.ts';
import { type Account, type Json, type TestApp, testApp } from './test-app.ts';
import { type Belongings, makeBelongings, missingId, pathWith, sentExampleOf } from './test-belongings.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;
/** What Ada has. */
let ids: Belongings;

beforeAll(async () => {
  app = await testApp({ settings: { outboundAllow: ['127.0.0.1'] } });
  [ada, mallory] = [await app.register('ada'), await app.register('mallory')];
  ids = await makeBelongings(app, ada, 'Lovelace');
});
afterAll(() => app.close());

/** What is for the operator is refused to everybody else, whatever it is asked of; providers and models belong to nobody. */
const withIds = routes.filter(
  ({ path, access }) =>
    path.replace(/\{(provider|model_id)\}/, '').includes('{') && access.allow !== 'operator',
);

test.each(withIds.map(({ operationId, ...route }) => [operationId, route] as const))(
  '%s',
  async (_, { method, path }) => {
    const before = await owned();
    const ask = (filled: string) => {
      const sent = sentExampleOf({ path, method });
      // Where it is required, its absence would be told before anything is looked for.
      const headers = method === 'patch' ? { ...sent.headers, 'if-match': '"1"' } : sent.headers;
      return app.request(method.toUpperCase(), filled, {
        token: mallory.token,
        ...sent,
        ...(headers && { headers }),
      });
    };
    const foreign = await ask(pathWith(ids, path));
    const missing = await ask(pathWith(ids, path, missingId));
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
    expect((await app.request('GET', pathWith(ids, path), { token: ada.token })).status, path).toBe(200);
});

/** All that Ada has and Mallory might have changed. */
async function owned(): Promise<Json[]> {
  const paths = [
    '/api/v1/sessions',
    '/api/v1/runs',
    '/api/v1/agents',
    '/api/v1/files',
    '/api/v1/memories',
    '/api/v1/mcp/servers',
    '/api/v1/scheduler/jobs',
    `/api/v1/scheduler/jobs/${ids.job_id}/runs`,
    '/api/v1/skills',
    '/api/v1/corpora',
    `/api/v1/corpora/${ids.corpus_id}/documents`,
    `/api/v1/corpora/${ids.corpus_id}/ingestion-jobs`,
    '/api/v1/workspaces',
    '/api/v1/plans',
    '/api/v1/settings/providers',
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
