/** `service run` with a person at the terminal and a server elsewhere, to which the network is not always there. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServiceClient } from '@service/client';
import { expect, test } from 'vitest';
import { launcher, testHome } from '../test-command.ts';
import { withScriptedModel } from '../test-model.ts';
import { startTestProxy } from '../test-proxy.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

const call = (name: string, args: object) => ({ name, arguments: args });
const step = (at: number, ...tool_calls: object[]) => ({ when: { step: at }, reply: { tool_calls } });
const questions = [{ id: 'q', type: 'free_text', text: 'What else?' }];
const asks = call('ask_user', { questions });
const touch = call('bash', { command: 'touch made' });
const said = { reply: { text: 'The tool said: {{last_tool_result}}' } };

/** A server with this model behind a network that can be spoilt. */
async function serverElsewhere(rules: readonly object[]) {
  const home = testHome();
  const model = await withScriptedModel(home, rules);
  const file = join(home.home, '.config/service/service.json');
  const server = await startTestServer(JSON.parse(readFileSync(file, 'utf8')));
  const proxy = await startTestProxy(server.url);
  const environment = { ...home.environment, SERVICE_API_KEY: server.operatorKey };
  const runThere = async (...words: readonly string[]) =>
    await openTestTerminal([launcher, 'run', '--server', proxy.url, ...words], {
      cwd: home.project,
      environment,
    });
  return { home, model, proxy, server, environment, runThere };
}

