/** Access tokens of a service account, against a token endpoint on loopback. */
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { importSPKI, jwtVerify } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import type { Model } from '../models/model.ts';
import { accountToken, type ServiceAccount, serviceAccountOf } from './google-account.ts';
import {
  accountPublicKey,
  answerOf,
  definitionOf,
  keyFile,
  openDefined,
  placeOf,
  request,
  textOf,
} from './test-providers.ts';

let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
});

afterAll(async () => {
  await upstream.stop();
});

beforeEach(async () => {
  await upstream.script([{ reply: { text: 'Hello.' } }]);
});

let accounts = 0;

/** The key file of an account of its own, whose token nobody has yet. */
function newKeyFile(): string {
  accounts += 1;
  return keyFile(`${upstream.url}/token`, `robot-${accounts}`);
}

function opened(key = newKeyFile(), baseUrl = placeOf('vertexai', upstream.url).base_url): Model {
  const connect = async () => ({ baseUrl, apiKey: key });
  return openDefined(definitionOf('vertexai', upstream, { connect }));
}

async function tokenRequests() {
  return (await upstream.requests()).filter(({ path }) => path === '/token');
}

async function scriptToken(token: { expires_in?: number; status?: number }) {
  const body = JSON.stringify({ token, rules: [{ reply: { text: 'Hello.' } }] });
  const answer = await fetch(`${upstream.url}/_script`, { method: 'PUT', body });
  expect(answer.status).toBe(200);
}

describe('a token', () => {
  test('is fetched with an assertion that the key of the account has signed', async () => {
    expect(textOf(await answerOf(opened(), request('Hi')))).toBe('Hello.');
    const [sent] = await tokenRequests();
    const form = new URLSearchParams(String(sent?.body));
    expect(form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer');
    const key = await importSPKI(accountPublicKey, 'RS256');
    const { payload, protectedHeader } = await jwtVerify(form.get('assertion') ?? '', key, {
      audience: `${upstream.url}/token`,
      issuer: `robot-${accounts}@our-project.iam.gserviceaccount.com`,
    });
    expect(payload.scope).toBe('https://www.googleapis.com/auth/cloud-platform');
    expect(protectedHeader).toMatchObject({ alg: 'RS256', kid: 'the-key-id' });
  });

  test('is fetched for nobody who has left already, so that no failure goes unheard', async () => {
    await scriptToken({ status: 503 });
    expect(await answerOf(opened(), request('Hi'), AbortSignal.abort())).toEqual([]);
    await delay(200);
    expect(await tokenRequests()).toEqual([]);
  });

  test('is fetched once for all who ask at the same time, and for those who ask later', async () => {
    const key = keyFile(`${upstream.url}/token`, 'shared');
    await Promise.all([1, 2, 3].map(() => answerOf(opened(key), request('Hi'))));
    await answerOf(opened(key), request('Hi'));
    expect(await tokenRequests()).toHaveLength(1);
    const answers = (await upstream.requests()).filter(({ path }) => path !== '/token');
    expect(new Set(answers.map(({ headers }) => headers.authorization)).size).toBe(1);
  });

  test('that ends soon is fetched anew', async () => {
    await scriptToken({ expires_in: 30 });
    const model = opened();
    await answerOf(model, request('Hi'));
    await answerOf(model, request('Hi'));
    expect(await tokenRequests()).toHaveLength(2);
  });

  test('that was taken back before its end is fetched anew, once for each answer', async () => {
    const model = opened();
    await answerOf(model, request('Hi'));
    await upstream.script([
      { times: 1, fail: { kind: 'status', status: 401 } },
      { reply: { text: 'Hello.' } },
    ]);
    expect(textOf(await answerOf(model, request('Hi')))).toBe('Hello.');
    expect(await tokenRequests()).toHaveLength(1);
    const [first, , second] = await upstream.requests();
    expect(second?.headers.authorization).toMatch(/^Bearer ya29\./);
    expect(second?.headers.authorization).not.toBe(first?.headers.authorization);
    expect(second?.body).toEqual(first?.body);
    await upstream.script([{ fail: { kind: 'status', status: 401 } }]);
    await expect(answerOf(model, request('Hi'))).rejects.toMatchObject({ code: 'provider_refused' });
    expect(await upstream.requests()).toHaveLength(3);
  });

  test.each([
    [401, 'provider_refused', 'replace'],
    [400, 'provider_refused', 'replace'],
    [503, 'provider_failed', 'retry'],
  ])(
    'that is refused with %i is told as the provider’s failure, and tried anew',
    async (status, code, remedy) => {
      await scriptToken({ status });
      const model = opened();
      await expect(answerOf(model, request('Hi'))).rejects.toMatchObject({ code, remedy });
      await scriptToken({});
      expect(textOf(await answerOf(model, request('Hi')))).toBe('Hello.');
    },
  );

  test('is not waited for longer than anybody waits for the answer', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => silent.once('listening', resolve));
    const address = silent.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const asked = new Promise((resolve) => silent.once('request', resolve));
    const controller = new AbortController();
    const answer = answerOf(
      opened(keyFile(`http://127.0.0.1:${port}/token`)),
      request('Hi'),
      controller.signal,
    );
    await asked;
    controller.abort();
    expect(await answer).toEqual([]);
    silent.closeAllConnections();
    silent.close();
  });

  test.each([
    ['another key', keyFile('http://127.0.0.1:1/token').replaceAll(/PRIVATE KEY/g, 'NONSENSE')],
    ['no key', '{"type":"service_account","client_email":"a@b","private_key":""}'],
  ])('cannot be asked for with %s', async (_what, key) => {
    await expect(answerOf(opened(key), request('Hi'))).rejects.toMatchObject({
      code: 'provider_refused',
      remedy: 'replace',
      message: expect.not.stringContaining('BEGIN'),
    });
  });

  test('from an endpoint where nobody listens fails as the provider does', async () => {
    await expect(answerOf(opened(keyFile('http://127.0.0.1:1/token')), request('Hi'))).rejects.toMatchObject({
      code: 'provider_failed',
      remedy: 'retry',
    });
  });
});

