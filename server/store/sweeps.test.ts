/** Sweeps of what is old: bounded, by one process at a time, and of nothing that is younger. */
import { expect, it } from 'vitest';
import { createLog } from '../log.ts';
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
    const database = opened(engine);
    let transactions = 0;
    const counted = {
      ...database,
      write: <T>(...given: Parameters<typeof database.write<T>>) => {
        transactions += 1;
        return database.write<T>(...given);
      },
    };
    const before = 1000 + sweepLimits.rows + 5;
    expect(await sweepTable(counted, 'password_resets', 'expires_at', before)).toBe(sweepLimits.rows + 5);
    expect(transactions).toBe(2);
    expect(await left()).toEqual([before, before + 1, before + 2, before + 3, before + 4]);
    expect(await sweepTable(counted, 'password_resets', 'expires_at', before)).toBe(0);
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

function opened(engine: TestEngine) {
  const log = createLog('silent');
  if (engine.dialect === 'postgresql') return openPostgres(engine.url(), log);
  return openSqlite(engine.url().slice('sqlite:'.length), log);
}