test('an answer that is refused is asked for again, and one that does not arrive is sent again', async () => {
  const { proxy, runThere } = await serverElsewhere([step(0, asks), step(1, touch), said]);
  const terminal = await runThere('go');
  await terminal.shows(/What else\?\n {2}>/);
  await terminal.paste('x'.repeat(10_001));
  await terminal.press('Enter');
  await terminal.shows(/at most 10000 characters, and this one 10001\.[\s\S]*\n {2}>/);
  proxy.spoil(/^POST .*\/prompts\//, 'dropped');
  await terminal.press('s', 'h', 'o', 'r', 't', 'Enter');
  expect(await terminal.shows('d deny')).toMatch(
    /short\nservice: The answer did not arrive, and is sent again\./,
  );
  proxy.spoil(/^POST .*\/permissions\//, 400);
  await terminal.press('a');
  expect(await terminal.shows(/The answer was refused\.[\s\S]*d deny/)).not.toContain('→ allowed');
  proxy.spoil(/^POST .*\/permissions\//, 'dropped');
  await terminal.press('a');
  expect((await terminal.end()).screen).toMatch(
    /The answer was refused\.(?![\s\S]*→[\s\S]*sent again)[\s\S]*sent again\.[\s\S]*→ allowed once[\s\S]*The tool said/,
  );
});

test('a run whose terminal is closed at a question is interrupted', async () => {
  const { home, model, server, environment, proxy } = await serverElsewhere([step(0, asks), said]);
  const code = join(home.home, 'code');
  const line = `trap : HUP; '${launcher}' run --server ${proxy.url} go; echo $? >'${code}'`;
  const terminal = await openTestTerminal(['sh', '-c', line], { cwd: home.project, environment });
  await terminal.shows(/What else\?\n {2}>/);
  await terminal.hangUp();
  await expect.poll(() => existsSync(code) && readFileSync(code, 'utf8')).toBe('129\n');
  const client = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  const status = async () => (await client.GET('/api/v1/sessions')).data.data[0]?.status;
  await expect.poll(status).toBe('idle');
  // Nobody has declined to answer.
  expect(await model.requests()).toHaveLength(1);
});

test('an interrupt that does not arrive is sent again', async () => {
  // Nothing but the interrupt ends the run: what it asks is not asked any more.
  const reply = { text: 'I think long.', chunk_size: 7, hold_after_chunks: 2, tool_calls: [asks] };
  const { model, proxy, runThere } = await serverElsewhere([{ when: { step: 0 }, reply }, said]);
  const terminal = await runThere('go');
  await terminal.shows('I think');
  proxy.spoil(/^POST .*\/interrupt$/, 'dropped');
  await terminal.press('C-c');
  await terminal.shows('The interrupt did not arrive, and is sent again.');
  await model.release();
  const { screen, code } = await terminal.end();
  expect(code).toBe(130);
  expect(screen).not.toContain('What else?');
});

test('Ctrl+C ends a run whose answer is on its way, and gets no answer itself', async () => {
  const { proxy, runThere } = await serverElsewhere([step(0, touch), said]);
  const terminal = await runThere('go');
  await terminal.shows('d deny');
  proxy.spoil(/^POST .*\/permissions\//, 'unanswered');
  await terminal.press('a');
  await expect.poll(() => proxy.spoilt()).toHaveLength(1);
  await terminal.press('C-c');
  const { screen, code } = await terminal.end();
  expect(code).toBe(130);
  expect(screen).toMatch(/Stopping the run[\s\S]*the run was interrupted/);
});

test('a run that ends by itself ends the command, though its interrupt gets no answer', async () => {
  const reply = { text: 'I think long.', chunk_size: 7, hold_after_chunks: 2 };
  const { model, proxy, runThere } = await serverElsewhere([{ reply }]);
  const terminal = await runThere('go');
  await terminal.shows('I think');
  proxy.spoil(/^POST .*\/interrupt$/, 'unanswered');
  await terminal.press('C-c');
  await expect.poll(() => proxy.spoilt()).toHaveLength(1);
  await model.release();
  expect((await terminal.end()).code).toBe(130);
});

test('where the stream is lost for good before an interrupt arrives, the command does not end in silence', async () => {
  const reply = { text: 'I think long.', chunk_size: 7, hold_after_chunks: 2 };
  const { proxy, runThere } = await serverElsewhere([{ reply }]);
  const terminal = await runThere('go');
  await terminal.shows('I think');
  proxy.spoil(/^POST .*\/interrupt$/, 'unanswered');
  await terminal.press('C-c');
  await expect.poll(() => proxy.spoilt()).toHaveLength(1);
  proxy.spoil(/^GET .*\/events/, 404);
  proxy.cut(/^POST .*\/query\/stream$/);
  const { screen, code } = await terminal.end();
  expect(code).toBe(130);
  expect(screen).toMatch(
    /service: The run could not be interrupted: The stream could not be continued[\s\S]*it goes on at the server\./,
  );
});

test('a question whose answer the network loses is sent again, and begins one run', async () => {
  const { model, proxy, runThere } = await serverElsewhere([{ reply: { text: 'Once.' } }]);
  proxy.spoil(/^POST .*\/query\/stream$/, 'answer_lost');
  const { screen, code } = await (await runThere('go')).end();
  expect(code).toBe(0);
  expect(screen).toContain('Once.');
  expect(proxy.spoilt()).toHaveLength(1);
  expect(await model.requests()).toHaveLength(1);
});

test('a server that is not reached is told of, and that it is again; the run goes on meanwhile', async () => {
  const reply = { text: 'First and second.', chunk_size: 6, hold_after_chunks: 2 };
  const { model, proxy, runThere } = await serverElsewhere([{ reply }]);
  const terminal = await runThere('go');
  await terminal.shows('First');
  const mend = proxy.cut(/./);
  await terminal.shows('↻ The server is not reached. The run goes on there');
  await model.release();
  mend();
  const { screen, code } = await terminal.end();
  expect(code).toBe(0);
  expect(screen).toMatch(/First[\s\S]*↻ The server is reached again\.[\s\S]*and second\./);
});

test('an answer that goes into a pipe stays as it is where the server is not reached in its middle', async () => {
  const reply = { text: 'First and second.', chunk_size: 6, hold_after_chunks: 2 };
  const { home, model, proxy, environment } = await serverElsewhere([{ reply }]);
  const command = home.start(['run', '--server', proxy.url, 'go'], { variables: environment });
  await command.until(() => command.stdout().includes('First'));
  const mend = proxy.cut(/./);
  await command.until(() => command.stderr().includes('is not reached'));
  await model.release();
  mend();
  expect((await command.ended).stdout).toBe('First and second.\n');
});

test('--continue goes on in the session that this project has on the server, whoever has used another one since', async () => {
  const { home, model, proxy, server, environment } = await serverElsewhere([
    { reply: { text: 'Answer to {{last_user}}' } },
  ]);
  home.write('other/.git/HEAD', 'ref: refs/heads/main\n');
  const runThere = (words: readonly string[], cwd = home.project) =>
    home.service(['run', '--server', proxy.url, ...words], { variables: environment, cwd });
  expect(await runThere(['--continue', 'none yet'])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/No session was begun from this project on http\S+\. .* --session/),
  });
  await runThere(['ours']);
  await runThere(['theirs'], join(home.home, 'other'));
  const ours = await runThere(['--continue', 'and more']);
  expect(ours).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^service: This goes on in session \w{6}: ours\n/),
  });
  const heard = JSON.stringify((await model.requests()).at(-1)?.body);
  expect(heard).toMatch(/ours.*and more/);
  expect(heard).not.toContain('theirs');
  expect(await runThere(['-q', '--continue', 'quietly'])).toMatchObject({ code: 0, stderr: '' });

  const client = createServiceClient({ baseUrl: server.url, token: server.operatorKey });
  for (const { id: session_id } of (await client.GET('/api/v1/sessions')).data.data)
    await client.DELETE('/api/v1/sessions/{session_id}', { params: { path: { session_id } } });
  expect(await runThere(['--continue', 'gone'])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /The latest session of this project, ses_\w+, is not there any more on http/,
    ),
  });
});

