import type { Knex } from 'knex';
import { expect, it } from 'vitest';
import { apiKeyRepository } from './api-keys.ts';
import { createCursors } from './cursor.ts';
import { databaseOf } from './database.ts';
import { messageRepository } from './messages.ts';
import { permissionRepository } from './permissions.ts';
import { principalRepository } from './principals.ts';
import { promptRepository } from './prompts.ts';
import { runRepository } from './runs.ts';
import { sessionRepository } from './sessions.ts';
import { describeStore, newAccount } from './test-stores.ts';
import { transcriptOf } from './transcript.ts';
import { userRepository } from './users.ts';

interface Query {
  readonly sql: string;
  readonly bindings: readonly Knex.Value[];
}

// PostgreSQL plans by the size of its tables, which are small here.
describeStore('sqlite', 'Each query that grows with the data walks an index', (store, engine) => {
  it('without a scan and without sorting', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { tags: ['t'] });
    const { id: sessionId, workspace_id } = session;
    const sql = engine.sql();
    const asked: Query[] = [];
    sql.on('query', (query: Query) => asked.push({ sql: query.sql, bindings: query.bindings }));
    const database = databaseOf('sqlite', sql, sql);
    const parts = { database, clock: engine.clock, cursors: createCursors('key') };
    const sessions = sessionRepository(parts);
    const status = 'idle' as const;
    for (const sort of ['created_at', '-created_at', 'updated_at', '-updated_at'] as const) {
      for (const filter of [
        {},
        { status },
        { workspace_id },
        { tag: 't' },
        { tag: 't', status, workspace_id },
      ])
        await sessions.list(reach, { sort, ...filter });
    }
    const runs = runRepository(parts);
    for (const filter of [
      {},
      { session_id: sessionId },
      { status: 'running' as const },
      { trigger: 'api' as const },
    ])
      await runs.list(reach, filter);
    await runs.activeOf(reach, sessionId);
    const messages = messageRepository(parts);
    for (const filter of [{}, { role: 'user' as const }]) await messages.list(reach, sessionId, filter);
    for (const questions of [permissionRepository(parts), promptRepository(parts)])
      for (const filter of [{}, { status: 'pending' as const }])
        await questions.list(reach, sessionId, filter);
    await apiKeyRepository(parts).list(reach, {});
    await userRepository(parts).findForLogin(reach.email);
    await userRepository(parts).hasOperator();
    const principals = principalRepository(parts);
    await principals.byLogin('lgn', engine.clock.now());
    await principals.byApiKeyHash('hash', engine.clock.now());
    const transcript = transcriptOf(parts);
    await transcript.readMessages(sessionId);
    await transcript.readEvents('run', 0, 10);
    await transcript.takeAbandonedRuns(engine.clock.now(), { owner: 'a', expiresAt: engine.clock.now() });
    expect(asked.length).toBeGreaterThan(40);
    sql.removeAllListeners('query');
    for (const query of asked) {
      const plan: { detail: string }[] = await sql.raw(`explain query plan ${query.sql}`, query.bindings);
      const steps = plan.map(({ detail }) => detail).join('\n');
      expect(steps, query.sql).not.toMatch(
        /\bSCAN (?!runs USING INDEX runs_active|users USING (COVERING )?INDEX users_operators)/,
      );
      // The memberships of one person are few; nothing else is sorted.
      if (!query.sql.includes('`memberships`')) expect(steps, query.sql).not.toContain('TEMP B-TREE');
    }
  });
});
