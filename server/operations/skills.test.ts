/** The skills family over HTTP, and what runs have of it: offered by scope, loaded on demand, readable and never written. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Account, coded, type Json, type TestApp, testApp } from '../test-app.ts';
import { type TestEntry, zipOf } from '../test-archives.ts';
import { bringIn, homeOf } from '../test-people.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;
let ada: Account;
let people = 0;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      providers: { scripted: scriptedProvider(upstream, 'scripted-1') },
      options: { disabled_skills: ['service-hooks'] },
      permissions: { allowed_tools: ['bash'] },
    },
    settings: { outboundAllow: ['127.0.0.1'] },
  });
});
beforeEach(async () => {
  people += 1;
  ada = await app.register(`ada${people}`);
  await upstream.script([{ reply: { text: 'Done.' } }]);
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const markdown = (name: string, description = `About ${name}.`, body = 'Do it well.') =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`;

const get = (path: string, token = ada.token) => app.request('GET', `/api/v1${path}`, { token });

async function send(
  method: string,
  path: string,
  fields: Json,
  { token = ada.token, headers = {} }: { token?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; body: Json }> {
  const form = new FormData();
  const { file, ...others } = fields;
  for (const [name, value] of Object.entries(others)) form.append(name, String(value));
  form.append('file', new Blob([file]), 'skill');
  const response = await fetch(`${app.url}/api/v1${path}`, {
    method,
    body: form,
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function create(name: string, more: Json = {}, token = ada.token): Promise<Json> {
  const { status, body } = await send(
    'POST',
    '/skills',
    { scope: 'user', file: markdown(name), ...more },
    { token },
  );
  expect([status, body.code ?? null]).toEqual([201, null]);
  return body;
}

const validate = (file: string | Uint8Array<ArrayBuffer>) => send('POST', '/skills/validate', { file });

async function switchTo(
  verb: 'enable' | 'disable',
  id: string,
  body: Json,
  token = ada.token,
): Promise<Json> {
  return app.request('POST', `/api/v1/skills/${id}/${verb}`, { token, body });
}

/** What the model was told before the conversation, in the last call. */
async function told(prompt = 'Hello', token = ada.token, more: Json = {}): Promise<string> {
  const answer = await app.request('POST', '/api/v1/query', { token, body: { prompt, ...more } });
  expect(coded(answer)).toEqual([200, null]);
  const { body } = (await upstream.requests()).at(-1) ?? {};
  return JSON.stringify((body as Json).messages[0]);
}

async function toolResults(calls: readonly { name: string; arguments: Json }[]): Promise<string[]> {
  await upstream.script([
    ...calls.map((call, step) => ({ when: { step }, reply: { tool_calls: [call] } })),
    { reply: { text: 'Done.' } },
  ]);
  const body = { prompt: 'Use it.', permission_mode: 'accept_edits' };
  await app.request('POST', '/api/v1/query', { token: ada.token, body });
  const { body: last } = (await upstream.requests()).at(-1) ?? {};
  return (last as Json).messages
    .filter(({ role }: Json) => role === 'tool')
    .map(({ content }: Json) => content);
}

test('lists what there is by name, whose it is, and what keeps it from agents', async () => {
  const own = await create('zeal');
  const { body } = await get('/skills');
  expect(body.next_cursor).toBeNull();
  const shown = body.data.map(({ name, source, scope, enabled, disabled_by }: Json) => [
    ...[name, source, scope, enabled, disabled_by],
  ]);
  expect(shown).toEqual([
    ['jq', 'builtin', 'installation', true, null],
    ['service-config', 'builtin', 'installation', true, null],
    ['service-hooks', 'builtin', 'installation', false, 'settings'],
    ['zeal', 'user', 'user', true, null],
  ]);
  expect(own).toEqual(body.data.at(-1));
  const names = async (query: string) =>
    (await get(`/skills${query}`)).body.data.map(({ name }: Json) => name);
  expect(await names('?source=user')).toEqual(['zeal']);
  expect(await names('?scope=installation&enabled=true')).toEqual(['jq', 'service-config']);
  const first = (await get('/skills?limit=3')).body;
  expect(await names(`?limit=3&cursor=${first.next_cursor}`)).toEqual(['zeal']);
  expect(coded(await get('/skills?cursor=abc'))).toEqual([400, 'invalid_cursor']);
});

