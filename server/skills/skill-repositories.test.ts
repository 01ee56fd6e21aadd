/** Syncs of repositories of skills that are begun by one server and ended by another. On both engines. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createSealing } from '../identity/identity.ts';
import { newId } from '../ids.ts';
import { createLog } from '../log.ts';
import { describeStores, newAccount } from '../store/test-stores.ts';
import { openSkillRepositories } from './skill-repositories.ts';

describeStores('A sync of a repository of skills', (store, { clock }) => {
  it('is taken up again however often servers are stopped in its middle', async () => {
    const operator = await newAccount(store());
    const id = newId('skillRepository');
    const none = { ref: null, subfolder: null, pinned_commit: null, username: null, sealed_token: null };
    const content = { name: 'house', url: 'https://git.example.com/house', ...none };
    await store().skillRepositories.add(operator, id, content);
    await store().skillRepositories.beginSync(operator, id);
    const directory = mkdtempSync(join(tmpdir(), 'service-syncs-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    for (const owner of ['first', 'second', 'third']) {
      const fetching = Promise.withResolvers<void>();
      const server = openSkillRepositories({
        store: store(),
        sealing: createSealing(randomBytes(32)),
        refusalOf: () => null,
        fetch: (_url, options) => {
          fetching.resolve();
          return new Promise((_resolve, reject) => {
            options?.signal?.addEventListener('abort', () => reject(new Error('aborted')));
          });
        },
        directory,
        lease: { leaseMs: 60_000, renewMs: 20_000 },
        owner,
        hasDied: () => false,
        draining: () => false,
        clock,
        log: createLog('silent'),
      });
      server.start();
      await fetching.promise;
      await server.stop();
    }
    const next = { owner: 'fourth', until: clock.now().getTime() + 60_000, hasDied: () => false };
    expect(await store().skillRepositories.claimSync(next)).toMatchObject({ id });
  });
});
