/** Git repositories of skills over HTTP, against a real git server: fetched, shown, applied, and refused where they are hostile. */
import { readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import {
  startGitServer,
  type TestGitServer,
  type TestRepository,
} from '../../contract-tests/git/start-git.ts';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { findGit } from '../skills/git-process.ts';
import { openRelay } from '../skills/git-relay.ts';
import { withCommit } from '../skills/git-repository.ts';
import { type Account, coded, type Json, mergePatch, type TestApp, testApp } from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let git: TestGitServer;
let app: TestApp;
let ada: Account;
let made = 0;

beforeAll(async () => {
  [upstream, git] = await Promise.all([startUpstream(), startGitServer()]);
  app = await testApp({
    config: {
      providers: { scripted: scriptedProvider(upstream, 'scripted-1') },
    },
    settings: { outboundAllow: [new URL(git.url).host, new URL(upstream.url).host], mode: 'multi' },
  });
  ada = await app.register('ada');
  await upstream.script([{ reply: { text: 'Done.' } }]);
});
afterAll(async () => {
  await app.close();
  await Promise.all([upstream.stop(), git.stop()]);
});

const skill = (name: string, body = 'Do it well.', description = `About ${name}.`) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`;

function ask(method: string, path: string, body?: Json, headers?: Record<string, string>) {
  const place = `/api/v1/skills/repositories${path}`;
  return app.request(method, place, { token: app.operatorKey, body, ...(headers && { headers }) });
}

async function repository(): Promise<TestRepository> {
  made += 1;
  return git.make(`house-${made}`);
}

async function add(body: Json): Promise<Json> {
  const answer = await ask('POST', '', body);
  expect(coded(answer)).toEqual([201, null]);
  return answer.body;
}

/** Syncs it, and answers with it once that has ended. */
async function synced(id: string): Promise<Json> {
  const begun = await ask('POST', `/${id}/sync`);
  expect([begun.status, begun.body.state]).toEqual([202, 'syncing']);
  return vi.waitFor(
    async () => {
      const { body } = await ask('GET', `/${id}`);
      expect(body.state).not.toBe('syncing');
      return body;
    },
    { timeout: 60_000, interval: 30 },
  );
}

const proposal = async (id: string): Promise<Json> => (await ask('GET', `/${id}/proposal`)).body;

async function applied(id: string): Promise<Json> {
  const { proposed_commit: commit } = await synced(id);
  const answer = await ask('POST', `/${id}/apply`, { commit });
  expect(coded(answer)).toEqual([200, null]);
  return answer.body;
}

/** Why the sync of a repository fails. */
async function failure(body: Json): Promise<string> {
  const { id } = await add(body);
  const { state, error } = await synced(id);
  expect(state).toBe('failed');
  expect(coded(await ask('GET', `/${id}/proposal`))).toEqual([404, 'not_found']);
  return error;
}

async function told(prompt = 'Hello'): Promise<string> {
  const answer = await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt } });
  expect(coded(answer)).toEqual([200, null]);
  const { body } = (await upstream.requests()).at(-1) ?? {};
  return JSON.stringify((body as Json).messages[0]);
}

const listed = async (name: string): Promise<Json> => {
  const { body } = await app.request('GET', '/api/v1/skills?source=repository&limit=100', {
    token: ada.token,
  });
  return body.data.find((one: Json) => one.name === name);
};

test('nothing of a repository is used before what a sync has shown is applied', async () => {
  const house = await repository();
  const commit = await house.commit({
    'README.md': 'Not a skill.',
    'skills/tidy/SKILL.md': skill('tidy'),
    'skills/tidy/scripts/run.sh': '#!/bin/sh\necho tidy\n',
  });
  const { id, ...added } = await add({ url: house.url, name: 'House', ref: 'main', subfolder: 'skills' });
  expect(added).toMatchObject({ state: 'idle', skills: 0, proposed_commit: null, applied_commit: null });
  expect(await synced(id)).toMatchObject({
    state: 'proposed',
    proposed_commit: commit,
    applied_commit: null,
  });
  const shown = await proposal(id);
  expect(shown).toMatchObject({ commit, applied_commit: null, skipped: [] });
  expect(shown.skills).toMatchObject([
    {
      ...{
        name: 'tidy',
        path: 'skills/tidy',
        change: 'added',
        description: 'About tidy.',
        skill_id: null,
        errors: [],
      },
      files: [
        { path: 'SKILL.md', change: 'added', executable: false },
        { path: 'scripts/run.sh', change: 'added', executable: true, size: 20 },
      ],
    },
  ]);
  expect(shown.skills[0].files[1].diff).toContain('+echo tidy');
  expect(await told()).not.toContain('- tidy:');
  expect(await listed('tidy')).toBeUndefined();
  const other = await ask('POST', `/${id}/apply`, { commit: '0'.repeat(40) });
  expect(coded(other)).toEqual([409, 'skill_repository_conflict']);

  const answer = await ask('POST', `/${id}/apply`, { commit });
  expect(answer.body).toMatchObject({
    state: 'idle',
    applied_commit: commit,
    proposed_commit: null,
    skills: 1,
  });
  expect(await told()).toContain('- tidy: About tidy.');
  const used = await listed('tidy');
  expect(used).toMatchObject({ source: 'repository', scope: 'installation', enabled: true, files: 2 });
  const { body: text } = await app.request('GET', `/api/v1/skills/${used.id}/content`, { token: ada.token });
  expect(text).toBe(skill('tidy'));
  expect(coded(await ask('POST', `/${id}/apply`, { commit }))).toEqual([409, 'skill_repository_conflict']);
});

test('another commit is shown against what is used, and a skill keeps its id as long as it keeps its name', async () => {
  const house = await repository();
  const first = await house.commit({
    'stays/SKILL.md': skill('stays'),
    'grows/SKILL.md': skill('grows', 'One.'),
    'grows/old.txt': 'old',
    'goes/SKILL.md': skill('goes'),
  });
  const { id } = await add({ url: house.url });
  expect(await applied(id)).toMatchObject({ skills: 3 });
  const before = await listed('grows');
  expect(await synced(id)).toMatchObject({ state: 'idle', applied_commit: first });
  const second = await house.commit({
    'stays/SKILL.md': skill('stays'),
    'grows/SKILL.md': skill('grows', 'Two.'),
    'comes/SKILL.md': skill('comes'),
  });
  expect(await synced(id)).toMatchObject({
    state: 'proposed',
    proposed_commit: second,
    applied_commit: first,
  });
  const { skills } = await proposal(id);
  expect(skills.map(({ name, change }: Json) => [name, change])).toEqual([
    ['comes', 'added'],
    ['goes', 'removed'],
    ['grows', 'changed'],
    ['stays', 'unchanged'],
  ]);
  const [, goes, grows, stays] = skills;
  expect(grows.skill_id).toBe(before.id);
  expect(grows.files).toMatchObject([
    { path: 'SKILL.md', change: 'changed' },
    { path: 'old.txt', change: 'removed', size: null },
  ]);
  expect(grows.files[0].diff).toContain('-One.\n+Two.\n');
  expect(goes.files).toMatchObject([{ path: 'SKILL.md', change: 'removed' }]);
  expect(stays.files).toEqual([]);
  expect((await listed('grows')).digest).toBe(before.digest);
  await ask('POST', `/${id}/apply`, { commit: second });
  expect(await listed('grows')).toMatchObject({ id: before.id, files: 1 });
  expect(await listed('goes')).toBeUndefined();
  expect(await told()).toContain('- comes:');

  expect((await ask('DELETE', `/${id}`)).status).toBe(204);
  expect(await listed('grows')).toBeUndefined();
  expect(await told()).not.toContain('- comes:');
  expect(coded(await ask('GET', `/${id}`))).toEqual([404, 'not_found']);
});

/** What the tools have answered a model that calls them one after the other. */
async function toolResults(calls: readonly { name: string; arguments: Json }[]): Promise<string[]> {
  await upstream.script([
    ...calls.map((call, step) => ({ when: { step }, reply: { tool_calls: [call] } })),
    { reply: { text: 'Done.' } },
  ]);
  await app.request('POST', '/api/v1/query', { token: ada.token, body: { prompt: 'Use it.' } });
  const { body: last } = (await upstream.requests()).at(-1) ?? {};
  return (last as Json).messages
    .filter(({ role }: Json) => role === 'tool')
    .map(({ content }: Json) => content);
}

test('an agent loads the skill of a repository, and its script is asked about as any command', async () => {
  const house = await repository();
  await house.commit({ 'polish/SKILL.md': skill('polish'), 'polish/run.sh': '#!/bin/sh\necho polished\n' });
  const { id } = await add({ url: house.url });
  await applied(id);
  const [loaded = ''] = await toolResults([{ name: 'skill', arguments: { name: 'polish' } }]);
  expect(loaded).toContain('Do it well.');
  const [folder = ''] = /\/[^\s"']*kept-skills\/[0-9a-f]{64}\/polish/.exec(loaded) ?? [];
  expect(folder).not.toBe('');
  const [ran = ''] = await toolResults([{ name: 'bash', arguments: { command: `${folder}/run.sh` } }]);
  expect(ran).not.toContain('polished');
  expect(ran).toMatch(/denied|not allowed|nobody/i);
  await upstream.script([{ reply: { text: 'Done.' } }]);
  const { token } = ada;
  const [session] = (await app.request('GET', '/api/v1/sessions?limit=1', { token })).body.data;
  const { body } = await app.request('GET', `/api/v1/sessions/${session.id}/inspect`, { token });
  expect(body.extensions).toContainEqual(
    expect.objectContaining({ extension: 'skills', name: 'polish', source: 'repository', state: 'ready' }),
  );
});

test('people have disabled a name of it as any other, and what they create themselves counts before it', async () => {
  const house = await repository();
  await house.commit({ 'plain/SKILL.md': skill('plain') });
  await applied((await add({ url: house.url })).id);
  const { id } = await listed('plain');
  const off = await app.request('POST', `/api/v1/skills/${id}/disable`, {
    token: ada.token,
    body: { scope: 'user' },
  });
  expect(off.body).toMatchObject({ source: 'repository', enabled: false, disabled_by: 'user' });
  expect(await told()).not.toContain('- plain:');
  await app.request('POST', `/api/v1/skills/${id}/enable`, { token: ada.token, body: { scope: 'user' } });
  const form = new FormData();
  form.append('scope', 'user');
  form.append('file', new Blob([skill('plain', 'Mine.', 'My own.')]));
  const headers = { authorization: `Bearer ${ada.token}` };
  const own = await fetch(`${app.url}/api/v1/skills`, { method: 'POST', headers, body: form });
  expect(own.status).toBe(201);
  expect(await told()).toContain('- plain: My own.');
  expect(await listed('plain')).toMatchObject({
    enabled: false,
    shadowed_by: ((await own.json()) as Json).id,
  });
  for (const method of ['PUT', 'DELETE'])
    expect((await app.stream(method, `/api/v1/skills/${id}`, { token: app.operatorKey })).status).not.toBe(
      200,
    );
});

test('of two repositories with a skill of one name the older counts', async () => {
  const [first, second] = [await repository(), await repository()];
  await first.commit({ 'both/SKILL.md': skill('both', 'x', 'Of the first.') });
  await second.commit({ 'both/SKILL.md': skill('both', 'x', 'Of the second.') });
  const older = await add({ url: first.url });
  await applied((await add({ url: second.url })).id);
  await applied(older.id);
  expect(await told()).toContain('- both: Of the first.');
});

test('a pinned commit is fetched by its id, whatever the tip is by now', async () => {
  const house = await repository();
  const old = await house.commit({ 'pinned/SKILL.md': skill('pinned', 'Old.') });
  await house.commit({ 'pinned/SKILL.md': skill('pinned', 'New.') }, { tag: 'v2' });
  const { id } = await add({ url: house.url, pinned_commit: old });
  expect(await synced(id)).toMatchObject({ state: 'proposed', proposed_commit: old });
  expect((await proposal(id)).skills[0].files[0].diff).toContain('+Old.');
  const moved = await ask('PATCH', `/${id}`, { pinned_commit: null, ref: 'v2' }, mergePatch);
  expect(moved.body).toMatchObject({ state: 'idle', proposed_commit: null, ref: 'v2' });
  await synced(id);
  expect((await proposal(id)).skills[0].files[0].diff).toContain('+New.');
  expect(await failure({ url: house.url, pinned_commit: 'f'.repeat(40) })).toContain('has no commit ffff');
});

test('says what is not there', async () => {
  const house = await repository();
  expect(await failure({ url: house.url })).toBe('The repository is empty.');
  await house.commit({ 'README.md': 'Nothing.' });
  const { url } = house;
  expect(await failure({ url, ref: 'gone' })).toBe('The repository has no branch or tag gone.');
  expect(await failure({ url, subfolder: 'no/such' })).toMatch(
    /^The commit [0-9a-f]{40} has no folder no\/such\.$/,
  );
  expect(await failure({ url })).toBe('There is no folder with a SKILL.md in it.');
  expect(await failure({ url: `${git.url}/nobody.git` })).toContain('(404)');
});

test('one skill that is invalid keeps no other back, and what was used of it stays', async () => {
  const house = await repository();
  await house.commit({ 'fine/SKILL.md': skill('fine'), 'bad/SKILL.md': skill('bad', 'Once good.') });
  const { id } = await add({ url: house.url });
  await applied(id);
  await house.commit({
    'fine/SKILL.md': skill('fine', 'Better.'),
    'bad/SKILL.md': '---\nname: bad\n---\n',
    'deep/er/fine/SKILL.md': skill('fine'),
    'short/SKILL.md': '---\nname: short\ndescription: &d Short.\nlicense: *d\n---\n',
  });
  await synced(id);
  const { skills } = await proposal(id);
  expect(skills.map(({ path, change }: Json) => [path, change])).toEqual([
    ['bad', 'invalid'],
    ['deep/er/fine', 'invalid'],
    ['fine', 'changed'],
    ['short', 'invalid'],
  ]);
  expect(skills[0].errors).toMatchObject([{ path: 'SKILL.md', code: 'front_matter' }]);
  expect(skills[0].errors[0].message).toContain('description: is missing');
  await applied(id);
  expect(await listed('bad')).toMatchObject({ description: 'About bad.', enabled: true });
});

test('the token opens the repository, goes to its server alone, and is shown to nobody', async () => {
  const house = await repository();
  await house.commit({ 'secret/SKILL.md': skill('secret') });
  const token = 'tok-canary-5151';
  const right = `Basic ${Buffer.from(`deploy:${token}`).toString('base64')}`;
  git.answer = (request, response) => {
    if (request.headers.authorization === right) return false;
    response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    return true;
  };
  try {
    expect(await failure({ url: house.url })).toContain('without a token (401)');
    expect(await failure({ url: house.url, username: 'deploy', token: 'wrong' })).toContain('refuses');
    const { id, ...shown } = await add({ url: house.url, username: 'deploy', token });
    const ended = await synced(id);
    expect(ended).toMatchObject({ state: 'proposed', has_token: true, username: 'deploy' });
    const elsewhere = { url: 'https://git.example.com/other.git' };
    const moved = await ask('PATCH', `/${id}`, elsewhere, mergePatch);
    expect(moved.body.errors).toMatchObject([{ pointer: '/token' }]);
    const all = [shown, ended, await proposal(id), moved.body, (await ask('GET', '?limit=100')).body];
    expect(JSON.stringify(all)).not.toMatch(/tok-canary|ZGVwbG95/);
    const without = await ask('PATCH', `/${id}`, { token: null }, mergePatch);
    expect(without.body).toMatchObject({ has_token: false });
    expect((await synced(id)).state).toBe('failed');
  } finally {
    git.answer = null;
  }
});

test.each([
  'ssh://git@git.example.com/x.git',
  'file:///etc',
  'git://git.example.com/x.git',
  'ext::sh -c id',
  'https://ada:secret@git.example.com/x.git',
  'https://git.example.com/x.git?service=x',
  'http://127.0.0.1:9/x.git',
  'http://169.254.169.254/latest',
  'http://localhost/x.git',
])('%s is refused before anything is fetched', async (url) => {
  const refused = await ask('POST', '', { url });
  expect(coded(refused)).toEqual([400, 'invalid_request']);
  expect(refused.body.errors).toMatchObject([{ pointer: '/url' }]);
  expect(JSON.stringify(refused.body)).not.toContain('ada:secret');
});

test('nobody but the operator names, fetches or applies', async () => {
  const { id } = await add({ url: 'https://git.example.com/x.git' });
  const { token } = ada;
  const place = '/api/v1/skills/repositories';
  expect(
    coded(await app.request('POST', place, { token, body: { url: 'https://git.example.com/y.git' } })),
  ).toEqual([403, 'role_required']);
  for (const verb of ['sync', 'apply'])
    expect(
      (await app.request('POST', `${place}/${id}/${verb}`, { token, body: { commit: '0'.repeat(40) } }))
        .status,
    ).toBe(403);
  expect((await app.request('GET', `${place}?limit=100`, { token })).body.data).toContainEqual(
    expect.objectContaining({ id }),
  );
});

/** The entry of a tree, as `git mktree` reads it. */
const entry = (mode: string, object: string, name: string) =>
  `${mode} ${mode === '40000' ? 'tree' : mode === '160000' ? 'commit' : 'blob'} ${object}\t${name}`;

const blob = (house: TestRepository, content: string | Uint8Array) =>
  house.git(['hash-object', '-w', '--stdin'], content);
const tree = (house: TestRepository, ...entries: readonly string[]) =>
  house.git(['mktree', '--missing'], `${entries.join('\n')}\n`);

/** A repository whose one skill, `odd`, has these entries beside its text. */
async function oddRepository(more: (house: TestRepository) => readonly string[]): Promise<TestRepository> {
  const house = await repository();
  const text = entry('100644', blob(house, skill('odd')), 'SKILL.md');
  const odd = tree(house, text, ...more(house));
  house.commitTree(tree(house, entry('40000', odd, 'odd')));
  return house;
}

test.each<[string, (house: TestRepository) => string[], object]>([
  [
    'a link',
    (house) => [entry('120000', blob(house, '/etc/passwd'), 'passwd')],
    { path: 'passwd', code: 'link' },
  ],
  ['a submodule', () => [entry('160000', 'a'.repeat(40), 'inner')], { path: 'inner', code: 'submodule' }],
  [
    'a file of more than a mebibyte',
    (house) => [entry('100644', blob(house, Buffer.alloc(8 * 1024 * 1024)), 'bomb')],
    { path: 'bomb', code: 'too_large' },
  ],
  [
    'more files than a skill may have',
    (house) => {
      const empty = blob(house, '');
      return Array.from({ length: 250 }, (_, count) => entry('100644', empty, `f${count}`));
    },
    { path: null, code: 'too_many_files' },
  ],
  [
    'two names that are one on many systems',
    (house) => ['a.txt', 'A.txt'].map((name) => entry('100644', blob(house, 'x'), name)),
    { code: 'path' },
  ],
  [
    'a name that cannot be seen',
    (house) => [entry('100644', blob(house, 'x'), 'run\u202egpj.sh')],
    { path: 'run\ufffdgpj.sh', code: 'path' },
  ],
])('a skill with %s is invalid, and nothing of it is kept', async (_, more, fault) => {
  const { url } = await oddRepository(more);
  const { id } = await add({ url });
  await synced(id);
  const shown = await proposal(id);
  expect(shown.skills).toMatchObject([{ name: 'odd', change: 'invalid', digest: null, files: [] }]);
  expect(shown.skills[0].errors).toContainEqual(expect.objectContaining(fault));
  await applied(id);
  expect(await listed('odd')).toBeUndefined();
});

test.each<[string, (house: TestRepository) => string[], RegExp]>([
  ['a name that leads out of the folder', (house) => [entry('100644', blob(house, 'x'), '..')], /Dotdot/i],
  [
    'a folder that git obeys',
    (house) => [entry('40000', tree(house, entry('100644', blob(house, 'x'), 'config')), '.git')],
    /Dotgit/i,
  ],
  [
    'a file of submodules with a program in it',
    (house) => [
      entry('100644', blob(house, '[submodule "x"]\n\tpath = x\n\turl = -u./run.sh\n'), '.gitmodules'),
    ],
    /gitmodules/i,
  ],
])('a repository with %s is refused whole, and the reason is said', async (_, more, reason) => {
  const house = await repository();
  const text = entry('100644', blob(house, skill('SKILL')), 'SKILL.md');
  house.commitTree(tree(house, text, ...more(house)));
  const error = await failure({ url: house.url });
  expect(error).toMatch(/^git refused what the server sent: /);
  expect(error).toMatch(reason);
});

test('a few objects that make millions of paths are counted, and not listed', async () => {
  const house = await repository();
  const file = blob(house, 'x');
  const many = (mode: string, object: string) =>
    tree(house, ...Array.from({ length: 100 }, (_, count) => entry(mode, object, `n${count}`)));
  house.commitTree(many('40000', many('40000', many('40000', many('100644', file)))));
  expect(await failure({ url: house.url })).toContain('more than 20000 files');
});

test('links and submodules beside the skills are told of, and never read', async () => {
  const house = await repository();
  const odd = tree(house, entry('100644', blob(house, skill('beside')), 'SKILL.md'));
  house.commitTree(
    tree(
      house,
      entry('120000', blob(house, 'beside'), 'alias'),
      entry('40000', odd, 'beside'),
      entry('160000', 'b'.repeat(40), 'vendor'),
    ),
  );
  const { id } = await add({ url: house.url });
  await synced(id);
  const { skills, skipped } = await proposal(id);
  expect(skills).toMatchObject([{ name: 'beside', change: 'added' }]);
  expect(skipped.map(({ path, code }: Json) => [path, code])).toEqual([
    ['alias', 'link'],
    ['vendor', 'submodule'],
  ]);
});

test('a server that redirects elsewhere, or is none of git’s, is not followed', async () => {
  const house = await repository();
  await house.commit({ 'far/SKILL.md': skill('far') });
  git.answer = (_request, response) => {
    response.writeHead(302, { location: 'http://127.0.0.1:9/secret' }).end();
    return true;
  };
  try {
    expect(await failure({ url: house.url })).toContain('Give the URL that it redirects to');
    git.answer = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
      return true;
    };
    expect(await failure({ url: house.url })).toContain('smart protocol');
  } finally {
    git.answer = null;
  }
});

const wanted = { username: null, token: null, ref: null, subfolder: null, pinnedCommit: null };

test('a name that leads to a private place by then is not asked', async () => {
  const house = await repository();
  await house.commit({ 'near/SKILL.md': skill('near') });
  let looked = 0;
  const outbound = createOutbound({
    shared: () => true,
    async resolver() {
      looked += 1;
      return [{ address: looked === 1 ? '192.0.2.1' : '127.0.0.1', family: 4 }];
    },
  });
  const before = git.authorizations.length;
  const url = house.url.replace('127.0.0.1', 'git.example.com');
  const parts = {
    program: findGit() ?? 'git',
    directory: scratch(),
    owner: 'test',
    fetch: outbound.fetchFor('account', { headersMs: 2000 }),
    signal: AbortSignal.timeout(20_000),
  };
  for (const _ of [1, 2])
    await expect(withCommit({ ...wanted, url }, parts, async () => null)).rejects.toThrow(
      /leads to an address|reached/,
    );
  expect(git.authorizations.length).toBe(before);
  await outbound.close();
});

test.skipIf(process.platform !== 'linux')(
  'the arguments of git, which every user of the machine can read, let nobody through the relay',
  async () => {
    const house = await repository();
    await house.commit({ 'seen/SKILL.md': skill('seen') });
    const { id } = await add({ url: house.url });
    const fetching = Promise.withResolvers<ServerResponse>();
    git.answer = ({ method }, response) => {
      if (method !== 'POST') return false;
      fetching.resolve(response);
      return true;
    };
    const sync = synced(id);
    const response = await fetching.promise;
    git.answer = null;
    const seen = relaysInArguments();
    expect(seen).not.toEqual([]);
    for (const relay of seen)
      expect((await fetch(`${relay}/info/refs?service=git-upload-pack`)).status).toBe(404);
    response.writeHead(500).end();
    expect((await sync).error).toContain('500');
  },
);

/** The addresses that git, and what it has started, were given when they were started. */
function relaysInArguments(): string[] {
  const of = (pid: string, what: string) => {
    try {
      return readFileSync(`/proc/${pid}/${what}`, 'utf8').split('\0');
    } catch {
      // It has ended meanwhile, or is somebody else's.
      return [];
    }
  };
  const ours = readdirSync('/proc').filter((pid) =>
    of(pid, 'environ').some((variable) => variable.startsWith(`GIT_DIR=${scratch()}`)),
  );
  const words = ours.flatMap((pid) => of(pid, 'cmdline'));
  return [...new Set(words.filter((word) => word.startsWith('http://127.0.0.1:')))];
}

test('no more comes through than was agreed, and nobody else is let through', async () => {
  const house = await repository();
  await house.commit({ 'big/SKILL.md': skill('big') });
  const outbound = createOutbound({ shared: () => false });
  const limits = { mostBytes: 10, signal: AbortSignal.timeout(20_000) };
  const relay = await openRelay({ ...wanted, url: house.url }, outbound.fetchFor('account'), limits);
  const list = '/info/refs?service=git-upload-pack';
  const [name = '', secret = ''] = relay.header.split(': ');
  const headers = { [name]: secret };
  for (const stray of ['/', list, '/git-upload-pack', '/repository/HEAD'])
    expect((await fetch(new URL(stray, relay.url), { headers })).status, stray).toBe(404);
  for (const wrong of [{}, { [name]: '0'.repeat(48) }])
    expect((await fetch(`${relay.url}${list}`, { headers: wrong })).status).toBe(404);
  expect(relay.fault()).toBeNull();
  await expect(fetch(`${relay.url}${list}`, { headers }).then((answer) => answer.text())).rejects.toThrow();
  expect(relay.fault()).toContain('more than');
  await relay.close();
  await outbound.close();
});

function scratch(): string {
  return join(dirname(app.services.masterKeyPath), 'skill-repositories');
}

test('nothing of what was fetched is left on disk', async () => {
  expect(await readdir(scratch())).toEqual([]);
});

test('workspaces are told how it goes', async () => {
  const house = await repository();
  const commit = await house.commit({ 'news/SKILL.md': skill('news') });
  const { id } = await add({ url: house.url, name: 'News' });
  await applied(id);
  await ask('DELETE', `/${id}`);
  const told = async (token: string): Promise<Json[]> => {
    const path = '/api/v1/events?after=0&follow=false&types=skill_repository_changed';
    const events = await (await app.stream('GET', path, { token })).text();
    return [...events.matchAll(/^data: (.*)$/gm)]
      .map(([, json = '']) => JSON.parse(json).event)
      .filter(({ repository_id }) => repository_id === id);
  };
  const base = { type: 'skill_repository_changed', repository_id: id, name: 'News' };
  expect(await told(app.operatorKey)).toEqual([
    { ...base, change: 'added', commit: null },
    { ...base, change: 'syncing', commit: null },
    { ...base, change: 'proposed', commit },
    { ...base, change: 'applied', commit },
    { ...base, change: 'removed', commit: null },
  ]);
  expect((await told(ada.token)).map(({ change }) => change)).toEqual(['applied', 'removed']);
});