test('shows a skill that is shipped, its text and its files', async () => {
  const [jq] = (await get('/skills')).body.data;
  const one = await get(`/skills/${jq.id}`);
  expect(one.body).toEqual(jq);
  const again = await app.request('GET', `/api/v1/skills/${jq.id}`, {
    token: ada.token,
    headers: { 'if-none-match': one.headers.get('etag') ?? '' },
  });
  expect(again.status).toBe(304);
  const content = await app.stream('GET', `/api/v1/skills/${jq.id}/content`, { token: ada.token });
  expect(content.headers.get('content-type')).toContain('text/markdown');
  expect(await content.text()).toContain('name: jq');
  const { body } = await get(`/skills/${jq.id}/files`);
  expect(body).toMatchObject({ data: [{ path: 'SKILL.md', sha256: null }], truncated: false });
  const refused = await send('PUT', `/skills/${jq.id}`, { file: markdown('jq') });
  expect([refused.status, refused.body.code]).toEqual([404, 'not_found']);
});

test('makes a skill of an archive with scripts; another of its name in the same scope is refused', async () => {
  const script = '#!/bin/sh\necho ready\n';
  const file = zipOf({
    'tidy/SKILL.md': markdown('tidy'),
    'tidy/scripts/run.sh': { content: script, mode: 0o100755 },
  });
  const made = await create('tidy', { file });
  expect(made).toMatchObject({ name: 'tidy', files: 2, scope: 'user', enabled: true });
  const { body } = await get(`/skills/${made.id}/files`);
  const sha256 = createHash('sha256').update(script).digest('hex');
  expect(body.data[1]).toEqual({ path: 'scripts/run.sh', size: script.length, sha256, executable: true });
  const again = await send('POST', '/skills', { scope: 'user', file });
  expect([again.status, again.body.code]).toEqual([409, 'name_taken']);
});

test('a change needs the version that was read, and keeps the name; what is deleted is gone', async () => {
  const made = await create('draft');
  const etag = (await get(`/skills/${made.id}`)).headers.get('etag') ?? '';
  const file = markdown('draft', 'Writes drafts, better.');
  const put = (body: string, ifMatch: string) =>
    send('PUT', `/skills/${made.id}`, { file: body }, { headers: { 'if-match': ifMatch } });
  const changed = await put(file, etag);
  expect(changed.body).toMatchObject({ description: 'Writes drafts, better.', id: made.id });
  expect([(await put(file, etag)).status]).toEqual([412]);
  const renamed = await put(markdown('other'), '*');
  expect([renamed.status, renamed.body.code]).toEqual([422, 'skill_invalid']);
  expect((await app.request('DELETE', `/api/v1/skills/${made.id}`, { token: ada.token })).status).toBe(204);
  expect(coded(await get(`/skills/${made.id}`))).toEqual([404, 'not_found']);
});

test('says all that is wrong with a text, each with its line', async () => {
  const { body } = await validate('---\nname: two words\nlicense: a: b\n---\nText.\n');
  expect(body).toMatchObject({ valid: false, name: null, digest: null, files: 1 });
  expect(body.errors[0]).toMatchObject({ path: 'SKILL.md', line: 3, code: 'front_matter' });
  const two = await validate('---\nlicense: MIT\nname: two words\n---\nText.\n');
  expect(two.body.errors.map(({ line, message }: Json) => [line, message.split(':')[0]])).toEqual([
    [3, 'name'],
    [2, 'description'],
  ]);
  const { body: alias } = await validate('---\nname: fine\ndescription: &d Well.\nlicense: *d\n---\nText.\n');
  expect(alias.errors).toMatchObject([{ line: 4, message: expect.stringContaining('the alias *d') }]);
  const whole = await validate(markdown('fine'));
  expect(whole.body).toMatchObject({ valid: true, name: 'fine', errors: [] });
  expect((await create('fine')).digest).toBe(whole.body.digest);
});

