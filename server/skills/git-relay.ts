/**
 * Stands between git and the internet: git asks this machine, for one repository and nothing else, and the outbound guard
 * asks the server. So the guard checks and pins each address, refuses redirects and counts bytes as for any other URL
 * that a caller gives, and git never has the token.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type OutboundFetch, outboundErrorIn, outboundSentence } from '../outbound/outbound.ts';

export interface GitRelay {
  /** What git is to fetch from: every user of the machine can read it in the arguments of git. */
  readonly url: string;
  /** The header that opens it; nobody but git knows it. */
  readonly header: string;
  /** Why the server could not be asked, or what is wrong with its answer; null where nothing was. */
  fault(): string | null;
  close(): Promise<void>;
}

export interface RelayedRepository {
  /** Without a slash at its end. */
  readonly url: string;
  readonly username: string | null;
  readonly token: string | null;
}

/** A whole fetch takes three or four. */
const mostRequests = 32;
/** What git says it wants. */
const mostAskedBytes = 1024 * 1024;

interface Asked {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** What the answer of a git server says it is. */
  readonly type: string;
}

const list: Asked = {
  method: 'GET',
  path: '/info/refs?service=git-upload-pack',
  type: 'application/x-git-upload-pack-advertisement',
};
const pack: Asked = {
  method: 'POST',
  path: '/git-upload-pack',
  type: 'application/x-git-upload-pack-result',
};

const repositoryPath = '/repository';
/** What git sends along with each of its requests. */
const opener = 'x-service-relay';

const passed = ['accept', 'content-type', 'content-encoding', 'git-protocol', 'user-agent'];

export async function openRelay(
  repository: RelayedRepository,
  fetch: OutboundFetch,
  { mostBytes, signal }: { readonly mostBytes: number; readonly signal: AbortSignal },
): Promise<GitRelay> {
  const secret = randomBytes(24).toString('hex');
  let fault: string | null = null;
  let requests = 0;
  let bytes = 0;
  const relay = async (asked: Asked, request: IncomingMessage, response: ServerResponse) => {
    requests += 1;
    if (requests > mostRequests) throw new RelayFault('The server asks for more and more requests.');
    const answer = await fetch(`${repository.url}${asked.path}`, {
      method: asked.method,
      headers: { ...passedOf(request), ...authorizationOf(repository) },
      ...(asked.method === 'POST' && { body: await bodyOf(request) }),
      redirect: 'error',
      signal,
    });
    const refusal = refusalOf(answer, asked, repository);
    if (refusal !== null) {
      await answer.body?.cancel();
      throw new RelayFault(refusal);
    }
    response.writeHead(200, { 'content-type': asked.type });
    // `as`: the platform's two types of the same stream.
    const body = Readable.fromWeb(answer.body as Parameters<typeof Readable.fromWeb>[0]);
    await pipeline(
      body,
      async function* (pieces: AsyncIterable<Buffer>) {
        for await (const piece of pieces) {
          bytes += piece.length;
          if (bytes > mostBytes)
            throw new RelayFault(`The repository has more than ${Math.round(mostBytes / 1024 / 1024)} MiB.`);
          yield piece;
        }
      },
      response,
      { signal },
    );
  };
  const server = createServer((request, response) => {
    const asked = [list, pack].find(
      ({ method, path }) => request.method === method && request.url === `${repositoryPath}${path}`,
    );
    if (!asked || request.headers[opener] !== secret) return void response.writeHead(404).end();
    relay(asked, request, response).catch((error: unknown) => {
      fault ??= error instanceof RelayFault ? error.message : sentenceOf(error);
      // git is told nothing that would have it ask for a password.
      if (response.headersSent) response.destroy();
      else response.writeHead(404).end();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo; // it listens at a port
  return {
    url: `http://127.0.0.1:${port}${repositoryPath}`,
    header: `${opener}: ${secret}`,
    fault: () => fault,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

class RelayFault extends Error {}

function sentenceOf(error: unknown): string {
  const sentence = outboundSentence(error);
  return outboundErrorIn(error)?.code === 'redirect_refused'
    ? `${sentence} Give the URL that it redirects to, which often ends with .git.`
    : sentence;
}

function passedOf({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(
    passed.flatMap((name) => {
      const value = headers[name];
      return typeof value === 'string' ? [[name, value]] : [];
    }),
  );
}

function authorizationOf({ username, token }: RelayedRepository): Record<string, string> {
  if (token === null) return {};
  return { authorization: `Basic ${Buffer.from(`${username ?? 'git'}:${token}`).toString('base64')}` };
}

async function bodyOf(request: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request) {
    size += piece.length;
    if (size > mostAskedBytes) throw new RelayFault('git asks for too much at once.');
    pieces.push(piece);
  }
  return Uint8Array.from(Buffer.concat(pieces));
}

function refusalOf(
  { status, headers }: Response,
  { type }: Asked,
  { token }: RelayedRepository,
): string | null {
  if (status === 401 || status === 403)
    return token === null
      ? `The server gives the repository to nobody without a token (${status}).`
      : `The server refuses the user name and the token (${status}).`;
  if (status === 404)
    return token === null
      ? 'The server has no repository there (404); of a private one it may say so to whoever has no token.'
      : 'The server has no repository there (404), or none that the token may read.';
  if (status !== 200) return `The server answered with the status ${status}.`;
  const said = headers.get('content-type')?.split(';')[0]?.trim();
  return said === type
    ? null
    : 'That is no git server of today: its answer is not one of the smart protocol.';
}
