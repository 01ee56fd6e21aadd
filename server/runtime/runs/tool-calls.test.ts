/** The calls of one answer: what only reads runs beside its like, everything else in order, and results as they were asked for. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemClock } from '../../clock.ts';
import { createLog } from '../../log.ts';
import { noTracing } from '../../tracing.ts';
import { createEventHub } from '../events/event-hub.ts';
import { createEventLog } from '../events/event-log.ts';
import { seenFiles } from '../files/seen-files.ts';
import { createMemoryTranscript } from '../memory/memory-transcript.ts';
import type { Tool } from '../tools/tool.ts';
import { createFileMemory } from '../tools/tools.ts';
import { newProgress } from './progress.ts';
import type { RunScope } from './run-scope.ts';
import { callTools } from './tool-calls.ts';

/** What a call has to say of itself: how long it takes, or which call has to end before it does. */
type Lasts = number | string;

/** Tools that say when they begin and end; `peek` only reads, `poke` does not. */
function recorder() {
  const log: string[] = [];
  let most = 0;
  let atWork = 0;
  const tool = (name: string, onlyReads: boolean): Tool => ({
    name,
    description: name,
    inputSchema: {},
    idempotent: onlyReads,
    onlyReads,
    needsPermission: false,
    prepare: async (input) => ({
      permission: null,
      async run() {
        // The input is what the test wrote.
        const { id, lasts } = input as { id: string; lasts: Lasts };
        atWork += 1;
        most = Math.max(most, atWork);
        log.push(`${id} begins`);
        if (typeof lasts === 'string') await expect.poll(() => log).toContain(`${lasts} ends`);
        else await sleep(lasts);
        log.push(`${id} ends`);
        atWork -= 1;
        return { content: id, is_error: false };
      },
    }),
  });
  return { log, most: () => most, tools: [tool('peek', true), tool('poke', false)] };
}

async function carryOut(calls: readonly (readonly [string, string, Lasts])[]) {
  const recorded = recorder();
  const transcript = createMemoryTranscript();
  await transcript.beginRun({
    ...{ id: 'run_1', sessionId: 'ses_1', userId: 'usr_1', trigger: 'api', agentSlug: 'coder' },
    ...{ model: 'a:b', permissionMode: 'ask', onUnanswered: 'deny', messages: [], owner: 'me' },
    ...{ queueLimit: 1, workspacePlace: null, provisionalTitle: null, events: [] },
  });
  const scope = {
    ...{
      runId: 'run_1',
      sessionId: 'ses_1',
      permissionMode: 'ask',
      rules: async () => [],
      onUnanswered: 'deny',
    },
    ...{
      extensions: [],
      keptReadable: new Set(),
      workspacePath: '/',
      transcript,
      hub: createEventHub(),
      clock: systemClock,
    },
    settings: async () => ({}),
    workspaceRules: async () => [],
    tools: async () => recorded.tools,
    files: seenFiles(createFileMemory()),
    signal: new AbortController().signal,
    hookSandbox: () => null,
    log: createLog('silent'),
    tracing: noTracing,
  } as unknown as RunScope; // as much of it as calls of such tools read
  const progress = newProgress('msg_1');
  progress.pending = calls.map(([id, name, lasts]) => ({ type: 'tool_use', id, name, input: { id, lasts } }));
  await callTools(
    scope,
    createEventLog('run_1', transcript, 0, () => undefined),
    progress,
  );
  return { ...recorded, progress, messages: await transcript.readMessages('ses_1') };
}

test('reading calls run beside each other; their results stand as they were asked for', async () => {
  const { log, most, messages, progress } = await carryOut([
    ['a', 'peek', 'b'],
    ['b', 'peek', 5],
  ]);
  expect(log).toEqual(['a begins', 'b begins', 'b ends', 'a ends']);
  expect(most()).toBe(2);
  const results = messages.at(-1)?.parts.map((part) => part.type === 'tool_result' && part.tool_use_id);
  expect(results).toEqual(['a', 'b']);
  expect(progress.pending).toEqual([]);
});

test('a call that changes something waits for what was asked for before, and holds back what comes behind', async () => {
  const { log } = await carryOut([
    ['a', 'peek', 30],
    ['b', 'poke', 10],
    ['c', 'peek', 1],
    ['d', 'poke', 1],
  ]);
  expect(log).toEqual(['a', 'b', 'c', 'd'].flatMap((id) => [`${id} begins`, `${id} ends`]));
});

test('many reading calls do not all run at once', async () => {
  const { most, messages } = await carryOut(
    Array.from({ length: 30 }, (_, index) => [`call ${index}`, 'peek', 2] as const),
  );
  expect(most()).toBeLessThanOrEqual(8);
  expect(messages.at(-1)?.parts).toHaveLength(30);
});
