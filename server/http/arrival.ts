/** How long the body of a request may take to arrive; of a large one, how long each part of it may. */
import type { IncomingMessage } from 'node:http';
import { announcesBody } from './announced-body.ts';

const timers = new WeakMap<IncomingMessage, NodeJS.Timeout>();

/** Tells of a body that is late with the error that Node has for it. */
export function limitArrival(request: IncomingMessage, mostMs: number, late: (error: Error) => void): void {
  if (!announcesBody(request)) return;
  const timer = setTimeout(() => {
    if (request.complete || request.destroyed) return;
    // What has come waits for us, who write down what came before: a caller who is held up is not late.
    if (request.readableLength > 0) return void timer.refresh();
    late(Object.assign(new Error('The body is late.'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }));
  }, mostMs);
  timers.set(request, timer);
  const stop = () => clearTimeout(timer);
  request.once('end', stop).once('close', stop);
}

/** A body that comes slower than this is late: within the first limit it would have come in small pieces for ever. */
const partBytes = 1024 ** 2;

/** What is large may take as long for each further part of it. */
export function countFromEachPart(request: IncomingMessage): void {
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes < partBytes) return;
    bytes %= partBytes;
    countAnew(request);
  });
}

/** What is long may take long, as long as it comes. */
export function countFromEachPiece(request: IncomingMessage): void {
  request.on('data', () => countAnew(request));
}

/** A piece has come: the next one has as long. */
export function countAnew(request: IncomingMessage): void {
  timers.get(request)?.refresh();
}
