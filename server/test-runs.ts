/** Runs that tests begin over HTTP and do not let end. */
import { expect } from 'vitest';
import type { Account, TestApp } from './test-app.ts';

/** A run of somebody's in a session, which waits for an answer that nobody gives. */
export async function waitingRun(app: TestApp, { token }: Account, sessionId: string): Promise<string> {
  const response = await app.stream('POST', '/api/v1/query/stream', {
    token,
    body: { prompt: 'Ask me: what is your name?', model: 'demo:demo-1', session_id: sessionId },
  });
  expect(response.status).toBe(200);
  await expect
    .poll(async () => {
      const { body } = await app.request('GET', `/api/v1/sessions/${sessionId}/prompts`, { token });
      return body.data.length;
    })
    .toBe(1);
  await response.body?.cancel();
  return response.headers.get('x-run-id') ?? '';
}
