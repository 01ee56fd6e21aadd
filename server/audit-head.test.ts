/** The head of the audit log is written down where the database is not, and missed when entries are cut off. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import knex from 'knex';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createFileLog } from './log.ts';
import { startServer } from './main.ts';
import { readServerSettings } from './server-settings/server-settings.ts';

const told = 'the head of the audit log';
const missed = 'the audit log is not the one whose head was written down';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-audit-head-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('a server tells it at its start, writes it beside the database, and a shorter chain is told at the next', async () => {
  expect(await logOfServer('first')).toContain(told);
  const log = await logOfServer('second');
  const anchors = (await readFile(join(folder, 'audit-anchors.jsonl'), 'utf8')).trim().split('\n');
  const last = JSON.parse(anchors.at(-1) ?? '');
  expect(log).toContain(`"sequence":${last.sequence},"hash":"${last.hash}"`);
  expect(log).not.toContain(missed);

  await cutOff(last.sequence - 1);
  expect(await logOfServer('third')).toContain(missed);
});

/** What a server on this folder writes to its log until it is stopped. */
async function logOfServer(name: string): Promise<string> {
  const file = join(folder, `${name}.log`);
  const flags = ['--port', '0', '--data-dir', folder, '--global-config', folder, '--drain-seconds', '0'];
  const { settings } = readServerSettings(flags, { HOME: folder });
  const server = await startServer(settings, { environment: {}, log: createFileLog(file) });
  await server.services.anchorAuditLog();
  await server.stop();
  return readFile(file, 'utf8');
}

/** As somebody does it who has the file of the database, and knows of the head. */
async function cutOff(sequence: number): Promise<void> {
  const connection = { filename: join(folder, 'service.db') };
  const sql = knex({ client: 'sqlite3', connection, useNullAsDefault: true });
  const triggers = await sql('sqlite_master').where({ type: 'trigger' }).where('name', 'like', 'audit_%');
  for (const { name } of triggers) await sql.raw(`drop trigger ${name}`);
  await sql('audit_entries').where('sequence', '>', sequence).delete();
  const last = await sql('audit_entries').where({ sequence }).first();
  await sql('audit_head').update({ sequence, hash: last.hash });
  for (const { sql: statement } of triggers) await sql.raw(statement);
  await sql.destroy();
}
