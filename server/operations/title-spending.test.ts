/** What titles of sessions use: counted whatever came of them, and none is asked for where a quota is used up. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../contract-tests/upstream/start-upstream.ts';
import { type Json, type TestApp, testApp } from '../test-app.ts';
import { untilFarFromMidnight } from '../test-clock.ts';
import { scriptedProvider } from '../test-provider.ts';

let upstream: Upstream;
let app: TestApp;

beforeAll(async () => {
  upstream = await startUpstream();
  app = await testApp({
    config: {
      models: { large: { provider: 'local', model: 'm' }, small: { provider: 'local', model: 's' } },
      providers: { local: scriptedProvider(upstream, 'm', 's') },
    },
  });
});
afterAll(async () => {
  await app.close();
  await upstream.stop();
});

const answer = { reply: { text: 'Yes.', usage: { input: 100, output: 20 } } };

async function person(name: string) {
  await untilFarFromMidnight(20_000);
  const { token, user } = await app.register(name);
  const send = async (method: string, path: string, body?: object): Promise<Json> =>
    (await app.request(method, `/api/v1${path}`, { token, ...(body && { body }) })).body;
  return {
    ...{ user, send },
    /** Tokens that the small model has read and written. */
    async ofTitles(): Promise<[number, number] | null> {
      const { data } = await send('GET', '/usage?group_by=model');
      const found = data.find(({ model }: Json) => model === 'local:s');
      return found ? [found.usage.input_tokens, found.usage.output_tokens] : null;
    },
  };
}

test('a title that comes to no end is counted as far as it came', async () => {
  const { send, ofTitles } = await person('ada');
  const long = 'x '.repeat(15_000);
  await upstream.script([
    { when: { model: 's' }, reply: { text: long, usage: { input: 500, output: 9000 } } },
    answer,
  ]);
  await send('POST', '/query', { prompt: 'Is it?' });
  await expect.poll(ofTitles).not.toBeNull();
  const [read, written] = (await ofTitles()) ?? [0, 0];
  expect(read).toBeGreaterThan(50);
  // It is not read beyond 20,000 letters.
  expect(written).toBeGreaterThan(5000);
});

test('no title is asked for where the run has used up a quota', async () => {
  const { user, send, ofTitles } = await person('bob');
  await upstream.script([
    { when: { model: 's' }, reply: { text: 'A title', usage: { input: 500, output: 7 } } },
    answer,
  ]);
  await send('PUT', `/quotas/user/${user.id}`, { limits: { tokens: { month: { hard: 120 } } } });
  const { session_id } = await send('POST', '/query', { prompt: 'Is it?' });
  // One that is asked for later has come.
  const carl = await person('carl');
  await carl.send('POST', '/query', { prompt: 'Is it?' });
  await expect.poll(carl.ofTitles).toEqual([500, 7]);
  expect(await ofTitles()).toBeNull();
  expect((await send('GET', `/sessions/${session_id}`)).title).toBe('Is it?');
});
