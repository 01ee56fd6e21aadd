/** What comes at once in great numbers is found as what was said here, and holds up nobody who writes. */
import { expect, it, vi } from 'vitest';
import { createLog } from '../log.ts';
import { openPostgres } from './postgres.ts';
import { indexAllNoted } from './search-backlog.ts';
import { openSqlite } from './sqlite.ts';
import type { Reach, Store } from './store.ts';
import { describeStores, newAccount } from './test-stores.ts';

const at = '2026-11-21T08:00:00.000Z';
const count = 1200;

/** Some three thousand characters each, no two words alike; one word for each message. */
const messages = Array.from({ length: count }, (_, index) => {
  const words = Array.from(
    { length: 250 },
    (__, word) => `${index.toString(36)}q${(word * 7919).toString(36)}`,
  );
  return {
    ...{ role: index % 2 ? ('assistant' as const) : ('user' as const), created_at: at },
    parts: [{ type: 'text' as const, text: `place${index}x ${words.join(' ')}` }],
    ...{ model: null, usage: null, stop_reason: null },
  };
});

async function bring(store: Store, reach: Reach, brought = messages): Promise<string> {
  const facts = { title: 'Old', agent_slug: 'coder', model: null, system_prompt: null };
  const { session } = await store.sessionImports.add(reach, reach.workspaces[0]?.id ?? '', {
    ...{ format_version: 1, exported_at: at, messages: brought },
    session: { ...facts, tags: [], metadata: {}, created_at: at },
  });
  return session.id;
}

describeStores('Much that comes into a session', (store, engine) => {
  const finds = async (reach: Reach, session_id: string, place: number) => {
    const { data } = await store().searches.find(reach, { query: `place${place}x`, session_id }, {});
    return data.length === 1;
  };
  const noted = () => engine.sql()('search_backlog').pluck('session_id');

  /** How often somebody else could write while this was under way. */
  const writesDuring = async (work: Promise<unknown>) => {
    let writes = 0;
    const progress = { over: false };
    const end = () => {
      progress.over = true;
    };
    work.then(end, end);
    while (!progress.over) {
      await store().counters.noteDone('another', engine.clock.now(), 1000);
      writes += 1;
    }
    return writes;
  };

  it('is found once it has come, and lets others write meanwhile: an import, a fork, and what is reverted', async () => {
    const reach = await newAccount(store());
    const importing = bring(store(), reach);
    expect(await writesDuring(importing)).toBeGreaterThan(8);
    const imported = await importing;
    const forking = store().history.fork(reach, imported, {});
    expect(await writesDuring(forking)).toBeGreaterThan(8);
    const { session: fork } = await forking;
    for (const id of [imported, fork.id])
      for (const place of [0, 599, count - 1]) expect(await finds(reach, id, place)).toBe(true);
    const { data } = await store().messages.list(reach, fork.id, { limit: 1 });
    const plan = await store().history.planRevert(reach, fork.id, data[0]?.id ?? '');
    await store().history.revert(reach, plan, false, async () => undefined);
    expect(await finds(reach, fork.id, 599)).toBe(false);
    expect(await finds(reach, imported, 599)).toBe(true);
    expect(await noted()).toEqual([]);
  });

  it('is found after the next sweep where its process died, but for what was reverted meanwhile', async () => {
    const reach = await newAccount(store());
    const dying = await engine.open();
    const importing = bring(dying, reach);
    while ((await noted()).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await dying.close();
    const id = await importing;
    expect(await noted()).toEqual([id]);
    expect(await finds(reach, id, count - 1)).toBe(false);
    const { data } = await store().messages.list(reach, id, { limit: 100, sort: '-created_at' });
    const plan = await store().history.planRevert(
      reach,
      id,
      data.findLast(({ role }) => role === 'user')?.id ?? '',
    );
    await store().history.revert(reach, plan, false, async () => undefined);
    expect(await store().searches.catchUp()).toBe(1);
    expect(await finds(reach, id, 0)).toBe(true);
    expect(await finds(reach, id, count - 200)).toBe(true);
    expect(await finds(reach, id, count - 1)).toBe(false);
    expect(await store().searches.catchUp()).toBe(0);
  });

  it('is found although another session cannot be written, of which the log tells', async () => {
    const reach = await newAccount(store());
    const [broken, whole] = [
      await bring(store(), reach, messages.slice(0, 1)),
      await bring(store(), reach, messages.slice(0, 1)),
    ];
    const sql = engine.sql();
    await sql('messages').where({ session_id: broken }).update({ parts: 'torn' });
    await sql('search_documents').whereIn('session_id', [broken, whole]).delete();
    const [organization_id, workspace_id] = [reach.organizationIds[0], reach.workspaces[0]?.id];
    for (const session_id of [broken, whole])
      await sql('search_backlog').insert({
        ...{ session_id, organization_id, workspace_id },
        ...{ after_run_number: -1, after_position: -1, last_run_number: 9, last_position: 9 },
      });
    const log = createLog('silent');
    const told = vi.spyOn(log, 'warn');
    const isPostgres = engine.dialect === 'postgresql';
    const database = isPostgres
      ? openPostgres(engine.url(), log)
      : openSqlite(engine.url().slice('sqlite:'.length), log);
    expect(await indexAllNoted({ database, log })).toBe(1);
    expect(told.mock.calls).toMatchObject([
      [{ err: expect.any(SyntaxError), session_id: broken }, /not whole/],
    ]);
    await database.close();
    expect(await noted()).toEqual([broken]);
    expect(await finds(reach, whole, 0)).toBe(true);
    await sql('search_backlog').delete();
  });

  it('is found soon after its answer where that is kept for a key', async () => {
    const reach = await newAccount(store());
    const request = { principalId: reach.userId, userId: reach.userId, key: 'once', fingerprint: 'x' };
    const kept = store().keptRequests.once(
      request,
      () => bring(store(), reach),
      () => 'answer',
    );
    const id = (await kept) ?? '';
    await expect.poll(() => finds(reach, id, count - 1)).toBe(true);
    expect((await store().keptRequests.find(request))?.reply).toBe('answer');
  });
});