test('what a run asks whose terminal is gone is asked by the next one in its session', async () => {
  const { runThere } = await serverElsewhere([
    { when: { step: 0, last_user: '^first' }, reply: { tool_calls: [asks] } },
    { reply: { text: 'Answer to {{last_user}}' } },
  ]);
  const gone = await runThere('first');
  await gone.shows(/What else\?\n {2}>/);
  await gone.kill();
  const next = await runThere('--continue', 'second');
  await next.shows(/this one begins after it[\s\S]*What else\?\n {2}>/);
  await next.press('t', 'h', 'i', 's', 'Enter');
  const { screen, code } = await next.end();
  expect(code).toBe(0);
  expect(screen).toContain('Answer to second');
});

test('Ctrl+C ends the wait for a run before, while what it asks is not told', async () => {
  const { proxy, runThere } = await serverElsewhere([step(0, asks), said]);
  const gone = await runThere('first');
  await gone.shows(/What else\?\n {2}>/);
  await gone.kill();
  proxy.spoil(/^GET .*\/permissions/, 'unanswered');
  const next = await runThere('--continue', 'second');
  await expect.poll(() => proxy.spoilt()).toHaveLength(1);
  await next.press('C-c');
  expect((await next.end()).code).toBe(130);
});

test('where a plan cannot be approved, it is said how to decide and how to go on later', async () => {
  const plan = call('plan', { title: 'Mend it', content: '1. Look.' });
  const { proxy, runThere } = await serverElsewhere([step(0, plan), { reply: { text: 'That is my plan.' } }]);
  const terminal = await runThere('-a', 'plan', 'go');
  await terminal.shows('Shall the plan be carried out?');
  proxy.cut(/^POST .*\/approve$/);
  await terminal.press('a');
  const { screen, code } = await terminal.end();
  expect(code).not.toBe(0);
  expect(screen).toMatch(
    /The plan waits\. To have it carried out: service plans approve[\s\S]*To go on: service run/,
  );
});

test('a plan whose approval is done, and its answer lost, is carried out before the same eyes', async () => {
  const plan = call('plan', { title: 'Mend it', content: '1. Look.' });
  const { proxy, runThere } = await serverElsewhere([
    { when: { step: 0, offers_tool: 'plan' }, reply: { tool_calls: [plan] } },
    { when: { offers_tool: 'plan' }, reply: { text: 'That is my plan.' } },
    { reply: { text: 'It is carried out.' } },
  ]);
  const terminal = await runThere('-a', 'plan', 'go');
  await terminal.shows('Shall the plan be carried out?');
  proxy.spoil(/^POST .*\/approve$/, 'answer_lost');
  await terminal.press('a');
  const { screen, code } = await terminal.end();
  expect(proxy.spoilt()).toHaveLength(1);
  expect(screen).toMatch(/→ approved[\s\S]*It is carried out\./);
  expect(code).toBe(0);
});

test.each([
  ['run', 'GET /api/v1/sessions', ['run', '--session', 'abc123', 'go']],
  ['run', 'GET /api/v1/corpora', ['run', '--corpus', 'notes', 'go']],
  ['plans approve', 'GET /api/v1/plans', ['plans', 'approve', 'mend']],
])('Ctrl+C ends service %s while %s is not answered', async (_command, request, words) => {
  const home = testHome();
  const proxy = await startTestProxy('http://127.0.0.1:9');
  proxy.spoil(new RegExp(`^${request}`), 'unanswered');
  const variables = { SERVICE_API_KEY: `sk-${'x'.repeat(43)}` };
  const command = home.start([...words, '--server', proxy.url], { variables });
  await command.until(() => proxy.spoilt().length === 1);
  command.child.kill('SIGINT');
  expect((await command.ended).code).toBe(130);
});
