/** Calls that are done on a server and whose answer the network loses: nothing is made twice, and what is gone is no failure. */
import { expect, test } from 'vitest';
import { testHome } from './test-command.ts';
import { startTestProxy } from './test-proxy.ts';
import { startTestServer } from './test-server.ts';

test('what is made is made once, and what is deleted is gone, where the answer to that was lost', async () => {
  const server = await startTestServer({}, { SERVICE_OUTBOUND_ALLOW: '127.0.0.1' });
  const proxy = await startTestProxy(server.url);
  const home = testHome();
  home.write('project/notes/SKILL.md', '---\nname: notes\ndescription: Writes notes.\n---\nWrite.\n');
  home.write('project/text.md', 'There is something to find in here.');
  const { data: session } = await server.client.POST('/api/v1/sessions', { body: { title: 'Old' } });
  const params = { path: { session_id: session.id }, query: { format: 'json' as const } };
  const { data: document } = await server.client.GET('/api/v1/sessions/{session_id}/export', { params });
  home.write('project/session.json', JSON.stringify(document));
  const service = async (...words: string[]) => {
    const variables = { SERVICE_API_KEY: server.operatorKey };
    const { code, stdout, stderr } = await home.service([...words, '--server', proxy.url], { variables });
    expect(code, stderr).toBe(0);
    return stdout;
  };
  const lost = async (call: RegExp, ...words: string[]) => {
    const before = proxy.spoilt().length;
    proxy.spoil(call, 'answer_lost');
    const stdout = await service(...words);
    expect(proxy.spoilt()).toHaveLength(before + 1);
    return stdout;
  };
  const listed = async (...words: string[]) =>
    JSON.parse(await service(...words, '--json')) as { readonly id: string; readonly title?: string }[];

  await lost(/^POST .*\/memories$/, 'memories', 'add', 'Use tabs.');
  expect(await listed('memories', 'list')).toHaveLength(1);
  const when = ['--every', '1d', '--model', 'demo:demo-1'];
  await lost(/^POST .*\/jobs$/, 'jobs', 'create', 'Look.', ...when);
  expect(await listed('jobs', 'list')).toHaveLength(1);
  const [job] = await listed('jobs', 'list');
  await lost(/^POST .*\/run$/, 'jobs', 'run', job?.id ?? '');
  expect(await listed('jobs', 'runs', job?.id ?? '')).toHaveLength(1);
  await lost(/^POST .*\/sessions\/import$/, 'sessions', 'import', 'session.json');
  // The run of the job has a session, too.
  const imported = (await listed('sessions', 'list')).filter(({ title }) => title === 'Old');
  expect(imported).toHaveLength(1);
  await lost(/^POST .*\/skills$/, 'skills', 'add', 'notes');
  await lost(/^POST .*\/mcp\/servers$/, 'mcp', 'add', 'tracker', 'http://127.0.0.1:9/mcp');
  await lost(/^POST .*\/corpora$/, 'corpora', 'add', 'text.md', '--name', 'Books');
  expect(await listed('corpora', 'list')).toHaveLength(1);
  home.write('project/other.md', 'There is something else.');
  await lost(/^POST .*\/documents$/, 'corpora', 'add', 'other.md', '--name', 'Books');
  expect(await listed('corpora', 'list')).toMatchObject([{ stats: { documents: 2 } }]);

  const [memory] = await listed('memories', 'list');
  for (const [call, kind, ...words] of [
    [/^DELETE .*\/memories\//, 'memories', 'forget', memory?.id],
    [/^DELETE .*\/jobs\//, 'jobs', 'delete', job?.id],
    [/^DELETE .*\/skills\//, 'skills', 'remove', 'notes'],
    [/^DELETE .*\/mcp\/servers\//, 'mcp', 'remove', 'tracker'],
    [/^DELETE .*\/corpora\//, 'corpora', 'delete', 'Books'],
  ] as const)
    await lost(call, kind, ...words.map((word = '') => word), '--yes');
  for (const kind of ['memories', 'jobs', 'mcp', 'corpora'])
    expect(await listed(kind, 'list'), kind).toEqual([]);
});
