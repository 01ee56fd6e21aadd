/** What is looked up once for many: nobody who holds a connection waits for those who wait for one, and none sees too much. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createLog } from './log.ts';
import { createModelCatalogs } from './model-catalogs.ts';
import { openSkillBook } from './skills/skills.ts';
import type { Reach, Store } from './store/store.ts';
import { describeStore, describeStores, newAccount } from './store/test-stores.ts';

const asItIs = { asShipped: false };

describeStores('A catalogue that a request with a key makes', (store, { clock }) => {
  it('counts as soon as it is committed, whoever has looked before', async () => {
    const catalogs = catalogsOf(store(), clock);
    const operator = { ...(await newAccount(store())), operator: true };
    const models = [{ provider: 'house', id: 'big' }];
    const write = () => catalogs.create(operator, { name: 'Ours', models });
    const { begun, goOn, answers } = holders(store(), operator, 1, { write });
    await begun;
    expect((await catalogs.current(asItIs)).size).toBe(0);
    goOn();
    await answers;
    expect([...(await catalogs.current(asItIs)).keys()]).toEqual(['house']);
  });
});

describeStore('postgresql', 'While requests with keys hold every connection', (store, { clock }) => {
  it('a look at the catalogues keeps none of them waiting that waits for one of theirs', async () => {
    const log = createLog('silent');
    const fault = vi.spyOn(log, 'error');
    const catalogs = catalogsOf(store(), clock, log);
    const { begun, goOn, answers } = holders(store(), await newAccount(store()), 10, {
      write: () => newAccount(store()),
      goOn: () => catalogs.current(asItIs),
    });
    await begun;
    const other = catalogs.current(asItIs);
    goOn();
    await answers;
    await other;
    expect(fault).not.toHaveBeenCalled();
  });

  it('a skill that another lays out keeps none of them waiting who needs it, too', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'kept-skills-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const laying = Promise.withResolvers<void>();
    const allHeld = Promise.withResolvers<void>();
    const files: Store['skills']['files'] = async (id) => {
      laying.resolve();
      await allHeld.promise;
      return store().skills.files(id);
    };
    const skills = { ...store().skills, files };
    const book = openSkillBook({ store: { ...store(), skills }, directory, log: createLog('silent') });
    const ada = await newAccount(store());
    const asker = { userId: ada.userId, workspaceId: ada.workspaces[0]?.id ?? '' };
    const { skill } = book.check(Buffer.from('---\nname: notes\ndescription: Writes them.\n---\nWrite.'));
    if (!skill) throw new Error('The skill of this test is not sound.');
    await store().skills.create(ada, { scope: 'user' }, skill, null);
    const other = book.forRuns(asker);
    await laying.promise;
    const { begun, goOn, answers } = holders(store(), ada, 10, {
      write: () => newAccount(store()),
      goOn: () => book.forRuns(asker),
    });
    await begun;
    allHeld.resolve();
    goOn();
    const all = [...(await answers), await other];
    expect(all.map((found) => found?.skills.length)).toEqual(all.map(() => 1));
  });
});

function catalogsOf(store: Store, clock: { now(): Date }, log = createLog('silent')) {
  const fetches = { environment: unasked, setting: unasked };
  return createModelCatalogs({ store, fetches, refreshHours: 1, terms: async () => asItIs, clock, log });
}

async function unasked(): Promise<never> {
  throw new Error('No URL is asked in these tests.');
}

/** Requests of one person that have each written something, and go on together. */
function holders<Answer>(store: Store, { userId }: Reach, count: number, steps: Steps<Answer>) {
  const free = Promise.withResolvers<void>();
  const all = Array.from({ length: count }, (_, index) => {
    const written = Promise.withResolvers<void>();
    const work = async () => {
      await steps.write();
      written.resolve();
      await free.promise;
      return steps.goOn?.();
    };
    const request = { principalId: userId, userId, key: `key-${index}`, fingerprint: 'same' };
    return { written: written.promise, answer: store.keptRequests.once(request, work, () => null) };
  });
  return {
    // Of one that has failed nothing more is to come.
    begun: Promise.all(all.map(({ written, answer }) => Promise.race([written, answer]))),
    goOn: () => free.resolve(),
    answers: Promise.all(all.map(({ answer }) => answer)),
  };
}

interface Steps<Answer> {
  readonly write: () => Promise<unknown>;
  readonly goOn?: () => Promise<Answer>;
}
