/** Where the bytes of files lie: what every storage can do, whichever it is. */
import type { Readable } from 'node:stream';

export type Backend = 'fs' | 's3';

/** A part of an object: the first byte and the last one, both of them included. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Objects by key. A key is written once, and never again: what is read under it is always the same. */
export interface Storage {
  readonly backend: Backend;
  /**
   * Resolves once the bytes last; until then nobody reads any of them. What a failure leaves is taken away by `delete`.
   */
  write(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  /** Throws `storage_unavailable` before the first byte where there is no such object. */
  read(key: string, range?: ByteRange): Promise<Readable>;
  /** Does nothing where there is none; takes away what an interrupted `write` has left, too. */
  delete(key: string): Promise<void>;
}

/** The folders, or the prefix, that a key lies under: its end is random, so that no folder grows long. */
export function placeOf(key: string): string {
  return `${key.slice(-2)}/${key.slice(-4, -2)}/${key}`;
}

/** The storage that new objects go to, and those that have the others. */
export interface Storages {
  current(): Promise<{ readonly storage: Storage; readonly maxFileBytes: number }>;
  /** Throws `storage_unavailable` where it is not set up any more. */
  of(backend: Backend): Promise<Storage>;
}
