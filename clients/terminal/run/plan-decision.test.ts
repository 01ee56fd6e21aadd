/** What is sent of the answers to a plan. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { createServiceClient } from '@service/client';
import type { Plan } from '@service/client/api';
import { expect, onTestFinished, test } from 'vitest';
import { decideOnPlan } from './plan-decision.ts';

const plan: Plan = {
  id: 'plan_01k9w6r3h2e7xv5q0c8m4b1tze',
  session_id: 'ses_01k9w6r3h2e7xv5q0c8m4b1tze',
  title: 'Mend it',
  status: 'proposed',
  version: 1,
} as Plan; // The rest of it is not looked at.

test('a longer reason than a comment may be is cut between characters, and goes to the agent as a whole', async () => {
  const why = `${'a'.repeat(3999)}😀 and more`;
  const heard: unknown[] = [];
  const server = createServer(async (request, response) => {
    heard.push(await json(request));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(plan));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // as it listens on a port
  const told: string[] = [];
  await decideOnPlan(
    createServiceClient({ baseUrl: `http://127.0.0.1:${port}` }),
    plan,
    { readKey: async () => 'r', readLine: async () => why, canEdit: false, close: () => undefined },
    {
      planAgain: (_session, reason) => {
        told.push(reason);
        return { prompt: reason };
      },
      stop: new AbortController().signal,
    },
  );
  expect(heard).toEqual([{ version: 1, comment: 'a'.repeat(3999) }]);
  expect(told).toEqual([why]);
});
