/** What a program that embeds the runtime keeps in memory, and for how long. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isHeld } from '../../test-garbage.ts';
import { createRuntime, type Runtime } from '../runtime.ts';
import { testFolder } from '../test-conversation.ts';
import { testQuery } from '../test-query.ts';
import type { NumberedEvent } from '../transcript.ts';
import { createMemoryTranscript, type MemoryTranscript } from './memory-transcript.ts';

let transcript: MemoryTranscript;
let runtime: Runtime;

beforeEach(async () => {
  const { path } = await testFolder();
  transcript = createMemoryTranscript();
  runtime = await createRuntime({}, { transcript, demo: true, workspacePath: async () => path });
});
afterEach(() => runtime.close());

function follow(runId: string) {
  return runtime.follow(runId, { after: 0, follow: true, signal: AbortSignal.timeout(50_000) });
}

/** The question that a run asks a person before it goes on. */
async function asked(runId: string) {
  for await (const { data } of follow(runId))
    if ('type' in data && data.type === 'permission_requested') return data.request;
  throw new Error('The run has ended without a question.');
}

async function interrupt(runId: string): Promise<readonly NumberedEvent[]> {
  transcript.requestInterrupt(runId);
  runtime.wake(runId);
  return await Array.fromAsync(follow(runId));
}

test('a question whose run has ended is answered by nobody, and grants nothing', async () => {
  const writing = testQuery('Please write a file named hello.txt', { onUnanswered: 'wait' });
  const { runId, sessionId } = await runtime.start(writing);
  const { id } = await asked(runId);
  await interrupt(runId);
  expect(() => transcript.answerPermission(id, 'allow_session')).toThrow(
    expect.objectContaining({ code: 'already_answered' }),
  );
  expect((await transcript.readPermission(id)).request.status).toBe('cancelled');
  expect(await transcript.readGrants(sessionId)).toEqual([]);
});

test('a session is kept until the program lets go of it, which it cannot while one of its runs is at work', async () => {
  const start = async (text: string) => {
    const part = { type: 'text' as const, text };
    const messages = [{ role: 'user' as const, parts: [part] }];
    const { runId, sessionId } = await runtime.start(testQuery('', { messages, onUnanswered: 'wait' }));
    return { runId, sessionId, held: new WeakRef(part) };
  };
  const { runId, sessionId, held } = await start('Please write a file named hello.txt');
  const { id } = await asked(runId);
  const busy = expect.objectContaining({ code: 'session_busy' });
  expect(() => transcript.forgetSession(sessionId)).toThrow(busy);
  transcript.answerPermission(id, 'allow_session');
  runtime.wake(runId);
  await Array.fromAsync(follow(runId));
  expect(isHeld(held)).toBe(true);
  expect(await transcript.readGrants(sessionId)).not.toEqual([]);

  transcript.forgetSession(sessionId);
  expect(await transcript.readMessages(sessionId)).toEqual([]);
  expect(await transcript.readGrants(sessionId)).toEqual([]);
  expect(transcript.fileChanges(sessionId)).toEqual([]);
  const late = await Array.fromAsync(follow(runId));
  expect(late).toMatchObject([{ name: 'error', data: { error: expect.stringMatching(/^not_found: /) } }]);
  await expect.poll(() => isHeld(held), { timeout: 5000 }).toBe(false);
  // The next one begins anew under the same id.
  const next = await start('Say hello.');
  await Array.fromAsync(follow(next.runId));
  const said = await transcript.readMessages(sessionId);
  expect(said.map(({ run_id }) => run_id)).toEqual([next.runId, next.runId]);
});
