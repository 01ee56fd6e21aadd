/** The runtime by itself, as a program embeds it: no server, no database. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { startUpstream } from '../../contract-tests/upstream/start-upstream.ts';
import { createLog } from '../log.ts';
import { collectGarbage, isHeld } from '../test-garbage.ts';
import { createMemoryTranscript, type MemoryTranscript } from './memory/memory-transcript.ts';
import { noUsage } from './models/model.ts';
import { createRuntime, type Query, type Runtime } from './runtime.ts';
import { testQuery } from './test-query.ts';
import type { NewRun, NumberedEvent, TakenRun } from './transcript.ts';

let folder: string;
let transcript: MemoryTranscript;
let runtime: Runtime;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-runtime-'));
  transcript = createMemoryTranscript();
  runtime = await createRuntime({}, { transcript, demo: true, workspacePath: async () => folder });
});

afterEach(async () => {
  await runtime.close();
  await rm(folder, { recursive: true });
});

function query(text: string, more: Partial<Query> = {}): Query {
  return testQuery(text, { onUnanswered: 'wait', ...more });
}

/** Reads a run to its end, handing each event over as it comes. */
async function watch(runId: string, onEvent?: (event: NumberedEvent) => void): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of runtime.follow(runId, {
    after: 0,
    follow: true,
    signal: AbortSignal.timeout(50_000),
  })) {
    events.push(event);
    onEvent?.(event);
  }
  return events;
}

function types(events: readonly NumberedEvent[]): string[] {
  return events.map(({ name, data }) => ('type' in data ? data.type : name));
}

function doneOf(events: readonly NumberedEvent[]) {
  const last = events.at(-1);
  if (last?.name !== 'done') throw new Error(`the run ended with ${JSON.stringify(last)}`);
  return last.data;
}

test('a run that works or waits for its turn holds no files and no long texts: they are kept with the session', async () => {
  const kept = {
    ...transcript,
    beginRun: (run: NewRun) =>
      transcript.beginRun({
        ...run,
        messages: run.messages.map((message) => ({
          ...message,
          parts: message.parts.filter(({ type }) => type === 'text').map((part) => ({ ...part })),
        })),
      }),
  };
  const own = await createRuntime({}, { transcript: kept, demo: true, workspacePath: async () => folder });
  onTestFinished(() => own.close());
  const start = async (said: string) => {
    const text = { type: 'text' as const, text: `${said}\n${'Much. '.repeat(4000)}` };
    const file = {
      type: 'file' as const,
      media_type: 'image/png',
      name: 'a',
      size: 1,
      sha256: 'x',
      data: 'AA==',
    };
    const { runId } = await own.start(query('', { messages: [{ role: 'user', parts: [text, file] }] }));
    return { runId, held: [new WeakRef(text), new WeakRef(file)] };
  };
  const [working, waiting] = [await start('Please write a file named hello.txt'), await start('Say hello.')];
  for await (const { data } of own.follow(working.runId, {
    after: 0,
    follow: true,
    signal: AbortSignal.timeout(50_000),
  }))
    if ('type' in data && data.type === 'permission_requested') break;
  const held = [...working.held, ...waiting.held];
  await expect.poll(() => held.map(isHeld)).toEqual([false, false, false, false]);
});

