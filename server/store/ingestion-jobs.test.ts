/** Jobs as they are made: the same address at once, and what quotas have to say, on both engines. */
import { expect, it, vi } from 'vitest';
import type { QuotaLimits } from '../contract/api.ts';
import type { Reach } from './store.ts';
import { waiting } from './test-locks.ts';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Adding documents', (store, engine) => {
  const exceeded = { code: 'quota_exceeded' };
  const url = (name: string) => `https://pages.example/${name}`;
  const add = (reach: Reach, corpusId: string, input: object) =>
    store().ingestionJobs.add(reach, corpusId, input, null);
  const newCorpus = async (reach: Reach) =>
    (await store().corpora.create(reach, { name: 'Library' })).corpus.id;

  /** Everywhere, as the operator does. */
  async function limit(reach: Reach, limits: QuotaLimits): Promise<void> {
    const operator = { ...reach, operator: true, needs: 'admin' as const };
    const { quota } = await store().quotas.put(operator, { type: 'user', id: reach.userId }, limits);
    expect(quota.organization_id).toBeNull();
  }

  it('two who add the same new addresses at once get the same documents', async () => {
    const ada = await newAccount(store(), 'Ada');
    const corpusId = await newCorpus(ada);
    await limit(ada, { storage: { hard: 1000 } });
    const urls = ['one', 'two', 'three'].map(url);
    const both = () => [add(ada, corpusId, { urls }), add(ada, corpusId, { urls: urls.toReversed() })];
    const sql = engine.sql();
    const added =
      engine.dialect === 'sqlite'
        ? both()
        : await sql.transaction(async (working) => {
            // The first has written its documents by then, and the second waits to hear what becomes of them.
            await working('quotas').where({ subject_id: ada.userId }).forUpdate();
            const under = both();
            await vi.waitFor(async () => expect(await waiting(sql)).toBe(2), { timeout: 60_000 });
            return under;
          });
    const [first, second] = await Promise.all(added);
    const documentsOf = (one: typeof first) => one?.job.items.map(({ document_id }) => document_id);
    expect(documentsOf(second)).toEqual(documentsOf(first)?.toReversed());
    expect(await sql('documents').where({ corpus_id: corpusId })).toHaveLength(3);
  });

  it('refuses texts for which a quota of the operator has no room', async () => {
    const ada = await newAccount(store(), 'Ada');
    const corpusId = await newCorpus(ada);
    await limit(ada, { storage: { hard: 10 } });
    const texts = [{ title: 'Long', text: 'It has more than ten bytes.' }];
    await expect(add(ada, corpusId, { texts })).rejects.toMatchObject({ ...exceeded, quota: { used: 0 } });
    expect(await engine.sql()('documents').where({ corpus_id: corpusId })).toEqual([]);
  });

  it('refuses new addresses where no room is left, and reads those again that are there', async () => {
    const ada = await newAccount(store(), 'Ada');
    const corpusId = await newCorpus(ada);
    await add(ada, corpusId, { urls: [url('one')] });
    await limit(ada, { storage: { hard: 10 } });
    await add(ada, corpusId, { urls: [url('two')] });
    await add(ada, corpusId, { texts: [{ title: 'Ten', text: '0123456789' }] });
    const more = add(ada, corpusId, { urls: [url('one'), url('three')] });
    await expect(more).rejects.toMatchObject({ ...exceeded, quota: { used: 10, hard: 10 } });
    await add(ada, corpusId, { urls: [url('one'), url('two')] });
  });

  it('takes no more than may wait in an organization, by adding or by retrying, and tells how many do', async () => {
    const [ada, eve] = [await newAccount(store(), 'Ada'), await newAccount(store(), 'Eve')];
    const [corpusId, other] = [await newCorpus(ada), await newCorpus(eve)];
    const { waitingLimit, mostWaiting } = store().ingestionJobs;
    const before = await mostWaiting();
    const { job } = await add(ada, corpusId, { urls: ['one', 'two'].map(url) });
    // As if it were one of very many documents, some of them done.
    const large = { total: waitingLimit + 40, completed: 20, failed: 20 };
    await engine.sql()('ingestion_jobs').where({ id: job.id }).update(large);
    expect(await mostWaiting()).toBe(waitingLimit);
    const full = {
      code: 'queue_full',
      message: expect.stringMatching(
        /^100000 documents of the organization wait .* would be 100001\. Add them/,
      ),
    };
    await expect(add(ada, corpusId, { urls: [url('three')] })).rejects.toMatchObject(full);
    expect(await engine.sql()('documents').where({ corpus_id: corpusId })).toHaveLength(2);
    // Another organization has a queue of its own.
    const { job: others } = await add(eve, other, { urls: [url('three')] });
    expect(others.progress.total).toBe(1);
    const place = { corpusId, ingestionId: job.id };
    const small = { total: 2, completed: 0, failed: 0 };
    await engine.sql()('ingestion_jobs').where({ id: job.id }).update(small);
    await store().ingestionJobs.cancel(ada, place);
    expect(await mostWaiting()).toBe(Math.max(before, 1));
    const next = await add(ada, corpusId, { texts: [{ title: 'Text', text: 'It is short.' }] });
    await engine
      .sql()('ingestion_jobs')
      .where({ id: next.job.id })
      .update({ total: waitingLimit - 1 });
    await expect(store().ingestionJobs.retry(ada, place)).rejects.toMatchObject({ code: 'queue_full' });
    await engine
      .sql()('ingestion_jobs')
      .where({ id: next.job.id })
      .update({ total: waitingLimit - 2 });
    expect(await store().ingestionJobs.retry(ada, place)).toMatchObject({ status: 'queued' });
  });
});
