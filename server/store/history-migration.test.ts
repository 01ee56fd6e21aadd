import type knex from 'knex';
import { expect, it } from 'vitest';
import { newId } from '../ids.ts';
import { accounts } from './migrations/0001-accounts.ts';
import { sessions } from './migrations/0002-sessions.ts';
import { describeStores } from './test-stores.ts';

describeStores('What was said before there were searches', (_store, engine) => {
  it('is found after the migration', async () => {
    const sql = engine.sql();
    // The database as the first version left it: emptied, and brought to that version alone.
    await emptyDatabase(sql, engine.dialect);
    await sql.transaction(async (transaction) => {
      await accounts.up(transaction);
      await sessions.up(transaction);
      await transaction.schema.createTable('schema_versions', (table) => {
        table.integer('version').primary();
        table.text('name').notNullable();
        table.bigInteger('applied_at').notNullable();
      });
      await transaction('schema_versions').insert([
        { version: 1, name: 'accounts', applied_at: 0 },
        { version: 2, name: 'sessions', applied_at: 0 },
      ]);
    });
    const reach = await oldSession(sql);
    const store = await engine.open();
    const find = async (query: string) => (await store.searches.find(reach, { query }, {})).data;
    expect(await find('walrus')).toMatchObject([{ kind: 'title', snippet: 'The walrus' }]);
    expect(await find('number 449')).toMatchObject([{ kind: 'message', snippet: 'Message number 449' }]);
    const messages = await store.messages.list(reach, reach.sessionId, { limit: 1 });
    expect(messages.data[0]).toMatchObject({ reverted: false, feedback: null });
  });
});

type Sql = ReturnType<typeof knex>;

async function emptyDatabase(sql: Sql, dialect: 'sqlite' | 'postgresql'): Promise<void> {
  if (dialect === 'postgresql') {
    await sql.raw('drop schema public cascade');
    await sql.raw('create schema public');
    return;
  }
  await sql.raw('drop table search_words');
  const tables = await sql('sqlite_master')
    .where({ type: 'table' })
    .whereNot('name', 'like', 'sqlite_%')
    .pluck('name');
  for (const table of tables) await sql.schema.dropTable(table);
}

/** A session of the first version with more messages than the migration reads at once. */
async function oldSession(sql: Sql) {
  const [userId, organizationId, workspaceId, sessionId] = [
    newId('user'),
    newId('organization'),
    newId('workspace'),
    newId('session'),
  ];
  const times = { created_at: 1, updated_at: 1 };
  await sql('organizations').insert({ ...times, id: organizationId, name: 'o' });
  const workspace = { id: workspaceId, organization_id: organizationId, name: 'w', is_default: true };
  await sql('workspaces').insert({ ...times, ...workspace });
  await sql('sessions').insert({
    ...times,
    ...{ id: sessionId, organization_id: organizationId, workspace_id: workspaceId, user_id: userId },
    ...{ title: 'The walrus', status: 'idle', agent_slug: 'coder', permission_rules: '[]', tags: '[]' },
    ...{ metadata: '{}', archived: false, input_tokens: 0, output_tokens: 0, cached_input_tokens: 0 },
    ...{ message_count: 450, turn: 1, revision: 1 },
  });
  const messages = Array.from({ length: 450 }, (_, position) => ({
    ...{ id: newId('message'), organization_id: organizationId, session_id: sessionId, turn: 1, position },
    ...{ role: 'user', parts: JSON.stringify([{ type: 'text', text: `Message number ${position}` }]) },
    created_at: 1,
  }));
  for (let start = 0; start < messages.length; start += 50)
    await sql('messages').insert(messages.slice(start, start + 50));
  return { userId, organizationIds: [organizationId], sessionId };
}
