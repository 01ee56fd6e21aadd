/** The agents family over HTTP: anonymous, stranger, wrong input, missing, happy; and queries that name a profile. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';
import { createAgent, deleteAgent, updateAgent } from './agents.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  upstream = await startUpstream();
  const scripted = scriptedProvider(upstream, 'scripted-1', 'scripted-2');
  app = await testApp({
    config: {
      providers: { scripted },
      models: {
        large: { provider: 'scripted', model: 'scripted-1' },
        small: { provider: 'scripted', model: 'scripted-2' },
      },
    },
  });
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});
beforeEach(() => upstream.script([{ reply: { text: '{{system}}' } }]));

const path = '/api/v1/agents';
const reviewer = { description: 'Reviews.', instructions: 'You review.', tools: ['view', 'grep'] };
let made = 0;

async function newAgent(more: object = {}, token = ada.token): Promise<{ agent: Json; etag: string }> {
  made += 1;
  const body = { slug: `reviewer-${made}`, ...reviewer, ...more };
  const answer = await app.request('POST', path, { token, body });
  expect(answer.status).toBe(201);
  return { agent: answer.body, etag: answer.headers.get('etag') ?? '' };
}

async function slugs(token: string): Promise<string[]> {
  const { body } = await app.request('GET', `${path}?limit=100`, { token });
  return body.data.map(({ slug }: Json) => slug);
}

describe('an agent profile', () => {
  test('is made, named by its Location, read back, and not sent again to whoever has it', async () => {
    const answer = await app.request('POST', path, {
      token: ada.token,
      body: { slug: 'librarian', ...reviewer, model: 'small', permission_mode: 'ask' },
    });
    expect(answer.body).toMatchObject({
      name: 'librarian',
      workspace_id: null,
      source: 'api',
      model: 'small',
    });
    const place = answer.headers.get('location') ?? '';
    expect(place).toBe(`${path}/${answer.body.id}`);
    const read = await app.request('GET', place, { token: ada.token });
    expect(read.body).toEqual(answer.body);
    const headers = { 'if-none-match': read.headers.get('etag') ?? '' };
    expect(await app.request('GET', place, { token: ada.token, headers })).toMatchObject({ status: 304 });
  });

  test('is changed by merging, and only by who has read it as it is', async () => {
    const { agent, etag } = await newAgent({ model: 'large' });
    const patch = (body: unknown, tag: string) =>
      app.request('PATCH', `${path}/${agent.id}`, {
        token: ada.token,
        body,
        headers: { 'if-match': tag, 'content-type': 'application/merge-patch+json' },
      });
    const changed = await patch({ name: 'New', model: null, tools: null }, etag);
    expect(changed.body).toMatchObject({
      name: 'New',
      model: null,
      tools: null,
      instructions: 'You review.',
    });
    expect((await patch({ name: 'Lost' }, etag)).body.code).toBe('precondition_failed');
  });

  test('is gone when it is deleted, and the queries that name it are refused', async () => {
    const { agent, etag } = await newAgent();
    const query = { token: ada.token, body: { prompt: 'x', agent_slug: agent.slug } };
    expect((await app.request('POST', '/api/v1/query', query)).status).toBe(200);
    const headers = { 'if-match': etag };
    expect(await app.request('DELETE', `${path}/${agent.id}`, { token: ada.token, headers })).toMatchObject({
      status: 204,
    });
    expect(await app.request('POST', '/api/v1/query', query)).toMatchObject({
      status: 404,
      body: { code: 'agent_not_found' },
    });
  });

  test('of somebody else is answered as one that does not exist, whatever is asked of it', async () => {
    const { agent } = await newAgent();
    const missing = `${path}/${agent.id.replace(/.{6}$/, '000000')}`;
    for (const [method, body] of [['GET'], ['PATCH', { name: 'Mine' }], ['DELETE']] as const)
      for (const target of [`${path}/${agent.id}`, missing])
        expect(await app.request(method, target, { token: mallory.token, body })).toMatchObject({
          status: 404,
          body: { code: 'not_found' },
        });
    expect(await slugs(mallory.token)).not.toContain(agent.slug);
    expect(
      await app.request('POST', '/api/v1/query', {
        token: mallory.token,
        body: { prompt: 'x', agent_slug: agent.slug },
      }),
    ).toMatchObject({ status: 404, body: { code: 'agent_not_found' } });
    const foreign = {
      token: mallory.token,
      body: { workspace_id: await workspaceOf(ada), slug: 'x', ...reviewer },
    };
    expect((await app.request('POST', path, foreign)).status).toBe(404);
  });

  test.each([
    ['GET', undefined],
    ['POST', { slug: 'x', ...reviewer }],
  ])('is nothing for the anonymous: %s', async (method, body) => {
    expect((await app.request(method, path, { body })).status).toBe(401);
  });

  test.each([
    [{ slug: 'Big', ...reviewer }, 400, 'invalid_request'],
    [{ slug: 'x', description: 'x' }, 400, 'invalid_request'],
    [{ slug: 'x', ...reviewer, permission_mode: 'bypass' }, 400, 'invalid_request'],
    [{ slug: 'x', ...reviewer, tools: ['a b'] }, 400, 'invalid_request'],
    [{ slug: 'x', ...reviewer, source: 'builtin' }, 400, 'invalid_request'],
    [{ slug: 'plan', ...reviewer }, 409, 'slug_taken'],
    [{ slug: 'twice', ...reviewer }, 409, 'slug_taken'],
  ])('%o is refused with %i %s', async (body, status, code) => {
    if (body.slug === 'twice') await newAgent({ slug: 'twice' });
    expect(await app.request('POST', path, { token: ada.token, body })).toMatchObject({
      status,
      body: { code },
    });
  });

  test('has a slug that another organization may have too', async () => {
    await newAgent({ slug: 'common', instructions: 'Of Ada.' });
    await newAgent({ slug: 'common', instructions: 'Of Mallory.' }, mallory.token);
    const body = { prompt: 'x', agent_slug: 'common' };
    const { body: answer } = await app.request('POST', '/api/v1/query', { token: mallory.token, body });
    expect(answer.content[0].text).toMatch(/^Of Mallory\./);
  });

  test('is changed by owners and admins of its organization only', async () => {
    const { agent } = await newAgent();
    const { services } = app;
    const organizationIds = [await organizationOf(ada)];
    const principal = (role: string): Json => ({
      userId: ada.user.id,
      organizationIds,
      memberships: [{ organizationId: organizationIds[0], role }],
      workspaces: [],
      needs: 'admin',
    });
    const call = (role: string, more: Json = {}): Json => ({
      principal: principal(role),
      path: { agent_id: agent.id },
      headers: {},
      ...more,
    });
    const refused = { code: 'role_required' };
    for (const role of ['member', 'viewer']) {
      await expect(
        createAgent(call(role, { body: { slug: 'y', ...reviewer } }), services),
      ).rejects.toMatchObject(refused);
      await expect(updateAgent(call(role, { body: { name: 'y' } }), services)).rejects.toMatchObject(refused);
      await expect(deleteAgent(call(role), services)).rejects.toMatchObject(refused);
    }
    expect(await updateAgent(call('admin', { body: { name: 'y' } }), services)).toMatchObject({
      status: 200,
    });
  });

  test('needs a key with the scope', async () => {
    const { body } = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'k', scopes: ['agents:read'] },
    });
    expect((await app.request('GET', path, { token: body.key })).status).toBe(200);
    expect(
      await app.request('POST', path, { token: body.key, body: { slug: 'x', ...reviewer } }),
    ).toMatchObject({ status: 403, body: { code: 'scope_required' } });
  });
});

describe('the list of profiles', () => {
  test('holds those built in, those of the organization and those of files, by slug, page after page', async () => {
    const folder = join(app.services.settings.workspacesDirectory, await workspaceOf(ada), '.service/agents');
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'zebra.md'), '---\ndescription: Stripes.\n---\nYou are a zebra.\n');
    const global = join(app.services.settings.globalConfigDirectory, 'agents');
    await mkdir(global, { recursive: true });
    await writeFile(join(global, 'antelope.md'), '---\ndescription: Horns.\n---\nYou are an antelope.\n');
    const found: Json[] = [];
    for (let cursor = ''; ; ) {
      const { body } = await app.request('GET', `${path}?limit=2${cursor}`, { token: ada.token });
      expect(body.data.length).toBeLessThanOrEqual(2);
      found.push(...body.data);
      if (body.next_cursor === null) break;
      cursor = `&cursor=${body.next_cursor}`;
    }
    const names = found.map(({ slug }) => slug);
    expect(names).toEqual(names.toSorted());
    expect(new Set(names).size).toBe(names.length);
    const sources = Object.fromEntries(found.map(({ slug, source }) => [slug, source]));
    expect(sources).toMatchObject({
      coder: 'builtin',
      antelope: 'global',
      zebra: 'project',
      librarian: 'api',
    });
    expect(await slugs(mallory.token)).not.toContain('zebra');
  });

  test('holds nothing of a file that the contract would not take, and all else', async () => {
    const folder = join(app.services.settings.workspacesDirectory, await workspaceOf(ada), '.service/agents');
    await mkdir(folder, { recursive: true });
    const global = join(app.services.settings.globalConfigDirectory, 'agents');
    await mkdir(global, { recursive: true });
    const put = (name: string, front: string, body = 'You look.', into = folder) =>
      writeFile(join(into, `${name}.md`), `---\n${front}\n---\n${body}\n`);
    await put('doubled', 'description: Looks.\ntools: view, ls, view');
    // The last ones are two units of a string each, and one character.
    const much = `${'x'.repeat(95_000)}${'𝄞'.repeat(4000)}`;
    await put('much', 'description: Looks.', much);
    await put('too-much', 'description: Looks.', 'x'.repeat(100_001));
    await put('nul', 'description: "Looks.\\0"');
    await put('nul-name', 'description: Looks.\nname: "a\\0b"');
    await put('two-lines', 'description: Looks.\nmodel: "a\\nb"', 'You look.', global);
    const { status, body } = await app.request('GET', `${path}?limit=100`, { token: ada.token });
    expect(status).toBe(200);
    const named = new Map(body.data.map((agent: Json) => [agent.slug, agent]));
    expect(named.get('doubled')).toMatchObject({ tools: ['view', 'ls'] });
    expect(named.get('much')).toMatchObject({ instructions: much });
    const faults = {
      'too-much': 'its instructions are longer than 100,000 characters',
      nul: 'description: holds the character NUL',
      'nul-name': 'name: holds the character NUL',
      'two-lines': 'model: holds a control character',
    };
    for (const [slug, why] of Object.entries(faults)) {
      expect(named.has(slug), slug).toBe(false);
      const query = { prompt: 'x', agent_slug: slug };
      expect(await app.request('POST', '/api/v1/query', { token: ada.token, body: query })).toMatchObject({
        status: 404,
        body: {
          code: 'agent_not_found',
          detail: `The file ${slug}.md makes no agent profile: ${why}.`,
        },
      });
    }
  });

  test('refuses a cursor that is none of its own', async () => {
    for (const cursor of ['forged', 'YWdlbnQ6QUFB'])
      expect(await app.request('GET', `${path}?cursor=${cursor}`, { token: ada.token })).toMatchObject({
        status: 400,
        body: { code: 'invalid_cursor' },
      });
  });
});

describe('a query that names a profile', () => {
  test('takes its model where neither the query nor the session names one', async () => {
    const { agent } = await newAgent({ model: 'small' });
    const ask = (body: object) =>
      app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'x', ...body } });
    expect((await ask({ agent_slug: agent.slug })).body.model).toBe('scripted:scripted-2');
    expect((await ask({ agent_slug: agent.slug, model: 'scripted:scripted-1' })).body.model).toBe(
      'scripted:scripted-1',
    );
  });

  test('tells in the run by which mode it goes, the stricter of the two', async () => {
    const { agent } = await newAgent({ permission_mode: 'read_only' });
    const body = { prompt: 'x', agent_slug: agent.slug, permission_mode: 'accept_edits' };
    const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body });
    const run = await app.request('GET', `/api/v1/runs/${answer.body.run_id}`, { token: ada.token });
    expect(run.body).toMatchObject({ permission_mode: 'read_only', agent_slug: agent.slug });
  });

  test('finds one that its workspace alone knows', async () => {
    const { agent } = await newAgent({ workspace_id: await workspaceOf(ada) });
    expect(agent.workspace_id).toBe(await workspaceOf(ada));
    const session = { token: ada.token, body: { agent_slug: agent.slug } };
    expect((await app.request('POST', '/api/v1/sessions', session)).status).toBe(201);
  });
});

async function workspaceOf({ token }: Account): Promise<string> {
  const { body } = await app.request('GET', '/api/v1/users/me', { token });
  return body.memberships[0].default_workspace_id;
}

async function organizationOf({ token }: Account): Promise<string> {
  const { body } = await app.request('GET', '/api/v1/users/me', { token });
  return body.memberships[0].organization_id;
}
