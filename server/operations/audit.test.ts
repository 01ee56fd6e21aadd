/** The audit log over HTTP: what every family records, what is refused, who reads it, and how it leaves. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Account, type Json, type TestApp, testApp } from '../test-app.ts';
import { bringIn, logIn, makePeople, type People } from '../test-people.ts';

let app: TestApp;
let ada: Account;
let mallory: Account;

beforeAll(async () => {
  app = await testApp();
  ada = await app.register('ada');
  mallory = await app.register('mallory');
});
afterAll(() => app.close());

const path = '/api/v1/audit/logs';
const list = async (query = '', token = ada.token): Promise<Json[]> =>
  (await app.request('GET', `${path}?limit=100${query && `&${query}`}`, { token })).body.data;
const one = async (query: string, token = ada.token): Promise<Json> => {
  const [entry, ...others] = await list(query, token);
  expect(others).toEqual([]);
  return entry;
};
const nothing = 'aud_01k9w6r3h2e7xv5q0c8m4b1tza';
const operations = ['', `/${nothing}`, '/export', '/verify'];

describe('who reads the audit log', () => {
  test.each(operations)('%s is refused to a stranger and to a key without the scope', async (operation) => {
    const stranger = await app.request('GET', path + operation);
    expect(stranger).toMatchObject({ status: 401, body: { code: 'credential_missing' } });
    const key = await keyOf(ada, ['keys:read']);
    const refused = await app.request('GET', path + operation, { token: key });
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_required' } });
    const allowed = await app.request('GET', path + operation, { token: await keyOf(ada, ['audit:read']) });
    expect(allowed.status).toBe(operation === `/${nothing}` ? 404 : 200);
  });

  test('an account sees its own organization, and what is of another does not exist for it', async () => {
    const own = await list('', mallory.token);
    expect(own.length).toBeGreaterThan(0);
    const [organization] = (await me(ada)).memberships;
    expect(new Set((await list()).map((entry) => entry.organization_id))).toEqual(
      new Set([organization.organization_id]),
    );
    for (const entry of own.slice(0, 3)) {
      const foreign = await app.request('GET', `${path}/${entry.id}`, { token: ada.token });
      const missing = await app.request('GET', `${path}/${nothing}`, { token: ada.token });
      expect(foreign.status).toBe(404);
      expect(foreign.body.detail).toBe(missing.body.detail);
      const read = await app.request('GET', `${path}/${entry.id}`, { token: mallory.token });
      expect(read).toMatchObject({ status: 200, body: entry });
    }
    const [other] = (await me(mallory)).memberships;
    const asked = await app.request('GET', `${path}?organization_id=${other.organization_id}`, {
      token: ada.token,
    });
    expect(asked).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  test('the operator sees all of it, how the installation began included', async () => {
    const all = await list('', app.operatorKey);
    const people = new Set(all.map(({ actor }) => actor.id));
    for (const { user } of [ada, mallory]) expect(people).toContain(user.id);
    const begun = all.find(({ action, actor }) => action === 'user.create' && actor.type === 'system');
    expect(begun).toMatchObject({ ip: null, request_id: null, after: { operator: true } });
  });

  test.each([
    ['actor=somebody', 'actor'],
    ['action=Everything', 'action'],
    ['outcome=maybe', 'outcome'],
    ['from=yesterday', 'from'],
    ['ip=localhost', 'ip'],
    ['request_id=a%20b', 'request_id'],
    ['cursor=invented', 'cursor'],
    ['unknown=1', 'unknown'],
  ])('a list with %s is refused', async (query, name) => {
    const { status, body } = await app.request('GET', `${path}?${query}`, { token: ada.token });
    expect(status).toBe(400);
    expect(JSON.stringify(body.errors)).toContain(name);
  });
});

describe('what is recorded', () => {
  test('is who did it, with what, from where, in which request, and what changed', async () => {
    const made = await app.request('POST', '/api/v1/auth/api-keys', {
      token: ada.token,
      body: { name: 'CI', scopes: ['sessions:read'] },
      headers: { 'x-request-id': 'req-of-the-test' },
    });
    const { id } = made.body.api_key;
    const created = await one(`target=${id}&action=api_key.create`);
    expect(created).toMatchObject({
      actor: { type: 'user', id: ada.user.id, credential_type: 'login', credential_id: expect.any(String) },
      target: { type: 'api_key', id },
      outcome: 'success',
      reason: null,
      ip: '127.0.0.1',
      request_id: 'req-of-the-test',
      before: null,
      after: { name: 'CI', scopes: ['sessions:read'], disabled: false },
    });
    expect(await one('request_id=req-of-the-test')).toEqual(created);
    await app.request('PATCH', `/api/v1/auth/api-keys/${id}`, {
      token: ada.token,
      body: { disabled: true },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    expect(await one(`target=${id}&action=api_key.update`)).toMatchObject({
      before: { disabled: false },
      after: { disabled: true },
    });
    await app.request('DELETE', `/api/v1/auth/api-keys/${id}`, { token: ada.token });
    expect(await one(`target=${id}&action=api_key.revoke`)).toMatchObject({
      before: { name: 'CI' },
      after: null,
    });
    const told = JSON.stringify(await list());
    expect(told).not.toContain(made.body.key);
    expect(told).not.toContain(ada.password);
  });

  test('are accounts and logins, from registration to logout, and a refresh token that comes twice', async () => {
    const grace = await app.register('grace');
    const as = (token: string, query: string) => list(query, token);
    expect(await as(grace.token, 'action=user.create')).toMatchObject([
      { actor: { id: grace.user.id }, after: { email: grace.email, operator: false } },
    ]);
    const credentials = { email: grace.email, password: grace.password };
    const login = await app.request('POST', '/api/v1/auth/login', { body: credentials });
    const again = (token: string) =>
      app.request('POST', '/api/v1/auth/refresh', { body: { refresh_token: token } });
    await again(login.body.refresh_token);
    expect((await again(login.body.refresh_token)).status).toBe(401);
    await app.request('PATCH', '/api/v1/users/me', {
      token: grace.token,
      body: { name: 'Grace Hopper' },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    const key = await keyOf(grace, ['audit:read']);
    await app.request('POST', '/api/v1/auth/logout', { token: grace.token, body: {} });
    expect(await as(key, 'action=user.update')).toMatchObject([
      { before: { name: 'grace' }, after: { name: 'Grace Hopper' } },
    ]);
    expect(await as(key, 'action=login.create')).toHaveLength(2);
    expect(await as(key, 'action=login.end')).toMatchObject([
      { actor: { type: 'user', id: grace.user.id }, after: null },
      { actor: { type: 'anonymous', id: null }, ip: '127.0.0.1', after: { reason: 'refresh_token_reused' } },
    ]);
  });

  test('are agent profiles, and sessions that come, go or leave as a document', async () => {
    const agent = await app.request('POST', '/api/v1/agents', {
      token: ada.token,
      body: { slug: 'auditor', description: 'x', instructions: 'x' },
    });
    const place = `/api/v1/agents/${agent.body.id}`;
    const headers = { 'content-type': 'application/merge-patch+json' };
    await app.request('PATCH', place, { token: ada.token, body: { permission_mode: 'ask' }, headers });
    await app.request('DELETE', place, { token: ada.token });
    expect((await list(`target=${agent.body.id}`)).map(({ action, after }) => [action, after])).toEqual([
      ['agent.delete', null],
      ['agent.update', { permission_mode: 'ask' }],
      ['agent.create', expect.objectContaining({ slug: 'auditor' })],
    ]);
    const session = await app.request('POST', '/api/v1/sessions', { token: ada.token, body: {} });
    const exported = await app.request('GET', `/api/v1/sessions/${session.body.id}/export`, {
      token: ada.token,
    });
    const imported = await app.request('POST', '/api/v1/sessions/import', {
      token: ada.token,
      body: exported.body,
    });
    await app.request('DELETE', `/api/v1/sessions/${session.body.id}`, { token: ada.token });
    expect((await list(`target=${session.body.id}`)).map(({ action }) => action)).toEqual([
      'session.delete',
      'session.export',
    ]);
    expect(await one(`target=${imported.body.id}`)).toMatchObject({ action: 'session.import' });
  });

  test('are the decisions about a plan', async () => {
    const planned = async () => {
      const body = { prompt: 'A better test', agent_slug: 'plan', model: 'demo:demo-1' };
      const { session_id } = (await app.request('POST', '/api/v1/query', { token: ada.token, body })).body;
      const { data } = (
        await app.request('GET', `/api/v1/plans?session_id=${session_id}`, { token: ada.token })
      ).body;
      return data[0].id;
    };
    const [rejected, approved] = [await planned(), await planned()];
    await app.request('POST', `/api/v1/plans/${rejected}/reject`, { token: ada.token, body: {} });
    expect(await one(`target=${rejected}`)).toMatchObject({
      action: 'plan.reject',
      before: { status: 'proposed' },
      after: { status: 'rejected' },
    });
    const body = { model: 'demo:demo-1' };
    const run = await app.request('POST', `/api/v1/plans/${approved}/approve`, { token: ada.token, body });
    expect(run.status).toBe(202);
    expect(await one(`target=${approved}`)).toMatchObject({
      action: 'plan.approve',
      actor: { id: ada.user.id, credential_type: 'login' },
      ip: '127.0.0.1',
      after: { status: 'approved', carried_out_by: run.body.id },
    });
  });

  test('is nothing of a change that was refused or undone', async () => {
    const count = (await list()).length;
    const etag = { 'if-match': '"stale"', 'content-type': 'application/merge-patch+json' };
    const stale = await app.request('PATCH', '/api/v1/users/me', {
      token: ada.token,
      body: { name: 'Lost' },
      headers: etag,
    });
    expect(stale.status).toBe(412);
    expect(await list()).toHaveLength(count);
  });
});

describe('what is refused', () => {
  test('is recorded: a foreign id, a lacking scope, and a credential that does not hold', async () => {
    const session = await app.request('POST', '/api/v1/sessions', { token: ada.token, body: {} });
    const { id } = session.body;
    await app.request('GET', `/api/v1/sessions/${id}`, { token: mallory.token });
    await recorded(`outcome=refused&target=${id}`, mallory.token, {
      action: 'access.refuse',
      actor: { id: mallory.user.id },
      target: { type: 'session', id },
      reason: 'not_found',
      after: { operation: 'getSession' },
    });
    expect(await list(`target=${id}`)).toEqual([]);
    await app.request('GET', '/api/v1/agents', { token: await keyOf(mallory, ['keys:read']) });
    await recorded('outcome=refused&target=listAgents', mallory.token, {
      actor: { id: mallory.user.id, credential_type: 'api_key' },
      reason: 'scope_required',
      target: { type: 'operation', id: 'listAgents' },
    });
    await app.request('GET', '/api/v1/runs', { token: 'sk-nobody-has-this-key-at-all-0000000000000000000' });
    await recorded('outcome=refused&target=listRuns', app.operatorKey, {
      actor: { type: 'anonymous', id: null },
      reason: 'credential_invalid',
      organization_id: null,
      ip: '127.0.0.1',
    });
  });

  test('are logins: of an account where its admins see it, of an unknown address for the operator', async () => {
    const login = (email: string) =>
      app.request('POST', '/api/v1/auth/login', { body: { email, password: 'not the password' } });
    expect((await login(ada.email)).status).toBe(401);
    await recorded(`action=login.refuse&target=${ada.user.id}`, ada.token, {
      actor: { type: 'anonymous', id: null },
      target: { type: 'user', id: ada.user.id },
      reason: 'login_failed',
    });
    await login('nobody@example.com');
    await recorded('action=login.refuse&target=nobody@example.com', app.operatorKey, {
      target: { type: 'email', id: 'nobody@example.com' },
      organization_id: null,
    });
    expect(JSON.stringify(await list('', app.operatorKey))).not.toContain('not the password');
  });

  test('are guesses that the brake has stopped, with the address that they were aimed at', async () => {
    const braked = await testApp({ settings: { loginAttempts: 1 } });
    try {
      const { email } = await braked.register('grace');
      const body = { email, password: 'not the password' };
      const guess = () => braked.request('POST', '/api/v1/auth/login', { body });
      // From where somebody has logged in before they are counted for the account alone.
      const answers = [await guess(), await guess()];
      expect(answers.map(({ status }) => status)).toEqual([401, 429]);
      await braked.services.store.auditRefusals.settled();
      const logged = await braked.request('GET', `${path}?action=login.refuse`, {
        token: braked.operatorKey,
      });
      expect(logged.body.data[0]).toMatchObject({
        ...{ actor: { type: 'anonymous', id: null }, outcome: 'refused', reason: 'too_many_attempts' },
        target: { type: 'email', id: email },
        ip: '127.0.0.1',
      });
    } finally {
      await braked.close();
    }
  });

  test('is not what needs no right: no credential, a wrong body, a path that is none', async () => {
    const count = async () => (await list('outcome=refused', app.operatorKey)).length;
    await app.services.store.auditRefusals.settled();
    const before = await count();
    await app.request('GET', '/api/v1/sessions');
    await app.request('GET', '/api/v1/nowhere', { token: ada.token });
    await app.request('POST', '/api/v1/auth/login', { body: { email: 'x' } });
    await app.services.store.auditRefusals.settled();
    expect(await count()).toBe(before);
  });
});

describe('a document of the audit log', () => {
  test('is told of in each organization whose entries it has, and in no other', async () => {
    const [acme, beta] = [await makePeople(app, 'acme'), await makePeople(app, 'beta')];
    const eve = acme.member;
    await bringIn(app, beta, eve, 'admin');
    // What somebody may reach is read from a login anew.
    const { token: latest } = await logIn(app, eve);
    const exporting = async (query = '', token = latest) => {
      const answer = await app.request('GET', `${path}/export${query}`, { token });
      expect(answer.status).toBe(200);
    };
    const told = async ({ owner }: People) =>
      (await list('action=audit.export', owner.token)).map(({ target }) => target.id);
    await exporting();
    expect([await told(acme), await told(beta)]).toEqual([[], [beta.organizationId]]);

    await bringIn(app, acme, beta.owner, 'admin');
    await exporting('', beta.owner.token);
    expect(await told(acme)).toEqual([acme.organizationId]);
    await exporting(`?organization_id=${acme.organizationId}`, app.operatorKey);
    expect(await told(acme)).toEqual([acme.organizationId, acme.organizationId]);
    await exporting('', app.operatorKey);
    expect(await told(acme)).toHaveLength(2);
    const [last] = await list('action=audit.export', app.operatorKey);
    expect(last).toMatchObject({ organization_id: null, target: { id: null } });
  });

  test('has an entry on each line, the oldest first, as it is listed', async () => {
    const answer = await app.request('GET', `${path}/export?actor=${ada.user.id}`, { token: ada.token });
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson');
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="audit.ndjson"');
    const entries = answer.body
      .trimEnd()
      .split('\n')
      .map((line: string) => JSON.parse(line));
    expect(entries.at(-1)).toMatchObject({ action: 'audit.export', after: { format: 'ndjson' } });
    const listed = await list(`actor=${ada.user.id}`);
    expect(entries.slice(-listed.length)).toEqual(listed.toReversed());
  });

  test('as CSV is quoted, and starts no formula in a spreadsheet; nor does any line obey a terminal', async () => {
    // Names hold no control characters; instructions may.
    const texts = ['=HYPERLINK("http://x";"y")', '@SUM(A1)', 'a, "b"; c', '\u0085\u2028\u202e\u009b2J'];
    for (const [index, instructions] of [...texts, 'a\r\nb\u001b[31m'].entries()) {
      const answer = await app.request('POST', '/api/v1/agents', {
        token: ada.token,
        body: { slug: `hostile-${index}`, description: 'x', instructions },
        headers: { 'x-request-id': '-2-3' },
      });
      expect(answer.status).toBe(201);
    }
    const { body, headers } = await app.request('GET', `${path}/export?format=csv`, { token: ada.token });
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8');
    const lines: string[] = body.trimEnd().split('\r\n');
    expect(lines[0]).toMatch(/^sequence,id,created_at,organization_id,actor_type,/);
    const width = cells(lines[0] ?? '').length;
    for (const line of lines) {
      const found = cells(line);
      expect(found).toHaveLength(width);
      for (const cell of found) expect(cell).not.toMatch(/^\s*[=+\-@|%]/);
    }
    expect(lines).toHaveLength((await ndjson()).length);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal would obey
    expect(body.replaceAll('\r\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    expect(body).toContain('\\\\u001b[31m');
    expect(body).toContain(`,"'-2-3",`);
  });

  test('comes in pieces, and of the oldest to the newest none is missing', async () => {
    const numbers = (await ndjson()).map(({ sequence }) => sequence);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    const head = await app.stream('HEAD', `${path}/export`, { token: ada.token });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe('');
  });

  const ndjson = async (): Promise<Json[]> => {
    const { body } = await app.request('GET', `${path}/export`, { token: ada.token });
    return body
      .trimEnd()
      .split('\n')
      .map((line: string) => JSON.parse(line));
  };
});

describe('the chain', () => {
  test('holds, and its head may be written down and asked about later', async () => {
    const whole = await app.request('GET', `${path}/verify`, { token: ada.token });
    expect(whole.body).toMatchObject({ valid: true, first_broken: null });
    const { sequence, hash } = whole.body.head;
    await list();
    const asked = (anchor: string) =>
      app.request('GET', `${path}/verify?anchor=${anchor}`, { token: ada.token });
    expect((await asked(`${sequence}:${hash}`)).body.valid).toBe(true);
    const other = (await asked(`${sequence}:${'0'.repeat(64)}`)).body;
    expect(other).toMatchObject({ valid: false, first_broken: { sequence, fault: 'rewritten' } });
    expect((await asked(`999999:${hash}`)).body.first_broken).toMatchObject({ fault: 'truncated' });
    expect((await asked('1:x')).status).toBe(400);
  });
});

async function me({ token }: Account): Promise<Json> {
  return (await app.request('GET', '/api/v1/users/me', { token })).body;
}

async function keyOf({ token }: Account, scopes: string[]): Promise<string> {
  const body = { name: 'Test', scopes };
  return (await app.request('POST', '/api/v1/auth/api-keys', { token, body })).body.key;
}

/** Nobody waits for what is refused to be recorded, so that a test has to. */
async function recorded(query: string, token: string, entry: object): Promise<void> {
  await expect.poll(() => list(query, token)).toEqual([expect.objectContaining({ outcome: 'refused' })]);
  expect(await one(query, token)).toMatchObject({ outcome: 'refused', ...entry });
}

/** One line of RFC 4180, whose cells hold no line ends here. */
function cells(line: string): string[] {
  return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(([, quoted, bare]) =>
    quoted === undefined ? (bare ?? '') : quoted.replaceAll('""', '"'),
  );
}
