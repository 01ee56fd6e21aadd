/** MCP servers that do what no good one does: the agent goes on without them, and is told why. */

import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { processesWith } from '../hooks/test-hooks.ts';
import type { Question } from '../tools/tool.ts';
import { call, hostile, overStdio, testContext, testMcp, testWorkspace } from './test-mcp.ts';

test.each([
  ['ends-at-once', 15, 'it ended with exit code 3'],
  ['hangs', 1, 'it did not connect within 1 s'],
  ['wrong-id', 1, 'it did not connect within 1 s'],
  ['refuses', 15, 'it said: Not [31m today (-32603)'],
])('one that %s is absent, its state says why, and the others are there', async (deed, timeout, detail) => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ bad: { ...hostile(deed), timeout }, good: hostile('well') });
  const tools = await mcp.tools({ workspacePath });
  expect(tools.map(({ name }) => name)).toEqual(['mcp_good_act']);
  expect(mcp.states({ workspacePath })).toEqual([
    { name: 'bad', state: 'failed', detail },
    { name: 'good', state: 'ready', detail: null },
  ]);
});

test.each([
  ['floods', 'it writes without end, and answers nothing'],
  ['huge-line', 'it sent a message of more than 10 MB'],
  ['crowded-line', 'it sent a message of more values than can be held'],
])('one that %s is ended', async (deed, detail) => {
  const workspacePath = testWorkspace();
  // Not the time to connect is to end it: ten megabytes may take longer than that on a busy machine.
  const mcp = testMcp({ bad: { ...hostile(deed, join(workspacePath, 'pid')), timeout: 60 } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'bad', state: 'failed', detail }]);
  await expect.poll(() => pidsIn(workspacePath).filter(isAlive)).toEqual([]);
});

test('`mcp.*.timeout` bounds the connecting, and nobody waits a second time for one that did not answer', async () => {
  const workspacePath = testWorkspace();
  const times = { backOffMs: 0, longestBackOffMs: 0 };
  const mcp = testMcp({ slow: { ...hostile('hangs'), timeout: 6 } }, {}, times);
  const begun = Date.now();
  await mcp.tools({ workspacePath });
  const first = Date.now() - begun;
  expect(first).toBeGreaterThan(5900);
  expect(first).toBeLessThan(30_000);
  const again = Date.now();
  await mcp.tools({ workspacePath });
  expect(Date.now() - again).toBeLessThan(5000);
});

test('what breaks the rules of the protocol costs nothing that does not: it is left out, which the state says', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ odd: hostile('sloppy') });
  const tools = await mcp.tools({ workspacePath });
  expect(tools.map(({ name }) => name)).toEqual(
    ['act', 'bare', 'untyped', 'null'].map((one) => `mcp_odd_${one}`),
  );
  expect(tools.map(({ inputSchema }) => inputSchema)).toEqual(tools.map(() => ({ type: 'object' })));
  expect(tools.map(({ description }) => description)).toEqual(['Does act.', '', '', 'Nothing']);
  expect(mcp.states({ workspacePath })).toEqual([
    {
      ...{ name: 'odd', state: 'ready' },
      detail: expect.stringMatching(
        / too large: a_list, no_properties, one without a name, one without a name$/,
      ),
    },
  ]);
  const { context } = testContext(workspacePath);
  expect((await call(tools, 'mcp_odd_act', {}, context)).content).toBe(
    'It is not known whether the MCP server odd did it: it answered what breaks the rules of the protocol.',
  );
});

test.each([
  ['prompts-of-null', ['mcp_odd_act'], ['ask']],
  ['null-of-prompts', ['mcp_odd_act'], []],
  ['prompts-of-words', ['mcp_odd_act'], []],
  ['null-of-tools', [], []],
])('null stands for nothing, and no list costs another: %s', async (deed, tools, prompts) => {
  const place = { workspacePath: testWorkspace() };
  const mcp = testMcp({ odd: hostile(deed) });
  expect((await mcp.tools(place)).map(({ name }) => name)).toEqual(tools);
  expect((await mcp.prompts(place)).map(({ name }) => name)).toEqual(prompts);
  expect(mcp.states(place)).toEqual([{ name: 'odd', state: 'ready', detail: null }]);
});

