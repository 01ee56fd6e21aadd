/** Where new files go, how large they may be, and how long they stay: what the operator sets, and what the environment says. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Knex } from 'knex';
import type { StorageSettings as Settings, StorageSettingsUpdate, StorageTest } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { etagOfContent, requireTag } from './etag.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { nameOfBucket, type S3Bucket, type Storages } from './storage/storage.ts';
import {
  defaultMaxFileBytes,
  type EnvironmentStorage,
  rowIdOf,
  type StorageMeans,
  type StorageOptions,
  type StoragePlaceRow,
  type StorageSettingsRow,
  settingsRow,
} from './storage/storages.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedStorageSettings {
  readonly settings: Settings;
  readonly etag: string;
}

/** For the operator alone, which the access table has checked. */
export interface StorageSettings {
  read(): Promise<TaggedStorageSettings>;
  /** Throws `set_by_environment`, `precondition_failed` or `invalid_request`. */
  update(operator: Reach, patch: StorageSettingsUpdate, ifMatch: string): Promise<TaggedStorageSettings>;
  /** Writes, reads and deletes. Throws `storage_test_failed`. */
  test(operator: Reach): Promise<StorageTest>;
}

interface Parts extends StoreParts {
  readonly storages: Storages;
  readonly options: StorageOptions;
}

interface Stored {
  readonly row: StorageSettingsRow | undefined;
  readonly place: StoragePlaceRow | undefined;
}

export function storageSettings(parts: Parts): StorageSettings {
  const { database, options } = parts;
  const environment = options.environment ?? null;
  return {
    read: () => database.read('installation', async (sql) => tagged(await stored(sql), environment)),
    async update(operator, patch, ifMatch) {
      if (environment) throw setByEnvironment();
      const means = await options.means();
      return database.write('installation', (sql) =>
        update(sql, { ...parts, means }, operator, { patch, ifMatch }),
      );
    },
    test: (operator) => test(parts, operator),
  };
}

async function stored(sql: Knex): Promise<Stored> {
  const row = await settingsRow(sql);
  const place = await placeNamed(sql, row?.place ?? null);
  return { row, place };
}

async function placeNamed(sql: Knex, place: string | null): Promise<StoragePlaceRow | undefined> {
  if (place === null) return undefined;
  return await sql<StoragePlaceRow>('storage_places').where({ place }).first();
}

async function update(
  sql: Knex.Transaction,
  { means, clock }: Parts & { readonly means: StorageMeans },
  operator: Reach,
  { patch, ifMatch }: { readonly patch: StorageSettingsUpdate; readonly ifMatch: string },
): Promise<TaggedStorageSettings> {
  // There is one row at most, and none to hold before the first change: the row of the installation is held instead.
  await sql('installation').where({ id: 1 }).forUpdate().first('id');
  const before = await stored(sql);
  const shown = tagged(before, null);
  requireTag(ifMatch, shown.etag);
  const backend = patch.backend ?? shown.settings.backend;
  const place = backend === 's3' ? await writePlace(sql, before.place, patch, means) : withoutBucket(patch);
  const row: StorageSettingsRow = {
    ...{ id: 1, backend, place },
    retention_days: patch.retention_days === undefined ? shown.settings.retention_days : patch.retention_days,
    max_file_bytes: patch.max_file_bytes ?? shown.settings.max_file_bytes,
    revision: (before.row?.revision ?? 0) + 1,
    updated_at: clock.now().getTime(),
  };
  await sql('storage_settings').insert(row).onConflict('id').merge();
  const after = tagged({ row, place: await placeNamed(sql, place) }, null);
  const target = { type: 'installation', id: null };
  recordAudit(sql, operator, {
    ...{ action: 'storage.update', target, organizationId: null },
    ...{ before: told(shown.settings), after: told(after.settings) },
  });
  return after;
}

/** What the audit log says of it: when it was changed stands there anyway. */
function told({ updated_at: _, ...settings }: Settings): Omit<Settings, 'updated_at'> {
  return settings;
}

/** Throws `invalid_request` where no bucket comes of the patch, or one that is not to be spoken to. */
async function writePlace(
  sql: Knex.Transaction,
  before: StoragePlaceRow | undefined,
  patch: StorageSettingsUpdate,
  means: StorageMeans,
): Promise<string> {
  const bucket = bucketOf(before, patch);
  const refusal = bucket.endpoint === null ? null : means.refusalOf(bucket.endpoint);
  if (refusal !== null) throw refused('/endpoint', refusal);
  const name = nameOfBucket(bucket);
  const known = await placeNamed(sql, name);
  const { endpoint, region, prefix, pathStyle } = bucket;
  await sql<StoragePlaceRow>('storage_places')
    .insert({
      ...{ place: name, endpoint, region, bucket: bucket.bucket, prefix, path_style: pathStyle },
      sealed_credentials: sealedCredentials(name, known, patch, means),
    })
    .onConflict('place')
    .merge();
  return name;
}

function bucketOf(before: StoragePlaceRow | undefined, patch: StorageSettingsUpdate): S3Bucket {
  const bucket = patch.bucket ?? before?.bucket;
  if (bucket === undefined) throw refused('/bucket', 'Name the bucket.');
  const endpoint = patch.endpoint === undefined ? (before?.endpoint ?? null) : patch.endpoint;
  const sameEndpoint = before !== undefined && endpoint === before.endpoint;
  return {
    endpoint,
    bucket,
    region: patch.region ?? before?.region ?? 'us-east-1',
    prefix: patch.prefix ?? before?.prefix ?? '',
    pathStyle: patch.path_style ?? (sameEndpoint ? Boolean(before.path_style) : endpoint !== null),
  };
}