test('a run holds the files of its session for a call of the model, and not while a person is waited for', async () => {
  const asked: string[] = [];
  const kept = {
    ...transcript,
    readFiles: async (_sessionId: string, sha256s: readonly string[]) => {
      asked.push(...sha256s);
      return sha256s.map(() => Buffer.alloc(largeFile).toString('base64'));
    },
  };
  const own = await createRuntime({}, { transcript: kept, demo: true, workspacePath: async () => folder });
  onTestFinished(() => own.close());
  const held = () => {
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = held();
  const file = { type: 'file' as const, media_type: 'image/png', sha256: 'x', size: largeFile };
  const text = { type: 'text' as const, text: 'Please write a file named hello.txt' };
  const { runId } = await own.start(query('', { messages: [{ role: 'user', parts: [text, file] }] }));
  const signal = AbortSignal.timeout(50_000);
  for await (const { data } of own.follow(runId, { after: 0, follow: true, signal })) {
    if (!('type' in data) || data.type !== 'permission_requested') continue;
    expect(held() - before).toBeLessThan(largeFile / 2);
    transcript.answerPermission(data.request.id, 'allow_once');
    own.wake(runId);
  }
  expect(asked).toEqual(['x', 'x']);
});

const largeFile = 48 * 1024 * 1024;

describe('a run of the demonstration', () => {
  test('streams its text, numbers its events without a gap, and ends with done', async () => {
    const { runId } = await runtime.start(query('Say hello.'));
    const events = await watch(runId);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    const text = events
      .flatMap(({ name, data }) => (name === 'message' && 'text' in data ? [data.text] : []))
      .join('');
    expect(text).toContain('You said: Say hello.');
    expect(doneOf(events)).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text }] });
  });

  test('asks before it writes a file, and writes it once allowed', async () => {
    const { runId } = await runtime.start(query('Please write a file named hello.txt'));
    const events = await watch(runId, ({ data }) => {
      if (!('type' in data) || data.type !== 'permission_requested') return;
      transcript.answerPermission(data.request.id, 'allow_once');
      runtime.wake(runId);
    });
    expect(types(events)).toEqual(
      expect.arrayContaining(['permission_requested', 'permission_resolved', 'tool_finished']),
    );
    expect(await readFile(join(folder, 'hello.txt'), 'utf8')).toContain('Hello');
    expect(doneOf(events).tool_results).toMatchObject([{ name: 'write', is_error: false }]);
  });

  test('views a file that is there already before it writes it again', async () => {
    for (let time = 0; time < 2; time += 1) {
      const { runId } = await runtime.start(
        query('Please write a file named hello.txt', { permissionMode: 'accept_edits' }),
      );
      const { tool_results } = doneOf(await watch(runId));
      expect(tool_results.at(-1)).toMatchObject({ name: 'write', is_error: false });
      // Another process, with the same sessions.
      await runtime.close();
      runtime = await createRuntime({}, { transcript, demo: true, workspacePath: async () => folder });
    }
  });

  test('does not write what a person denies', async () => {
    const { runId } = await runtime.start(query('Please write a file named hello.txt'));
    const events = await watch(runId, ({ data }) => {
      if (!('type' in data) || data.type !== 'permission_requested') return;
      transcript.answerPermission(data.request.id, 'deny');
      runtime.wake(runId);
    });
    await expect(readFile(join(folder, 'hello.txt'))).rejects.toThrow('ENOENT');
    expect(doneOf(events).tool_results).toMatchObject([{ is_error: true, content: 'Permission denied.' }]);
  });

  test('is told at once that nobody can be asked, where nobody listens', async () => {
    const { runId } = await runtime.start(
      query('Please write a file named hello.txt', { onUnanswered: 'deny' }),
    );
    const events = await watch(runId);
    expect(types(events)).not.toContain('permission_requested');
    expect(doneOf(events).tool_results[0]?.content).toContain('nobody can be asked');
  });

  test('is remembered by the session: a second run sees the first', async () => {
    await watch((await runtime.start(query('Say hello.'))).runId);
    const { runId } = await runtime.start(query('Say it again.'));
    const done = doneOf(await watch(runId));
    expect(done.usage.input_tokens).toBeGreaterThan(10);
  });

  test('is refused where another has come after the one that it was to follow', async () => {
    const after = (afterRun: number) => runtime.start(query('Hello', { afterRun }));
    await watch((await after(0)).runId);
    await expect(after(0)).rejects.toMatchObject({ name: 'SessionMoved' });
    await watch((await after(1)).runId);
  });

  test('waits its turn on a busy session, and stands behind what went before', async () => {
    const first = await runtime.start(query('First.'));
    const second = await runtime.start(query('Second.'));
    await Promise.all([watch(first.runId), watch(second.runId)]);
    const said = (await transcript.readMessages('ses_1')).map(({ role, run_id }) => [role, run_id]);
    expect(said).toEqual([
      ['user', first.runId],
      ['assistant', first.runId],
      ['user', second.runId],
      ['assistant', second.runId],
    ]);
  });

  test('stops when it is interrupted, and keeps what it had said', async () => {
    const { runId } = await runtime.start(query('Say something long, please, with many words in it.'));
    const events = await watch(runId, ({ name }) => {
      if (name !== 'message') return;
      transcript.requestInterrupt(runId);
      runtime.wake(runId);
    });
    const done = doneOf(events);
    expect(done).toMatchObject({
      status: 'interrupted',
      interrupt_reason: 'requested',
      stop_reason: 'interrupted',
    });
    const stored = (await transcript.readMessages('ses_1')).at(-1);
    expect(stored).toMatchObject({ role: 'assistant', parts: done.content });
  });
});

