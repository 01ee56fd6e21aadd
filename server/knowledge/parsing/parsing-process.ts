/** A process that reads documents for the server: what hangs or takes too much memory in here is killed, and nothing else. */
import { chunk } from '../chunking/chunking.ts';
import { parse } from './parse.ts';
import { ParseFailure } from './parse-failure.ts';
import type { ParsingAnswer, ParsingOutcome, ParsingRequest } from './parsing-messages.ts';

// What ends the server reaches its whole group, or all that a unit of systemd has; what is being read is still waited for.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);

let pieces: Uint8Array[] = [];

process.on('message', (request: ParsingRequest) => {
  if (request.kind === 'bytes') {
    pieces.push(request.bytes);
    return;
  }
  const bytes = joined(pieces);
  pieces = [];
  void answerOf(request, bytes)
    .catch(failed)
    .then((outcome) => process.send?.({ ...outcome, cpuMs: usedMs() } satisfies ParsingAnswer));
});

/** No Buffer: the reader of PDF refuses those, as it takes their memory for its own. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function answerOf(
  request: Exclude<ParsingRequest, { kind: 'bytes' }>,
  bytes: Uint8Array,
): Promise<ParsingOutcome> {
  const document = request.kind === 'chunk' ? request.document : await parse(bytes, request.claims);
  const { chunking } = request;
  return { kind: 'done', document, chunks: chunking ? chunk(document, chunking) : [] };
}

/** A parser that stumbles over a file has a fault of its own, or the file has: nobody can tell them apart. */
function failed(error: unknown): ParsingOutcome {
  if (error instanceof ParseFailure) return { kind: 'refused', code: error.code, message: error.message };
  return { kind: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
