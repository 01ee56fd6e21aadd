/** The HTTP server below Express: its time limits, what breaks HTTP itself, and how it stops. */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Express } from 'express';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { limitArrival } from './arrival.ts';
import { occasionOf } from './exchange.ts';
import { type Occasion, renderProblem } from './problems.ts';

/** How long a request may take to arrive. Answers may take for ever: streams stay open for minutes. */
export interface ArrivalLimits {
  readonly headersMs: number;
  readonly requestMs: number;
  /** How often the two are looked at. */
  readonly checkMs: number;
}

/** Half-sent requests are gone within a minute: who is slow with the head, and with the body afterwards, has the sum. */
const defaultLimits: ArrivalLimits = { headersMs: 10_000, requestMs: 45_000, checkMs: 5_000 };

export interface HttpServer {
  readonly server: Server;
  /** Takes no new connection, lets answers end, tells the streams that are left, cuts off when the time is over. */
  drain(timeoutMs: number): Promise<void>;
}

/** Requests that come before `opened` wait for it: a port can be taken before anybody is answered. */
export function createHttpServer(
  app: Express,
  limits: ArrivalLimits = defaultLimits,
  opened: Promise<void> = Promise.resolve(),
): HttpServer {
  const server = createServer({
    headersTimeout: limits.headersMs,
    // Counted for each request by itself: an upload may take longer.
    requestTimeout: 0,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: 65_000,
    maxHeaderSize: 16_384,
    // The app refuses a missing Host itself, with a body that says so.
    requireHostHeader: false,
    insecureHTTPParser: false,
  });
  const answers = new WeakMap<Socket, ServerResponse>();
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    answers.set(request.socket, response);
    limitArrival(request, limits.requestMs, (error) => server.emit('clientError', error, request.socket));
    void opened.then(() => app(request, response));
  };
  // An expected 100 Continue is sent by whoever reads the body, once nothing stands against reading it.
  server.on('request', handle).on('checkContinue', handle).on('checkExpectation', handle);
  server.on('connect', (_request, socket: Socket) => refuseRaw(socket, connectRefused(), unread()));
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const answer = answers.get(socket);
    if (error.code === 'ECONNRESET' || !socket.writable || (answer?.headersSent && !answer.writableFinished))
      socket.destroy();
    else
      refuseRaw(
        socket,
        problemOf(error),
        answer?.writableFinished === false ? occasionOf(answer.req) : unread(),
      );
  });
  return { server, drain: (timeoutMs) => drain(server, app, timeoutMs) };
}

function problemOf(error: NodeJS.ErrnoException): Problem {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return new Problem('headers_too_large', 'The header section may have at most 16384 bytes.');
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new Problem('request_timeout', 'The request did not arrive in time; send it again, faster.');
  return new Problem('malformed_http', 'The request breaks the rules of HTTP/1.1, and could not be read.');
}

function connectRefused(): Problem {
  return new Problem('method_not_allowed', 'This server is not a proxy.', {
    headers: { Allow: 'GET, HEAD, OPTIONS' },
  });
}

const lingerMs = 1_000;

/** Of a request whose head could not be read nothing is known. */
function unread(): Occasion {
  return { path: '/', requestId: newId('request'), surface: 'native' };
}

/** Writes an answer past the parser, which gave up. */
function refuseRaw(socket: Socket, problem: Problem, occasion: Occasion): void {
  // Of CONNECT the parser hands the socket on with nobody listening, and a reset would end the process.
  socket.on('error', () => undefined);
  const { requestId, surface } = occasion;
  const rendered = renderProblem(problem, occasion);
  const body = JSON.stringify(rendered.body);
  const headers = {
    ...rendered.headers,
    'X-Request-Id': requestId,
    ...(surface === 'messages' && { 'request-id': requestId }),
    'Content-Type': rendered.type,
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${rendered.status} ${STATUS_CODES[rendered.status]}\r\n${lines.join('')}\r\n${body}`);
  // Destroying at once, with input unread, would reset the connection before the answer is read.
  setTimeout(() => socket.destroy(), lingerMs).unref();
}

/** Runs that are stopped end their streams at once; what follows the runs of other nodes has to be told. */
const untilToldMs = 1_000;

function drain(server: Server, app: Express, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const tell = setTimeout(() => app.emit('drain'), Math.min(untilToldMs, timeoutMs / 2));
    const cut = setTimeout(() => server.closeAllConnections(), timeoutMs);
    // A connection that falls idle during the drain would hold the close until its keep-alive ends.
    const sweep = setInterval(() => server.closeIdleConnections(), 100);
    server.close(() => {
      clearTimeout(tell);
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
    server.closeIdleConnections();
  });
}
