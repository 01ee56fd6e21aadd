/** Sends an answer piece by piece, as fast as it is read: a document too long to be held whole. */
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Exchange } from './exchange.ts';
import type { Ports } from './ports.ts';
import { setHeaders } from './reply.ts';
import type { Strictness } from './strict.ts';
import { type AnyReply, toWire } from './wire.ts';

/** The pieces of a reply that comes in pieces, and is no stream of events. */
export function chunksOf({ type, body }: AnyReply): AsyncIterable<Chunk> | null {
  if (type === undefined || typeof body !== 'object' || body === null) return null;
  // The contract's types let in no other iterable than one of texts or of bytes.
  return Symbol.asyncIterator in body ? (body as AsyncIterable<Chunk>) : null;
}

type Chunk = string | Uint8Array;

/** A document of JSON whose pieces are put together, so that it can be held to the contract. */
export async function joined(reply: AnyReply, chunks: AsyncIterable<Chunk>): Promise<AnyReply> {
  return { ...reply, body: JSON.parse((await Array.fromAsync(chunks)).join('')) };
}

/** A reader who stops reading for as long as no stream may, or a failure on the way, cuts the answer off: so do too few bytes, or too many. */
export async function sendChunks(
  exchange: Exchange,
  reply: AnyReply,
  chunks: AsyncIterable<Chunk>,
  ports: Ports,
  strict: Strictness | null,
): Promise<void> {
  const { request, response } = exchange;
  const wire = toWire({ ...reply, body: '' });
  const violation = strict?.checkReply(exchange, wire) ?? null;
  if (violation !== null) throw new Error(`The answer breaks the contract: ${violation}`);
  response.statusCode = wire.status;
  setHeaders(exchange, wire.headers, ports);
  if (wire.type !== null) response.setHeader('Content-Type', wire.type);
  if (request.method === 'HEAD') {
    response.end();
    // What was opened to be read all the same is closed unread.
    if (chunks instanceof Readable) chunks.destroy();
    return;
  }
  response.setTimeout(ports.settings.stallSeconds * 1000, () => response.destroy());
  const length = response.getHeader('Content-Length');
  const pieces = length === undefined ? chunks : ofLength(chunks, Number(length));
  try {
    await pipeline(Readable.from(pieces, { objectMode: true, highWaterMark: 1 }), response);
  } catch (error) {
    if (!isDeparture(error))
      ports.log.error({ err: error, request_id: exchange.requestId }, 'failed after the answer had begun');
    response.destroy();
    if (chunks instanceof Readable) chunks.destroy();
  }
}

/** Whoever was told another length would wait for the rest, and take the next answer for it. */
async function* ofLength(chunks: AsyncIterable<Chunk>, length: number): AsyncGenerator<Chunk> {
  let sent = 0;
  for await (const chunk of chunks) {
    sent += Buffer.byteLength(chunk);
    if (sent > length) break;
    yield chunk;
  }
  if (sent !== length) throw new Error(`An answer of ${length} bytes came to ${sent} or more.`);
}

/** Whoever asked has gone, or was cut off. */
function isDeparture(error: unknown): boolean {
  return error instanceof Error && 'code' in error && departures.has(error.code);
}

/** While the answer went out, and before it began. */
const departures: ReadonlySet<unknown> = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ERR_STREAM_UNABLE_TO_PIPE']);