test('garbage between the messages is passed over', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ odd: hostile('garbage') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_odd_act', {}, context)).toEqual({ content: 'act is done', is_error: false });
});

test('what a server calls its fields is neither an id nor a prototype, and comes back as it was', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ curious: hostile('asks', 'names') });
  const tools = await mcp.tools({ workspacePath });
  const asked: Question[] = [];
  const { context } = testContext(workspacePath, {
    ask: async (questions) => {
      asked.push(...questions);
      const answers = questions.map(({ id, type, choices }) => {
        if (type === 'yes_no') return { question_id: id, yes: true };
        if (choices) return { question_id: id, selected_ids: [choices[1]?.id ?? ''] };
        return { question_id: id, fill_in_text: 'polluted' }; // of `__proto__`, which the library leaves out
      });
      return { status: 'answered', answers };
    },
  });
  const { content } = await call(tools, 'mcp_curious_act', {}, context);
  expect(asked.map(({ id }) => id)).toEqual(['q1', 'q2']);
  expect(JSON.stringify(asked)).not.toMatch(/\\u0000|\\ud800/);
  expect(content).toBe('{"action":"accept","content":{"constructor":true,"a\\u0000b\\ud800":"\\ud800x"}}');
  expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
});

test.each(['many', 'wide', 'long', 'deep'])('a form that is too %s is put before nobody', async (name) => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ curious: hostile('asks', name) });
  const tools = await mcp.tools({ workspacePath });
  const asked: Question[] = [];
  const { context } = testContext(workspacePath, {
    ask: async (questions) => {
      asked.push(...questions);
      return { status: 'declined' };
    },
  });
  const { content } = await call(tools, 'mcp_curious_act', {}, context);
  expect(asked).toEqual([]);
  // The library refuses what is no form at all; the rest is withdrawn.
  expect(content).toMatch(/cancel|undefined|ended with exit code/);
});

test('one that asks a person without end has some of its questions put before them, and the rest withdrawn', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ curious: hostile('asks-without-end') });
  const tools = await mcp.tools({ workspacePath });
  const patience = Promise.withResolvers<void>();
  let asked = 0;
  const { context, said } = testContext(workspacePath, {
    ask: async () => {
      asked += 1;
      await patience.promise;
      return { status: 'declined' };
    },
  });
  const answer = call(tools, 'mcp_curious_act', {}, context);
  await expect.poll(() => said.join('')).toContain('the rest was withdrawn');
  patience.resolve();
  expect((await answer).content).toBe('all answered');
  expect(asked).toBe(20);
});

test.each(['withdraws', 'forgets'])(
  'one that %s its question has the person asked no longer',
  async (deed) => {
    const workspacePath = testWorkspace();
    const mcp = testMcp({ curious: hostile(deed) });
    const tools = await mcp.tools({ workspacePath });
    const told: string[] = [];
    const { context } = testContext(workspacePath, {
      ask: async (_questions, withdrawn) => {
        told.push('asked');
        if (withdrawn) await once(withdrawn, 'abort');
        told.push('withdrawn');
        return { status: 'expired' };
      },
    });
    const { content } = await call(tools, 'mcp_curious_act', {}, context);
    expect(content).toBe('done without an answer');
    expect(told).toEqual(['asked', 'withdrawn']);
  },
);

test('one that crashes in a call is told to the model, and is there again at the next use', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ frail: hostile('crashes', join(workspacePath, 'pid')) });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_frail_act', {}, context)).toEqual({
    content: 'It is not known whether the MCP server frail did it: it ended with exit code 1.',
    is_error: true,
  });
  expect(mcp.states({ workspacePath })).toMatchObject([{ state: 'failed' }]);
  expect(await mcp.tools({ workspacePath })).toHaveLength(1);
  expect(pidsIn(workspacePath)).toHaveLength(2);
});

test('one that closes its output and lives on is told to the model, and is ended', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ shut: hostile('closes-output', join(workspacePath, 'pid')) });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_shut_act', {}, context)).toEqual({
    content: 'It is not known whether the MCP server shut did it: it has closed its output.',
    is_error: true,
  });
  expect(await mcp.tools({ workspacePath })).toHaveLength(1);
  expect(pidsIn(workspacePath)).toHaveLength(2);
});

