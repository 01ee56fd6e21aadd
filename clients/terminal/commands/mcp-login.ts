/** `service mcp login` and `service mcp logout`. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { openBrowser } from '../browser.ts';
import { CommandFailure, exitCodes } from '../failures.ts';
import { sayWhatIsLeft } from '../logins/left-in-keyring.ts';
import { keyringName, openMcpLogins } from '../logins/mcp-logins.ts';
import { notice } from '../output.ts';
import { currentPlaces } from '../places.ts';
import { asFailure, withServers } from './mcp-servers.ts';

const patienceMs = 5 * 60_000;

/** Sends the person to the authorization server of an MCP server, and keeps what comes back. */
export async function logInToMcp(name: string): Promise<void> {
  try {
    await withServers(async (servers) => {
      await using callback = await listenForAnswer((await servers.callbackPort(name)) ?? 0);
      await servers.logIn(name, {
        redirectUrl: callback.url,
        async visit(authorizationUrl) {
          callback.expect(authorizationUrl.searchParams.get('state'));
          openBrowser(authorizationUrl.href);
          notice(`Open this page to log in to ${name}:\n${authorizationUrl.href}`);
          return await callback.answer;
        },
      });
    });
  } catch (error) {
    throw asFailure(error, name);
  }
  notice(`Logged in to ${name}.`);
}

/** Forgets the login to a server, by its name, or by its address where the settings do not name it any more. */
export async function logOutOfMcp(name: string): Promise<void> {
  const { dataHome } = await currentPlaces();
  const keeper = openMcpLogins(dataHome);
  try {
    const url = isAddress(name)
      ? addressIn(name)
      : await withServers(async (servers) => (await servers.address(name)).href);
    const removed = await keeper.locked(url, () => keeper.forget(url));
    if (removed === 'absent') return noticeAbsent(name, await keeper.servers());
    notice(`The login to ${name} is forgotten here.`);
    if (removed === 'left_in_keyring') sayWhatIsLeft(keyringName(url), name);
  } catch (error) {
    throw asFailure(error, name);
  }
}

/** An address that is typed may be another one than what is kept. */
function noticeAbsent(name: string, servers: readonly string[]): void {
  const others = servers.length === 0 ? '' : ` There are logins to: ${servers.join(', ')}`;
  notice(`There is no login to ${name} here.${others}`);
  if (isAddress(name)) process.exitCode = exitCodes.failed;
}

function isAddress(name: string): boolean {
  return /^https?:\/\//i.test(name);
}

function addressIn(text: string): string {
  const url = URL.parse(text);
  if (url) return url.href;
  throw new CommandFailure(`${text} is no address of an MCP server.`, exitCodes.usage);
}

/** The page that the browser comes back to, on this machine alone. */
async function listenForAnswer(port: number) {
  const { promise: answer, resolve, reject } = Promise.withResolvers<URLSearchParams>();
  let expected: string | null = null;
  const server = createServer(({ method, url: target = '' }, response) => {
    const say = (status: number, text: string) =>
      response
        .writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
        .end(`${text}\n`);
    // Every page that is open in the browser can ask here, for anything.
    const url = URL.parse(target, 'http://127.0.0.1');
    if (method !== 'GET' || url?.pathname !== '/callback') return say(404, 'There is nothing here.');
    if (expected === null || url.searchParams.get('state') !== expected)
      return say(
        400,
        'This is the answer to another login. The one in the terminal goes on waiting for its own.',
      );
    say(200, 'You can close this page, and go back to the terminal.');
    resolve(url.searchParams);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new CommandFailure(`The port ${port} cannot be listened to (${error.code}).`, exitCodes.failed);
  });
  const timer = setTimeout(
    () => reject(new CommandFailure('Nobody logged in within five minutes.', exitCodes.failed)),
    patienceMs,
  );
  // Where the login fails before anybody is asked for it, nobody waits for this.
  answer.catch(() => undefined);
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('A listening server has a port.');
  return {
    url: `http://127.0.0.1:${address.port}/callback`,
    answer,
    /** From then on: what belongs to this login says so. */
    expect(state: string | null) {
      expected = state;
    },
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      server.closeAllConnections();
      server.close();
    },
  };
}
