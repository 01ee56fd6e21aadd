/** What is made in something while somebody else deletes that: it is refused as if it had come later. */
import { expect, it, vi } from 'vitest';
import type { Reach, Store } from './store.ts';
import { waiting } from './test-locks.ts';
import { describeStore, newAccount } from './test-stores.ts';

interface Place {
  readonly workspaceId: string;
  readonly corpusId: string;
}

const cases: readonly [
  what: string,
  table: 'workspaces' | 'corpora',
  make: (store: Store, reach: Reach, place: Place) => Promise<unknown>,
][] = [
  [
    'sessions',
    'workspaces',
    (store, reach, { workspaceId }) => store.sessions.create(reach, { workspace_id: workspaceId }),
  ],
  [
    'corpora',
    'workspaces',
    (store, reach, { workspaceId }) =>
      store.corpora.create(reach, { name: 'Other', workspace_id: workspaceId }),
  ],
  [
    'documents',
    'corpora',
    (store, reach, { corpusId }) =>
      store.ingestionJobs.add(reach, corpusId, { urls: ['https://pages.example/one'] }, null),
  ],
];

// SQLite has one writer, who looks and writes in one transaction.
describeStore('postgresql', 'What somebody deletes at this moment', (store, engine) => {
  it.each(cases)('takes in no new %s (%s)', async (_what, table, make) => {
    const reach = await newAccount(store());
    const { workspace } = await store().workspaces.create(reach, { name: 'Short' });
    const workspaceId = workspace.id;
    const { corpus } = await store().corpora.create(reach, { name: 'Library', workspace_id: workspaceId });
    const id = table === 'corpora' ? corpus.id : workspaceId;
    const [making] = await engine.sql().transaction(async (deleting) => {
      await deleting(table).where({ id }).delete();
      const made = make(store(), reach, { workspaceId, corpusId: corpus.id }).catch(
        (error: unknown) => error,
      );
      await vi.waitFor(async () => expect(await waiting(engine.sql())).toBe(1), { timeout: 60_000 });
      return [made];
    });
    expect(await making).toMatchObject({ code: 'not_found' });
  });
});