test('a timeout that is no whole number of milliseconds is one all the same', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ fine: { ...hostile('good'), timeout: 16.1 } });
  expect(await mcp.tools({ workspacePath })).toHaveLength(1);
});

test('one that keeps crashing is not started again and again', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp(
    { frail: hostile('ends-at-once', join(workspacePath, 'pid')) },
    {},
    { backOffMs: 60_000 },
  );
  await mcp.tools({ workspacePath });
  const started = pidsIn(workspacePath);
  expect(started).toHaveLength(1);
  for (let use = 0; use < 20; use += 1) await mcp.tools({ workspacePath });
  expect(pidsIn(workspacePath)).toEqual(started);
});

test('a call without a sign of life ends; one that reports progress may take its time', async () => {
  const workspacePath = testWorkspace();
  // The busy one is silent for a quarter of a second at a time, and a busy machine makes seconds of that.
  const callSilenceMs = 4000;
  const mcp = testMcp({ mute: hostile('silent'), busy: hostile('slow') }, {}, { callSilenceMs });
  const tools = await mcp.tools({ workspacePath });
  const { context, said } = testContext(workspacePath);
  expect(await call(tools, 'mcp_mute_act', {}, context)).toEqual({
    content: 'It is not known whether the MCP server mute did it: it gave no sign of life for too long.',
    is_error: true,
  });
  expect(await call(tools, 'mcp_busy_act', {}, context)).toEqual({
    content: 'done in the end',
    is_error: false,
  });
  // Of reports that come at once the last is told.
  expect(said.join('')).toMatch(/working \(\d+\/20\)\n/);
});

test('a call that reports progress ends all the same when it has gone on for too long', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ busy: hostile('slow') }, {}, { callTotalMs: 1000 });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  expect(await call(tools, 'mcp_busy_act', {}, context)).toEqual({
    content: 'It is not known whether the MCP server busy did it: it went on for too long.',
    is_error: true,
  });
});

test('a person who is asked may take longer than a call may', async () => {
  const workspacePath = testWorkspace();
  const times = { callSilenceMs: 4000, callTotalMs: 4000 };
  const mcp = testMcp({ curious: hostile('asks', 'names') }, {}, times);
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath, {
    ask: async () => {
      await delay(5000);
      return { status: 'declined' };
    },
  });
  expect(await call(tools, 'mcp_curious_act', {}, context)).toMatchObject({ is_error: false });
});

test('one that reports progress without end is heard now and then, in few words, and its call goes on', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ eager: hostile('chatters') });
  const tools = await mcp.tools({ workspacePath });
  const { context, said } = testContext(workspacePath);
  expect(await call(tools, 'mcp_eager_act', {}, context)).toEqual({
    content: 'act is done',
    is_error: false,
  });
  expect(said.join('')).toContain('working (19999/20000)\n');
  // Ten pieces a second, however long this takes here.
  expect(said.length).toBeLessThan(2000);
  expect(Math.max(...said.map((piece) => piece.length))).toBeLessThanOrEqual(4000);
});

test('an interrupted run does not wait for a call', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ mute: hostile('silent') });
  const tools = await mcp.tools({ workspacePath });
  const run = new AbortController();
  const { context } = testContext(workspacePath, { signal: run.signal });
  setTimeout(() => run.abort(), 50);
  const begun = Date.now();
  expect(await call(tools, 'mcp_mute_act', {}, context)).toMatchObject({ is_error: true });
  expect(Date.now() - begun).toBeLessThan(10_000);
});

test('a list that changed is heeded at the next step', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ growing: hostile('changes') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  await call(tools, 'mcp_growing_act', {}, context);
  const names = async () => (await mcp.tools({ workspacePath })).map(({ name }) => name);
  await expect.poll(names).toEqual(['mcp_growing_act', 'mcp_growing_added']);
});

