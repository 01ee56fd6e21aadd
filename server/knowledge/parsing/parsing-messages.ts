/** What the server and the processes that read documents for it say to each other. */
import type { Chunking, IngestionErrorCode } from '../../contract/api.ts';
import type { Chunk } from '../chunk.ts';
import type { DocumentClaims } from './parse-names.ts';
import type { ParsedDocument } from './parsed-document.ts';

/** The bytes come first, in pieces; then what to do with them. */
export type ParsingRequest =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'parse'; readonly claims: DocumentClaims; readonly chunking: Chunking | null }
  | { readonly kind: 'chunk'; readonly document: ParsedDocument; readonly chunking: Chunking };

/** What came of it, and what the process has used of its processor since it was started. */
export type ParsingAnswer = ParsingOutcome & { readonly cpuMs: number };

export type ParsingOutcome =
  | { readonly kind: 'done'; readonly document: ParsedDocument; readonly chunks: Chunk[] }
  | { readonly kind: 'refused'; readonly code: IngestionErrorCode; readonly message: string }
  | { readonly kind: 'failed'; readonly message: string };
