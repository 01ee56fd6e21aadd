/** Counts within a time, on one node and on several. */
import { expect, it } from 'vitest';
import { describeStores } from './test-stores.ts';

describeStores('Counters', (store, engine) => {
  const limit = { name: 'test', most: 3, seconds: 60 };
  const relaxed = { ...limit, name: 'relaxed', relaxed: true };

  it.each([limit, relaxed])('count up to their limit, also where many come at once: $name', async (one) => {
    const counter = store().counters.counter(one);
    const counts = await Promise.all(Array.from({ length: 10 }, () => counter.count('crowd')));
    const allowed = counts.filter((count) => count.allowed);
    expect(allowed.map(({ remaining }) => remaining).toSorted()).toEqual([0, 1, 2]);
    for (const { resetMs } of counts) expect(resetMs).toBeLessThanOrEqual(60_000);
    expect(await counter.look('crowd')).toMatchObject({ allowed: false, remaining: 0 });
    expect((await counter.look('crowd')).resetMs).toBeGreaterThan(0);
    expect(await counter.count('another')).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('give back, and forget', async () => {
    const counter = store().counters.counter(limit);
    const counted = async () => (await counter.count('key')).allowed;
    expect([await counted(), await counted(), await counted()]).toEqual([true, true, true]);
    expect((await counter.look('key')).allowed).toBe(false);
    await counter.giveBack('key');
    expect((await counter.look('key')).allowed).toBe(true);
    expect([await counted(), await counted()]).toEqual([true, false]);
    await counter.forget('key');
    expect(await counted()).toBe(true);
  });

  it('are shared between the nodes of PostgreSQL, whose table names nobody', async () => {
    const [here, there] = [store().counters.counter(limit), (await engine.open()).counters.counter(limit)];
    for (const one of [here, there, here]) await one.count('ada@example.com');
    expect((await there.count('ada@example.com')).allowed).toBe(engine.dialect === 'sqlite');
    const rows = await engine.sql()('counts');
    expect(JSON.stringify(rows)).not.toContain('ada@');
    expect(rows.length > 0).toBe(engine.dialect === 'postgresql');
    await store().counters.prune(new Date(Date.now() + 61_000));
    expect(await engine.sql()('counts')).toEqual([]);
  });

  it('keep what was counted for a request whose transaction came to nothing', async () => {
    const counter = store().counters.counter(limit);
    const request = { principalId: 'usr_1', userId: 'usr_1', key: 'k', fingerprint: 'f' };
    for (const left of [2, 1, 0]) {
      const refused = store().keptRequests.once(
        request,
        async () => {
          expect(await counter.count('guess')).toMatchObject({ allowed: true, remaining: left });
          throw new Error('a wrong guess');
        },
        () => null,
      );
      await expect(refused).rejects.toThrow('a wrong guess');
    }
    expect((await counter.look('guess')).allowed).toBe(false);
  });

  it('know beyond the process when something was done last, and wait for no clock that was set back', async () => {
    const hourMs = 3_600_000;
    const began = new Date('2026-11-21T08:00:00.000Z');
    const after = (ms: number) => new Date(began.getTime() + ms);
    const { counters } = store();
    expect(await counters.isDue('test', began, hourMs)).toBe(true);
    await counters.noteDone('test', began, hourMs);
    const other = (await engine.open()).counters;
    const due = (ms: number) => other.isDue('test', after(ms), hourMs);
    expect([await due(0), await due(hourMs - 1), await due(hourMs), await due(-1)]).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(await other.isDue('another', began, hourMs)).toBe(true);
    await counters.noteDone('test', after(hourMs), hourMs);
    expect(await due(hourMs + 1)).toBe(false);
  });
});
