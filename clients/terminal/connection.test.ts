/** The connection to the server inside the process, and to a remote one. */
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test, vi } from 'vitest';
import { connectTo } from './connection.ts';
import { currentPlaces } from './places.ts';
import { testHome } from './test-command.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

test.each([[{}], [{ NO_PROXY: 'somewhere.example' }], [{ no_proxy: 'somewhere.example' }]])(
  'no proxy gets to see what is sent to the server inside the process, nor its key (%j)',
  async (variables) => {
    let asked = 0;
    const proxy = createServer((_, answer) => {
      asked += 1;
      answer.writeHead(502).end();
    });
    proxy.on('connect', (_, socket) => {
      asked += 1;
      socket.destroy();
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    proxy.listen(0, '127.0.0.1', resolve);
    onTestFinished(() => void proxy.close());
    await promise;
    const { port } = proxy.address() as AddressInfo; // it listens on a port
    const HTTP_PROXY = `http://127.0.0.1:${port}`;
    const surroundings = { variables: { NODE_USE_ENV_PROXY: '1', HTTP_PROXY, ...variables } };
    expect(await testHome().service(['run', 'Hello'], surroundings)).toMatchObject({ code: 0 });
    expect(asked).toBe(0);
  },
);

test('what is sent once more with a renewed login can be ended too, however long it takes', async () => {
  const asked = Promise.withResolvers<void>();
  const seen: unknown[] = [];
  const origin = await serve(async ({ headers: { authorization } }, response) => {
    seen.push(authorization);
    if (authorization === 'Bearer renewed') return asked.resolve();
    // Another process of this person has renewed it meanwhile.
    await keepLogin(origin, 'renewed');
    const problem = { type: 'about:blank', title: 'No', status: 401, detail: 'No.', request_id: 'req_1' };
    response.writeHead(401, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ ...problem, code: 'credential_expired' }));
  });
  const folder = await mkdtemp(join(tmpdir(), 'service-connection-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  vi.stubEnv('XDG_DATA_HOME', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  await keepLogin(origin, 'expired');
  const { client } = await connectTo(origin, { environment: {} });
  const controller = new AbortController();
  const { signal } = controller;
  const outcome = client.POST('/api/v1/sessions', { body: {}, signal }).catch((error: unknown) => error);
  await asked.promise;
  // What one collection finds to be free, another one frees.
  for (let time = 0; time < 5; time += 1) {
    collectGarbage();
    await sleep(10);
  }
  const reason = new Error('enough');
  controller.abort(reason);
  expect(await outcome).toBe(reason);
  expect(seen).toEqual(['Bearer expired', 'Bearer renewed']);
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // It listens on TCP.
}

/** As the command keeps it where there is no keyring. */
async function keepLogin(origin: string, access_token: string): Promise<void> {
  const { dataHome } = await currentPlaces();
  await mkdir(dataHome, { recursive: true, mode: 0o700 });
  const tokens = {
    access_token,
    refresh_token: 'none',
    expires_at: new Date(Date.now() + 900_000).toISOString(),
  };
  const login = { kind: 'login', email: 'some@example.com', ...tokens };
  const text = JSON.stringify({ logins: { [origin]: { login } } });
  await writeFile(join(dataHome, 'logins.json'), text, { mode: 0o600 });
}
