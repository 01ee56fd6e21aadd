/** Sweeps of what is old: bounded, by one process at a time, and of nothing that is younger. */
import { expect, it } from 'vitest';
import { createLog } from '../log.ts';
import type { FileParts } from './discard-objects.ts';
import { extractedTextLimits, extractedTexts } from './extracted-texts.ts';
import { fileUploadRepository } from './file-uploads.ts';
import { loginRepository } from './logins.ts';
import type { StoreParts } from './parts.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import { sweep, sweepLimits, sweepTable } from './sweeps.ts';
import { describeStore, describeStores, newAccount, type TestEngine } from './test-stores.ts';

describeStores('A sweep', (store, engine) => {
  const fill = async (count: number): Promise<void> => {
    const reach = await newAccount(store());
    const rows = Array.from({ length: count }, (_, index) => ({
      hash: `${reach.userId}-${index}`,
      user_id: reach.userId,
      created_at: 0,
      expires_at: 1000 + index,
    }));
    await engine.sql().batchInsert('password_resets', rows, 100);
  };
  const left = async (): Promise<number[]> =>
    (await engine.sql()('password_resets').orderBy('expires_at').pluck('expires_at')).map(Number);

  it('deletes all that is old, and nothing else, in more transactions than one', async () => {
    await fill(sweepLimits.rows + 10);
    const { database, transactions } = counted(engine);
    const before = 1000 + sweepLimits.rows + 5;
    expect(await sweepTable(database, 'password_resets', 'expires_at', before)).toBe(sweepLimits.rows + 5);
    expect(transactions()).toBe(2);
    expect(await left()).toEqual([before, before + 1, before + 2, before + 3, before + 4]);
    expect(await sweepTable(database, 'password_resets', 'expires_at', before)).toBe(0);
    await database.close();
  });

  it('ends, however much there is: the rest is for the next', async () => {
    const database = opened(engine);
    let turns = 0;
    const count = await sweep(
      database,
      async () => {
        turns += 1;
        return 3;
      },
      3,
    );
    expect([turns, count]).toEqual([sweepLimits.transactions, 3 * sweepLimits.transactions]);
    await database.close();
  });

  it('of texts takes a few at a time, for they may be large, and leaves those that were asked for', async () => {
    const { organizationIds } = await newAccount(store());
    const { database, transactions } = counted(engine);
    const texts = extractedTexts({ database, clock: { now: () => new Date(1000) } });
    const keep = (sha256: string) =>
      texts.keep({ organizationId: organizationIds[0] ?? '', sha256, parser: 'text-1' }, {}, 0);
    const ids: string[] = [];
    for (let count = 0; count < 2 * extractedTextLimits.sweptAtOnce + 1; count += 1)
      ids.push(await keep(`${count}`));
    await engine.sql()('extracted_texts').where('id', ids[0]).update({ used_at: 2000 });
    const begun = transactions();
    expect(await texts.prune(new Date(1500))).toBe(2 * extractedTextLimits.sweptAtOnce);
    expect(transactions() - begun).toBe(3);
    expect(await engine.sql()('extracted_texts').whereIn('id', ids).pluck('id')).toEqual([ids[0]]);
    await database.close();
  });

  it('of logins takes the tokens of one a few at a time, and leaves those that are not over', async () => {
    const { userId } = await newAccount(store());
    const begin = (expiresAt: Date) =>
      store().logins.create({ userId, refreshHash: `login-${userId}-${expiresAt.getTime()}`, expiresAt });
    const over = await begin(new Date(1000));
    const open = await begin(new Date(3000));
    const given = Array.from({ length: sweepLimits.rows + 5 }, (_, count) => ({
      ...{ hash: `given-${userId}-${count}`, login_id: over, created_at: 0, used_at: 1 },
    }));
    await engine.sql().batchInsert('refresh_tokens', given, 100);
    const { database, transactions } = counted(engine);
    const logins = loginRepository({ ...({} as StoreParts), database });
    expect(await logins.prune(new Date(2000))).toBe(1);
    expect(transactions()).toBe(3);
    const left = engine.sql()('refresh_tokens').whereIn('login_id', [over, open]);
    expect(await left.pluck('login_id')).toEqual([open]);
    expect(await logins.prune(new Date(4000))).toBe(1);
    await database.close();
  });

  it('of uploads takes the parts of one a few at a time, and leaves what is about to be a file', async () => {
    const { userId, organizationIds, workspaces } = await newAccount(store());
    const [organization_id, workspace_id] = [organizationIds[0] ?? '', workspaces[0]?.id ?? ''];
    const { database, transactions } = counted(engine);
    const begin = async (id: string, completing_until: number | null, parts: number) => {
      const key = (start: number) => `${id}-${start}`;
      const starts = Array.from({ length: parts }, (_, start) => start);
      await engine
        .sql()('file_uploads')
        .insert({
          ...{ id, organization_id, user_id: userId, workspace_id, completing_until },
          ...{ filename: 'a', purpose: 'general', metadata: '{}', size: parts, sha256: '', received: parts },
          ...{ created_at: 0, expires_at: 1000 },
        });
      const objects = starts.map((start) => ({
        ...{ key: key(start), organization_id, workspace_id, user_id: userId },
        ...{ backend: 'fs', state: 'uploading', size: 1, expires_at: 1000 },
      }));
      await engine.sql().batchInsert('stored_objects', objects, 50);
      const rows = starts.map((start) => ({
        ...{ upload_id: id, organization_id, start, size: 1, object_key: key(start) },
      }));
      await engine.sql().batchInsert('file_upload_parts', rows, 50);
    };
    const of = userId.slice(-8);
    await begin(`upl_many_${of}`, null, sweepLimits.rows + 5);
    await begin(`upl_none_${of}`, 900, 0);
    await begin(`upl_file_${of}`, 9000, 2);
    const uploads = fileUploadRepository({ ...({} as FileParts), database });
    expect(await uploads.prune(new Date(2000))).toBe(2);
    expect(transactions()).toBe(3);
    expect(await engine.sql()('file_uploads').pluck('id')).toEqual([`upl_file_${of}`]);
    expect(await engine.sql()('file_upload_parts').pluck('upload_id')).toEqual(
      Array(2).fill(`upl_file_${of}`),
    );
    await database.close();
  });
});

