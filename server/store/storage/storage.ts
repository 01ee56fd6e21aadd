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
  /**
   * Throws `storage_unavailable` before the first byte where there is no such object, or one that has not the size that it
   * is known to have. With the signal its reader leaves: nothing is waited for any more, before the first byte or behind it.
   */
  read(key: string, range?: ByteRange, size?: number, signal?: AbortSignal): Promise<Readable>;
  /** Null where there is no such object. Throws where nobody can tell, or the signal comes before the answer. */
  sizeOf(key: string, signal?: AbortSignal): Promise<number | null>;
  /** Does nothing where there is none; takes away what an interrupted `write` has left, too. */
  delete(key: string): Promise<void>;
  /** Resolves where the storage is there for this server; throws `storage_unavailable` where it is not. */
  ping(signal: AbortSignal): Promise<void>;
}

/** Where an object lies. */
export interface ObjectPlace {
  readonly backend: Backend;
  /** Which bucket; null on disk. */
  readonly place: string | null;
}

/** A bucket of an S3 storage, and the part of it that is ours. */
export interface S3Bucket {
  /** Null for AWS, whose endpoint follows from the region. */
  readonly endpoint: string | null;
  readonly region: string;
  readonly bucket: string;
  /** What all keys begin with, without a slash at either end; empty where the whole bucket is ours. */
  readonly prefix: string;
  /** Whether the bucket stands in the path, rather than in the name of the host. */
  readonly pathStyle: boolean;
}

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** The folders, or the prefix, that a key lies under: its end is random, so that no folder grows long. */
export function placeOf(key: string): string {
  return `${key.slice(-2)}/${key.slice(-4, -2)}/${key}`;
}

/** Endpoint, bucket and prefix: what was written there is found there, whatever else of the settings has changed. */
export function nameOfBucket({ endpoint, region, bucket, prefix }: S3Bucket): string {
  return [endpoint ?? `https://s3.${region}.amazonaws.com`, bucket, prefix].filter(Boolean).join('/');
}

/** The storage that new objects go to. */
export interface CurrentStorage extends ObjectPlace {
  readonly storage: Storage;
  readonly maxFileBytes: number;
}

/** The storage that new objects go to, and those that have the others. */
export interface Storages {
  /** The folder of those on this disk; null where none are kept there. */
  readonly folder: string | null;
  current(): Promise<CurrentStorage>;
  /** After so many days files go; null where they stay. */
  retentionDays(): Promise<number | null>;
  /** Throws `storage_unavailable` where it is not set up any more. */
  of(where: ObjectPlace): Promise<Storage>;
}