describe('a run that waits its turn', () => {
  test('ends at once when it is interrupted, and the one before it goes on', async () => {
    const first = await runtime.start(query('Please write a file named hello.txt'));
    const second = await runtime.start(query('Second.'));
    let asked = '';
    const one = watch(first.runId, ({ data }) => {
      if ('type' in data && data.type === 'permission_requested') asked = data.request.id;
    });
    await expect.poll(() => asked).not.toBe('');
    transcript.requestInterrupt(second.runId);
    runtime.wake(second.runId);
    const events = await watch(second.runId);
    expect(types(events)).toEqual(['run_queued', 'done']);
    expect(doneOf(events)).toMatchObject({ status: 'interrupted', interrupt_reason: 'requested' });
    transcript.answerPermission(asked, 'deny');
    runtime.wake(first.runId);
    expect(doneOf(await one)).toMatchObject({ status: 'completed' });
  });
});

describe('a runtime that closes', () => {
  test('ends also the run that is just being stored', async () => {
    const [storing, stored] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow: typeof transcript = {
      ...transcript,
      beginRun: async (run) => {
        storing.resolve();
        await stored.promise;
        return transcript.beginRun(run);
      },
    };
    const closing = await createRuntime(
      {},
      { transcript: slow, demo: true, workspacePath: async () => folder },
    );
    const started = closing.start(query('Say hello.'));
    await storing.promise;
    const closed = closing.close();
    stored.resolve();
    const { runId } = await started;
    await closed;
    expect((await transcript.readEvents(runId, 0, 100)).at(-1)).toMatchObject({
      name: 'done',
      data: { status: 'interrupted', interrupt_reason: 'shutdown' },
    });
  });
});

