/** What is recorded: with the change or not at all, one after the other, and never again changed. */
import { expect, it } from 'vitest';
import { createLog } from '../log.ts';
import { recordAudit, writesAudit } from './audit.ts';
import { type AuditRow, hashOfEntry } from './audit-chain.ts';
import type { Database } from './database.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import { describeStores, newAccount, type TestEngine } from './test-stores.ts';

const log = createLog('silent');

describeStores('The audit log', (store, engine) => {
  const entries = (): Promise<AuditRow[]> => engine.sql()<AuditRow>('audit_entries').orderBy('sequence');
  const lastEntry = async () => (await entries()).at(-1);

  it('holds what the transaction did, who did it and from where, with the hash of the entry before', async () => {
    const ada = await newAccount(store(), 'Ada');
    const [organizationId = null] = ada.organizationIds;
    const origin = {
      requestId: 'req_1',
      address: '192.0.2.7',
      credential: { kind: 'login', id: 'lgn_1' },
    } as const;
    await using database = opened(engine);
    await database.write(ada, async (sql) => {
      for (const name of ['one', 'two'])
        recordAudit(
          sql,
          { ...ada, origin },
          {
            action: 'group.create',
            target: { type: 'group', id: `grp_${name}` },
            organizationId,
            after: { name },
          },
        );
    });
    const all = await entries();
    expect(all.at(-1)).toMatchObject({
      organization_id: organizationId,
      actor_type: 'user',
      actor_id: ada.userId,
      credential_type: 'login',
      credential_id: 'lgn_1',
      action: 'group.create',
      target_type: 'group',
      target_id: 'grp_two',
      outcome: 'success',
      ip: '192.0.2.7',
      request_id: 'req_1',
      before: null,
      after: '{"name":"two"}',
    });
    expect(all.map(({ sequence }) => Number(sequence))).toEqual(all.map((_, index) => index + 1));
    for (const [index, entry] of all.entries()) {
      expect(entry.prev_hash).toBe(all[index - 1]?.hash ?? '0'.repeat(64));
      const numbers = { sequence: Number(entry.sequence), created_at: Number(entry.created_at) };
      expect(hashOfEntry(entry.prev_hash, { ...entry, ...numbers })).toBe(entry.hash);
    }
  });

  it('holds nothing of a transaction that failed', async () => {
    const ada = await newAccount(store(), 'Ada');
    const before = await entries();
    await using database = opened(engine);
    const failed = database.write(ada, async (sql) => {
      recordAudit(sql, ada, something(ada.organizationIds[0]));
      throw new Error('too late');
    });
    await expect(failed).rejects.toThrow('too late');
    expect(await entries()).toEqual(before);
  });

  it('is one chain, however many write at once from however many processes', async () => {
    const people = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Bob')];
    const count = (await entries()).length;
    await using one = opened(engine);
    await using other = opened(engine);
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => {
        const reach = people[index % 2] ?? people[0];
        if (!reach) throw new Error('nobody');
        return (index % 3 === 0 ? one : other).write(reach, async (sql) =>
          recordAudit(sql, reach, something(reach.organizationIds[0])),
        );
      }),
    );
    const all = await entries();
    expect(all).toHaveLength(count + 20);
    for (const [index, { prev_hash }] of all.entries())
      expect(prev_hash).toBe(all[index - 1]?.hash ?? '0'.repeat(64));
  });

  it('never goes back in time, though a clock does', async () => {
    const ada = await newAccount(store(), 'Ada');
    await using database = opened(engine);
    const record = () =>
      database.write(ada, async (sql) => recordAudit(sql, ada, something(ada.organizationIds[0])));
    await record();
    const first = await lastEntry();
    engine.clock.advance(-60_000);
    await record();
    engine.clock.advance(60_000);
    expect((await lastEntry())?.created_at).toBe(first?.created_at);
  });

  it('masks secrets, says only what has changed, and writes nothing that a terminal obeys', async () => {
    const ada = await newAccount(store(), 'Ada');
    await using database = opened(engine);
    await database.write(ada, async (sql) =>
      recordAudit(sql, ada, {
        ...something(ada.organizationIds[0]),
        target: { type: 'user', id: 'x\r\n{"forged":true}\u001b[2J\u009b2J\u202e' },
        before: { name: 'A', password: 'old', mode: 'same', smtp: { smtp_password: 'p' } },
        after: {
          name: 'B\u001b[31m',
          password: 'new',
          mode: 'same',
          smtp: { smtp_password: 'q' },
          note: 'the key sk-abcdefghijklmnopqrstuv at https://ada:secret@example.com/',
        },
      }),
    );
    const entry = await lastEntry();
    expect(entry?.target_id).toBe('x\\u000d\\u000a{"forged":true}\\u001b[2J\\u009b2J\\u202e');
    expect(JSON.parse(entry?.before ?? '')).toEqual({
      name: 'A',
      password: '[masked]',
      'smtp.smtp_password': '[masked]',
    });
    expect(JSON.parse(entry?.after ?? '')).toEqual({
      name: 'B\\u001b[31m',
      password: '[masked]',
      'smtp.smtp_password': '[masked]',
      note: 'the key [masked] at https://[masked]@example.com/',
    });
  });

  it('lets the service add entries, and neither change nor delete one', async () => {
    const ada = await newAccount(store(), 'Ada');
    await using database = opened(engine);
    await database.write(ada, async (sql) => recordAudit(sql, ada, something(ada.organizationIds[0])));
    const attempts = [
      `update audit_entries set action = 'x.y'`,
      'delete from audit_entries',
      'delete from audit_head',
      'update audit_head set sequence = sequence - 1',
      ...(engine.dialect === 'postgresql' ? ['truncate audit_entries', 'drop table audit_entries'] : []),
    ];
    for (const attempt of attempts) {
      for (const scope of [ada, 'installation' as const]) {
        const refused = database.write(scope, async (sql) => sql.raw(attempt));
        await expect(refused, attempt).rejects.toThrow(/append-only|permission denied|must be owner/);
      }
    }
    const entry = await lastEntry();
    expect(entry?.action).toBe('thing.change');
  });

  it('can be recorded in a transaction of the store alone', () => {
    // Nothing of this transaction is used: it stands for one that was not begun by `write`.
    const stray = {} as Parameters<typeof recordAudit>[0];
    expect(() => recordAudit(stray, { userId: null }, something(undefined))).toThrow(/database\.write/);
  });
});

function something(organizationId: string | undefined) {
  return {
    action: 'thing.change',
    target: { type: 'thing', id: 'thing_1' },
    organizationId: organizationId ?? null,
  } as const;
}

/** Another process on this file's database. */
function opened(engine: TestEngine): Database & AsyncDisposable {
  const database =
    engine.dialect === 'sqlite'
      ? openSqlite(engine.url().slice('sqlite:'.length), log)
      : openPostgres(engine.url(), log);
  return { ...writesAudit(database, engine.clock), [Symbol.asyncDispose]: database.close };
}
