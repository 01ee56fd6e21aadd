/** One of everything that somebody can have, made through the API, and what the contract says of ids. */
import { expect, vi } from 'vitest';
import { startMcp } from '../contract-tests/mcp/start-mcp.ts';
import contract from './contract/openapi.json' with { type: 'json' };
import type { Route } from './contract/routes.ts';
import { type Account, type Json, readEvents, type TestApp } from './test-app.ts';

/** The ids of what an account has, by the place in a path that names it; `request_id` stands for two kinds. */
export type Belongings = Readonly<Record<string, string>>;

/** Makes one of everything. The word stands in all that the account writes. */
export async function makeBelongings(app: TestApp, account: Account, word: string): Promise<Belongings> {
  const { token, user } = account;
  const make = async (path: string, body: Json): Promise<Json> => {
    const answer = await app.request('POST', path, { token, body });
    if (answer.status >= 300) throw new Error(`POST ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const first = async (path: string): Promise<Json> =>
    (await app.request('GET', path, { token })).body.data[0];

  const { api_key } = await make('/api/v1/auth/api-keys', { name: `Key ${word}` });
  const agent = await make('/api/v1/agents', {
    slug: 'reviewer',
    description: `Reviews ${word}.`,
    instructions: `You review ${word}.`,
  });
  const permission = await askedBy(app, token, `Write a file named ${word}.txt`, 'permission_requested');
  const quota = await app.request('PUT', `/api/v1/quotas/user/${user.id}`, {
    token,
    body: { limits: { jobs: { hard: 1 } } },
  });
  const workspace = await make('/api/v1/workspaces', { name: `Website ${word}` });
  await app.request('PUT', `/api/v1/workspaces/${workspace.id}/members/${user.id}`, {
    token,
    body: { role: 'admin' },
  });
  const prompt = await askedBy(app, token, `Ask me: what is ${word}?`, 'prompt_requested');
  const message = await first(`/api/v1/sessions/${permission.session_id}/messages`);
  await make('/api/v1/query', {
    prompt: `A better test of ${word}`,
    agent_slug: 'plan',
    model: 'demo:demo-1',
  });
  const plan = await first('/api/v1/plans');
  const setting = await make('/api/v1/settings/providers', {
    scope: 'organization',
    provider_id: 'gateway',
    name: `Gateway ${word}`,
    type: 'openai-compat',
    base_url: 'https://llm.example.com/v1',
    models: [{ id: `big-${word}` }],
  });
  const { url } = await startMcp();
  const mcpServer = await make('/api/v1/mcp/servers', {
    ...{ scope: 'organization', name: `issues-${word}`, type: 'http', url },
  });
  const memory = await make('/api/v1/memories', {
    ...{ scope: 'user', content: `Whoever asks means ${word}.`, tags: [word] },
    source: { session_id: permission.session_id },
  });
  const jobRun = await jobRunOf(app, account, word);
  const file = await sent(app, account, '/api/v1/files', { name: `${word}.txt`, text: `All about ${word}` });
  const skill = await sent(app, account, '/api/v1/skills', {
    name: 'SKILL.md',
    text: `---\nname: ${word}\ndescription: All about ${word}.\n---\n`,
    scope: 'user',
  });
  const corpus = await make('/api/v1/corpora', { name: `Corpus ${word}` });
  const job = await make(`/api/v1/corpora/${corpus.id}/documents`, {
    texts: [{ title: word, text: `All about ${word}.` }],
  });
  // From here on nothing changes by itself.
  const ended = async () =>
    (await app.request('GET', `/api/v1/corpora/${corpus.id}/ingestion-jobs/${job.id}`, { token })).body
      .ended_at;
  await vi.waitFor(async () => expect(await ended()).not.toBeNull(), { timeout: 40_000, interval: 20 });
  const upload = await make('/api/v1/files/uploads', {
    ...{ filename: `${word}.bin`, size: 100, sha256: '0'.repeat(64) },
  });
  const organization = await organizationOf(app, account, word);
  return {
    ...organization,
    login_id: (await first('/api/v1/auth/logins')).id,
    message_id: message.id,
    session_id: permission.session_id,
    run_id: permission.run_id,
    key_id: api_key.id,
    agent_id: agent.id,
    file_id: file.id,
    corpus_id: corpus.id,
    document_id: job.items[0].document_id,
    ingestion_id: job.id,
    upload_id: upload.id,
    memory_id: memory.id,
    server_id: mcpServer.id,
    job_id: jobRun.job_id,
    job_run_id: jobRun.id,
    skill_id: skill.id,
    workspace_id: workspace.id,
    principal_id: user.id,
    plan_id: plan.id,
    setting_id: setting.id,
    model_id: `big-${word}`,
    subject_type: quota.body.subject_type,
    subject_id: quota.body.subject_id,
    entry_id: (await first('/api/v1/audit/logs')).id,
    'permissions/request_id': permission.id,
    'prompts/request_id': prompt.id,
    'prompts/session_id': prompt.session_id,
  };
}

/** A job for a day that no test sees, and a run of it that has ended. */
async function jobRunOf(app: TestApp, { token }: Account, word: string): Promise<Json> {
  const url = '/api/v1/scheduler/jobs';
  const body = { name: `Job ${word}`, prompt: `Hello ${word}`, cron: '0 0 29 2 *', model: 'demo:demo-1' };
  const made = await app.request('POST', url, { token, body });
  const asked = await app.request('POST', `${url}/${made.body.id}/run`, { token });
  const run = async () =>
    (await app.request('GET', `${url}/${made.body.id}/runs/${asked.body.id}`, { token })).body;
  await vi.waitFor(async () => expect((await run()).ended_at).not.toBeNull(), {
    ...{ timeout: 40_000, interval: 20 },
  });
  return run();
}

async function sent(
  { url }: TestApp,
  { token }: Account,
  path: string,
  { name, text, scope }: { name: string; text: string; scope?: string },
): Promise<Json> {
  const form = new FormData();
  if (scope !== undefined) form.append('scope', scope);
  form.append('file', new Blob([text]), name);
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(url + path, { method: 'POST', headers, body: form });
  if (answer.status !== 201) throw new Error(`the upload: ${await answer.text()}`);
  return answer.json();
}

/** Their organization, with an invitation and a group in it. */
async function organizationOf(
  app: TestApp,
  { token, user }: Account,
  word: string,
): Promise<Record<string, string>> {
  const { body: me } = await app.request('GET', '/api/v1/users/me', { token });
  const [{ organization_id }] = me.memberships;
  const invitation = await app.request('POST', `/api/v1/organizations/${organization_id}/invitations`, {
    token,
    body: { email: `guest-of-${word}@example.com` },
  });
  const group = await app.request('POST', '/api/v1/groups', {
    token,
    body: { organization_id, name: `Readers ${word}` },
  });
  await app.request('PUT', `/api/v1/groups/${group.body.id}/members/${user.id}`, { token });
  return {
    org_id: organization_id,
    user_id: user.id,
    invitation_id: invitation.body.invitation.id,
    group_id: group.body.id,
  };
}

/** Streams a query until it asks something, and leaves it waiting. */
async function askedBy(app: TestApp, token: string, prompt: string, type: string): Promise<Json> {
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token,
    body: { prompt, model: 'demo:demo-1' },
  });
  for await (const { data } of readEvents(response)) if (data.type === type) return data.request;
  throw new Error(`${prompt}: no ${type}`);
}

/** The path of a route with these ids in it. */
export function pathWith(
  ids: Belongings,
  path: string,
  change: (id: string, name: string) => string = (id) => id,
): string {
  const kind = /(permissions|prompts)\/\{/.exec(path)?.[1];
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[`${kind}/${name}`] ?? ids[name];
    if (id === undefined) throw new Error(`${path}: make a ${name} in makeBelongings`);
    return change(id, name);
  });
}

/** An id of the same kind that nobody has. */
export function missingId(id: string): string {
  return id.replace(/.{6}$/, '000000');
}

/** The first example of the contract, so that nothing is wrong but what a test makes so. */
export function exampleOf({ path, method }: Pick<Route, 'path' | 'method'>): {
  body?: Json;
  headers?: Record<string, string>;
} {
  const { requestBody, parameters } = operationAt(path, method);
  const [media] = Object.entries<Json>(requestBody?.content ?? {});
  if (!media) return {};
  const [example] = Object.values<Json>(media[1].examples);
  const needed: Json[] = parameters
    .map(resolved)
    .filter(({ in: place, required }: Json) => place === 'header' && required);
  const others = needed.map(({ name, schema }) => [name, String(resolved(schema).examples[0])]);
  return { body: example.value, headers: { 'content-type': media[0], ...Object.fromEntries(others) } };
}

/** The same as it is sent: a form as a form. */
export function sentExampleOf(route: Pick<Route, 'path' | 'method'>): ReturnType<typeof exampleOf> {
  const { body, headers: { 'content-type': type, ...headers } = {} } = exampleOf(route);
  if (type === 'multipart/form-data') return { body: formOf(body), headers };
  return exampleOf(route);
}

/** The file last, as the contract wants it. */
function formOf({ file, ...fields }: Json): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  form.append('file', new Blob([file]), 'file');
  return form;
}

/** The operation of the contract, its references unresolved. */
export function operationAt(path: string, method: string): Json {
  const item: Json = contract.paths[path as keyof typeof contract.paths]; // a path of the route table
  return { ...item[method], parameters: [...(item.parameters ?? []), ...(item[method].parameters ?? [])] };
}

/** What a reference of the contract stands for. */
export function resolved(node: Json): Json {
  if (typeof node?.$ref !== 'string') return node ?? {};
  const { $ref, ...beside } = node;
  const keys: string[] = $ref.slice(2).split('/');
  return { ...resolved(keys.reduce((at: Json, key) => at[key], contract)), ...beside };
}
