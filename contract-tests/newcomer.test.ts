/** What a newcomer does first: the walk of the README with curl alone, and the client's example. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Server, startServer } from './start-server.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');

let server: Server;

beforeAll(async () => {
  server = await startServer();
});

afterAll(async () => {
  await server.stop();
});

test('curl alone gets a streamed answer with a tool call and an answered permission request', async () => {
  const printed = /^ {4}curl[\s\S]*?hello\.txt"\}'$/m.exec(server.log())?.[0] ?? '';
  // Exactly as pasted: the shell reads what the server printed.
  const curl = spawn('bash', ['-c', printed], { stdio: ['ignore', 'pipe', 'ignore'] });
  let streamed = '';
  for await (const bytes of curl.stdout) {
    streamed += bytes;
    const replyPath = /"reply_path":"([^"]+)"/.exec(streamed)?.[1];
    if (replyPath && !streamed.includes('permission_resolved')) await allow(replyPath);
  }
  if (curl.exitCode === null) await once(curl, 'exit');
  expect(curl.exitCode).toBe(0);
  const last = streamed.trimEnd().split('\n\n').at(-1) ?? '';
  expect(last).toMatch(/^id: \d+\nevent: done\ndata: \{/);
  const done = JSON.parse(last.slice(last.indexOf('{')));
  expect(done).toMatchObject({
    stop_reason: 'end_turn',
    tool_uses: [{ name: 'write' }],
    tool_results: [{ is_error: false }],
  });
  expect(done.content[0].text).toContain('demonstration');
});

const answered = new Set<string>();

/** Once: what is read may arrive in pieces that each show the request again. */
async function allow(replyPath: string): Promise<void> {
  if (answered.has(replyPath)) return;
  answered.add(replyPath);
  await run('curl', [
    ...['--silent', '--fail', server.url + replyPath],
    ...['-H', `Authorization: Bearer ${server.operatorKey}`],
    ...['-H', 'Content-Type: application/json', '-d', '{"decision": "allow_once"}'],
  ]);
}

test('the example of the TypeScript client comes to its end against the real server', async () => {
  const { stdout } = await run(process.execPath, [join(root, 'clients/typescript/example.ts')], {
    env: { PATH: process.env.PATH, SERVICE_URL: server.url, SERVICE_TOKEN: server.operatorKey },
  });
  expect(stdout).toContain('The session holds 4 messages: user, assistant, tool, assistant.');
});