describe('a runtime that closes while it takes a run over', () => {
  test('waits until that run has ended, too', async () => {
    const lease = { leaseMs: 1000, renewMs: 10 };
    const options = { demo: true, workspacePath: async () => folder, log: createLog('silent'), lease };
    // A process that has lost its lease leaves the run as it is.
    const losing: typeof transcript = {
      ...transcript,
      hasEarlierRun: async () => true,
      renewLeases: async () => [],
    };
    const dead = await createRuntime({}, { ...options, transcript: losing });
    const { runId, sessionId, model } = await dead.start(query('Say hello.'));
    await expect.poll(() => dead.activeRuns()).toBe(0);
    await dead.close();
    const left = await transcript.readEvents(runId, 0, 100);
    expect(left.at(-1)?.name).not.toBe('done');

    const [taking, taken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { session, userId } = query('');
    const run: TakenRun = {
      ...{ runId, sessionId, userId, model, session, runNumber: 1, trigger: 'api', agentSlug: 'coder' },
      ...{ permissionMode: 'ask', onUnanswered: 'wait', status: 'running', interrupt: 'requested' },
      ...{ steps: 0, usage: noUsage, cost: null, lastEventId: left.length, committedEventId: 0 },
      ...{ handedOver: false, resumptions: 0, workspacePlace: null, provisionalTitle: null },
      ...{ request: null, agent: null },
    };
    const slow: typeof transcript = {
      ...transcript,
      readLeases: async () => [{ runId, owner: null, renewals: 0 }],
      takeRun: async () => {
        taking.resolve();
        await taken.promise;
        return run;
      },
      readMessages: async (...asked) => {
        await setTimeout(50);
        return transcript.readMessages(...asked);
      },
    };
    const closing = await createRuntime({}, { ...options, transcript: slow });
    await taking.promise;
    const closed = closing.close();
    taken.resolve();
    await closed;
    expect((await transcript.readEvents(runId, 0, 100)).at(-1)).toMatchObject({
      name: 'done',
      data: { status: 'interrupted', interrupt_reason: 'requested' },
    });
  });
});

describe('a run that was stopped before it began', () => {
  test('does not begin where its process has not heard of it yet, and its prompt is taken back', async () => {
    const stopped: typeof transcript = {
      ...transcript,
      // Its turn has come, and somebody stops it from elsewhere.
      hasEarlierRun: async (place) => {
        for (const { run_id } of await transcript.readMessages(place.sessionId))
          if (run_id !== null) await transcript.stopRun(run_id, 'requested');
        return false;
      },
    };
    const other = await createRuntime(
      {},
      { transcript: stopped, demo: true, workspacePath: async () => folder, log: createLog('silent') },
    );
    try {
      const { runId, sessionId } = await other.start(query('Say hello.'));
      await expect.poll(() => other.activeRuns()).toBe(0);
      const events = await transcript.readEvents(runId, 0, 100);
      expect(types(events)).toEqual(['run_queued', 'done']);
      expect(doneOf(events)).toMatchObject({ status: 'interrupted', interrupt_reason: 'requested' });
      expect(await transcript.readMessages(sessionId)).toMatchObject([{ role: 'user', excluded: true }]);
    } finally {
      await other.close();
    }
  });
});

describe('a run that another process has taken over', () => {
  test('carries out no further tool call, and tells of none whose question it could not store', async () => {
    const upstream = await startUpstream();
    await upstream.script([
      {
        reply: {
          tool_calls: [
            { name: 'bash', arguments: { command: 'touch first' } },
            { name: 'write', arguments: { file_path: 'second.txt', content: 'x' } },
          ],
        },
      },
    ]);
    const taken: typeof transcript = {
      ...transcript,
      openPermission: async () => {
        throw Object.assign(new Error('taken over'), { name: 'LeaseLost' });
      },
    };
    const models = [{ id: 'scripted-1', name: 'scripted-1' }];
    const other = await createRuntime(
      {
        providers: { scripted: { type: 'anthropic', base_url: `${upstream.url}/v1`, api_key: 'k', models } },
      },
      { transcript: taken, workspacePath: async () => folder, log: createLog('silent') },
    );
    try {
      const rule = { tool: 'write', decision: 'allow' } as const;
      const { session } = query('');
      const { runId } = await other.start(query('Go', { session: { ...session, permissionRules: [rule] } }));
      await expect.poll(() => other.activeRuns()).toBe(0);
      const stored = types(await transcript.readEvents(runId, 0, 100));
      expect(stored).not.toContain('tool_finished');
      // Told of without its question, the call would count as one that may have run.
      expect(stored).not.toContain('tool_started');
      await expect(readFile(join(folder, 'second.txt'))).rejects.toThrow('ENOENT');
    } finally {
      await other.close();
      await upstream.stop();
    }
  });
});

describe('what a query names', () => {
  test('is refused before anything is stored: an unknown agent, an unknown model', async () => {
    await expect(runtime.start(query('Hi', { agentSlug: 'poet' }))).rejects.toMatchObject({
      code: 'agent_not_found',
    });
    await expect(runtime.start(query('Hi', { model: 'nobody:none' }))).rejects.toMatchObject({
      code: 'model_not_found',
    });
    expect(await transcript.readMessages('ses_1')).toEqual([]);
  });

  test('cannot be answered without a provider, and says what to set', async () => {
    const bare = await createRuntime({}, {});
    await expect(bare.start(query('Hi'))).rejects.toMatchObject({ code: 'no_provider_configured' });
    await bare.close();
  });
});
