/** Where the bytes of a document come from: a stored file, an address that is fetched within limits, or a given text. */
import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import { OutboundError, type OutboundFetch, outboundSentence } from '../outbound/outbound.ts';
import { charsetOf } from '../text-encoding.ts';
import type { FoundFile, IngestedItem } from './ingestion-ports.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import type { DocumentClaims } from './parsing/parse-names.ts';

export interface SourceBytes extends DocumentClaims {
  readonly size: number;
  readonly sha256: string;
  /** Opened with the first of them. */
  read(): AsyncIterable<Uint8Array>;
}

export interface SourceOptions {
  /** Null where the file, or its bytes, are gone. */
  readonly file: (id: string) => Promise<FoundFile | null>;
  /** Guarded and bounded. */
  readonly fetch: OutboundFetch;
}

/** What may be gone or better in a moment. */
export class PassingFailure extends ParseFailure {}

/** Throws `ParseFailure`. */
export async function openSource(
  { source }: Pick<IngestedItem, 'source'>,
  { file, fetch }: SourceOptions,
  signal: AbortSignal,
): Promise<SourceBytes> {
  if (source.kind === 'text') return ofBytes(source.text, { name: 'text.md', charset: 'utf-8' });
  if (source.kind === 'url') return fetched(source.url, fetch, signal);
  const found = source.fileId === null ? null : await file(source.fileId);
  if (!found)
    throw new ParseFailure(
      'file_missing',
      'The file was deleted; upload it again, and add it to the corpus.',
    );
  return { ...found, name: found.filename, charset: null, read: () => contentOf(found) };
}

/** Opened once there is a process that reads it: a storage gives up who takes nothing for long. */
export async function* contentOf(found: FoundFile): AsyncGenerator<Uint8Array> {
  yield* await found.read();
}

function ofBytes(bytes: Uint8Array, claims: DocumentClaims): SourceBytes {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { ...claims, size: bytes.length, sha256, read: () => pieces(bytes) };
}

const pieceBytes = 1024 * 1024;

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

async function fetched(url: string, fetch: OutboundFetch, signal: AbortSignal): Promise<SourceBytes> {
  try {
    const response = await fetch(url, {
      signal,
      headers: { accept: 'text/html, application/pdf, text/*, */*;q=0.5' },
    });
    if (!response.ok) throw refused(url, response.status);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const type = response.headers.get('content-type') ?? '';
    return ofBytes(bytes, { name: nameOf(response.url || url, type), charset: charsetOf(type) });
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ParseFailure) throw error;
    throw failureOf(url, error);
  }
}

function refused(url: string, status: number): ParseFailure {
  const message = `${hostOf(url)} answered with status ${status}; look at the address.`;
  const isPassing = status >= 500 || status === 429 || status === 408;
  return isPassing ? new PassingFailure('fetch_failed', message) : new ParseFailure('fetch_failed', message);
}

function failureOf(url: string, error: unknown): ParseFailure {
  const code = guardCodeOf(error);
  const why = outboundSentence(error);
  if (code === 'answer_too_large') return new ParseFailure('too_large', `${why} Upload it as a file.`, error);
  if (code?.endsWith('refused')) return new ParseFailure('fetch_refused', why, error);
  return new PassingFailure(
    'fetch_failed',
    `${hostOf(url)}: ${why} Look at the address, then retry the job.`,
    error,
  );
}

/** The guard's own error stands somewhere within what the HTTP client made of it. */
function guardCodeOf(error: unknown): OutboundError['code'] | null {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof OutboundError) return at.code;
  return null;
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'The address';
}

/** The ending of a path tells kinds of text apart, and so does the type that the answer claims. */
function nameOf(url: string, type: string): string {
  const { pathname } = new URL(url);
  if (/^\s*(text\/html|application\/xhtml)/i.test(type)) return 'page.html';
  if (/^\s*text\/markdown/i.test(type)) return 'page.md';
  if (/^\s*text\/csv/i.test(type)) return 'page.csv';
  return `page${extname(pathname)}`;
}