describeStore('postgresql', 'Of several nodes', (_store, engine) => {
  it('one sweeps at a time, and the others leave it to that one', async () => {
    const [one, other] = [opened(engine), opened(engine)];
    const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const first = sweep(one, async () => {
      begun.resolve();
      await goOn.promise;
      return 1;
    });
    await begun.promise;
    const never = async () => {
      throw new Error('two at once');
    };
    expect(await sweep(other, never)).toBe(0);
    goOn.resolve();
    expect(await first).toBe(1);
    expect(await sweep(other, async () => 2)).toBe(2);
    await Promise.all([one.close(), other.close()]);
  });

  it('a sweep walks the index of its column', async () => {
    const plans: string[] = [];
    const sql = engine.sql();
    await sql.transaction(async (transaction) => {
      await transaction.raw('set local enable_seqscan = off');
      const oldest = transaction('logins').where('expires_at', '<', 5).orderBy('expires_at').limit(10);
      const { rows } = await transaction.raw(`explain delete from logins where ctid = any(array(?))`, [
        oldest.select(transaction.raw('ctid')),
      ]);
      plans.push(...rows.map((row: Record<string, string>) => row['QUERY PLAN']));
    });
    expect(plans.join('\n')).toMatch(/Index Scan using logins_expires_at_index[\s\S]*Tid Scan on logins/);
  });
});

function counted(engine: TestEngine) {
  const database = opened(engine);
  let transactions = 0;
  return {
    transactions: () => transactions,
    database: {
      ...database,
      write: <T>(...given: Parameters<typeof database.write<T>>) => {
        transactions += 1;
        return database.write<T>(...given);
      },
    },
  };
}

function opened(engine: TestEngine) {
  const log = createLog('silent');
  if (engine.dialect === 'postgresql') return openPostgres(engine.url(), log);
  return openSqlite(engine.url().slice('sqlite:'.length), log);
}