const hostile: readonly (readonly [string, Record<string, TestEntry>, string])[] = [
  ['a way out', { 'a/../../x': 'x' }, 'leads out of the folder'],
  ['an absolute path', { '/etc/x': 'x' }, 'is an absolute path'],
  ['a drive', { 'C:/x': 'x' }, 'is an absolute path'],
  ['a backslash', { 'a\\x': 'x' }, 'has a backslash'],
  ['a link', { link: { content: '/etc/passwd', mode: 0o120777 } }, 'is a link'],
  ['a device', { tty: { content: '', mode: 0o020666 } }, 'is neither a file nor a folder'],
  ['what git obeys', { '.git/config': 'x' }, 'which git obeys'],
  ['a name that turns round', { 'a\u202etxt.sh': 'x' }, 'cannot be seen'],
  ['two that some systems hold for one', { 'A.md': 'x', 'a.md': 'y' }, 'the name of another'],
  ['a file that is a folder, too', { a: 'x', 'a/b': 'y' }, 'the name of another'],
  ['a large file', { big: 'x'.repeat(1024 * 1024 + 1) }, 'more than 1048576 bytes'],
  [
    'a bomb',
    { ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`b${n}`, 'x'.repeat(1024 * 1024)])) },
    'unpacks to more',
  ],
  [
    'many files',
    Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`f${n}`, ''])),
    'more than 200 files',
  ],
];
test.each(hostile)('an archive with %s is refused, and says which entry', async (_title, entries, words) => {
  const file = zipOf({ 'SKILL.md': markdown('evil'), ...entries });
  const { status, body } = await send('POST', '/skills', { scope: 'user', file });
  expect([status, body.code]).toEqual([422, 'skill_invalid']);
  expect(body.detail).toContain(words);
  const { body: report } = await validate(file);
  expect(report.valid).toBe(false);
});

test('an archive that lies about its sizes, or is cut off, is refused', async () => {
  const honest = zipOf({ 'SKILL.md': markdown('liar', 'x'.repeat(500)) });
  const lying = Buffer.from(honest);
  // The size of the first entry in the list.
  const list = lying.readUInt32LE(lying.length - 6);
  lying.writeUInt32LE(10, list + 24);
  for (const file of [Uint8Array.from(lying), honest.slice(0, -30), honest.slice(0, 10)]) {
    const { status, body } = await send('POST', '/skills', { scope: 'user', file });
    expect([status, body.code]).toEqual([422, 'skill_invalid']);
  }
});

test('the same key makes one skill', async () => {
  const key = { headers: { 'idempotency-key': crypto.randomUUID() } };
  const fields = { scope: 'user', file: markdown('once') };
  const first = await send('POST', '/skills', fields, key);
  const second = await send('POST', '/skills', fields, key);
  expect([second.status, second.body]).toEqual([201, first.body]);
});

test('runs are offered the skills of their person, and load one with the files beside it', async () => {
  const script = 'echo from the script';
  const file = zipOf({ 'SKILL.md': markdown('tidy', 'Tidies up.', 'Sweep first.'), 'run.sh': script });
  await create('tidy', { file });
  expect(await told()).toContain('- tidy: Tidies up.');
  const [loaded = ''] = await toolResults([{ name: 'skill', arguments: { name: 'tidy' } }]);
  expect(loaded).toContain('Sweep first.');
  expect(loaded).toContain('Files beside it:\nrun.sh');
  const folder = /its folder is (\S+),/.exec(loaded)?.[1] ?? '';
  const results = await toolResults([
    { name: 'view', arguments: { file_path: `${folder}/run.sh` } },
    { name: 'write', arguments: { file_path: `${folder}/run.sh`, content: 'echo stolen' } },
    { name: 'view', arguments: { file_path: `${folder}/../../../service.db` } },
  ]);
  expect(results[0]).toContain(script);
  expect(results[1]).toContain('belongs to the service itself');
  expect(results[2]).toContain('belongs to the service itself');
  const grace = await app.register(`grace${people}`);
  expect(await told('Hello', grace.token)).not.toContain('tidy');
});

