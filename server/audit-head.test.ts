/** The head of the audit log is written down where the database is not, and missed when entries are cut off. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import knex from 'knex';
import { expect, test } from 'vitest';
import { startServer, temporaryFolder } from './server-process.ts';
import { clientOf } from './test-client.ts';

const told = 'the head of the audit log';
const missed = 'the audit log is not the one whose head was written down';

test('a server tells it at its start, writes it beside the database, and a shorter chain is told at the next', async () => {
  const folder = await temporaryFolder();
  const first = await startServer({ folder });
  const client = clientOf(first, first.key);
  for (const name of ['one', 'two']) await client.post('/api/v1/auth/api-keys', { name });
  await first.stop();
  expect(first.log()).toContain(told);

  const second = await startServer({ folder });
  await second.stop();
  const anchors = (await readFile(join(folder, 'data', 'audit-anchors.jsonl'), 'utf8')).trim().split('\n');
  const last = JSON.parse(anchors.at(-1) ?? '');
  expect(second.log()).toContain(`"sequence":${last.sequence},"hash":"${last.hash}"`);
  expect(second.log()).not.toContain(missed);

  await cutOff(folder, last.sequence - 1);
  const third = await startServer({ folder });
  expect(third.log()).toContain(missed);
  const verified = await clientOf(third, first.key).get<object>('/api/v1/audit/logs/verify');
  expect(verified.body).toMatchObject({ valid: false, first_broken: { fault: 'truncated' } });
  await third.stop();
});

/** As somebody does it who has the file of the database, and knows of the head. */
async function cutOff(folder: string, sequence: number): Promise<void> {
  const connection = { filename: join(folder, 'data', 'service.db') };
  const sql = knex({ client: 'sqlite3', connection, useNullAsDefault: true });
  const triggers = await sql('sqlite_master').where({ type: 'trigger' }).where('name', 'like', 'audit_%');
  for (const { name } of triggers) await sql.raw(`drop trigger ${name}`);
  await sql('audit_entries').where('sequence', '>', sequence).delete();
  const last = await sql('audit_entries').where({ sequence }).first();
  await sql('audit_head').update({ sequence, hash: last.hash });
  for (const { sql: statement } of triggers) await sql.raw(statement);
  await sql.destroy();
}
