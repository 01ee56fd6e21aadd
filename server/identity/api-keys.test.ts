/** API keys: shown once, known by a hash, within the rights of whoever made them, and over when they are over. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Scope } from '../contract/api.ts';
import type { Principal } from './identity.ts';
import { ada, grace, type TestIdentity, testIdentity } from './test-identity.ts';

const minute = 60_000;
const invalid = { code: 'credential_invalid', status: 401 };
const notInFuture = {
  code: 'invalid_request',
  errors: [{ in: 'body', pointer: '/expires_at', message: 'must be a moment in the future', code: 'future' }],
};

test('a key acts for its maker, with its own scopes', async () => {
  const { given, principal } = await loggedIn();
  const { key, api_key } = await given.identity.createApiKey(principal, {
    name: 'Build',
    scopes: ['query', 'keys:read'],
  });
  expect(key).toMatch(/^sk-[A-Za-z0-9]{8}[\w-]{43}$/);
  expect(api_key).toMatchObject({
    name: 'Build',
    prefix: key.slice(0, 11),
    disabled: false,
    last_used_at: null,
  });
  expect(await given.identity.authenticate(key)).toEqual({
    ...principal,
    credential: 'api_key',
    credentialId: api_key.id,
    scopes: new Set(['query', 'keys:read']),
    key: {
      ...{ ipAllow: [], permissionRules: [], rateLimit: null, hasEnd: false, hasQuota: false },
      ...{ secretNumber: 1, oldestSecret: 1 },
    },
  });
});

test('a key without scopes gets all of its maker’s, and may make keys like itself', async () => {
  const { given, principal } = await loggedIn();
  const { key } = await given.identity.createApiKey(principal, { name: 'All' });
  const maker = await given.identity.authenticate(key);
  expect(maker.scopes).toEqual(principal.scopes);
  const child = await given.identity.createApiKey(maker, { name: 'Child' });
  expect((await given.identity.authenticate(child.key)).scopes).toEqual(principal.scopes);
});

test('no two keys are alike, and none but the exact text passes', async () => {
  const { given, principal } = await loggedIn();
  const made = await Promise.all(
    Array.from({ length: 20 }, () => given.identity.createApiKey(principal, { name: 'Many' })),
  );
  expect(new Set(made.map(({ key }) => key)).size).toBe(20);
  const key = made[0]?.key ?? '';
  const other = key.endsWith('A') ? 'B' : 'A';
  for (const wrong of [
    key.slice(0, -1),
    `${key}A`,
    `${key.slice(0, -1)}${other}`,
    key.slice(0, 11),
    'sk-',
    ` ${key}`,
  ]) {
    await expect(given.identity.authenticate(wrong), wrong).rejects.toMatchObject(invalid);
  }
});

describe('a key cannot give what it lacks', () => {
  test('to a new key', async () => {
    const { given, narrow } = await withNarrowKey();
    const wider = given.identity.createApiKey(narrow, {
      name: 'Wider',
      scopes: ['keys:write', 'query', 'messages'],
    });
    await expect(wider).rejects.toMatchObject({
      code: 'scope_required',
      status: 403,
      message: expect.stringContaining('query, messages'),
    });
    const same = await given.identity.createApiKey(narrow, { name: 'Same' });
    expect(new Set(same.api_key.scopes)).toEqual(narrow.scopes);
  });

  test('to itself or to another', async () => {
    const { given, narrow, wide } = await withNarrowKey();
    for (const id of [narrow.credentialId, wide.id]) {
      const widened = given.identity.updateApiKey(narrow, id, { scopes: ['query'] });
      await expect(widened).rejects.toMatchObject({ code: 'scope_required' });
    }
    expect((await given.store.apiKeys.find(narrow, narrow.credentialId))?.apiKey.scopes).toEqual([
      'keys:write',
    ]);
  });

  test('by bringing a wider key back to life', async () => {
    const { given, narrow, wide, owner } = await withNarrowKey();
    await given.identity.updateApiKey(narrow, wide.id, { disabled: true });
    const future = new Date(Date.now() + minute).toISOString();
    for (const change of [{ disabled: false }, { expires_at: null }, { expires_at: future }]) {
      const revived = given.identity.updateApiKey(narrow, wide.id, change);
      await expect(revived).rejects.toMatchObject({ code: 'scope_required' });
    }
    await given.identity.updateApiKey(narrow, wide.id, { name: 'Renamed' });
    await given.identity.updateApiKey(narrow, wide.id, { disabled: false, scopes: ['keys:write'] });
    const { apiKey } = await given.identity.updateApiKey(owner, wide.id, { scopes: ['query'] });
    expect(apiKey).toMatchObject({ name: 'Renamed', disabled: false, scopes: ['query'] });
  });
});

describe('the end of a key', () => {
  test.each([
    '2020-01-01T00:00:00Z',
    '2016-12-31T23:59:60Z',
    '0000-01-01T00:00:00Z',
    '1969-12-31T23:59:59.999+00:00',
  ])('cannot lie in the past: %s', async (expires_at) => {
    const { given, principal } = await loggedIn();
    const made = given.identity.createApiKey(principal, { name: 'Late', expires_at });
    await expect(made).rejects.toMatchObject(notInFuture);
    const { api_key } = await given.identity.createApiKey(principal, { name: 'Good' });
    const changed = given.identity.updateApiKey(principal, api_key.id, { expires_at });
    await expect(changed).rejects.toMatchObject(notInFuture);
  });

  test('cannot lie beyond the years that can be written', async () => {
    const { given, principal } = await loggedIn();
    const made = given.identity.createApiKey(principal, {
      name: 'Far',
      expires_at: '9999-12-31T23:59:59-23:59',
    });
    await expect(made).rejects.toMatchObject({ code: 'invalid_request' });
  });

  test('comes when it says, for requests and for open streams', async () => {
    const { given, principal } = await loggedIn();
    const expires_at = new Date(given.clock.now().getTime() + minute).toISOString();
    const { key, api_key } = await given.identity.createApiKey(principal, { name: 'Short', expires_at });
    expect(api_key.expires_at).toBe(expires_at);
    const bearer = await given.identity.authenticate(key);
    expect(await given.identity.stillValid([bearer])).toEqual([true]);
    given.clock.turn(minute + 1);
    await expect(given.identity.authenticate(key)).rejects.toMatchObject({
      code: 'credential_expired',
      status: 401,
    });
    expect(await given.identity.stillValid([bearer])).toEqual([false]);
  });

  test('is at once where the key is disabled, and can be taken back', async () => {
    const { given, principal } = await loggedIn();
    const { key, api_key } = await given.identity.createApiKey(principal, { name: 'Off' });
    const bearer = await given.identity.authenticate(key);
    await given.identity.updateApiKey(principal, api_key.id, { disabled: true });
    await expect(given.identity.authenticate(key)).rejects.toMatchObject(invalid);
    expect(await given.identity.stillValid([bearer])).toEqual([false]);
    await given.identity.updateApiKey(principal, api_key.id, { disabled: false });
    await given.identity.authenticate(key);
  });

  test('is at once and for good where the key is revoked', async () => {
    const { given, principal } = await loggedIn();
    const { key, api_key } = await given.identity.createApiKey(principal, { name: 'Gone' });
    const bearer = await given.identity.authenticate(key);
    await given.store.apiKeys.revoke(principal, api_key.id);
    await expect(given.identity.authenticate(key)).rejects.toMatchObject(invalid);
    expect(await given.identity.stillValid([bearer])).toEqual([false]);
  });

  test('does not come with a logout', async () => {
    const { given, principal } = await loggedIn();
    const { key } = await given.identity.createApiKey(principal, { name: 'Stays' });
    await given.identity.logout(principal, true);
    await given.identity.authenticate(key);
  });
});

test('a key that lost a scope ends an open stream that was begun with it', async () => {
  const { given, principal } = await loggedIn();
  const { key, api_key } = await given.identity.createApiKey(principal, {
    name: 'Less',
    scopes: ['query', 'messages'],
  });
  const bearer = await given.identity.authenticate(key);
  await given.identity.updateApiKey(principal, api_key.id, { scopes: ['messages'] });
  expect(await given.identity.stillValid([bearer])).toEqual([false]);
});

test('the last use is noted, once a minute at the most, and does not change the ETag', async () => {
  const { given, principal } = await loggedIn();
  const { key, api_key } = await given.identity.createApiKey(principal, { name: 'Used' });
  const before = await given.store.apiKeys.find(principal, api_key.id);
  const lastUse = async () => {
    await given.identity.settled();
    return (await given.store.apiKeys.find(principal, api_key.id))?.apiKey.last_used_at ?? '';
  };
  await Promise.all(Array.from({ length: 20 }, () => given.identity.authenticate(key)));
  const first = await lastUse();
  expect(Math.abs(Date.parse(first) - given.clock.now().getTime())).toBeLessThan(5_000);
  given.clock.turn(50_000);
  await given.identity.authenticate(key);
  expect(await lastUse()).toBe(first);
  given.clock.turn(11_000);
  await given.identity.authenticate(key);
  expect(Date.parse(await lastUse()) - Date.parse(first)).toBeGreaterThanOrEqual(minute);
  expect((await given.store.apiKeys.find(principal, api_key.id))?.etag).toBe(before?.etag);
});

test('a last use that cannot be noted does not keep the caller out', async () => {
  const { given, principal } = await loggedIn();
  const { key } = await given.identity.createApiKey(principal, { name: 'Used' });
  const principals = {
    ...given.store.principals,
    touchApiKey: () => Promise.reject(new Error('The disk is full.')),
  };
  const node = await given.another({ records: { ...given.store, principals } });
  await node.authenticate(key);
  await node.settled();
});

test('another’s key is not there to be changed', async () => {
  const { given, principal } = await loggedIn();
  const stranger = await given.identity.authenticate((await given.identity.register(grace)).access_token);
  const { api_key } = await given.identity.createApiKey(principal, { name: 'Mine' });
  for (const change of [{ name: 'Theirs' }, { disabled: false }, { expires_at: null }]) {
    const taken = given.identity.updateApiKey(stranger, api_key.id, change);
    await expect(taken).rejects.toMatchObject({ code: 'not_found', status: 404 });
  }
});

test('a change with a stale ETag is refused, and nothing is changed', async () => {
  const { given, principal } = await loggedIn();
  const { api_key } = await given.identity.createApiKey(principal, { name: 'One' });
  const { etag } = await given.identity.updateApiKey(principal, api_key.id, { name: 'Two' });
  for (const change of [{ name: 'Three' }, { disabled: false }]) {
    const stale = given.identity.updateApiKey(principal, api_key.id, change, '"1"');
    await expect(stale).rejects.toMatchObject({ code: 'precondition_failed', status: 412 });
  }
  const changed = await given.identity.updateApiKey(principal, api_key.id, { disabled: true }, etag);
  expect(changed.apiKey).toMatchObject({ name: 'Two', disabled: true });
});

test('the files of the database hold no credential in clear', async () => {
  const given = await testIdentity();
  const first = await given.identity.bootstrap({ loopback: true });
  const pair = await given.identity.register(ada);
  const principal = await given.identity.authenticate(pair.access_token);
  const { key, api_key } = await given.identity.createApiKey(principal, { name: 'Canary' });
  const next = await given.identity.refresh(pair.refresh_token);
  const operatorKey = first?.kind === 'operator' ? first.apiKey : '';
  const files = await contents(given.folder);
  expect(files).toContain(ada.email);
  expect(files).toContain(api_key.prefix);
  for (const secret of [
    ada.password,
    key,
    operatorKey,
    pair.refresh_token,
    next.refresh_token,
    pair.access_token,
  ]) {
    expect(secret).not.toBe('');
    expect(files.includes(secret), secret).toBe(false);
    expect(files.includes(secret.slice(11)), `the end of ${secret}`).toBe(false);
  }
  expect(files).not.toContain('PRIVATE KEY');
  expect(files.includes(given.masterKey.toString('latin1'))).toBe(false);
});

async function loggedIn(): Promise<{ given: TestIdentity; principal: Principal }> {
  const given = await testIdentity();
  const { access_token } = await given.identity.register(ada);
  return { given, principal: await given.identity.authenticate(access_token) };
}

/** A key that may only write keys, beside one that may do everything. */
async function withNarrowKey() {
  const { given, principal: owner } = await loggedIn();
  const { api_key: wide } = await given.identity.createApiKey(owner, { name: 'Wide' });
  const { key } = await given.identity.createApiKey(owner, { name: 'Narrow', scopes: ['keys:write'] });
  return { given, owner, wide, narrow: await given.identity.authenticate(key) };
}

