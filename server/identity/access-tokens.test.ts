/** Access tokens: what a server issues passes, and every way to forge or stretch one is refused. */
import { createHmac, createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { calculateJwkThumbprint } from 'jose';
import { describe, expect, test } from 'vitest';
import { scopeValues } from '../contract/api.ts';
import { hashOf } from './opaque-tokens.ts';
import { createSealing } from './sealing.ts';
import { newSigningKey } from './signing-keys.ts';
import { ada, grace, type TestIdentity, testIdentity } from './test-identity.ts';

const invalid = { code: 'credential_invalid', status: 401 };
const expired = { code: 'credential_expired', status: 401 };

test('a token that the server issued says who its bearer is', async () => {
  const { identity } = await testIdentity();
  const { access_token, user, expires_in, token_type } = await identity.register(ada);
  expect({ expires_in, token_type }).toEqual({ expires_in: 900, token_type: 'Bearer' });
  const principal = await identity.authenticate(access_token);
  expect(principal).toMatchObject({
    userId: user.id,
    email: 'ada@example.com',
    operator: false,
    credential: 'login',
    memberships: [{ organizationName: 'Ada', role: 'owner' }],
  });
  expect(principal.organizationIds).toEqual([principal.memberships[0]?.organizationId]);
  expect([...principal.scopes].sort()).toEqual([...scopeValues].sort());
});

test('a token names its key, its issuer, its audience and its kind, and holds nothing else', async () => {
  const { token } = await issued();
  const { header, payload } = parsed(token);
  expect(header).toEqual({ alg: 'EdDSA', kid: expect.stringMatching(/^[\w-]{43}$/), typ: 'at+jwt' });
  expect(Object.keys(payload).toSorted()).toEqual(['aud', 'exp', 'iat', 'iss', 'jti', 'nbf', 'sid', 'sub']);
  expect(payload).toMatchObject({ iss: 'service', aud: 'service-api' });
  expect(Number(payload.exp) - Number(payload.iat)).toBe(900);
});

test('a token that is renewed within its second is another one', async () => {
  // Its clock stands still.
  const { identity } = await testIdentity();
  const first = await identity.register(ada);
  const next = await identity.refresh(first.refresh_token);
  expect(next.access_token).not.toBe(first.access_token);
});

describe('a forged token is refused', () => {
  test.each(['none', 'None', 'NONE', 'nOnE', ''])('with the algorithm %j and no signature', async (alg) => {
    const { given, token } = await issued();
    const { header, payload } = parsed(token);
    await expect(
      given.identity.authenticate(`${joined({ ...header, alg }, payload)}.`),
    ).rejects.toMatchObject(invalid);
  });

  test.each(['HS256', 'HS384', 'HS512'])('with %s and the public key as its secret', async (alg) => {
    const { given, token } = await issued();
    const { header, payload } = parsed(token);
    const [key] = await given.store.signingKeys.list();
    const text = joined({ ...header, alg }, payload);
    const digest = alg.replace('HS', 'sha');
    for (const secret of [JSON.stringify(key?.publicJwk), String(key?.publicJwk.x), '', 'secret']) {
      const forged = `${text}.${createHmac(digest, secret).update(text).digest('base64url')}`;
      await expect(given.identity.authenticate(forged)).rejects.toMatchObject(invalid);
    }
  });

  test('with an edited payload', async () => {
    const { given, token } = await issued();
    const { header, payload } = parsed(token);
    const forged = `${joined(header, { ...payload, sub: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' })}.${token.split('.')[2]}`;
    await expect(given.identity.authenticate(forged)).rejects.toMatchObject(invalid);
  });

  test('with any character changed, the unused bits at the end included', async () => {
    const { given, token } = await issued();
    for (const at of [3, token.indexOf('.') + 5, token.lastIndexOf('.') + 1, token.length - 1]) {
      for (const character of 'AQgwBRhx_-09') {
        if (character === token[at]) continue;
        const forged = token.slice(0, at) + character + token.slice(at + 1);
        await expect(given.identity.authenticate(forged), forged).rejects.toMatchObject(invalid);
      }
    }
  });

  test('with a cut signature, an empty one, a part too many, or padding', async () => {
    const { given, token } = await issued();
    const cut = token.slice(0, token.lastIndexOf('.') + 1);
    for (const forged of [
      token.slice(0, -1),
      token.slice(0, -4),
      cut,
      `${token}.`,
      `${token}.${token}`,
      `${token}==`,
    ]) {
      await expect(given.identity.authenticate(forged), forged).rejects.toMatchObject(invalid);
    }
  });

  test('with a key of its own, whatever the header says of it', async () => {
    const { given, token } = await issued();
    const own = generateKeyPairSync('ed25519');
    const jwk = own.publicKey.export({ format: 'jwk' });
    const { header, payload } = parsed(token);
    for (const trick of [
      {},
      { kid: undefined },
      { kid: 'unknown' },
      { kid: '../../dev/null' },
      { kid: '__proto__' },
      { kid: 7 },
      { jwk },
      { kid: undefined, jwk },
      { jku: 'http://127.0.0.1:9/jwks.json' },
      { x5u: 'http://127.0.0.1:9/cert.pem' },
      { crit: ['exp'] },
      { b64: false, crit: ['b64'] },
    ]) {
      const forged = signed({ ...header, ...trick }, payload, own.privateKey);
      await expect(given.identity.authenticate(forged), JSON.stringify(trick)).rejects.toMatchObject(invalid);
    }
  });

  test.each([
    '',
    '.',
    '..',
    '...',
    'a.b.c',
    'sk-',
    'rt_abc',
    'Bearer',
    '{}',
    'e30.e30.e30',
    'x'.repeat(10_000),
  ])('when it reads %j', async (credential) => {
    const { identity } = await testIdentity();
    await expect(identity.authenticate(credential)).rejects.toMatchObject(invalid);
  });
});

describe('a token that the right key signed is refused', () => {
  const now = () => Math.floor(Date.now() / 1000);
  test.each<[string, (good: Token) => Token, object]>([
    ['from another issuer', (good) => withClaims(good, { iss: 'elsewhere' }), invalid],
    ['for another audience', (good) => withClaims(good, { aud: 'service-web' }), invalid],
    ['not yet good', (good) => withClaims(good, { nbf: now() + 60 }), invalid],
    ['expired', (good) => withClaims(good, { exp: now() - 60 }), expired],
    ['without an end', (good) => withClaims(good, { exp: undefined }), invalid],
    ['without a beginning', (good) => withClaims(good, { nbf: undefined }), invalid],
    ['without a login', (good) => withClaims(good, { sid: undefined }), invalid],
    ['of a login that is no text', (good) => withClaims(good, { sid: { $ne: null } }), invalid],
    ['without a user', (good) => withClaims(good, { sub: undefined }), invalid],
    ['of another user', (good) => withClaims(good, { sub: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza' }), invalid],
    ['of an unknown login', (good) => withClaims(good, { sid: 'lgn_01k9w6r3h2e7xv5q0c8m4b1tza' }), invalid],
    ['of another kind', (good) => ({ ...good, header: { ...good.header, typ: 'JWT' } }), invalid],
    ['of no kind', (good) => ({ ...good, header: { ...good.header, typ: undefined } }), invalid],
    [
      'under another name of the algorithm',
      (good) => ({ ...good, header: { ...good.header, alg: 'Ed25519' } }),
      invalid,
    ],
  ])('%s', async (_, change, problem) => {
    const { given, token } = await issued();
    const key = await privateKeyOf(given);
    const good = parsed(token);
    const unchanged = signed(good.header, good.payload, key);
    expect(unchanged).toBe(token);
    const { header, payload } = change(good);
    await expect(given.identity.authenticate(signed(header, payload, key))).rejects.toMatchObject(problem);
  });
});

test('a token expires after fifteen minutes, and not before', async () => {
  const { given, token } = await issued();
  given.clock.turn(14 * 60_000);
  await given.identity.authenticate(token);
  given.clock.turn(61_000);
  await expect(given.identity.authenticate(token)).rejects.toMatchObject(expired);
});

test('what has expired stays so when the clock is set back by an hour, and nothing else expires', async () => {
  const { another, clock } = await testIdentity();
  let passed = 0;
  const pass = (milliseconds: number) => {
    passed += milliseconds;
    clock.turn(milliseconds);
  };
  const identity = await another({ elapsed: () => passed });
  const old = (await identity.register(ada)).access_token;
  const { key } = await identity.createApiKey(await identity.authenticate(old), {
    name: 'short',
    expires_at: new Date(clock.now().getTime() + 60_000).toISOString(),
  });
  pass(16 * 60_000);
  clock.turn(-3_600_000);
  await expect(identity.authenticate(old)).rejects.toMatchObject(expired);
  await expect(identity.authenticate(key)).rejects.toMatchObject({ status: 401 });
  const fresh = (await identity.login(ada)).access_token;
  await identity.authenticate(fresh);
  clock.turn(2 * 3_600_000);
  await expect(identity.authenticate(fresh)).rejects.toMatchObject(expired);
});

test('links to a new password, invitations and tokens to register with stay expired when the clock is set back', async () => {
  const { another, clock, store } = await testIdentity();
  let passed = 0;
  const identity = await another({ elapsed: () => passed });
  const [owner, guest] = await Promise.all(
    [ada, grace].map(async (body) => identity.authenticate((await identity.register(body)).access_token)),
  );
  if (!owner || !guest) throw new Error('Nobody has registered.');
  const expiresAt = new Date(clock.now().getTime() + 3_600_000);
  const link = await identity.createPasswordResetLink(owner, ada.email);
  const body = { email: grace.email, expires_at: expiresAt.toISOString() };
  const invitation = await identity.invite(
    owner,
    owner.organizationIds[0] ?? '',
    body,
    async () => undefined,
  );
  await store.invitations.add({ kind: 'invitation', hash: hashOf('inv_of_ours'), expiresAt });
  const origin = { requestId: '', address: null, credential: null };
  passed = 3_660_000;
  clock.turn(passed);
  clock.turn(-3_600_000);
  await expect(
    identity.resetPassword({ token: link.token, password: 'a-new-horse-battery' }, origin),
  ).rejects.toMatchObject({ code: 'reset_link_expired' });
  await expect(identity.acceptInvitation(guest, { token: invitation.token ?? '' })).rejects.toMatchObject({
    code: 'invitation_gone',
  });
  await expect(
    identity.register({ ...ada, email: 'eve@example.com', invitation_token: 'inv_of_ours' }),
  ).rejects.toMatchObject({ code: 'registration_refused' });
});

test('a token of a node whose clock is a minute ahead is good on another, until it expires by the clock of that', async () => {
  const { given, token } = await issued();
  const behind = (seconds: number) =>
    given.another({ clock: { now: () => new Date(given.clock.now().getTime() - seconds * 1000) } });
  await (await behind(58)).authenticate(token);
  await expect((await behind(62)).authenticate(token)).rejects.toMatchObject({
    ...invalid,
    message: expect.stringContaining('a server whose clock is ahead'),
  });
  const late = await behind(-901);
  await expect(late.authenticate(token)).rejects.toMatchObject(expired);
});

test('a refresh token is no access token', async () => {
  const { identity } = await testIdentity();
  const { refresh_token } = await identity.register(ada);
  await expect(identity.authenticate(refresh_token)).rejects.toMatchObject(invalid);
});

test('a key is named by the thumbprint of its public part, as others compute it', async () => {
  const given = await testIdentity();
  const { kid, publicJwk } = newSigningKey(createSealing(given.masterKey));
  expect(kid).toBe(await calculateJwkThumbprint(publicJwk));
});

test('a new key signs within a minute, and tokens of the old one are good until it is removed', async () => {
  const { given, token } = await issued();
  const [old] = await given.store.signingKeys.list();
  given.clock.turn(1_000);
  await given.store.signingKeys.add(newSigningKey(createSealing(given.masterKey)));
  given.clock.turn(61_000);
  const next = (await given.identity.login(ada)).access_token;
  expect(parsed(next).header.kid).not.toBe(parsed(token).header.kid);
  await given.identity.authenticate(token);
  await given.identity.authenticate(next);
  await given.store.signingKeys.remove(old?.kid ?? '');
  given.clock.turn(61_000);
  await expect(given.identity.authenticate(token)).rejects.toMatchObject(invalid);
  await given.identity.authenticate(next);
});

test('a key signs for thirty days and is forgotten with its last token, without a restart', async () => {
  const { given, token } = await issued();
  const [day, minute] = [86_400_000, 60_000];
  const kidOf = (text: string) => parsed(text).header.kid;
  const login = async () => (await given.identity.login(ada)).access_token;
  given.clock.turn(30 * day - minute);
  const last = await login();
  expect(kidOf(last)).toBe(kidOf(token));
  given.clock.turn(2 * minute);
  const next = await login();
  expect(kidOf(next)).not.toBe(kidOf(token));
  await given.identity.authenticate(last);
  given.clock.turn(14 * minute);
  await expect(given.identity.authenticate(last)).rejects.toMatchObject(expired);
  expect(await given.store.signingKeys.list()).toHaveLength(2);
  given.clock.turn(60 * minute);
  expect(kidOf(await login())).toBe(kidOf(next));
  expect((await given.store.signingKeys.list()).map(({ kid }) => kid)).toEqual([kidOf(next)]);
});

test('a node that has not seen a new key looks again, once a second at the most', async () => {
  const { given, token } = await issued();
  let reads = 0;
  const signingKeys = {
    ...given.store.signingKeys,
    list: () => {
      reads += 1;
      return given.store.signingKeys.list();
    },
  };
  const other = await given.another({ records: { ...given.store, signingKeys } });
  expect(reads).toBe(1);
  given.clock.turn(2_000);
  await given.store.signingKeys.add(newSigningKey(createSealing(given.masterKey)));
  const issuer = await given.another();
  await other.authenticate((await issuer.login(ada)).access_token);
  expect(reads).toBe(2);
  const { header, payload } = parsed(token);
  const forged = Array.from(
    { length: 50 },
    (_, n) => `${joined({ ...header, kid: String(n).padStart(43, 'k') }, payload)}.AA`,
  );
  await Promise.all(forged.map((one) => expect(other.authenticate(one)).rejects.toMatchObject(invalid)));
  expect(reads).toBe(3);
});

test('two servers that start at once on a new database take each other’s tokens', async () => {
  const { store, another } = await testIdentity();
  for (const { kid } of await store.signingKeys.list()) await store.signingKeys.remove(kid);
  const [one, other] = await Promise.all([another(), another()]);
  await one.register(ada);
  const tokens = await Promise.all([one.login(ada), other.login(ada)]);
  for (const { access_token } of tokens) {
    await one.authenticate(access_token);
    await other.authenticate(access_token);
  }
});

test('a private key that was moved to another row does not open, and the server does not start', async () => {
  const { store, another, clock } = await testIdentity();
  const [key] = await store.signingKeys.list();
  clock.turn(1_000);
  await store.signingKeys.add({ kid: 'moved', publicJwk: {}, sealedPrivateKey: key?.sealedPrivateKey ?? '' });
  await expect(another()).rejects.toThrow('another row');
});

test('a server with another master key says so and does not start', async () => {
  const { another } = await testIdentity();
  await expect(another({ masterKey: Buffer.alloc(32, 7) })).rejects.toThrow(/give it the master key/);
});

interface Token {
  readonly header: Readonly<Record<string, unknown>>;
  readonly payload: Readonly<Record<string, unknown>>;
}

async function issued(): Promise<{ given: TestIdentity; token: string }> {
  const given = await testIdentity();
  return { given, token: (await given.identity.register(ada)).access_token };
}

async function privateKeyOf({ store, masterKey }: TestIdentity): Promise<KeyObject> {
  const [key] = await store.signingKeys.list();
  if (!key) throw new Error('The server has no signing key.');
  return createPrivateKey(createSealing(masterKey).open(key.sealedPrivateKey, `signing_keys/${key.kid}`));
}

function withClaims(good: Token, claims: Record<string, unknown>): Token {
  return { ...good, payload: { ...good.payload, ...claims } };
}

function parsed(token: string): Token {
  const [header = '', payload = ''] = token.split('.');
  return { header: decoded(header), payload: decoded(payload) };
}

function decoded(part: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(part, 'base64url').toString());
}

function joined(header: object, payload: object): string {
  return [header, payload].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
}

function signed(header: object, payload: object, key: KeyObject): string {
  const text = joined(header, payload);
  return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
}
