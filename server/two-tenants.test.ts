/** Two people on one real server: what the processes of the one find of the other, and of the server. */
import { chmod, link, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { QueryResponse, Session, TokenPair } from './contract/api.ts';
import { sandboxHere } from './runtime/processes/test-sandbox.ts';
import {
  type ServerProcess,
  scriptedSettings,
  startServer,
  temporaryFolder,
  writeSettings,
} from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';

const canary = 'canary-of-the-environment';
const secret = 'canary-of-grace';
const sandboxed = !('unavailable' in (await sandboxHere()));

let upstream: Upstream;
let server: ServerProcess;
let data = '';
let ada: Client;
/** The folders of both, whose names nobody but the server tells. */
let [ofAda, ofGrace] = ['', ''];

/** What a process looks for: files of others, the server's files, its environment, its port, ways out. */
function look(): string {
  const port = new URL(server.url).port;
  return [
    `cat ${ofGrace}/secret.txt ../*/secret.txt /proc/self/root${ofGrace}/secret.txt /proc/1/root${ofGrace}/secret.txt`,
    `cat /proc/self/cwd/../*/secret.txt; ls ${data} ${data}/workspaces ..; find / -name secret.txt -not -path "/proc/*"`,
    `cat ${data}/master.key ${data}/service.db; cat /proc/[0-9]*/environ /proc/${server.pid}/environ /proc/${server.pid}/cmdline`,
    `echo > /dev/tcp/127.0.0.1/${port} && echo connected`,
    `echo > /dev/tcp/127.0.0.1/${new URL(upstream.url).port} && echo connected`,
    'find / -type s -not -path "/proc/*"',
    'echo stolen > /etc/passwd; echo stolen >> /etc/hosts; echo stolen > /usr/stolen; echo core > /proc/sys/kernel/core_pattern',
    `kill -9 ${server.pid} && echo killed; echo x > /dev/tty && echo typed`,
    'mkdir -p .git/hooks; echo stolen > .git/hooks/pre-commit; mv .git other; echo "{}" > service.json; echo "{}" > .service/x',
    'unshare -Ur true && echo namespace; mount -t tmpfs none /mnt && echo mounted; ls -l /sys/fs/cgroup/pids',
    `ln ${ofGrace}/secret.txt stolen; ln -s ${ofGrace} way`,
    'id -u; grep -E "NoNewPrivs|CapEff" /proc/self/status; echo looked',
  ].join('; ');
}

beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(async () => {
  await upstream.stop();
});

async function open(): Promise<void> {
  const folder = await temporaryFolder();
  // The way to the data of a server of root is open, as on a real machine.
  await chmod(folder, 0o711);
  await writeSettings(folder, {
    ...scriptedSettings(upstream.url),
    // The operator's own programs, turned by what lies in a workspace.
    hooks: { pre_tool_use: [{ matcher: '^ls$', command: 'bash ./look.sh > hook.txt 2>&1; exit 0' }] },
    mcp: { turned: { command: '/bin/bash', args: ['-c', 'bash ./look.sh > mcp.txt 2>&1'] } },
  });
  server = await startServer({ folder, args: ['--mode', 'multi'], variables: { CANARY: canary } });
  data = join(folder, 'data');
  const [first, second] = [await account('ada'), await account('grace')];
  ada = first;
  ofAda = await workspaceMadeBy(first, 'mine');
  ofGrace = await workspaceMadeBy(second, 'mine');
  await writeFile(join(ofGrace, 'secret.txt'), secret, { mode: 0o644 });
  expect(ofAda).not.toBe(ofGrace);
}

async function account(name: string): Promise<Client> {
  const registered = await clientOf(server).post<TokenPair>('/api/v1/auth/register', {
    email: `${name}@example.com`,
    password: 'a long enough password',
  });
  expect(registered.status).toBe(201);
  return clientOf(server, registered.body.access_token);
}

/** The folder in which a tool call of this account leaves a file. */
async function workspaceMadeBy(client: Client, content: string): Promise<string> {
  const before = new Set(await readdir(join(data, 'workspaces')).catch(() => []));
  await call(client, 'write', { file_path: 'made.txt', content });
  const made = (await readdir(join(data, 'workspaces'))).filter(
    (name) => name.startsWith('w') && !before.has(name),
  );
  expect(made).toHaveLength(1);
  return join(data, 'workspaces', made[0] ?? '');
}

/** One call of a tool that a rule of the session's allows; what the model was told of it. */
async function call(client: Client, tool: string, input: object): Promise<string> {
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: tool, arguments: input }] } },
    { reply: { text: 'Done.' } },
  ]);
  const session = await client.post<Session>('/api/v1/sessions', {
    permission_rules: [{ tool, decision: 'allow' }],
  });
  const answer = await client.post<QueryResponse>('/api/v1/query', {
    prompt: 'Go on.',
    session_id: session.body.id,
  });
  expect(answer.status).toBe(200);
  return answer.body.tool_results[0]?.content ?? '';
}

