/** What a live stream promises on the wire: every event by its schema, in order, to one end, whatever the text is. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventFaults } from '../contract.ts';
import { type Live, startLive } from '../live.ts';
import { isEvent, readEvents, readFrames, type WireEvent, type WireFrame } from '../wire-stream.ts';

let live: Live;
beforeAll(async () => {
  live = await startLive({ SERVICE_KEEPALIVE_SECONDS: '0.1' });
});
afterAll(() => live?.stop());
beforeEach(() => live.upstream.script([{ reply: { text: 'You said: {{last_user}}' } }]));

const query = (body: object, signal?: AbortSignal) => live.post('/api/v1/query/stream', body, signal);

/** What holds for every stream of a run, whatever happened in it. */
function expectWholeStream(events: readonly WireEvent[]): void {
  expect(events.flatMap((event) => eventFaults('StreamEvent', event))).toEqual([]);
  expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => String(index + 1)));
  const last = events.findIndex(({ event }) => event === 'done' || event === 'error');
  expect(last).toBe(events.length - 1);
}

/** The types of the runtime events and chunks. */
function typesOf(events: readonly WireEvent[]): string[] {
  return events.map(({ data }) => (JSON.parse(data) as { type?: string }).type ?? '').filter(Boolean);
}

function textOf(events: readonly WireEvent[]): string {
  return events
    .map(({ data }) => JSON.parse(data) as { type?: string; text?: string })
    .map(({ type, text }) => (type === 'text_delta' ? text : ''))
    .join('');
}

test('a stream has the headers of its protocol', async () => {
  const response = await query({ prompt: 'Hello' });
  expect(response.status).toBe(200);
  expect(response.headers.get('Content-Type')).toBe('text/event-stream');
  expect(response.headers.get('X-SSE-Version')).toBe('1');
  expect(response.headers.get('X-Run-Id')).toMatch(/^run_/);
  expect(response.headers.get('Cache-Control')).toContain('no-store');
  expectWholeStream(await readEvents(response));
});

test('thoughts, tools, progress, questions and lists of what is to do come by their schemas', async () => {
  const todos = [{ content: 'Look', status: 'pending', active_form: 'Looking' }];
  const calls = [
    { name: 'todos', arguments: { todos } },
    { name: 'bash', arguments: { command: 'echo one; sleep 0.3; echo two' } },
    { name: 'view', arguments: { file_path: 'nothing-here.txt' } },
  ];
  await live.upstream.script([
    { when: { step: 0 }, reply: { reasoning: 'Let me think', text: 'I work', tool_calls: calls } },
    { reply: { text: 'Done' } },
  ]);
  const events = await readEvents(await query({ prompt: 'Work', permission_mode: 'bypass' }));
  expectWholeStream(events);
  expect(new Set(typesOf(events))).toEqual(
    new Set([
      ...['run_queued', 'run_started', 'reasoning_delta', 'text_delta', 'tool_input_delta', 'step_finished'],
      ...['tool_started', 'tool_progress', 'tool_finished', 'todos_updated', 'usage_updated'],
    ]),
  );
  const done = JSON.parse(events.at(-1)?.data ?? '');
  expect(done).toMatchObject({ status: 'completed', content: [{ type: 'text', text: 'Done' }] });
  expect(done.tool_uses).toHaveLength(3);
  expect(done.tool_results.map(({ is_error }: { is_error: boolean }) => is_error)).toEqual([
    false,
    false,
    true,
  ]);
});

test('permission requests and questions come by their schemas, and say where they are answered', async () => {
  const questions = [{ id: 'q', type: 'yes_no', text: 'Really?' }];
  await live.upstream.script([
    {
      when: { step: 0 },
      reply: { tool_calls: [{ name: 'write', arguments: { file_path: 'a.txt', content: 'a' } }] },
    },
    { when: { step: 1 }, reply: { tool_calls: [{ name: 'ask_user', arguments: { questions } }] } },
    { reply: { text: 'Done' } },
  ]);
  const events: WireEvent[] = [];
  for await (const frame of readFrames(await query({ prompt: 'Work' }))) {
    if (!isEvent(frame)) continue;
    events.push(frame);
    const { type, request } = JSON.parse(frame.data);
    const answers = [{ question_id: 'q', yes: true }];
    if (type === 'permission_requested') await live.post(request.reply_path, { decision: 'allow_once' });
    if (type === 'prompt_requested') await live.post(request.reply_path, { answers });
  }
  expectWholeStream(events);
  const types = typesOf(events);
  for (const noun of ['permission', 'prompt'])
    expect(types.indexOf(`${noun}_resolved`)).toBeGreaterThan(types.indexOf(`${noun}_requested`));
});

