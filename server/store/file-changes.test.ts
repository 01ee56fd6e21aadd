import { createHash, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { mostKeptBytes } from './file-contents.ts';
import type { Reach, Store } from './store.ts';
import { beginRun, endRun, takeRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

function content(text: string | Uint8Array) {
  const bytes = Buffer.from(text);
  return { sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length, bytes };
}

/** Records in a new run that a file went from one text to another. */
async function change(
  store: Store,
  reach: Reach,
  changes: readonly (readonly [path: string, before: string | null, after: string | null])[],
  sessionId?: string,
) {
  const run = await beginRun(store, reach, { ...(sessionId && { sessionId }) });
  for (const [path, before, after] of changes)
    await store.transcript.recordChange({
      ...run,
      toolCallId: 'call_1',
      path,
      before: before === null ? null : content(before),
      mode: before === null ? null : 0o644,
      after: after === null ? null : content(after),
    });
  await endRun(store, run);
  return run;
}

describeStores('Changes of files', (store, engine) => {
  it('come to one change of each file, from before the first to after the last', async () => {
    const reach = await newAccount(store());
    const first = await change(store(), reach, [
      ['b.txt', 'b1', 'b2'],
      ['a.txt', null, 'a1'],
      ['same.txt', 's', 't'],
    ]);
    const second = await change(
      store(),
      reach,
      [
        ['b.txt', 'b2', 'b3'],
        ['same.txt', 't', 's'],
        ['gone.txt', 'g', null],
      ],
      first.sessionId,
    );
    const list = (runId?: string) => store().fileChanges.list(reach, first.sessionId, { runId, limit: 10 });
    const all = await list();
    expect(
      all.map(({ path, before, after }) => [path, before?.sha256 ?? null, after?.sha256 ?? null]),
    ).toEqual([
      ['a.txt', null, content('a1').sha256],
      ['b.txt', content('b1').sha256, content('b3').sha256],
      ['gone.txt', content('g').sha256, null],
    ]);
    expect(all.map(({ mode }) => mode)).toEqual([null, 0o644, 0o644]);
    expect((await list(second.runId)).map(({ path }) => path)).toEqual(['b.txt', 'gone.txt', 'same.txt']);
    expect(await store().fileChanges.list(reach, first.sessionId, { limit: 2 })).toHaveLength(2);
  });

  it('keep each content once, as it was byte by byte, and only for who owns the session', async () => {
    const [reach, stranger] = [await newAccount(store()), await newAccount(store())];
    const { sessionId } = await change(store(), reach, [
      ['a', 'one', 'two'],
      ['b', 'two', 'one'],
    ]);
    expect(await engine.sql()('file_contents').where({ session_id: sessionId })).toHaveLength(2);
    const bytes = randomBytes(50_000);
    const run = await beginRun(store(), reach, { sessionId });
    const { sha256 } = content(bytes);
    const given = { ...run, toolCallId: 'c', path: 'x', before: null, mode: null, after: content(bytes) };
    await store().transcript.recordChange(given);
    expect(
      Buffer.from((await store().fileChanges.content(reach, sessionId, sha256)) ?? []).equals(bytes),
    ).toBe(true);
    await expect(store().fileChanges.content(stranger, sessionId, sha256)).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(store().fileChanges.list(stranger, sessionId, { limit: 1 })).rejects.toMatchObject({
      code: 'not_found',
    });
    await endRun(store(), run);
  });

  it('are recorded without content once a session has kept too much, and go with the session', async () => {
    const reach = await newAccount(store());
    const { sessionId } = await change(store(), reach, [['a', null, 'small']]);
    await engine.sql()('sessions').where({ id: sessionId }).update({ kept_bytes: mostKeptBytes });
    await change(store(), reach, [['a', 'small', 'more']], sessionId);
    const [file] = await store().fileChanges.list(reach, sessionId, { limit: 1 });
    expect(file?.after?.sha256).toBe(content('more').sha256);
    expect(await store().fileChanges.content(reach, sessionId, content('more').sha256)).toBeNull();
    await store().sessions.delete(reach, sessionId);
    for (const table of ['file_contents', 'file_changes', 'search_documents'])
      expect(await engine.sql()(table).where({ session_id: sessionId })).toEqual([]);
  });

  it('leave no room for a picture in a session that has kept too much, which is told so and stays as it was', async () => {
    const reach = await newAccount(store());
    const first = await beginRun(store(), reach);
    await endRun(store(), first);
    const { sessionId } = first;
    const picture = (bytes: string) => ({
      ...{ type: 'file' as const, media_type: 'image/png' },
      data: Buffer.from(bytes).toString('base64'),
    });
    const keep = async (kept_bytes: number) => {
      await engine.sql()('sessions').where({ id: sessionId }).update({ kept_bytes });
    };
    const show = (...parts: ReturnType<typeof picture>[]) => beginRun(store(), reach, { sessionId, parts });
    await keep(mostKeptBytes - 4);
    await expect(show(picture('12345'))).rejects.toMatchObject({
      code: 'body_too_large',
      message: expect.stringContaining('256 MB'),
    });
    expect(await store().transcript.readMessages(sessionId)).toHaveLength(1);
    const fits = await show(picture('1234'));
    await endRun(store(), fits);
    // What the session has already takes no more room.
    await endRun(store(), await show(picture('1234')));
    const { data } = picture('1234');
    expect(await store().transcript.readFiles(sessionId, [content('1234').sha256])).toEqual([data]);
    await expect(show(picture('1234'), picture('x'))).rejects.toMatchObject({ code: 'body_too_large' });
    const kept = await engine.sql()('sessions').where({ id: sessionId }).first('kept_bytes');
    expect(Number(kept.kept_bytes)).toBe(mostKeptBytes);
  });

  it('are not taken from a process that has lost the run', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach);
    const other = await engine.open();
    await takeRun(other, run.runId, 'another');
    const given = { ...run, toolCallId: 'c', path: 'x', before: null, mode: null, after: content('x') };
    await expect(store().transcript.recordChange(given)).rejects.toMatchObject({ name: 'LeaseLost' });
    expect(await store().fileChanges.list(reach, run.sessionId, { limit: 1 })).toEqual([]);
  });
});