test('one that says that its list changed and then does not list is waited for once, and what it had stays', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ mute: { ...hostile('mute-list'), timeout: 8 } }, {}, { backOffMs: 0 });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  await call(tools, 'mcp_mute_act', {}, context);
  const took = async () => {
    const begun = Date.now();
    expect(await mcp.tools({ workspacePath })).toHaveLength(1);
    return Date.now() - begun;
  };
  // Its word comes when it comes; the step that asks after it waits.
  await vi.waitFor(async () => expect(await took()).toBeGreaterThan(7900), 60_000);
  // It is asked again by now, and does not answer again.
  expect(await took()).toBeLessThan(6000);
  expect(await took()).toBeLessThan(6000);
  const names = async () => (await mcp.tools({ workspacePath })).map(({ name }) => name);
  await expect.poll(names).toEqual(['mcp_mute_act', 'mcp_mute_added']);
});

test('names fit every provider, and those that would fall together are told apart', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ n: hostile('names') });
  const names = (await mcp.tools({ workspacePath })).map(({ name }) => name);
  expect(new Set(names).size).toBe(7);
  expect(names.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name))).toBe(true);
  expect(names).toContain('mcp_n_fine');
  // Neither has the name that both would like: what was allowed to the one is not given to the other.
  expect(names).not.toContain('mcp_n_a_b');
  expect((await mcp.tools({ workspacePath })).map(({ name }) => name)).toEqual(names);
});

test('what looks like a tool of another server gets another name, also while that one is not there', async () => {
  const workspacePath = testWorkspace();
  const namesBeside = async (others: Parameters<typeof testMcp>[0]) => {
    const mcp = testMcp({ ...others, n: hostile('names') });
    return (await mcp.tools({ workspacePath })).map(({ name }) => name);
  };
  const alone = await namesBeside({});
  expect(alone).toContain('mcp_n_of_another');
  const away = await namesBeside({ n_of: { command: '/no/such/program' } });
  expect(away).not.toContain('mcp_n_of_another');
  expect(away.some((name) => /^mcp_n_of_another_[0-9a-f]{8}$/.test(name))).toBe(true);
  const there = await namesBeside({ n_of: hostile('well') });
  expect(there).toEqual(expect.arrayContaining([...away, 'mcp_n_of_act']));
});

test('an answer of any length is cut', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ big: hostile('talkative') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const { content } = await call(tools, 'mcp_big_act', {}, context);
  expect(content.length).toBeLessThan(31_000);
  expect(content).toContain('characters left out');
});

test('what a server says about the harm its tools do grants nothing', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ sly: hostile('well') });
  const [tool] = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const prepared = await tool?.prepare({ path: '/' }, context);
  expect(prepared?.permission).toEqual({
    action: 'execute',
    description: 'Call act of the MCP server sly',
    path: workspacePath,
    params: { server: 'sly', tool: 'act', input: { path: '/' } },
  });
});

test('`mcp.*.env` a process gets that and a built environment; of ours it sees no key', async () => {
  vi.stubEnv('A_SECRET_OF_THE_SERVER', 'sk-secret');
  const workspacePath = testWorkspace();
  const mcp = testMcp({ nosy: { ...hostile('tells-environment'), env: { GIVEN: 'by the settings' } } });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  const { content } = await call(tools, 'mcp_nosy_act', {}, context);
  const seen = Object.keys(JSON.parse(content) as object); // the server wrote it so
  expect(content).toContain('by the settings');
  expect(content).not.toContain('sk-secret');
  // The shell that puts the process into its control group names the folder it is in.
  const allowed = [
    'PATH',
    'HOME',
    'USER',
    'LOGNAME',
    'SHELL',
    'LANG',
    'LC_ALL',
    'TZ',
    'TERM',
    'TMPDIR',
    'PWD',
  ];
  expect(seen.filter((name) => ![...allowed, 'GIVEN', 'SERVICE_COMMAND'].includes(name))).toEqual([]);
  vi.unstubAllEnvs();
});

test('`mcp.*.args` are arguments as they stand: no shell sees them', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ quiet: hostile('well', '', '$(touch made)', '; touch made') });
  const tools = await mcp.tools({ workspacePath });
  const { context } = testContext(workspacePath);
  await call(tools, 'mcp_quiet_act', { value: '$(touch made)' }, context);
  expect(existsSync(join(workspacePath, 'made'))).toBe(false);
});

