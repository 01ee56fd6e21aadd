/** Ports that tests need a second time, when what listens there was away in between. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Systems give connections and servers that name no port those from here on, in a usual setting. */
const givenFrom = 32_768;
const lowest = 20_000;

/** A free one that the system gives to nobody by itself: whoever leaves it finds it free again. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.trunc(Math.random() * (givenFrom - lowest));
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue; // `as`: a server fails with nothing else
      throw error;
    }
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
