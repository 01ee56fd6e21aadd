/** MCP servers as tools of the agent, with the public servers in their processes. */
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { sandboxHere } from '../processes/test-sandbox.ts';
import type { Question } from '../tools/tool.ts';
import { call, hostile, listening, overStdio, testContext, testMcp, testWorkspace } from './test-mcp.ts';

test('`mcp.*.command` a process is started with the first use, and its tools have the name of the server', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'everything', state: 'idle', detail: null }]);
  const tools = await mcp.tools({ workspacePath });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'everything', state: 'ready', detail: null }]);
  expect(tools.map(({ name }) => name)).toContain('mcp_everything_echo');
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_everything_echo', { message: 'Hello' }, context)).toEqual({
    content: 'Echo: Hello',
    is_error: false,
  });
});

test.each(['sse', 'streamableHttp'] as const)('the same server answers over %s', async (transport) => {
  const workspacePath = testWorkspace();
  const { url } = await listening(transport);
  const type = transport === 'sse' ? 'sse' : 'http';
  const mcp = testMcp({ remote: { type, url } });
  const tools = await mcp.tools({ workspacePath });
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'remote', state: 'ready', detail: null }]);
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_remote_get-sum', { a: 2, b: 3 }, context)).toEqual({
    content: 'The sum of 2 and 3 is 5.',
    is_error: false,
  });
});

test('the file system server reads files of the workspace, and says why it refuses others', async () => {
  const workspacePath = testWorkspace();
  writeFileSync(join(workspacePath, 'note.txt'), 'a note');
  const mcp = testMcp({ files: overStdio('filesystem', workspacePath) });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const path = join(workspacePath, 'note.txt');
  expect(await call(tools, 'mcp_files_read_text_file', { path }, context)).toMatchObject({
    content: 'a note',
    is_error: false,
  });
  const refused = await call(tools, 'mcp_files_read_text_file', { path: '/etc/hostname' }, context);
  expect(refused).toMatchObject({ is_error: true, content: expect.stringContaining('denied') });
});

test('resources are listed and read by tools that are there where a server offers them', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const listed = await call(tools, 'list_mcp_resources', { server: 'everything' }, context);
  const [uri] = /^demo:\/\/resource\/[^ ]+(?=: )/m.exec(listed.content) ?? [];
  expect(listed.content).toContain('(template)');
  const read = await call(tools, 'read_mcp_resource', { server: 'everything', uri }, context);
  expect(read).toMatchObject({ is_error: false, content: expect.stringContaining(`[resource ${uri}`) });
  const wrong = await call(tools, 'read_mcp_resource', { server: 'everything', uri: 'demo://none' }, context);
  expect(wrong.is_error).toBe(true);
  const none = testMcp({ plain: hostile('well') });
  expect((await none.tools({ workspacePath })).map(({ name }) => name)).toEqual(['mcp_plain_act']);
});

test('a server asks the person behind the call, and roots are the workspace', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  const tools = await mcp.tools({ workspacePath });
  const asked: Question[] = [];
  const { context } = testContext(workspacePath, {
    ask: async (questions) => {
      asked.push(...questions);
      const answers = questions.map(({ id, type, text, description, choices, optional }) => {
        if (optional) return { question_id: id };
        if (type === 'yes_no') return { question_id: id, yes: true };
        if (type === 'free_text')
          return { question_id: id, fill_in_text: /\bname\b/i.test(`${text} ${description}`) ? 'Ada' : '' };
        return { question_id: id, selected_ids: [choices?.[0]?.id ?? ''] };
      });
      return { status: 'answered', answers };
    },
  });
  const names = tools.map(({ name }) => name);
  expect(names).toContain('mcp_everything_trigger-elicitation-request');
  const { content } = await call(tools, 'mcp_everything_trigger-elicitation-request', {}, context);
  expect(content).toContain('Ada');
  expect(new Set(asked.map(({ optional }) => optional))).toEqual(new Set([true, false]));
  expect(asked.every(({ text }) => text.startsWith('[everything] '))).toBe(true);
  expect(names).not.toContain('mcp_everything_trigger-sampling-request');
  const roots = await call(tools, 'mcp_everything_get-roots-list', {}, context);
  expect(roots.content).toContain(workspacePath);
});

test('what is no text is named with its kind and size; what is structured is not said twice', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const image = await call(tools, 'mcp_everything_get-tiny-image', {}, context);
  expect(image.content).toMatch(/\[image, image\/png, \d+ KB; it cannot be shown here\]/);
  const links = await call(tools, 'mcp_everything_get-resource-links', { count: 2 }, context);
  expect(links.content).toContain('[resource demo://');
  const structured = await call(
    tools,
    'mcp_everything_get-structured-content',
    { location: 'Chicago' },
    context,
  );
  expect(structured.content.match(/humidity/g)).toHaveLength(1);
});

test('a long call tells how far it is', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  const tools = await mcp.tools({ workspacePath });
  const { context, said } = testContext(workspacePath);
  // Long enough that what it says of the first step does not come together with the answer.
  const input = { duration: 2, steps: 2 };
  await call(tools, 'mcp_everything_trigger-long-running-operation', input, context);
  expect(said.join('')).toContain('progress (1/2)\n');
});

