/** What the ingestion of documents needs of the rest of the server. */
import type { Chunking, IngestionError, IngestionItem } from '../contract/api.ts';
import type { Chunk } from './chunk.ts';

/** A document that this process takes in. */
export interface IngestedItem {
  readonly jobId: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly corpusId: string;
  readonly documentId: string;
  readonly generation: number;
  readonly attempts: number;
  readonly source:
    | { readonly kind: 'file'; readonly fileId: string | null }
    | { readonly kind: 'url'; readonly url: string }
    | { readonly kind: 'text'; readonly text: Uint8Array };
  readonly chunking: Chunking;
}

export interface SeenWorker {
  readonly owner: string;
  readonly renewals: number;
}

/** Whatever is done for an item that is the process's no more throws an error named `LeaseLost`. */
export interface IngestionRecords<Item extends IngestedItem> {
  claim(worker: string): Promise<Item | null>;
  vectorsOf(item: Item): Promise<{ readonly embedder: string | null; readonly empty: boolean }>;
  reach(item: Item, stage: IngestionItem['stage']): Promise<void>;
  publish(
    item: Item,
    found: {
      readonly textId: string;
      readonly mediaType: string;
      readonly bytes: number;
      readonly sha256: string;
      readonly characters: number;
      readonly chunks: number;
      readonly embedder: string | null;
    },
  ): Promise<void>;
  fail(item: Item, error: IngestionError, again: Date | null): Promise<void>;
  giveBack(item: Item): Promise<void>;
  free(worker: string, except: readonly Item[]): Promise<void>;
  lost(items: readonly Item[]): Promise<readonly Item[]>;
  renew(worker: string): Promise<boolean>;
  workers(): Promise<SeenWorker[]>;
  bury(seen: SeenWorker): Promise<number>;
}

export interface KeptTexts {
  find(bytes: ReadBytes): Promise<string | null>;
  read<Content>(id: string): Promise<Content | null>;
  keep(bytes: ReadBytes, content: object, characters: number): Promise<string>;
}

export interface ReadBytes {
  readonly organizationId: string;
  readonly sha256: string;
  readonly parser: string;
}

export interface StagedChunks {
  embedded(
    document: { readonly documentId: string; readonly generation: number },
    chunks: readonly Chunk[],
    embedder: string,
  ): Promise<(Float32Array | null)[]>;
  stage(
    owner: { readonly organizationId: string; readonly workspaceId: string },
    document: { readonly corpusId: string; readonly documentId: string; readonly generation: number },
    chunks: readonly Chunk[],
    vectors: { readonly embedder: string; readonly vectors: readonly (Float32Array | null)[] } | null,
  ): Promise<void>;
}

/** A file as it is stored. */
export interface FoundFile {
  readonly filename: string;
  readonly size: number;
  readonly sha256: string;
  read(): Promise<AsyncIterable<Uint8Array>>;
}
