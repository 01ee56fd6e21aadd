/** Commits that nobody has heard of: what the database has kept stands, whoever thinks that it failed. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../clock.ts';
import { createLog } from '../log.ts';
import { writesAudit } from './audit.ts';
import { createCursors } from './cursor.ts';
import type { Database } from './database.ts';
import type { FileParts } from './discard-objects.ts';
import { fileUploadRepository } from './file-uploads.ts';
import { fileRepository } from './files.ts';
import { openPostgres } from './postgres.ts';
import type { Reach } from './reach.ts';
import { sessionHistory } from './session-history.ts';
import { openSqlite } from './sqlite.ts';
import { diskStorage } from './storage/disk.ts';
import { beginRun, endRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';
import { tellsWorkspaces } from './workspace-events.ts';

describeStores('Files', (store, engine) => {
  const log = createLog('silent');
  let folder: string;
  let database: Database;
  let parts: FileParts;
  let ada: Reach;
  /** How many commits from now on the answer is lost of one: as if the line to the database broke; 0 for none. */
  let losesIn = 0;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'service-lost-'));
    const open = { sqlite: () => openSqlite(engine.url().slice('sqlite:'.length), log) };
    database = engine.dialect === 'sqlite' ? open.sqlite() : openPostgres(engine.url(), log);
    ada = await newAccount(store(), 'Ada');
    const losing: Database = {
      ...database,
      async write(scope, work) {
        const answer = await database.write(scope, work);
        losesIn -= 1;
        if (losesIn === 0) throw new Error('Connection terminated unexpectedly');
        return answer;
      },
    };
    const storage = diskStorage(folder);
    const current = { storage, backend: 'fs', place: null, maxFileBytes: 1000 } as const;
    parts = {
      ...{ database: tellsWorkspaces(writesAudit(losing, systemClock)), clock: systemClock, log },
      cursors: createCursors('x'.repeat(32)),
      storages: {
        folder,
        current: async () => current,
        of: async () => storage,
        retentionDays: async () => null,
      },
    };
  });
  afterAll(async () => {
    await database.close();
    await rm(folder, { recursive: true });
  });

  const bytesOf = async (key: string) => text(await diskStorage(folder).read(key));

  it('a file that was made all the same has its bytes', async () => {
    const received = await fileRepository(parts).receive(ada, {
      ...{ filename: 'a.txt', purpose: 'general', metadata: {}, apiKeyId: null, mostBytes: 5 },
      content: Readable.from([Buffer.from('bytes')]),
    });
    losesIn = 1;
    await expect(received.keep()).rejects.toThrow('Connection terminated');
    await received.leave();
    const [key]: string[] = await engine.sql()('files').where({ user_id: ada.userId }).pluck('object_key');
    expect(await bytesOf(key ?? '')).toBe('bytes');
  });

  it('a session that goes back all the same says so, to whoever is left to put its files back', async () => {
    const session = await beginRun(store(), ada);
    await endRun(store(), session);
    const [prompt] = await store().transcript.readMessages(session.sessionId);
    const history = sessionHistory(parts);
    const plan = await history.planRevert(ada, session.sessionId, prompt?.id ?? '');
    const isReverted = () => history.isReverted(ada, plan.sessionId, plan.messageId);
    expect(await isReverted()).toBe(false);
    losesIn = 1;
    await expect(history.revert(ada, plan, true, async () => undefined)).rejects.toThrow('terminated');
    expect(await isReverted()).toBe(true);
  });

  it('whoever asks whether a session has gone back waits for the one that is about to', async () => {
    const session = await beginRun(store(), ada);
    await endRun(store(), session);
    const [prompt] = await store().transcript.readMessages(session.sessionId);
    const { history } = store();
    const plan = await history.planRevert(ada, session.sessionId, prompt?.id ?? '');
    const other = sessionHistory(parts);
    let asked: Promise<boolean> = Promise.resolve(false);
    await history.revert(ada, plan, true, async () => {
      asked = other.isReverted(ada, plan.sessionId, plan.messageId);
      await sleep(200);
    });
    expect(await asked).toBe(true);
  });

  it('a part of an upload that counts all the same has its bytes, and the file is made of it', async () => {
    const uploads = fileUploadRepository(parts);
    const sha256 = '277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9';
    const { upload } = await uploads.create(ada, { filename: 'b.txt', size: 5, sha256 }, null);
    const append = (offset: number) =>
      uploads.append(ada, upload.id, {
        ...{ offset, mostBytes: 5, content: Readable.from([Buffer.from('bytes')]) },
      });
    // It is found, its row is made, and it is added.
    losesIn = 3;
    await expect(append(0)).rejects.toThrow('Connection terminated');
    await expect(append(0)).rejects.toMatchObject({ code: 'upload_conflict' });
    const { file } = await uploads.complete(ada, upload.id);
    expect(file).toMatchObject({ filename: 'b.txt', size: 5, sha256 });
    expect(await text(await fileRepository(parts).read(file.id))).toBe('bytes');
  });
});
