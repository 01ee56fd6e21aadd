import { expect, onTestFinished, test } from 'vitest';
import { createServiceClient } from './client.ts';
import { replyPermission, replyPrompt } from './reply.ts';
import { sendJson, sendProblem, startScriptedServer } from './scripted-server.ts';

const permission = {
  id: 'prm_1',
  session_id: 'ses_1',
  reply_path: '/api/v1/sessions/ses_1/permissions/prm_1/reply',
};
const prompt = { id: 'prq_1', session_id: 'ses_1', reply_path: '/api/v1/sessions/ses_1/prompts/prq_1/reply' };

test('answers go to the path that the request names', async () => {
  const server = await startScriptedServer((_, response) => sendJson(response, 200, { status: 'answered' }));
  onTestFinished(server.close);
  const client = createServiceClient({ baseUrl: server.url });
  const reply = await replyPermission(client, permission, { decision: 'allow_once' });
  await replyPrompt(client, prompt, { answers: [{ question_id: 'q1', fill_in_text: 'green' }] });
  expect(reply.status).toBe('answered');
  expect(server.received.map(({ url }) => url)).toEqual([permission.reply_path, prompt.reply_path]);
  expect(server.received.map(({ body }) => body)).toEqual([
    '{"decision":"allow_once"}',
    '{"answers":[{"question_id":"q1","fill_in_text":"green"}]}',
  ]);
});

test('an answer that comes second says so', async () => {
  const server = await startScriptedServer((_, response) => sendProblem(response, 409, 'already_answered'));
  onTestFinished(server.close);
  const client = createServiceClient({ baseUrl: server.url });
  const second = replyPermission(client, permission, { decision: 'deny' });
  await expect(second).rejects.toMatchObject({ status: 409, code: 'already_answered' });
});