test('`mcp` a server that the settings no longer name is gone with all that it started', async () => {
  const workspacePath = testWorkspace();
  // Found again among the processes of the machine, where other tests may be at work.
  const nap = String(randomInt(10_000_000, 20_000_000));
  const sleepers = () => processesWith(nap);
  const servers = {
    stays: hostile('stays', join(workspacePath, 'pid')),
    parent: { ...hostile('has-children', join(workspacePath, 'pid')), env: { NAP: nap } },
  };
  const mcp = testMcp(servers);
  expect(await mcp.tools({ workspacePath })).toHaveLength(2);
  await expect.poll(sleepers).toHaveLength(1);
  const begun = Date.now();
  await mcp.apply({ config: { mcp: {} }, shared: false });
  expect(Date.now() - begun).toBeLessThan(10_000);
  await expect.poll(() => pidsIn(workspacePath).filter(isAlive)).toEqual([]);
  await expect.poll(sleepers).toEqual([]);
  expect(await mcp.tools({ workspacePath })).toEqual([]);
});

test('`mcp.*.disabled` a server is not started, and its state says so', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ off: { ...hostile('well', join(workspacePath, 'pid')), disabled: true } });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'off', state: 'disabled', detail: null }]);
  await delay(100);
  expect(existsSync(join(workspacePath, 'pid'))).toBe(false);
});

test('`mcp.*.enabled_tools` and `disabled_tools` choose, and change without a new start', async () => {
  const workspacePath = testWorkspace();
  const entry = overStdio('memory');
  const pid = join(workspacePath, 'memory.json');
  const kept = { ...entry, env: { MEMORY_FILE_PATH: pid }, enabled_tools: ['read_graph', 'create_entities'] };
  const mcp = testMcp({ memory: kept });
  const names = async () =>
    (await mcp.tools({ workspacePath }))
      .map(({ name }) => name)
      .filter((name) => name.startsWith('mcp_'))
      .sort();
  expect(await names()).toEqual(['mcp_memory_create_entities', 'mcp_memory_read_graph']);
  const { context } = testContext(workspacePath);
  const entities = [{ name: 'a', entityType: 'b', observations: ['c'] }];
  await call(await mcp.tools({ workspacePath }), 'mcp_memory_create_entities', { entities }, context);
  const pidBefore = (await mcp.connect('memory', { workspacePath }))?.pid;
  await mcp.apply({
    config: { mcp: { memory: { ...kept, disabled_tools: ['create_entities'] } } },
    shared: false,
  });
  expect(await names()).toEqual(['mcp_memory_read_graph']);
  expect((await mcp.connect('memory', { workspacePath }))?.pid).toBe(pidBefore);
  const { content } = await call(await mcp.tools({ workspacePath }), 'mcp_memory_read_graph', {}, context);
  expect(JSON.parse(content)).toMatchObject({ entities });
});

test('each workspace has a process of its own, which works there', async () => {
  const [one, two] = [testWorkspace(), testWorkspace()];
  const mcp = testMcp({ each: hostile('well') });
  await Promise.all([one, two, one].map((workspacePath) => mcp.tools({ workspacePath })));
  const pids = await Promise.all(
    [one, two].map(async (workspacePath) => (await mcp.connect('each', { workspacePath }))?.pid),
  );
  expect(new Set(pids).size).toBe(2);
});

test('a server that nobody uses is ended, and started again when somebody does', async () => {
  const workspacePath = testWorkspace();
  const mcp = testMcp({ idle: hostile('well') }, {}, { idleMs: 50 });
  await mcp.tools({ workspacePath });
  await expect.poll(() => mcp.states({ workspacePath })).toMatchObject([{ state: 'idle' }]);
  expect(await mcp.tools({ workspacePath })).toHaveLength(1);
});

test('where many share the runtime there is no process outside of a sandbox', async () => {
  const workspacePath = testWorkspace();
  const first = {
    config: { mcp: { local: hostile('well', join(workspacePath, 'pid')) } },
    shared: true,
  };
  const mcp = testMcp({}, { first });
  expect(await mcp.tools({ workspacePath })).toEqual([]);
  const detail = 'stdio servers run here only in a sandbox, and not part of this test';
  expect(mcp.states({ workspacePath })).toEqual([{ name: 'local', state: 'failed', detail }]);
  expect(existsSync(join(workspacePath, 'pid'))).toBe(false);
});

function pidsIn(workspacePath: string): number[] {
  return readFileSync(join(workspacePath, 'pid'), 'utf8').trim().split('\n').map(Number);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
