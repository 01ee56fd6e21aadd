/** The example against a server that plays its part of the contract, and against one that does not. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { frame, openStream, type Script, sendJson, startScriptedServer } from './scripted-server.ts';

const permission = { id: 'prm_1', session_id: 'ses_1', description: 'Write hello.txt.' };
const delta = (words: string) => ({ type: 'text_delta', message_id: 'msg_1', text: words });

/** Plays the demonstration: the second half of the stream comes when the permission is given. */
function demonstration(roles: readonly string[]): Script {
  const granted = Promise.withResolvers<void>();
  return async ({ method, url, headers, body }, response) => {
    if (url === '/api/v1/auth/register') return sendJson(response, 201, { access_token: 'token-1' });
    if (headers.authorization !== 'Bearer token-1') return sendJson(response, 401, {});
    if (url === '/api/v1/sessions') return sendJson(response, 201, { id: 'ses_1' });
    if (url === '/api/v1/query/stream') {
      openStream(response);
      response.write(frame(1, null, delta('I use the tool write.')));
      response.write(frame(2, 'runtime', { type: 'permission_requested', request: permission }));
      await granted.promise;
      response.write(frame(3, null, delta('The tool answered.')));
      return void response.end(frame(4, 'done', { stop_reason: 'end_turn' }));
    }
    if (url.startsWith('/api/v1/events')) {
      openStream(response, null);
      response.write(frame(7, 'opened', { workspace_id: 'ws_1' }));
      await granted.promise;
      const event = { type: 'run_ended', session_id: 'ses_1', status: 'completed' };
      return void response.write(frame(8, 'workspace', { session_id: 'ses_1', event }));
    }
    if (method === 'POST') {
      expect([url, body]).toEqual([
        '/api/v1/sessions/ses_1/permissions/prm_1/reply',
        '{"decision":"allow_once"}',
      ]);
      granted.resolve();
      return sendJson(response, 200, permission);
    }
    sendJson(response, 200, { data: roles.map((role) => ({ role })), next_cursor: null });
  };
}

async function runExample(
  roles: readonly string[],
): Promise<{ code: unknown; output: string; errors: string }> {
  const server = await startScriptedServer(demonstration(roles));
  onTestFinished(server.close);
  const { SERVICE_TOKEN: _, ...rest } = process.env;
  const env = { ...rest, SERVICE_URL: server.url };
  const child = spawn(process.execPath, [join(import.meta.dirname, 'example.ts')], { env });
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  return { code, output, errors };
}

test('the example runs through', async () => {
  const { code, output, errors } = await runExample(['user', 'assistant', 'tool', 'assistant']);
  expect({ code, errors }).toEqual({ code: 0, errors: '' });
  expect(output).toContain('[Write hello.txt. I allow it once.]');
  expect(output).toContain('The tool answered.');
});

test('the example fails where the service does not do what it should', async () => {
  const { code, errors } = await runExample(['user', 'assistant']);
  expect(code).toBe(1);
  expect(errors).toContain('The session should hold the whole exchange.');
});
