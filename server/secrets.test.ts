/** What the log at its most talkative and the environment of a command say; canary.test.ts looks for secrets everywhere. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../contract-tests/upstream/start-upstream.ts';
import type { QueryResponse, TokenPair } from './contract/api.ts';
import { findExecutable } from './runtime/processes/executable.ts';
import {
  scriptedSettings,
  startServer,
  temporaryFolder,
  withoutBubblewrap,
  writeSettings,
} from './server-process.ts';
import { clientOf } from './test-client.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(async () => {
  await upstream.stop();
});

describe('with the log at its most talkative', () => {
  test('no line of it can be forged by what a caller sends', async () => {
    const server = await startServer({ folder: await temporaryFolder(), args: ['--debug'] });
    await fetch(`${server.url}/api/v1/%0a%7b%22msg%22:%22forged%22%7d/%1b[31m`, {
      headers: { 'user-agent': 'forged', 'x-request-id': 'forged' },
    });
    await server.stop();
    const lines = server.log().trimEnd().split('\n');
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty('level');
    expect(lines.some((line) => JSON.parse(line).msg === 'forged')).toBe(false);
    expect(server.log()).not.toContain('\u001b');
  });
});

describe('a command that an agent runs', () => {
  const look = "env; cat /proc/self/environ | tr '\\\\0' '\\\\n'";

  test.skipIf(!findExecutable('bwrap'))(
    'sees nothing of the server’s environment, in the sandbox',
    async () => {
      const output = await runCommand(`${look}; cat /proc/[0-9]*/environ; cat ../*.key ../../*.key`, {});
      expect(output).toContain('PATH=');
      expect(output).not.toMatch(/canary|SERVICE_(?!COMMAND)|OPENAI_/);
    },
  );

  test('sees nothing of the server’s environment, without a sandbox', async () => {
    const output = await runCommand(look, await withoutBubblewrap('env', 'cat', 'tr'));
    expect(output).toMatch(/PATH=|PWD=/);
    expect(output).not.toMatch(/canary|SERVICE_(?!COMMAND)|OPENAI_/);
  });
});

/** Has an agent run a command on a server whose environment is full of canaries; answers with the output. */
async function runCommand(command: string, variables: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  await upstream.script([
    { when: { step: 0 }, reply: { tool_calls: [{ name: 'bash', arguments: { command } }] } },
    { reply: { text: 'Done.' } },
  ]);
  await writeSettings(folder, scriptedSettings(upstream.url));
  const server = await startServer({
    folder,
    variables: {
      CANARY: 'canary-of-the-shell',
      OPENAI_API_KEY: 'canary-key',
      SERVICE_ADMIN_EMAIL: 'admin@example.com',
      SERVICE_ADMIN_PASSWORD: 'canary-password',
      SERVICE_MODE: 'single',
      ...variables,
    },
  });
  const login = await clientOf(server).post<TokenPair>('/api/v1/auth/login', {
    email: 'admin@example.com',
    password: 'canary-password',
  });
  const answer = await clientOf(server, login.body.access_token).post<QueryResponse>('/api/v1/query', {
    prompt: 'Look around.',
    permission_mode: 'bypass',
  });
  const [result] = answer.body.tool_results;
  return result?.content ?? '';
}
