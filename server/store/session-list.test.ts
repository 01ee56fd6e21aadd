import { expect, it } from 'vitest';
import type { Session } from '../contract/api.ts';
import type { SessionQuery } from './sessions.ts';
import type { Reach, Store } from './store.ts';
import { beginRun } from './test-runs.ts';
import { bothOf, describeStores, newAccount, reachOfNobody } from './test-stores.ts';

/** All pages of a list, one after the other. */
async function pages(store: Store, reach: Reach, query: SessionQuery): Promise<Session[][]> {
  const read: Session[][] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await store.sessions.list(reach, { ...query, ...(cursor && { cursor }) });
    read.push(page.data);
    cursor = page.next_cursor;
  }
  return read;
}

const titles = (read: Session[][]): string[] => read.flat().map(({ title }) => title);

describeStores('The list of sessions', (store, engine) => {
  /** Seven sessions, of which three and two share their times. */
  const seed = async (reach: Reach): Promise<Session[]> => {
    const sessions: Session[] = [];
    for (const [index, wait] of [0, 0, 0, 10, 0, 10, 10].entries()) {
      engine.clock.advance(wait);
      const input = { title: `s${index}`, tags: index % 2 ? ['odd'] : ['even', 'all'] };
      sessions.push((await store().sessions.create(reach, input)).session);
    }
    return sessions;
  };

  it('has each session once in each order, also where times are equal', async () => {
    const reach = await newAccount(store());
    const sessions = await seed(reach);
    const names = sessions.map(({ title }) => title);
    for (const limit of [1, 2, 3, 7, 100]) {
      const newest = await pages(store(), reach, { limit });
      expect(titles(newest)).toEqual(names.toReversed());
      expect(newest.map(({ length }) => length)).toEqual(
        Array.from({ length: Math.ceil(7 / limit) }, (_, page) => Math.min(limit, 7 - page * limit)),
      );
      expect(titles(await pages(store(), reach, { limit, sort: 'created_at' }))).toEqual(names);
    }
    engine.clock.advance(10);
    for (const index of [5, 0])
      await store().sessions.update(reach, sessions[index]?.id ?? '', { archived: false });
    const changed = titles(await pages(store(), reach, { limit: 2, sort: '-updated_at' }));
    expect(changed).toEqual(['s5', 's0', 's6', 's4', 's3', 's2', 's1']);
    expect(titles(await pages(store(), reach, { limit: 2, sort: 'updated_at' }))).toEqual(
      changed.toReversed(),
    );
  });

  it('does not shift when sessions are added while it is read', async () => {
    const reach = await newAccount(store());
    await seed(reach);
    const first = await store().sessions.list(reach, { limit: 3 });
    engine.clock.advance(1);
    await store().sessions.create(reach, { title: 'late' });
    const second = await store().sessions.list(reach, { limit: 3, cursor: first.next_cursor ?? '' });
    expect(titles([first.data, second.data])).toEqual(['s6', 's5', 's4', 's3', 's2', 's1']);
  });

  it('filters by tag, status, workspace and archive, and by all of them together', async () => {
    const reach = await newAccount(store());
    const sessions = await seed(reach);
    const [first, second, third] = sessions;
    const workspace_id = first?.workspace_id ?? '';
    await beginRun(store(), reach, { sessionId: second?.id ?? '' });
    await store().sessions.update(reach, third?.id ?? '', { archived: true });
    const listed = async (query: SessionQuery) => titles(await pages(store(), reach, { limit: 2, ...query }));
    expect(await listed({ tag: 'odd' })).toEqual(['s5', 's3', 's1']);
    expect(await listed({ tag: 'even', sort: 'updated_at' })).toEqual(['s0', 's4', 's6']);
    expect(await listed({ tag: 'even', archived: true })).toEqual(['s2']);
    expect(await listed({ tag: 'none' })).toEqual([]);
    expect(await listed({ status: 'running' })).toEqual(['s1']);
    expect(await listed({ status: 'idle' })).toEqual(['s6', 's5', 's4', 's3', 's0']);
    expect(await listed({ workspace_id })).toHaveLength(6);
    expect(await listed({ workspace_id, status: 'running', tag: 'odd', sort: '-updated_at' })).toEqual([
      's1',
    ]);
    expect(await listed({ archived: true })).toEqual(['s2']);
  });

  it('follows a tagged session whose run changes it', async () => {
    const reach = await newAccount(store());
    const sessions = await seed(reach);
    engine.clock.advance(10);
    await beginRun(store(), reach, { sessionId: sessions[1]?.id ?? '' });
    const listed = titles(await pages(store(), reach, { limit: 1, tag: 'odd', sort: '-updated_at' }));
    expect(listed).toEqual(['s1', 's5', 's3']);
  });

  it('merges the organizations of a caller into one order', async () => {
    const [ada, ben] = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Ben')];
    const names: string[] = [];
    for (let index = 0; index < 9; index += 1) {
      engine.clock.advance(index % 3);
      const title = `s${index}`;
      await store().sessions.create(index % 2 ? ada : ben, { title, tags: ['both'] });
      names.push(title);
    }
    const both = bothOf(ada, ben);
    for (const query of [{}, { tag: 'both' }, { status: 'idle' as const }]) {
      expect(titles(await pages(store(), both, { limit: 2, ...query }))).toEqual(names.toReversed());
      expect(titles(await pages(store(), both, { limit: 4, sort: 'created_at', ...query }))).toEqual(names);
    }
    expect(await pages(store(), reachOfNobody(ada.userId), {})).toEqual([[]]);
  });

  it('refuses a cursor of other filters, another order, another list or another caller', async () => {
    const [reach, stranger] = [await newAccount(store()), await newAccount(store())];
    await seed(reach);
    await seed(stranger);
    const { next_cursor } = await store().sessions.list(reach, { limit: 2, tag: 'even' });
    const cursor = next_cursor ?? '';
    const refused = [
      store().sessions.list(reach, { cursor }),
      store().sessions.list(reach, { cursor, tag: 'odd' }),
      store().sessions.list(reach, { cursor, tag: 'even', archived: true }),
      store().sessions.list(reach, { cursor, tag: 'even', sort: 'created_at' }),
      store().sessions.list(reach, { cursor, tag: 'even', sort: '-updated_at' }),
      store().sessions.list(stranger, { cursor, tag: 'even' }),
      store().runs.list(reach, { cursor }),
      store().apiKeys.list(reach, { cursor }),
    ];
    for (const outcome of await Promise.allSettled(refused))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'invalid_cursor' } });
    // The size of the page is no filter, and `archived=false` is what is meant without it.
    const next = await store().sessions.list(reach, { cursor, tag: 'even', limit: 1, archived: false });
    expect(next.data).toHaveLength(1);
  });

  it('refuses a forged cursor, whatever it holds', async () => {
    const reach = await newAccount(store());
    await seed(reach);
    const { next_cursor } = await store().sessions.list(reach, { limit: 2 });
    const genuine = Buffer.from(next_cursor ?? '', 'base64url');
    const tampered = Buffer.from(genuine.toString('latin1').replace('[1', '[2'), 'latin1');
    const forged = [
      '',
      'x',
      'AAAA',
      `${next_cursor}A`,
      `${next_cursor}=`,
      (next_cursor ?? '').slice(0, -1),
      tampered.toString('base64url'),
      genuine.subarray(16).toString('base64url'),
      genuine.subarray(0, 16).toString('base64url'),
      Buffer.from(JSON.stringify([0, 'ses_'])).toString('base64url'),
      Buffer.concat([Buffer.alloc(16), genuine.subarray(16)]).toString('base64url'),
      'A'.repeat(1024),
    ];
    expect(tampered).not.toEqual(genuine);
    for (const cursor of forged) {
      const list = store().sessions.list(reach, { cursor });
      await expect(list, cursor).rejects.toMatchObject({
        code: 'invalid_cursor',
        errors: [{ in: 'query', name: 'cursor' }],
      });
    }
  });

  it('takes a cursor on every node that shares the database', async () => {
    const reach = await newAccount(store());
    await seed(reach);
    const { next_cursor } = await store().sessions.list(reach, { limit: 5 });
    const other = await engine.open();
    const page = await other.sessions.list(reach, { limit: 5, cursor: next_cursor ?? '' });
    expect(titles([page.data])).toEqual(['s1', 's0']);
  });
});
