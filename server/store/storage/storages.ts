/** The storages of an installation: which one takes new files, and which have the old ones. */
import type { Knex } from 'knex';
import { loadedOnce } from '../../loaded-once.ts';
import { Problem } from '../../problem.ts';
import type { Database } from '../database.ts';
import { diskStorage } from './disk.ts';
import type { Fetch } from './s3-client.ts';
import {
  type Backend,
  nameOfBucket,
  type ObjectPlace,
  type S3Bucket,
  type S3Credentials,
  type Storage,
  type Storages,
} from './storage.ts';

/** As long as nobody has set another limit. */
export const defaultMaxFileBytes = 100 * 1024 * 1024;

export interface StorageOptions {
  /** The folder for files on this disk; absent, none can be kept there. */
  readonly directory?: string | undefined;
  /** The bucket that the environment names: new files go there, whatever the settings say. */
  readonly environment?: EnvironmentStorage | null | undefined;
  /** Asked for when a bucket is first needed: they come after the database. */
  readonly means: () => Promise<StorageMeans>;
}

/** What buckets are reached with. */
export interface StorageMeans {
  /** Outgoing requests, by whose word they go out. */
  readonly fetch: { readonly environment: Fetch; readonly setting: Fetch };
  /** Opens what the settings have sealed for a row. */
  readonly unseal: (sealed: string, rowId: string) => string;
  readonly seal: (secret: string, rowId: string) => string;
  /** Why an endpoint of the settings is not spoken to; null where it is. */
  readonly refusalOf: (url: string) => string | null;
  /** What went wrong with a request, in words for whoever named the endpoint. */
  readonly sentence: (error: unknown) => string;
}

export interface EnvironmentStorage extends S3Bucket {
  /** Null for what the machine itself has been given. */
  readonly credentials: S3Credentials | null;
  readonly maxFileBytes: number | null;
  readonly retentionDays: number | null;
}

/** A bucket that the settings have named once. */
export interface StoragePlaceRow {
  place: string;
  endpoint: string | null;
  region: string;
  bucket: string;
  prefix: string;
  path_style: boolean;
  /** JSON with `accessKeyId` and `secretAccessKey`. */
  sealed_credentials: string;
}

export interface StorageSettingsRow {
  id: 1;
  backend: Backend;
  place: string | null;
  retention_days: number | null;
  max_file_bytes: number;
  revision: number;
  updated_at: number;
}

/** Asked for at each upload and download, so that what one node has changed counts on all of them at once. */
export function storagesOf(database: Database, options: StorageOptions): Storages {
  const { environment = null } = options;
  const disk = options.directory === undefined ? null : diskStorage(options.directory);
  const ofEnvironment = environment && {
    name: nameOfBucket(environment),
    storage: loadedOnce(async () =>
      openS3(environment, environment.credentials, (await options.means()).fetch.environment),
    ),
  };
  const opened = new Map<string, { readonly mark: string; readonly storage: Promise<Storage> }>();
  const ofSetting = async (row: StoragePlaceRow): Promise<Storage> => {
    const mark = JSON.stringify(row);
    const known = opened.get(row.place);
    if (known?.mark === mark) return known.storage;
    const storage = openPlace(row, options);
    opened.set(row.place, { mark, storage });
    // What could not be opened is tried again.
    storage.catch(() => opened.delete(row.place));
    return storage;
  };
  const of = async ({ backend, place }: ObjectPlace): Promise<Storage> => {
    if (backend === 'fs' && disk) return disk;
    if (ofEnvironment?.name === place) return ofEnvironment.storage();
    const row =
      place === null ? undefined : await database.read('installation', (sql) => placeRow(sql, place));
    if (row) return ofSetting(row);
    throw new Problem(
      'storage_unavailable',
      'The storage of this file is not set up here; tell the operator.',
    );
  };
  return {
    folder: options.directory ?? null,
    of,
    async retentionDays() {
      if (environment) return environment.retentionDays;
      return (await database.read('installation', settingsRow))?.retention_days ?? null;
    },
    async current() {
      const row = await database.read('installation', settingsRow);
      const maxFileBytes = Number(row?.max_file_bytes ?? defaultMaxFileBytes);
      const { backend, place } = row ?? { backend: 'fs' as const, place: null };
      if (!ofEnvironment) return { backend, place, maxFileBytes, storage: await of({ backend, place }) };
      return {
        ...{ backend: 's3', place: ofEnvironment.name, storage: await ofEnvironment.storage() },
        maxFileBytes: environment?.maxFileBytes ?? defaultMaxFileBytes,
      };
    },
  };
}

export async function settingsRow(sql: Knex): Promise<StorageSettingsRow | undefined> {
  return await sql<StorageSettingsRow>('storage_settings').where({ id: 1 }).first();
}

async function placeRow(sql: Knex, place: string): Promise<StoragePlaceRow | undefined> {
  return await sql<StoragePlaceRow>('storage_places').where({ place }).first();
}

/** What a sealed secret is bound to. */
export function rowIdOf(place: string): string {
  return `storage_places/${place}`;
}

async function openPlace(row: StoragePlaceRow, { means }: StorageOptions): Promise<Storage> {
  const { endpoint, region, bucket, prefix } = row;
  const { unseal, fetch } = await means();
  const credentials: S3Credentials = JSON.parse(unseal(row.sealed_credentials, rowIdOf(row.place)));
  return openS3(
    { endpoint, region, bucket, prefix, pathStyle: Boolean(row.path_style) },
    credentials,
    fetch.setting,
  );
}

/** The client of S3 is large, and loaded where there is a bucket. */
async function openS3(bucket: S3Bucket, credentials: S3Credentials | null, fetch: Fetch): Promise<Storage> {
  const { s3Storage } = await import('./s3.ts');
  return s3Storage(bucket, credentials, fetch);
}