test('an API key is sent as it is, to the paths that name no project', async () => {
  await answerOf(opened('an-api-key', `${upstream.url}/v1`), request('Hi'));
  const { path, headers } = await upstream.latest(() => true);
  expect(path).toBe('/v1/publishers/google/models/scripted-1:streamGenerateContent?alt=sse');
  expect(headers['x-goog-api-key']).toBe('an-api-key');
  expect(headers).not.toHaveProperty('authorization');
});

describe('of an account', () => {
  const signal = new AbortController().signal;
  const newAccount = (): ServiceAccount => serviceAccountOf(newKeyFile()) ?? fail();
  const fail = (): never => {
    throw new Error('That is no key file.');
  };

  test('whose endpoint breaks off its answer the failure is one that passes', async () => {
    const body = () => new ReadableStream({ start: (controller) => controller.error(new Error('reset')) });
    const asked = accountToken({ account: newAccount(), fetch: async () => new Response(body()), signal });
    await expect(asked).rejects.toMatchObject({ code: 'provider_failed', remedy: 'retry' });
  });

  test('nothing is kept once a thousand others were tried', async () => {
    let asked = 0;
    const fetch = async () => {
      asked += 1;
      return Response.json({ access_token: 'a', expires_in: 3600 });
    };
    const account = newAccount();
    await accountToken({ account, fetch, signal });
    await accountToken({ account, fetch, signal });
    expect(asked).toBe(1);
    for (let at = 0; at < 1000; at += 1) {
      const other = { ...account, email: `nobody-${at}@our-project.iam.gserviceaccount.com`, privateKey: '' };
      await expect(accountToken({ account: other, fetch, signal })).rejects.toThrow('no usable key');
    }
    await accountToken({ account, fetch, signal });
    expect(asked).toBe(2);
  });
});