test.each([
  ['refused', 'provider_refused', { fail: { kind: 'status', status: 401 } }],
  ['limited', 'provider_rate_limited', { fail: { kind: 'status', status: 429 } }],
  ['failed', 'provider_failed', { fail: { kind: 'status', status: 500 } }],
  [
    'cut in the middle',
    'provider_failed',
    { reply: { text: 'Half an answer' }, fail: { kind: 'cut', after_chunks: 2 } },
  ],
  [
    'garbage in the middle',
    'provider_failed',
    { reply: { text: 'Half an answer' }, fail: { kind: 'garbage', after_chunks: 2 } },
  ],
])('a provider that %s ends the stream in one error with the single key', async (_, code, rule) => {
  await live.upstream.script([rule]);
  const events = await readEvents(await query({ prompt: 'Hello' }));
  expectWholeStream(events);
  const error = JSON.parse(events.at(-1)?.data ?? '');
  expect(Object.keys(error)).toEqual(['error']);
  expect(error.error).toMatch(new RegExp(`^${code}: \\S.*\\.$`));
});

test('a silent model is bridged by comments, the first of them at once', async () => {
  await live.upstream.script([{ reply: { text: 'At last', hold_after_chunks: 0 } }]);
  const frames: WireFrame[] = [];
  let [isStarted, bridges] = [false, 0];
  for await (const frame of readFrames(await query({ prompt: 'Hello' }))) {
    frames.push(frame);
    isStarted ||= isEvent(frame) && frame.data.includes('run_started');
    if (!isStarted || isEvent(frame)) continue;
    bridges += 1;
    // The model speaks only once so many have come: had they to come within some time, a busy machine would fail.
    if (bridges === 4) await live.upstream.releaseHeld();
  }
  expect(isEvent(frames[0] ?? { comment: '' })).toBe(false);
  const started = frames.findIndex((frame) => isEvent(frame) && frame.data.includes('run_started'));
  const chunk = frames.findIndex((frame) => isEvent(frame) && frame.event === 'message');
  expect(frames.slice(started + 1, chunk).length).toBeGreaterThanOrEqual(4);
  expect(frames.slice(started + 1, chunk).some(isEvent)).toBe(false);
  expectWholeStream(frames.filter(isEvent));
});

const hardText =
  'CR\rLF\nCRLF\r\n\r\nLS\u2028PS\u2029NEL\u0085 "quote" \\ data: id: 漢字 é ẞ 👩‍👩‍👧 \u{1F600}\t\u0001end';

test.each([
  ['one character at a time', { chunk_size: 1 }],
  ['one byte at a time', { chunk_size: 16, write_bytes: 1 }],
  ['in one piece', { chunk_size: 10_000 }],
])('a text with every kind of line break and wide characters survives, %s', async (_, pace) => {
  await live.upstream.script([{ reply: { text: hardText, ...pace } }]);
  const events = await readEvents(await query({ prompt: hardText }));
  expectWholeStream(events);
  expect(textOf(events)).toBe(hardText);
  const done = JSON.parse(events.at(-1)?.data ?? '');
  expect(done.content).toEqual([{ type: 'text', text: hardText }]);
  const params = { path: { session_id: done.session_id } };
  const { data } = await live.client.GET('/api/v1/sessions/{session_id}/messages', { params });
  expect(data.data.map(({ parts }) => parts)).toEqual([
    [{ type: 'text', text: hardText }],
    [{ type: 'text', text: hardText }],
  ]);
});
