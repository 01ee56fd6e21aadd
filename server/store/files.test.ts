/** Files that have been kept long enough, bytes that nobody needs, and bytes that were lost: on both engines. */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createLog } from '../log.ts';
import { createCursors } from './cursor.ts';
import type { Database } from './database.ts';
import { fileRepository } from './files.ts';
import { heldTransaction, joinsHeld } from './held-transaction.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import { objectPath } from './storage/disk.ts';
import { nameOfBucket, type Storage } from './storage/storage.ts';
import { type StorageOptions, storagesOf } from './storage/storages.ts';
import { openStore, type Reach, type Store } from './store.ts';
import type { ObjectRow } from './stored-objects.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('What becomes of stored bytes: a sweep', (_store, engine) => {
  const dayMs = 86_400_000;
  const log = createLog('silent');
  let folder: string;
  let storage: StorageOptions;
  /** With a folder for its files. */
  let store: Store;
  let database: Database;
  let ada: Reach;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-files-'));
    storage = { directory: folder, means: () => Promise.reject(new Error('There is no bucket here.')) };
    store = await openStore(engine.url(), { clock: engine.clock, log, storage });
    const [url, file] = [engine.url(), engine.url().slice('sqlite:'.length)];
    database = engine.dialect === 'sqlite' ? openSqlite(file, log) : openPostgres(url, log);
    ada = await newAccount(store, 'Ada');
  });
  afterAll(async () => {
    await store.close();
    await database.close();
    await rm(folder, { recursive: true });
  });

  const soon = () => new Date(engine.clock.now().getTime() + 3_600_000);

  /** Objects that nobody needs: where no place is named, on disk. */
  async function leave(count: number, prefix: string, place: string | null): Promise<void> {
    const [workspace] = ada.workspaces;
    const rows = Array.from(
      { length: count },
      (_, at): ObjectRow => ({
        ...{ key: `${prefix}_${at}`, organization_id: workspace?.organizationId ?? '' },
        ...{ workspace_id: workspace?.id ?? '', user_id: ada.userId, api_key_id: null },
        ...{ backend: place === null ? 'fs' : 's3', place, state: 'leaving', sha256: null, size: 1 },
        expires_at: engine.clock.now().getTime(),
      }),
    );
    for (let at = 0; at < count; at += 50)
      await engine
        .sql()('stored_objects')
        .insert(rows.slice(at, at + 50));
  }

  const left = (prefix: string) =>
    engine.sql()('stored_objects').where('key', 'like', `${prefix}_%`).orderBy('key').pluck('key');

  it('goes on where a storage does not answer, with what lies in others', async () => {
    await leave(1001, 'away', 's3://gone');
    engine.clock.advance(1);
    await leave(1, 'disk', null);
    expect(await store.files.sweep(soon())).toBe(1);
    expect(await left('disk')).toEqual([]);
    expect(await left('away')).toHaveLength(1001);
    await engine.sql()('stored_objects').whereNotNull('expires_at').delete();
  });

  it('begins with others than those that could not be deleted the last time', async () => {
    await leave(11, 'late', 's3://gone');
    const late = soon();
    await store.files.sweep(late);
    const sql = engine.sql();
    const inTurn = await sql('stored_objects').where('key', 'like', 'late_%').orderBy('expires_at').select();
    expect(inTurn.map(({ expires_at }) => Number(expires_at) > late.getTime())).toEqual([
      ...[false],
      ...Array(10).fill(true),
    ]);
    // The next one comes within an hour and tries all of them again.
    const next = late.getTime() + 3_600_000;
    expect(inTurn.every(({ expires_at }) => Number(expires_at) < next)).toBe(true);
    await sql('stored_objects').whereNotNull('expires_at').delete();
  });

  async function upload(bytes: string): Promise<string> {
    const content = (async function* () {
      yield Buffer.from(bytes);
    })();
    const input = { filename: 'a.txt', purpose: 'general' as const, metadata: {}, content };
    const received = await store.files.receive(ada, { ...input, apiKeyId: null, mostBytes: null });
    const { file } = await received.keep();
    await received.leave();
    return file.id;
  }

  it('leaves an upload as it was that nobody confirms once its bytes are read', async () => {
    const sha256 = createHash('sha256').update('bytes').digest('hex');
    const { upload } = await store.fileUploads.create(ada, { filename: 'b.txt', size: 5, sha256 }, null);
    const content = (async function* () {
      yield Buffer.from('bytes');
    })();
    await store.fileUploads.append(ada, upload.id, { offset: 0, mostBytes: 5, content });
    const before = await engine.sql()('files').pluck('id');
    const refused = store.fileUploads.complete(ada, upload.id, () =>
      Promise.reject(new Error('not any more')),
    );
    await expect(refused).rejects.toThrow('not any more');
    expect(await engine.sql()('files').pluck('id')).toEqual(before);
    const { file } = await store.fileUploads.complete(ada, upload.id);
    expect(file).toMatchObject({ filename: 'b.txt', sha256 });
    await store.files.delete(ada, file.id, false);
  });

  it('makes files of many uploads at once over few connections', async () => {
    const few = await openStore(engine.url(), { clock: engine.clock, log, storage, connections: 2 });
    const begun = ['one', 'two', 'three', 'four'].map(async (bytes) => {
      const content = Readable.from([Buffer.from(bytes)]);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      const about = { filename: bytes, size: bytes.length, sha256 };
      const { upload } = await store.fileUploads.create(ada, about, null);
      await store.fileUploads.append(ada, upload.id, { offset: 0, mostBytes: bytes.length, content });
      return upload.id;
    });
    const ids = await Promise.all(begun);
    const made = await Promise.all(ids.map((id) => few.fileUploads.complete(ada, id)));
    expect(made.map(({ file }) => file.filename)).toEqual(['one', 'two', 'three', 'four']);
    for (const { file } of made) await few.files.delete(ada, file.id, false);
    await few.close();
  });

  it('takes bytes that were lost, once some come again: all files of them have the new ones', async () => {
    const [one, two] = [await upload('precious'), await upload('precious')];
    const [lost, ...others] = await keysOf([one, two]);
    expect(others).toEqual([]);
    await rm(objectPath(folder, lost ?? ''));
    await expect(store.files.read(one)).rejects.toMatchObject({ code: 'storage_unavailable' });
    // Several at once, of which one takes the place of what is lost.
    const again = await Promise.all(Array.from({ length: 4 }, () => upload('precious')));
    const keys = await keysOf([one, two, ...again]);
    expect(keys).toHaveLength(1);
    expect(keys).not.toEqual([lost]);
    for (const id of [one, ...again]) expect(await text(await store.files.read(id))).toBe('precious');
    await store.files.sweep(soon());
    expect(await engine.sql()('stored_objects').pluck('key')).toEqual(keys);
    for (const id of [one, two, ...again]) await store.files.delete(ada, id, false);
  });

  /** A file by a keyed request, over a storage that is asked for sizes like this. */
  async function received(bytes: string, sizeOf: Storage['sizeOf']) {
    const storages = storagesOf(database, storage);
    const files = fileRepository({
      ...{ clock: engine.clock, cursors: createCursors(''), log, database: joinsHeld(database) },
      storages: { ...storages, of: async (place) => ({ ...(await storages.of(place)), sizeOf }) },
    });
    const input = { filename: 'a.txt', purpose: 'general' as const, metadata: {}, apiKeyId: null };
    const content = Readable.from([Buffer.from(bytes)]);
    const received = await files.receive(ada, { ...input, mostBytes: null, content });
    return async (): Promise<string> => {
      const request = { principalId: ada.userId, userId: ada.userId, key: bytes, fingerprint: 'f' };
      let id = '';
      const keep = async () => {
        id = (await received.keep()).file.id;
      };
      await store.keptRequests.once(request, keep, () => null);
      await received.leave();
      return id;
    };
  }

  it('asks for bytes that it may have before whoever keeps the file has begun to write', async () => {
    const first = await upload('twice');
    const asked: unknown[] = [];
    const keep = await received('twice', async () => {
      asked.push(heldTransaction());
      return 'twice'.length;
    });
    const again = await keep();
    expect(asked).toEqual([null]);
    expect(await keysOf([first, again])).toHaveLength(1);
    for (const id of [first, again]) await store.files.delete(ada, id, false);
  });

  it('takes the place of bytes that were kept meanwhile, where their storage says nothing to whoever holds up others', async () => {
    const keep = await received('meanwhile', async (_key, signal) => {
      await sleep(20_000, undefined, { signal });
      return 'meanwhile'.length;
    });
    const first = await upload('meanwhile');
    const [kept] = await keysOf([first]);
    const began = performance.now();
    const second = await keep();
    expect(performance.now() - began).toBeLessThan(10_000);
    const keys = await keysOf([first, second]);
    expect(keys).toHaveLength(1);
    expect(keys).not.toContain(kept);
    expect(await text(await store.files.read(first))).toBe('meanwhile');
    await store.files.sweep(soon());
    for (const id of [first, second]) await store.files.delete(ada, id, false);
  });

  const keysOf = (ids: readonly string[]): Promise<string[]> =>
    engine.sql()('files').whereIn('id', ids).distinct('object_key').pluck('object_key');

  it('has the bucket of the environment once it can be opened, also where it could not at first', async () => {
    const means = vi.fn<StorageOptions['means']>();
    means.mockRejectedValueOnce(new Error('Too many files are open.'));
    means.mockResolvedValue({
      fetch: { environment: fetch, setting: fetch },
      ...{ unseal: String, seal: String, refusalOf: () => null, sentence: String },
    });
    const bucket = {
      endpoint: 'http://localhost:1',
      region: 'r',
      bucket: 'files',
      prefix: '',
      pathStyle: true,
    };
    const environment = { ...bucket, credentials: null, maxFileBytes: null, retentionDays: null };
    const storages = storagesOf(database, { environment, means });
    const place = { backend: 's3' as const, place: nameOfBucket(bucket) };
    await expect(storages.of(place)).rejects.toThrow('Too many files');
    const opened = await storages.of(place);
    expect(await storages.of(place)).toBe(opened);
    expect(means).toHaveBeenCalledTimes(2);
  });

  it('leaves a file that is added to a corpus after it was found to be due', async () => {
    const sql = engine.sql();
    await sql('storage_settings').insert({
      ...{ id: 1, backend: 'fs', place: null, retention_days: 1, max_file_bytes: 1000 },
      ...{ revision: 1, updated_at: 0 },
    });
    const { corpus } = await store.corpora.create(ada, { name: 'Library' });
    const [gone, kept] = [await upload('gone'), await upload('kept')];
    let added: Promise<unknown> | undefined;
    const files = fileRepository({
      ...{ clock: engine.clock, cursors: createCursors(''), log, storages: storagesOf(database, storage) },
      database: {
        ...database,
        async write(scope, work) {
          added ??= store.ingestionJobs.add(ada, corpus.id, { file_ids: [kept] }, null);
          await added;
          return database.write(scope, work);
        },
      },
    });
    expect(await files.expire(new Date(engine.clock.now().getTime() + 2 * dayMs))).toBe(1);
    expect(await sql('files').whereIn('id', [gone, kept]).pluck('id')).toEqual([kept]);
    expect(await sql('documents').where({ corpus_id: corpus.id }).pluck('file_id')).toEqual([kept]);
  });
});
