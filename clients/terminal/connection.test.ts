/** The connection to the server inside the process. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { testHome } from './test-command.ts';

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