async function contents(folder: string): Promise<string> {
  const names = await readdir(folder);
  const files = await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1')));
  return files.join('\n');
}

test.each(['rotate', 'widen'] as const)(
  'a key that gets more rights while a lesser one is about to %s it is not changed by that, whatever version it takes',
  async (what) => {
    const { given, principal } = await loggedIn();
    const make = (name: string, scopes: Scope[]) => given.identity.createApiKey(principal, { name, scopes });
    const lesser = await make('Lesser', ['keys:read', 'keys:write']);
    const { api_key } = await make('Other', ['keys:read']);
    const find: typeof given.store.apiKeys.find = async (...which) => {
      const found = await given.store.apiKeys.find(...which);
      await given.store.apiKeys.update(principal, api_key.id, { scopes: ['keys:read', 'query'] });
      return found;
    };
    const node = await given.another({
      records: { ...given.store, apiKeys: { ...given.store.apiKeys, find } },
    });
    const acting = await node.authenticate(lesser.key);
    const changed =
      what === 'rotate'
        ? node.rotateApiKey(acting, api_key.id, { grace_seconds: 0 }, '*')
        : node.updateApiKey(acting, api_key.id, { expires_at: null }, '*');
    await expect(changed).rejects.toMatchObject({ code: 'precondition_failed' });
  },
);
