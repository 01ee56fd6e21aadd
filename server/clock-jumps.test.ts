/** Somebody sets the clocks of the machines an hour forward and back: runs stay where they are, and what has expired is refused. */
import { join } from 'node:path';
import knex from 'knex';
import { expect, test } from 'vitest';
import { startUpstream } from '../contract-tests/upstream/start-upstream.ts';
import type { TokenPair } from './contract/api.ts';
import { hasEnded, longLease, messagesOf, replay, runThat, startCrashing, textIn } from './crash-checks.ts';
import { scriptedSettings, temporaryFolder, writeSettings } from './server-process.ts';
import { clientOf } from './test-client.ts';
import { canShiftClocks, shiftedClocks } from './test-clock.ts';

const said = 'Held for a long, long time.';

test.skipIf(!canShiftClocks)(
  'no clock that jumps by an hour takes a run from the process that works on it, or gives it to two',
  async () => {
    const upstream = await startUpstream();
    try {
      const folder = await temporaryFolder();
      await writeSettings(folder, scriptedSettings(upstream.url));
      await upstream.script([{ reply: { text: said, hold_after_chunks: 3 } }]);
      const clock = await shiftedClocks(folder);
      const [here, there] = [await clock('here'), await clock('there')];
      const first = await startCrashing(folder, { ...here.variables, ...longLease });
      const second = await startCrashing(folder, { ...there.variables, ...longLease });
      const client = clientOf(first, first.key);
      const stream = await client.stream('/api/v1/query/stream', { prompt: 'hold' });
      await stream.until(({ name }) => name === 'message');
      for (const jump of [
        () => here.shift(1),
        () => here.shift(-1),
        () => there.shift(1),
        () => there.shift(-1),
        () => Promise.all([here.shift(1), there.shift(1)]),
      ]) {
        await jump();
        await expectRenewed(join(folder, 'data/service.db'), stream.runId);
      }
      // The clocks are what they were set to be.
      expect(await hoursOff(first.url)).toBeCloseTo(1, 1);
      await upstream.releaseHeld();
      const run = await runThat(clientOf(second, first.key), stream.runId, hasEnded);
      expect(run).toMatchObject({ status: 'completed', resumptions: 0 });
      await stream.ended;
      expect(stream.events).toEqual(await replay(client, run, []));
      const messages = await messagesOf(client, run.session_id);
      expect(messages.map(textIn)).toEqual(['hold', said]);
      expect(await upstream.requests()).toHaveLength(1);
      for (const server of [first, second]) expect(server.log()).not.toMatch(/taken over|lease/i);

      // Of a process that has died it is taken, once, whatever the time is said to be.
      const next = await client.stream('/api/v1/query/stream', { prompt: 'hold' });
      await next.until(({ name }) => name === 'message');
      await there.shift(-1);
      await first.kill9();
      await runThat(clientOf(second, first.key), next.runId, ({ resumptions }) => resumptions === 1);
      await expectRenewed(join(folder, 'data/service.db'), next.runId);
      await upstream.releaseHeld();
      expect(await runThat(clientOf(second, first.key), next.runId, hasEnded)).toMatchObject({
        status: 'completed',
        resumptions: 1,
      });
    } finally {
      await upstream.stop();
    }
  },
  180_000,
);

test.skipIf(!canShiftClocks)(
  'a question is answered on any node, also on one whose clock says that its time has passed',
  async () => {
    const upstream = await startUpstream();
    try {
      const folder = await temporaryFolder();
      await writeSettings(folder, scriptedSettings(upstream.url));
      const write = { name: 'write', arguments: { file_path: 'a.txt', content: 'A' } };
      await upstream.script([
        { when: { step: 0 }, reply: { tool_calls: [write] } },
        { reply: { text: 'The tool said: {{last_tool_result}}' } },
      ]);
      const ahead = await (await shiftedClocks(folder))('ahead');
      const first = await startCrashing(folder);
      const second = await startCrashing(folder, ahead.variables);
      await ahead.shift(24 * 365);
      const client = clientOf(first, first.key);
      const body = { prompt: 'Go.', permission_mode: 'ask' };
      const stream = await client.stream('/api/v1/query/stream', body);
      const asked = await stream.until(
        ({ name, data }) => name === 'runtime' && data.type === 'permission_requested',
      );
      if (asked.name !== 'runtime' || asked.data.type !== 'permission_requested') throw new Error('unasked');
      const { reply_path } = asked.data.request;
      const reply = { decision: 'allow_once' };
      expect(await clientOf(second, first.key).post(reply_path, reply)).toMatchObject({
        status: 200,
        body: { status: 'answered' },
      });
      await stream.ended;
      expect(await runThat(client, stream.runId, hasEnded)).toMatchObject({ status: 'completed' });
    } finally {
      await upstream.stop();
    }
  },
);

test.skipIf(!canShiftClocks)(
  'a token and a key that have expired are refused once the clock says so; one from a clock that is ahead is none yet',
  async () => {
    const folder = await temporaryFolder();
    const clock = await shiftedClocks(folder);
    const own = await clock('own');
    const server = await startCrashing(folder, own.variables);
    const account = { email: 'ada@example.com', password: 'correct-horse-battery' };
    const operator = clientOf(server, server.key);
    const { body: registered } = await clientOf(server).post<TokenPair>('/api/v1/auth/register', account);
    const { status, body: key } = await operator.post<{ readonly key: string }>('/api/v1/auth/api-keys', {
      name: 'short',
      scopes: ['sessions:read'],
      expires_at: new Date(Date.now() + 30 * 60_000).toISOString(),
    });
    expect(status).toBe(201);
    const answers = async (...credentials: readonly string[]) =>
      Promise.all(
        credentials.map(async (credential) => {
          const answer = await clientOf(server, credential).get('/api/v1/sessions');
          return answer.status === 200 ? 'taken' : answer.body.code;
        }),
      );
    const { access_token, refresh_token } = registered;
    expect(await answers(access_token, key.key)).toEqual(['taken', 'taken']);
    await own.shift(1);
    expect(await answers(access_token, key.key)).toEqual(['credential_expired', 'credential_expired']);
    // The login is still good, and begins anew by that clock.
    const { body: renewed } = await clientOf(server).post<TokenPair>('/api/v1/auth/refresh', {
      refresh_token,
    });
    expect(await answers(renewed.access_token)).toEqual(['taken']);
    await own.shift(-1);
    // By the seconds that have passed neither is as old as that; what comes from the future is refused.
    expect(await answers(access_token, key.key)).toEqual(['taken', 'taken']);
    expect(await answers(renewed.access_token)).toEqual(['credential_invalid']);
    expect((await operator.get('/api/v1/users/me')).status).toBe(200);
  },
);

/** Waits until the lease has been renewed for longer than it is good, and by the same process. */
async function expectRenewed(filename: string, runId: string): Promise<void> {
  const sql = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true });
  try {
    const lease = () =>
      sql('runs').where({ id: runId }).first('lease_owner', 'lease_renewals', 'resumptions');
    const before = await lease();
    // 3.3 times while it is good.
    await expect.poll(async () => (await lease()).lease_renewals).toBeGreaterThan(before.lease_renewals + 4);
    expect(await lease()).toMatchObject({
      lease_owner: before.lease_owner,
      resumptions: before.resumptions,
    });
  } finally {
    await sql.destroy();
  }
}

async function hoursOff(url: string): Promise<number> {
  const { headers } = await fetch(`${url}/health`);
  return (Date.parse(headers.get('date') ?? '') - Date.now()) / 3_600_000;
}
