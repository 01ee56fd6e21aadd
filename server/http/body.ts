/** Reads the bytes of a body: within the limit, inflated, and never more than needed. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { Problem } from '../problem.ts';
import { declaredLength } from './announced-body.ts';
import { countFromEachPart } from './arrival.ts';

/** The caller went away before its request was complete: there is nobody to answer. */
export class CallerGone extends Error {}

/** The whole body, inflated. A declared excess is refused unread, and an undeclared one as soon as it shows. */
export async function readBytes(
  request: IncomingMessage,
  response: ServerResponse,
  limit: number,
  excess: Excess,
): Promise<Buffer> {
  if (declaredLength(request) > limit) throw excess(limit);
  const inflater = createInflater(request);
  if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
  countFromEachPart(request);
  return inflater ? inflate(request, inflater, limit, excess) : collect(request, limit, excess);
}

/** What to throw when there is more than the limit. */
export type Excess = (limit: number) => Problem;

function createInflater(request: IncomingMessage): Transform | null {
  const coding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (coding === 'identity' || coding === '') return null;
  if (coding === 'gzip' || coding === 'x-gzip') return createGunzip();
  if (coding === 'deflate') return createInflate();
  if (coding === 'br') return createBrotliDecompress();
  throw new Problem(
    'unsupported_media_type',
    'This content encoding is not supported; send gzip, deflate, br or none.',
    {
      headers: { 'Accept-Encoding': 'gzip, deflate, br' },
    },
  );
}

async function inflate(
  request: IncomingMessage,
  inflater: Transform,
  limit: number,
  excess: Excess,
): Promise<Buffer> {
  request.pipe(inflater);
  try {
    // A coding can swallow endless input without giving a byte, so that both sides are bounded.
    const [inflated] = await Promise.all([collect(inflater, limit, excess), bound(request, limit, excess)]);
    return inflated;
  } catch (error) {
    if (error instanceof Problem || error instanceof CallerGone) throw error;
    throw new Problem('invalid_encoding', 'The body is not what its Content-Encoding says.', {
      cause: error,
    });
  } finally {
    request.unpipe(inflater);
    request.pause();
    inflater.destroy();
  }
}

/** Collects without destroying the source: the connection is still needed for the answer. */
function collect(source: Readable, limit: number, excess: Excess): Promise<Buffer> {
  const chunks: Buffer[] = [];
  return bound(source, limit, excess, (chunk) => chunks.push(chunk)).then(() => Buffer.concat(chunks));
}

function bound(
  source: Readable,
  limit: number,
  excess: Excess,
  take?: (chunk: Buffer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let size = 0;
    const finish = (error?: Error) => {
      source.off('data', onData).off('end', finish).off('error', finish).off('close', onClose);
      // Whoever fails later has nobody to tell, and must not bring the process down.
      source.on('error', () => undefined);
      if (error) reject(error);
      else resolve();
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) return take?.(chunk);
      source.pause();
      finish(excess(limit));
    };
    const onClose = () => finish(new CallerGone());
    source.on('data', onData).on('end', finish).on('error', finish).on('close', onClose);
  });
}
