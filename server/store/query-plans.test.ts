import type { Knex } from 'knex';
import { expect, it } from 'vitest';
import { apiKeyRepository } from './api-keys.ts';
import { createCursors } from './cursor.ts';
import { databaseOf } from './database.ts';
import { messageRepository } from './messages.ts';
import type { StoreParts } from './parts.ts';
import { permissionRepository } from './permissions.ts';
import { principalRepository } from './principals.ts';
import { promptRepository } from './prompts.ts';
import { runRepository } from './runs.ts';
import { sessionRepository } from './sessions.ts';
import type { Reach } from './store.ts';
import { describeStore, newAccount } from './test-stores.ts';
import { transcriptOf } from './transcript.ts';
import { userRepository } from './users.ts';

interface Query {
  readonly sql: string;
  readonly bindings: readonly Knex.Value[];
}

// PostgreSQL plans by the size of its tables, which are small here.
describeStore('sqlite', 'Each query that grows with the data walks an index', (store, engine) => {
  /** The plans of what `ask` asks, all in one text. */
  const plansOf = async (ask: (parts: StoreParts) => Promise<unknown>): Promise<string> => {
    const sql = engine.sql();
    const asked: Query[] = [];
    const listen = (query: Query) => asked.push({ sql: query.sql, bindings: query.bindings });
    sql.on('query', listen);
    const database = databaseOf('sqlite', sql, sql);
    await ask({ database, clock: engine.clock, cursors: createCursors('key') });
    sql.removeListener('query', listen);
    const plans: { detail: string }[] = [];
    for (const query of asked)
      plans.push(...(await sql.raw(`explain query plan ${query.sql}`, query.bindings)));
    return plans.map(({ detail }) => detail).join('\n');
  };
  const expectIndexed = (plans: string): void => {
    expect(plans).not.toMatch(/\bSCAN (?!\w+ USING (COVERING )?INDEX (runs_active|users_operators))/);
    expect(plans).not.toContain('TEMP B-TREE');
  };

  it('in the list of sessions, for each filter, each order and each page', async () => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, { tags: ['t'] });
    await store().sessions.create(reach, { tags: ['t'] });
    const [status, workspace_id, tag] = ['idle' as const, session.workspace_id, 't'];
    for (const sort of ['created_at', '-created_at', 'updated_at', '-updated_at'] as const) {
      for (const filter of [{}, { status }, { workspace_id }, { tag }, { tag, status, workspace_id }]) {
        const plans = await plansOf(async (parts) => {
          const sessions = sessionRepository(parts);
          const { next_cursor } = await sessions.list(reach, { sort, ...filter, limit: 1 });
          await sessions.list(reach, { sort, ...filter, cursor: next_cursor ?? '' });
        });
        expectIndexed(plans);
        const [column = 'organization_id'] = Object.keys(filter);
        const id = 'tag' in filter ? 'session_id' : 'id';
        const order = `(${sort.replace('-', '')},${id})${sort.startsWith('-') ? '<' : '>'}(?,?)`;
        const steps = plans.split('\n').filter((step) => step.includes(order));
        expect(steps.join(), plans).toContain(`${column}=?`);
      }
    }
  });

  it.each<[string, string, (parts: StoreParts, reach: Reach, sessionId: string) => Promise<unknown>]>([
    ['runs', 'organization_id', (parts, reach) => runRepository(parts).list(reach, {})],
    ['runs', 'session_id', (parts, reach, session_id) => runRepository(parts).list(reach, { session_id })],
    ['runs', 'status', (parts, reach) => runRepository(parts).list(reach, { status: 'running' })],
    ['runs', 'trigger', (parts, reach) => runRepository(parts).list(reach, { trigger: 'api' })],
    ['runs', 'session_id', (parts, reach, id) => runRepository(parts).activeOf(reach, id)],
    ['messages', 'session_id', (parts, reach, id) => messageRepository(parts).list(reach, id, {})],
    ['messages', 'role', (parts, reach, id) => messageRepository(parts).list(reach, id, { role: 'user' })],
    [
      'permission requests',
      'session_id',
      (parts, reach, id) => permissionRepository(parts).list(reach, id, {}),
    ],
    [
      'permission requests',
      'status',
      (parts, reach, id) => permissionRepository(parts).list(reach, id, { status: 'pending' }),
    ],
    ['prompt requests', 'session_id', (parts, reach, id) => promptRepository(parts).list(reach, id, {})],
    [
      'prompt requests',
      'status',
      (parts, reach, id) => promptRepository(parts).list(reach, id, { status: 'pending' }),
    ],
    ['API keys', 'user_id', (parts, reach) => apiKeyRepository(parts).list(reach, {})],
    ['accounts', 'email_key', (parts) => userRepository(parts).findForLogin('ada@example.com')],
    ['messages to a model', 'session_id', (parts, _, id) => transcriptOf(parts).readMessages(id)],
    ['events', 'run_id', (parts) => transcriptOf(parts).readEvents('run', 0, 10)],
  ])('for the %s of one %s', async (_noun, column, ask) => {
    const reach = await newAccount(store());
    const { session } = await store().sessions.create(reach, {});
    const plans = await plansOf((parts) => ask(parts, reach, session.id));
    expectIndexed(plans);
    expect(plans).toMatch(new RegExp(`\\b${column}=\\?`));
  });

  it('of those that hold only what is looked for', async () => {
    const lease = { owner: 'a', expiresAt: engine.clock.now() };
    const abandoned = await plansOf((parts) => transcriptOf(parts).takeAbandonedRuns(lease.expiresAt, lease));
    expect(abandoned).toContain('runs_active');
    const operators = await plansOf((parts) => userRepository(parts).hasOperator());
    expect(operators).toContain('users_operators');
    const prunable = await plansOf((parts) => runRepository(parts).pruneEvents(engine.clock.now()));
    expect(prunable).toContain('runs_prunable');
    for (const plans of [abandoned, operators]) expectIndexed(plans);
  });

  it('for the credential of each request, one row of each table after the other', async () => {
    const now = engine.clock.now();
    for (const ask of [
      (parts: StoreParts) => principalRepository(parts).byLogin('lgn', now),
      (parts: StoreParts) => principalRepository(parts).byApiKeyHash('hash', now),
      (parts: StoreParts) => principalRepository(parts).byApiKey('key', now),
    ])
      expect(await plansOf(ask)).not.toMatch(/\bSCAN /);
  });
});