test('prompts are there for people to use', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  const prompts = await mcp.prompts({ workspacePath });
  expect(prompts).toContainEqual(expect.objectContaining({ server: 'everything', name: 'args-prompt' }));
  const wanted = { server: 'everything', name: 'args-prompt', values: { city: 'Bern' } };
  const { messages } = await mcp.prompt(wanted, { workspacePath }, new AbortController().signal);
  expect(JSON.stringify(messages)).toContain('Bern');
});

test('what a server wants models to know is in their instructions once it is connected', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ everything: overStdio('everything') });
  expect(await mcp.instructions?.({ workspacePath })).toBe('');
  await mcp.tools({ workspacePath });
  expect(await mcp.instructions?.({ workspacePath })).toMatch(
    /^The MCP server everything says about its tools:\n./,
  );
});

test('a remote server that was started anew is connected to anew, and the call is made', async () => {
  const workspacePath = testWorkspace();
  const first = await listening('streamableHttp');
  const mcp = testMcp({ remote: { type: 'http', url: first.url } }, {}, { backOffMs: 0 });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  await first.stop();
  expect(await call(tools, 'mcp_remote_echo', { message: 'a' }, context)).toMatchObject({ is_error: true });
  await listening('streamableHttp', first.port);
  await expect
    .poll(() => call(tools, 'mcp_remote_echo', { message: 'b' }, context))
    .toEqual({ content: 'Echo: b', is_error: false });
});

test('an SSE server that was lost is connected to anew at the next use', async () => {
  const workspacePath = testWorkspace();
  const first = await listening('sse');
  const mcp = testMcp({ remote: { type: 'sse', url: first.url } }, {}, { backOffMs: 0 });
  await mcp.tools({ workspacePath });
  await first.stop();
  await expect.poll(() => mcp.states({ workspacePath })[0]?.state).toBe('failed');
  await listening('sse', first.port);
  const { context } = testContext(workspacePath);
  await expect
    .poll(async () => call(await mcp.tools({ workspacePath }), 'mcp_remote_echo', { message: 'b' }, context))
    .toMatchObject({ content: 'Echo: b' });
});

const sandbox = await sandboxHere();
test.skipIf('unavailable' in sandbox)(
  'where many share the runtime a process runs in the sandbox, with its secrets in no argument',
  async () => {
    const workspacePath = testWorkspace();
    // The sandbox shows the programs of the system alone: this one is a shell that speaks the protocol.
    const reply = (id: string, result: string) =>
      `printf '{"jsonrpc":"2.0","id":%s,"result":${result}}\\n' "${id}"`;
    const script = `
      n=0
      while read -r line; do
        case "$line" in
          *'"method":"initialize"'*) ${reply('$n', '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"0"}}')} ;;
          *'"method":"tools/list"'*) ${reply('$n', '{"tools":[{"name":"act","inputSchema":{"type":"object"}}]}')} ;;
          *'"method":"tools/call"'*) ${reply('$n', `{"content":[{"type":"text","text":"'"$TOKEN"'"}]}`)} ;;
          *) continue ;;
        esac
        n=$((n+1))
      done`;
    const entry = { command: '/bin/sh', args: ['-c', script], env: { TOKEN: 'sealed-secret' } };
    const first = { config: { mcp: { shell: entry } }, shared: true };
    const mcp = testMcp({}, { first, sandbox });
    const tools = await mcp.tools({ workspacePath });
    expect(mcp.states({ workspacePath })).toEqual([{ name: 'shell', state: 'ready', detail: null }]);
    const { context } = testContext(workspacePath);
    expect(await call(tools, 'mcp_shell_act', {}, context)).toMatchObject({ content: 'sealed-secret' });
    const arguments_ = processArguments();
    expect(arguments_.filter((one) => one.includes('sealed-secret'))).toEqual([]);
  },
);

test('`mcp.*.headers` are sent as they say; one that is empty is not', async () => {
  const seen: Record<string, string | string[] | undefined>[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    response.writeHead(500).end();
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/mcp`;
  const workspacePath = testWorkspace();
  const headers = { 'X-Team': 'blue', 'X-Empty': '', Authorization: 'Bearer token' };
  const mcp = testMcp({ remote: { type: 'http', url, headers } });
  await mcp.tools({ workspacePath });
  expect(mcp.states({ workspacePath })[0]?.detail).toBe('it answered with the HTTP status 500');
  expect(seen[0]).toMatchObject({ 'x-team': 'blue', authorization: 'Bearer token' });
  expect(seen[0]).not.toHaveProperty('x-empty');
});

test('a header whose value cannot be sent is told of without it', async () => {
  const workspacePath = testWorkspace();
  const headers = { 'X-Token': 'secret\nvalue' };
  const mcp = testMcp({ remote: { type: 'http', url: 'http://127.0.0.1:9/', headers } });
  await mcp.tools({ workspacePath });
  const [state] = mcp.states({ workspacePath });
  expect(state?.detail).toBe('the value of its header X-Token cannot be sent');
});

function processArguments(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'latin1')];
      } catch {
        return []; // It has just ended.
      }
    });
}