async function expectNothingIn(output: string): Promise<void> {
  const key = (await readFile(join(data, 'master.key'), 'utf8')).trim();
  for (const kept of [
    secret,
    canary,
    key,
    'SQLite format',
    'connected',
    'killed',
    'typed',
    'namespace',
    'mounted',
  ])
    expect(output, `found ${kept}`).not.toContain(kept);
}

describe.skipIf(!sandboxed)('the processes of one account', () => {
  test('find nothing of another, nothing of the server, and no way out, by commands, links, searches, edits, hooks and MCP servers', async () => {
    await open();
    const output = await call(ada, 'bash', { command: `${look()} 2>&1`, timeout_seconds: 60 });
    expect(output).toContain('looked');
    expect(output).toMatch(/^CapEff:\s+0+\nNoNewPrivs:\s+1$/m);
    await expectNothingIn(output);
    expect(
      await readFile(join(import.meta.dirname, 'runtime/processes/sandbox-etc/hosts'), 'utf8'),
    ).not.toContain('stolen');
    for (const name of ['other', '.git/hooks/pre-commit', 'service.json', '.service/x'])
      await expect(readFile(join(ofAda, name)), name).rejects.toThrow();
    expect(await readFile(join(ofGrace, 'secret.txt'), 'utf8')).toBe(secret);

    // The link is there by now; one to a file as well, and one that needs no link at all.
    await symlink(join(ofGrace, 'secret.txt'), join(ofAda, 'one'));
    await link(join(ofAda, 'made.txt'), join(ofAda, 'same'));
    for (const path of [
      'way/secret.txt',
      'one',
      join(ofGrace, 'secret.txt'),
      '/proc/self/environ',
      `${data}/master.key`,
    ]) {
      await expectNothingIn(await call(ada, 'view', { file_path: path }));
      await expectNothingIn(await call(ada, 'grep', { pattern: 'canary', path }));
      await call(ada, 'edit', { file_path: path, old_string: secret, new_string: 'stolen' });
      await call(ada, 'write', { file_path: path, content: 'stolen' });
    }
    await expectNothingIn(await call(ada, 'grep', { pattern: 'canary' }));
    await expectNothingIn(await call(ada, 'ls', { path: 'way' }));
    expect(await readFile(join(ofGrace, 'secret.txt'), 'utf8')).toBe(secret);

    // Let what is there be looked at by the processes that are not the model's, too.
    await writeFile(join(ofAda, 'look.sh'), look());
    for (const file of ['hook.txt', 'mcp.txt']) {
      const seen = async () => {
        await call(ada, 'ls', {});
        return await readFile(join(ofAda, file), 'utf8').catch(() => '');
      };
      await expect.poll(seen, { interval: 200 }).toContain('looked');
      await expectNothingIn(await seen());
    }
    expect(await readFile(join(ofGrace, 'secret.txt'), 'utf8')).toBe(secret);
    expect((await clientOf(server).get('/health')).status).toBe(200);
  }, 180_000);
});