test('a script of a skill runs in the sandbox, where nobody can change it, and no other skill is seen', async () => {
  const other = await create('other');
  const file = zipOf({
    'SKILL.md': markdown('tidy'),
    'run.sh': { content: '#!/bin/sh\necho out of the skill\n', mode: 0o100755 },
  });
  await create('tidy', { file });
  await switchTo('disable', other.id, { scope: 'user' });
  const [loaded = ''] = await toolResults([{ name: 'skill', arguments: { name: 'tidy' } }]);
  const folder = /its folder is (\S+),/.exec(loaded)?.[1] ?? '';
  const command = `${folder}/run.sh; echo x > ${folder}/run.sh; rm -rf ${folder}; ls ${folder}/../.. | wc -l`;
  const [output = ''] = await toolResults([{ name: 'bash', arguments: { command } }]);
  expect(output).toContain('out of the skill');
  expect(output).toMatch(/Read-only file system|Permission denied/);
  // Of all that are kept, the sandbox has the folder of this one alone.
  expect(output).toMatch(/^1$/m);
  const [again = ''] = await toolResults([{ name: 'bash', arguments: { command: `${folder}/run.sh` } }]);
  expect(again).toContain('out of the skill');
});

test('a run that has loaded a skill goes on with its files, though it is changed meanwhile, and the next run has the new ones', async () => {
  const filesSaying = (word: string) =>
    zipOf({
      'SKILL.md': markdown('tidy'),
      'run.sh': { content: `#!/bin/sh\necho ${word} broom\n`, mode: 0o100755 },
    });
  const made = await create('tidy', { file: filesSaying('old') });
  const [loaded = ''] = await toolResults([{ name: 'skill', arguments: { name: 'tidy' } }]);
  const folder = /its folder is (\S+),/.exec(loaded)?.[1] ?? '';
  const use = [
    { name: 'view', arguments: { file_path: `${folder}/run.sh` } },
    { name: 'bash', arguments: { command: `${folder}/run.sh` } },
  ];
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'skill', arguments: { name: 'tidy' } }] } },
    { when: { step: 1 }, reply: { hold_after_chunks: 0, tool_calls: use } },
    { reply: { text: 'Done.' } },
  ]);
  const before = (await upstream.requests()).length;
  const body = { prompt: 'Use it.', permission_mode: 'accept_edits' };
  const answer = app.request('POST', '/api/v1/query', { token: ada.token, body });
  await expect.poll(async () => (await upstream.requests()).length).toBe(before + 2);
  const headers = { 'if-match': '*' };
  const changed = await send('PUT', `/skills/${made.id}`, { file: filesSaying('new') }, { headers });
  expect(changed.status).toBe(200);
  await upstream.release();
  expect(coded(await answer)).toEqual([200, null]);
  const { body: last } = (await upstream.requests()).at(-1) ?? {};
  const results = (last as Json).messages.filter(({ role }: Json) => role === 'tool');
  expect(results.slice(1).map(({ content }: Json) => content)).toEqual([
    expect.stringContaining('old broom'),
    expect.stringContaining('old broom'),
  ]);
  const [again = ''] = await toolResults([{ name: 'skill', arguments: { name: 'tidy' } }]);
  expect(again).not.toContain(folder);
  const [refused = ''] = await toolResults([{ name: 'view', arguments: { file_path: `${folder}/run.sh` } }]);
  expect(refused).toContain('belongs to the service itself');
});

test('the nearest of one name counts, and the others say which', async () => {
  const { organization_id } = (await get('/users/me')).body.memberships[0];
  const shared = await create('style', { scope: 'organization', file: markdown('style', 'Of all.') });
  expect(shared).toMatchObject({ scope: 'organization', organization_id, enabled: true });
  const own = await create('style', { file: markdown('style', 'My own.') });
  expect((await get(`/skills/${shared.id}`)).body).toMatchObject({ enabled: false, shadowed_by: own.id });
  const system = await told();
  expect(system).toContain('- style: My own.');
  expect(system).not.toContain('Of all.');
});

test('what a farther scope has disabled, no nearer one enables, whatever bears the name', async () => {
  const made = await create('style');
  const off = await switchTo('disable', made.id, { scope: 'organization' });
  expect(off.body).toMatchObject({ enabled: false, disabled_by: 'organization' });
  const nearer = await switchTo('enable', made.id, { scope: 'user' });
  expect(nearer.body).toMatchObject({ enabled: false, disabled_by: 'organization' });
  await create('style', { scope: 'workspace' });
  expect(await told()).not.toContain('- style:');
  const on = await switchTo('enable', made.id, { scope: 'organization' });
  expect(on.body).toMatchObject({ enabled: true, disabled_by: null });
  expect(await told()).toContain('- style:');
  const [jq] = (await get('/skills')).body.data;
  await switchTo('disable', jq.id, { scope: 'user' });
  expect(await told()).not.toContain('- jq:');
});

