/** Questions whose answers a server says nothing to: each is sent again, whoever gives it. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServiceClient } from '@service/client';
import type { PermissionRequest, PromptRequest, RuntimeEvent } from '@service/client/api';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Keyboard } from '../terminal-input.ts';
import { silentDisplay } from './run-display.ts';
import { createRunQuestions } from './run-questions.ts';

const common = {
  session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tze',
  run_id: 'run_01k9w6r3h2e7xv5q0c8m4b1tze',
  tool_call_id: 'call_1',
  status: 'pending',
  created_at: '2026-01-01T00:00:00Z',
  expires_at: '2026-01-02T00:00:00Z',
  resolved_at: null,
} as const;
const permission: PermissionRequest = {
  ...common,
  id: 'per_01k9w6r3h2e7xv5q0c8m4b1tze',
  ...{ tool_name: 'bash', action: 'execute', description: 'Run a command', path: '', params: {}, diff: null },
  ...{ grants: [], options: ['allow_once', 'deny'], decision: null, updated_input: null },
  ...{ reply_path: '', reply_schema: 'PermissionReply' },
};
const prompt: PromptRequest = {
  ...common,
  id: 'prm_01k9w6r3h2e7xv5q0c8m4b1tze',
  ...{ questions: [{ id: 'q1', type: 'yes_no', text: 'Is it so?' }], answers: null },
  ...{ reply_path: '', reply_schema: 'PromptReply' },
};
/** Somebody who allows everything, and says yes. */
const willing: Keyboard = {
  readKey: async () => 'a',
  readLine: async () => 'y',
  canEdit: false,
  close: () => undefined,
};

test.each<[string, RuntimeEvent, Keyboard | null, object]>([
  [
    'permission of somebody',
    { type: 'permission_requested', request: permission },
    willing,
    { decision: 'allow_once' },
  ],
  ['refusal of nobody', { type: 'permission_requested', request: permission }, null, { decision: 'deny' }],
  [
    'answer of somebody',
    { type: 'prompt_requested', request: prompt },
    willing,
    { answers: [{ question_id: 'q1' }] },
  ],
  ['answer of nobody', { type: 'prompt_requested', request: prompt }, null, { cancelled: true }],
])(
  'the %s is given up where a server says nothing to it, and sent again',
  async (_, event, keyboard, sent) => {
    const heard: unknown[] = [];
    // Half a minute, of which the test would say nothing more.
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => timeout(300));
    vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => void vi.restoreAllMocks());
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] | null = await request.toArray().catch(() => null);
      if (chunks === null) return; // It was given up.
      heard.push(JSON.parse(Buffer.concat(chunks).toString()));
      if (heard.length > 1) response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close().closeAllConnections());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo; // It listens on TCP.
    const client = createServiceClient({ baseUrl: `http://127.0.0.1:${port}` });
    const questions = createRunQuestions(client, silentDisplay, keyboard);
    questions.see(event);
    await expect.poll(() => heard.length).toBeGreaterThan(1);
    await questions.close();
    for (const body of heard) expect(body).toMatchObject(sent);
  },
);