/** Those of another bucket are never taken along: another endpoint would be shown what is not its own. */
function sealedCredentials(
  place: string,
  known: StoragePlaceRow | undefined,
  { access_key_id: accessKeyId, secret_access_key: secretAccessKey }: StorageSettingsUpdate,
  { seal }: StorageMeans,
): string {
  if (accessKeyId !== undefined && secretAccessKey !== undefined)
    return seal(JSON.stringify({ accessKeyId, secretAccessKey }), rowIdOf(place));
  if (accessKeyId !== undefined) throw refused('/secret_access_key', 'Send the secret of the key with it.');
  if (secretAccessKey !== undefined) throw refused('/access_key_id', 'Send the key of the secret with it.');
  if (!known) throw refused('/access_key_id', 'This bucket was not set before: send its key and secret.');
  return known.sealed_credentials;
}

const ofBuckets = [
  'endpoint',
  'region',
  'bucket',
  'prefix',
  'path_style',
  'access_key_id',
  'secret_access_key',
] as const;

function withoutBucket(patch: StorageSettingsUpdate): null {
  const given = ofBuckets.find((name) => patch[name] !== undefined && patch[name] !== null);
  if (given === undefined) return null;
  throw refused(`/${given}`, 'It counts with the backend s3 only; send `backend` with it.');
}

function refused(pointer: string, message: string): Problem {
  return new Problem('invalid_request', message, {
    errors: [{ in: 'body', pointer, message, code: 'storage' }],
  });
}

function setByEnvironment(): Problem {
  return new Problem(
    'set_by_environment',
    'STORAGE_URL says where files lie; change the variable, and start the server anew.',
  );
}

function tagged({ row, place }: Stored, environment: EnvironmentStorage | null): TaggedStorageSettings {
  const settings = environment ? ofEnvironment(environment, row) : ofRow(row, place);
  // Other credentials for the same bucket are a change, too.
  return { settings, etag: etagOfContent([settings, row?.revision]) };
}

function ofRow(row: StorageSettingsRow | undefined, place: StoragePlaceRow | undefined): Settings {
  return {
    backend: row?.backend ?? 'fs',
    source: row ? 'setting' : 'default',
    endpoint: place?.endpoint ?? null,
    region: place?.region ?? null,
    bucket: place?.bucket ?? null,
    prefix: place?.prefix ?? null,
    path_style: place ? Boolean(place.path_style) : null,
    credentials_set: place !== undefined,
    retention_days: row?.retention_days ?? null,
    max_file_bytes: Number(row?.max_file_bytes ?? defaultMaxFileBytes),
    updated_at: row ? timestamp(row.updated_at) : null,
  };
}

function ofEnvironment(environment: EnvironmentStorage, row: StorageSettingsRow | undefined): Settings {
  const { endpoint, region, bucket, prefix, pathStyle, credentials } = environment;
  return {
    ...{ backend: 's3', source: 'environment', endpoint, region, bucket, prefix, path_style: pathStyle },
    credentials_set: credentials !== null,
    retention_days: environment.retentionDays,
    max_file_bytes: environment.maxFileBytes ?? defaultMaxFileBytes,
    updated_at: row ? timestamp(row.updated_at) : null,
  };
}

/** As files are written: its row tells of the object, whatever becomes of this process. */
async function test({ database, storages, options, clock }: Parts, operator: Reach): Promise<StorageTest> {
  const key = newId('storedObject');
  const bytes = randomBytes(1024);
  const began = performance.now();
  try {
    const { storage, backend, place } = await storages.current();
    const own = { organization_id: '', workspace_id: '', user_id: operator.userId, api_key_id: null };
    const expires_at = clock.now().getTime() + probeMs;
    await database.write('installation', (sql) =>
      sql('stored_objects').insert({
        ...{ ...own, key, backend, place, state: 'uploading', sha256: null, size: 0, expires_at },
      }),
    );
    await storage.write(key, Readable.from([bytes]));
    if (!(await buffer(await storage.read(key))).equals(bytes)) throw new Error('other bytes came back');
    await storage.delete(key);
    await database.write('installation', (sql) => sql('stored_objects').where({ key }).delete());
    return { ok: true, backend, latency_ms: Math.round(performance.now() - began) };
  } catch (error) {
    if (error instanceof Problem && error.code !== 'storage_unavailable') throw error;
    throw new Problem(
      'storage_test_failed',
      `The storage cannot be used: ${reasonOf(error, await options.means())} Mend its settings, or the storage, then test it again.`,
      { cause: error },
    );
  }
}

/** What a test has left is swept after this. */
const probeMs = 600_000;

/** The name that S3 gives the fault; of what never came so far, the word of the guard. */
function reasonOf(error: unknown, { sentence }: StorageMeans): string {
  for (let at = error; at instanceof Error; at = at.cause)
    if ('$metadata' in at && 'httpStatusCode' in Object(at.$metadata)) return `${at.name}.`;
  const problem = error instanceof Problem && error.cause === undefined;
  return problem ? error.message : sentence(error);
}