test('a switch that names no workspace is set where the skill belongs, else where its organization has its default', async () => {
  const { id: workspace_id } = (
    await app.request('POST', '/api/v1/workspaces', { token: ada.token, body: { name: 'Website' } })
  ).body;
  const grace = await app.register(`grace${people}`);
  const others = await homeOf(app, grace);
  await bringIn(app, { ...others, owner: grace }, ada, 'admin');
  const elsewhere = [
    ['workspace', { workspace_id }],
    ['organization', { workspace_id: others.workspaceId }],
  ] as const;
  for (const [scope, place] of elsewhere) {
    const made = await create('style', { scope, ...place });
    const atHome = await create('style', { scope });
    const off = await switchTo('disable', made.id, { scope });
    expect(off.body, scope).toMatchObject({ id: made.id, enabled: false, disabled_by: scope });
    const there = await get(`/skills/${made.id}?workspace_id=${place.workspace_id}`);
    expect(there.body, scope).toEqual(off.body);
    expect((await get(`/skills/${made.id}`)).body, scope).toEqual(off.body);
    expect((await get(`/skills/${atHome.id}`)).body.disabled_by, scope).toBeNull();
    const on = await switchTo('enable', made.id, { scope });
    expect(on.body, scope).toMatchObject({ id: made.id, enabled: true, disabled_by: null });
  }
  // One that belongs nowhere is switched at home.
  const [jq] = (await get('/skills')).body.data;
  await switchTo('disable', jq.id, { scope: 'workspace' });
  const disabledIn = async (query: string) => (await get(`/skills${query}`)).body.data[0].disabled_by;
  expect([await disabledIn(''), await disabledIn(`?workspace_id=${workspace_id}`)]).toEqual([
    'workspace',
    null,
  ]);
});

test('the workspace is told of what changes for its runs, and of nobody’s own', async () => {
  await create('private');
  const made = await create('shared', { scope: 'workspace' });
  await switchTo('disable', made.id, { scope: 'organization' });
  const events = await app.stream('GET', '/api/v1/events?after=0&follow=false&types=skills_changed', {
    token: ada.token,
  });
  const data = [...(await events.text()).matchAll(/^data: (.*)$/gm)].map(
    ([, json = '']) => JSON.parse(json).event,
  );
  expect(data).toEqual([
    { type: 'skills_changed', scope: 'workspace', change: 'created', skill_id: made.id, name: 'shared' },
    { type: 'skills_changed', scope: 'organization', change: 'disabled', skill_id: null, name: 'shared' },
  ]);
});

test('a member without the role admin changes what is their own, and nothing of the others', async () => {
  const { organization_id } = (await get('/users/me')).body.memberships[0];
  const email = `member${people}@example.com`;
  const invited = await app.request('POST', `/api/v1/organizations/${organization_id}/invitations`, {
    token: ada.token,
    body: { email, role: 'member' },
  });
  const member = await app.register(`member${people}`, { invitation_token: invited.body.token });
  const workspace_id = (await get('/workspaces')).body.data[0].id;
  const shared = await create('shared', { scope: 'workspace', workspace_id });
  const fields = { scope: 'workspace', workspace_id, file: markdown('theirs') };
  const refused = await send('POST', '/skills', fields, { token: member.token });
  expect([refused.status, refused.body.code]).toEqual([403, 'role_required']);
  const place = { workspace_id };
  expect(coded(await switchTo('disable', shared.id, { scope: 'workspace', ...place }, member.token))[0]).toBe(
    403,
  );
  const off = await switchTo('disable', shared.id, { scope: 'user', ...place }, member.token);
  expect(off.body).toMatchObject({ disabled_by: 'user' });
  expect((await get(`/skills/${shared.id}`)).body).toMatchObject({ enabled: true });
  const own = await create('mine', { workspace_id }, member.token);
  expect(coded(await get(`/skills/${own.id}`))).toEqual([404, 'not_found']);
});
