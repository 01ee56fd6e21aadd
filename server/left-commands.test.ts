/** Commands that a run has left in the background: nobody has them go on who may not act any more, on whichever node they are. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import { temporaryFolder } from './server-process.ts';
import { type Account, mergePatch, type TestApp, testApp } from './test-app.ts';
import { databases, lastingDatabase, newMasterKey } from './test-database.ts';
import { makePeople, registerIn } from './test-people.ts';
import { scriptedProvider } from './test-provider.ts';

const beats = 'while :; do echo x >> {{match.name}}; sleep 0.1; done';

/** What takes from somebody the right to have commands at work. */
const changes = ['their session is deleted', 'they are suspended', 'they leave the organization'] as const;

describe.each(databases)('on %s', (database) => {
  test.each(changes)('a command ends when %s, on another node too', async (change) => {
    const [here, there] = await nodes(database);
    const people = await makePeople(here);
    const mallory = await registerIn(here, people, 'mallory', 'member');
    const bob = await registerIn(here, people, 'bob', 'member');
    const left = await leave(here, mallory, 'mallory');
    const kept = await leave(here, bob, 'bob');
    const token = people.owner.token;
    const headers = { 'if-match': '*' };
    const done =
      change === 'their session is deleted'
        ? await there.request('DELETE', `/api/v1/sessions/${left.sessionId}`, { token: mallory.token })
        : change === 'they are suspended'
          ? await there.request('PATCH', `/api/v1/users/${mallory.user.id}`, {
              ...{ token: there.operatorKey || here.operatorKey, body: { status: 'suspended' } },
              headers: mergePatch,
            })
          : await there.request(
              'DELETE',
              `/api/v1/organizations/${people.organizationId}/members/${mallory.user.id}`,
              { token, headers },
            );
    expect(done.body?.code ?? null).toBeNull();
    await expect.poll(() => left.goesOn()).toBe(false);
    // A busy machine may keep it from its work for longer than one look takes.
    await expect.poll(() => kept.goesOn()).toBe(true);
  });
});

/** One server on SQLite, two on PostgreSQL. */
async function nodes(database: (typeof databases)[number]): Promise<[TestApp, TestApp]> {
  const upstream = await startUpstream();
  await upstream.script([
    {
      when: { last_user: '^leave (?<name>\\S+)', step: 0 },
      reply: { tool_calls: [{ name: 'bash', arguments: { command: beats, run_in_background: true } }] },
    },
    { reply: { text: 'It is at work.' } },
  ]);
  const folder = await temporaryFolder();
  const config = {
    providers: { scripted: scriptedProvider(upstream, 'scripted-1') },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
  };
  const kept = await lastingDatabase(database, folder);
  const settings = { databaseUrl: kept.url, masterKeyFile: await newMasterKey(folder) };
  const here = await testApp({ config, settings });
  const there = database === 'sqlite' ? here : await testApp({ config, settings });
  onTestFinished(async () => {
    for (const app of new Set([here, there])) await app.close();
    await kept.remove();
    await upstream.stop();
  });
  return [here, there];
}

async function leave(app: TestApp, { token }: Account, name: string) {
  const rules = [{ tool: 'bash', decision: 'allow' }];
  const made = await app.request('POST', '/api/v1/sessions', { token, body: { permission_rules: rules } });
  const { id: sessionId, workspace_id } = made.body;
  const body = { prompt: `leave ${name}`, session_id: sessionId };
  const { status } = await app.request('POST', '/api/v1/query', { token, body });
  expect(status).toBe(200);
  const file = join(app.dataDirectory, 'workspaces', workspace_id, name);
  const size = () => stat(file).then((stats) => stats.size);
  await expect.poll(() => size().catch(() => 0)).toBeGreaterThan(0);
  return {
    sessionId,
    async goesOn() {
      const before = await size();
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return (await size()) > before;
    },
  };
}
