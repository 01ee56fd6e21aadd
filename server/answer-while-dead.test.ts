/** A question that is answered while the process that asked it is dead: the next one goes on with that answer. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import { systemClock } from './clock.ts';
import type { Me, PermissionRequest, Session } from './contract/api.ts';
import { hasEnded, messagesOf, runThat, startCrashing } from './crash-checks.ts';
import { createLog } from './log.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { openStore } from './store/store.ts';
import { clientOf } from './test-client.ts';

const asked = { file_path: 'asked.txt', content: 'A' };
const updated_input = { file_path: 'answered.txt' };

test('the call runs with the input that a person gave it meanwhile', async () => {
  const upstream = await startUpstream();
  try {
    await upstream.script([
      { when: { step: 0 }, reply: { text: 'May I?', tool_calls: [{ name: 'write', arguments: asked }] } },
      { reply: { text: 'Done.' } },
    ]);
    const folder = await temporaryFolder();
    await writeSettings(folder, scriptedSettings(upstream.url));
    const first = await startCrashing(folder);
    const client = clientOf(first, first.key);
    const { runId } = await client.stream('/api/v1/query/stream', { prompt: 'Go.', permission_mode: 'ask' });
    const { session_id } = await runThat(client, runId, ({ status }) => status === 'waiting_permission');
    const permissions = `/api/v1/sessions/${session_id}/permissions`;
    const { body } = await client.get<{ data: readonly PermissionRequest[] }>(permissions);
    const { body: session } = await client.get<Session>(`/api/v1/sessions/${session_id}`);
    const { body: me } = await client.get<Me>('/api/v1/users/me');
    await first.kill9();

    // Another node would store the answer just so.
    const store = await openStore(`sqlite:${join(folder, 'data/service.db')}`, {
      clock: systemClock,
      log: createLog('silent'),
    });
    const reach = {
      userId: me.id,
      memberships: me.memberships.map((one) => ({ organizationId: one.organization_id, role: one.role })),
      organizationIds: me.memberships.map((one) => one.organization_id),
      workspaces: [],
    };
    const reply = { decision: 'allow_once', updated_input } as const;
    await store.permissions.answer(reach, session_id, body.data[0]?.id ?? '', reply);
    await store.close();

    const second = await startCrashing(folder);
    const next = clientOf(second, first.key);
    const run = await runThat(next, runId, hasEnded);
    expect(run).toMatchObject({ status: 'completed', resumptions: 1 });
    const workspace = join(folder, 'data/workspaces', session.workspace_id);
    expect(readFileSync(join(workspace, 'answered.txt'), 'utf8')).toBe('A');
    expect(existsSync(join(workspace, 'asked.txt'))).toBe(false);
    const parts = (await messagesOf(next, session_id)).flatMap((message) => message.parts);
    const results = parts.filter(({ type }) => type === 'tool_result');
    expect(results).toMatchObject([
      { is_error: false, content: expect.stringContaining(JSON.stringify(updated_input)) },
    ]);
    await second.kill9();
  } finally {
    await upstream.stop();
  }
});
