/** A run with several questions open at once: its own beside that of an agent that works for it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Json, readEvents, type TestApp, testApp } from '../test-app.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;

beforeAll(async () => {
  upstream = await startUpstream();
  // With one account: where there are several, nobody is asked about files outside of the workspace.
  app = await testApp({ config: { providers: { scripted: scriptedProvider(upstream, 'scripted-1') } } });
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const get = async (path: string) => (await app.request('GET', path, { token: app.operatorKey })).body;

/** The agent asks whether it may write, and the run itself meanwhile whether it may view. */
async function scriptBoth(file: string): Promise<void> {
  const errand = { description: 'Write a file', prompt: 'Write it.', agent_slug: 'coder' };
  const calls = [
    { name: 'agent', arguments: errand },
    { name: 'view', arguments: { file_path: '/etc/hostname' } },
  ];
  const write = { name: 'write', arguments: { file_path: file, content: 'x' } };
  await upstream.script([
    { when: { step: 0, last_user: '^Go' }, reply: { tool_calls: calls } },
    { when: { last_user: '^Go' }, reply: { text: 'Both are there.' } },
    { when: { step: 0 }, reply: { tool_calls: [write] } },
    { reply: { text: 'Written.' } },
  ]);
}

async function statuses(): Promise<readonly string[]> {
  const [session] = (await get('/api/v1/sessions?limit=1')).data;
  const { run } = await get(`/api/v1/sessions/${session.id}/inspect`);
  return [session.status, run?.status];
}

async function allow({ reply_path }: Json): Promise<void> {
  const answer = { token: app.operatorKey, body: { decision: 'allow_once' } };
  expect((await app.request('POST', reply_path, answer)).status).toBe(200);
}

test.each(['view', 'write'])(
  'a run waits as long as one of two questions is open: that of %s is answered first',
  async (first) => {
    await scriptBoth(`${first}.txt`);
    const response = await app.stream('POST', '/api/v1/query/stream', {
      token: app.operatorKey,
      body: { prompt: 'Go.' },
    });
    const asked = new Map<string, Json>();
    const states: (readonly string[])[] = [];
    let done: Json;
    for await (const { data } of readEvents(response)) {
      done = data;
      if (data.type === 'permission_requested') {
        asked.set(data.request.tool_name, data.request);
        if (asked.size < 2) continue;
        states.push(await statuses());
        await allow(asked.get(first));
      }
      if (data.type !== 'permission_resolved' || asked.size < 2) continue;
      states.push(await statuses());
      asked.delete(first);
      await allow([...asked.values()][0]);
    }
    expect(states).toEqual(Array(2).fill(['waiting', 'waiting_permission']));
    expect(done).toMatchObject({ status: 'completed', content: [{ text: 'Both are there.' }] });
  },
);
