/** Coding agents of others, with tools of their own, through the server to models of another vendor and of their own. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Live, startLive } from '../live.ts';
import { type Agent, findStrace, type Work, work } from './agent.ts';
import { claudeCode } from './claude-code.ts';
import { opencode } from './opencode.ts';

let live: Live;
beforeAll(async () => {
  live = await startLive();
});
afterAll(() => live?.stop());

const task = 'Mend the function in FILE: it has to add.';
const file = '(?<file>/\\S+calc\\.py)';

/** A model that reads the file, changes what it has read, and tells what came of it; a title is another matter. */
function script({ read, edit }: Agent) {
  return [
    {
      name: 'read',
      when: { last_user: file, offers_tool: read.name, tool_results: 0 },
      reply: { reasoning: 'What stands there?', text: 'I read it.', tool_calls: [read] },
    },
    {
      name: 'edit',
      when: { last_user: file, offers_tool: edit.name, tool_results: 1, last_tool_result: 'return a - b' },
      reply: { text: 'I mend it.', tool_calls: [edit] },
    },
    {
      name: 'report',
      when: { tool_results: 2 },
      reply: { text: 'It adds now: {{last_tool_result}}' },
    },
    { name: 'title', when: { tool_results: 0 }, reply: { text: 'A function that adds' } },
  ];
}

const spokenTo = new Set<string>();

async function begin(agent: Agent, model: string, key = live.server.operatorKey): Promise<Work> {
  const done = await work(agent, { url: live.server.url, key, model, prompt: task });
  for (const address of done.reached ?? []) spokenTo.add(address);
  return done;
}

/** The rules that answered, one after the other; what an agent asks beside its task is left out. */
async function answered(): Promise<string[]> {
  return (await live.upstream.requests()).map(({ rule }) => String(rule)).filter((rule) => rule !== 'title');
}

describe.each([
  ['another vendor', 'scripted:scripted-1'],
  ['its own vendor', 'vendor:vendor-1'],
])('with a model of %s', (_vendor, model) => {
  describe.each([[claudeCode], [opencode]])('$name', (agent) => {
    test('mends a file with its own tools', async () => {
      await live.upstream.script(script(agent));
      const { exitCode, printed, file: after } = await begin(agent, model);
      expect(printed).toContain('It adds now');
      expect(after).toBe('def add(a, b):\n    return a + b\n');
      expect(exitCode).toBe(0);
      expect(await answered()).toEqual(['read', 'edit', 'report']);
    });

    // At the first piece, in a thought, in a text, before the call of a tool.
    test.each([
      ['breaks off at its first piece', { kind: 'cut', after_chunks: 0 }],
      ...[1, 2, 3, 5, 7].map(
        (count) => [`breaks off after ${count} pieces`, { kind: 'cut', after_chunks: count }] as const,
      ),
      ['is overloaded', { kind: 'status', status: 529, retry_after: '1' }],
    ] as const)('tries again where the provider %s', async (_how, fail) => {
      const [read, ...rest] = script(agent);
      await live.upstream.script([{ ...read, name: 'broken', times: 1, fail }, { ...read }, ...rest]);
      const { printed, file: after } = await begin(agent, model);
      expect(printed).toContain('It adds now');
      expect(after).toContain('return a + b');
      expect(await answered()).toEqual(['broken', 'read', 'edit', 'report']);
    });

    // Each goes on in a way of its own from what it has: with half a call, or a request to resume.
    test.each([8, 9, 10])(
      'goes on where the provider breaks off in a call, after %i pieces',
      async (after_chunks) => {
        const [read] = script(agent);
        const broken = { ...read, name: 'broken', times: 1, fail: { kind: 'cut', after_chunks } };
        await live.upstream.script([broken, { name: 'on', reply: { text: 'I go on.' } }]);
        const { exitCode, printed } = await begin(agent, model);
        expect(printed).toContain('I go on.');
        expect(exitCode).toBe(0);
        expect((await answered()).filter((rule) => rule === 'broken')).toHaveLength(1);
      },
    );
  });
});

test.each(['scripted:scripted-1', 'vendor:vendor-1'])(
  'claude-code finds a tool that waits to be asked for, with %s',
  async (model) => {
    const search = { name: 'ToolSearch', arguments: { query: 'select:WebFetch' } };
    await live.upstream.script([
      { times: 1, when: { offers_tool: 'ToolSearch' }, reply: { tool_calls: [search] } },
      { name: 'report', reply: { text: 'I know it now.' } },
    ]);
    const { exitCode, printed } = await begin(claudeCode, model);
    expect(printed).toContain('I know it now.');
    expect(exitCode).toBe(0);
    const calls = await live.upstream.requests();
    expect(calls.map(({ status }) => status)).toEqual([200, 200]);
    const [before, after] = calls.map(({ body }) => JSON.stringify((body as { tools: unknown }).tools));
    expect(before).not.toContain('"WebFetch"');
    expect(after).toContain('"WebFetch"');
  },
);

describe.each([[claudeCode], [opencode]])('$name', (agent) => {
  test.each([
    ['a wrong key', 'scripted:scripted-1', 'sk-wrong', /key/i],
    ['an unknown model', 'no:such', undefined, /model/i],
  ])('says what is wrong with %s', async (_what, model, key, words) => {
    await live.upstream.script(script(agent));
    const { exitCode, printed } = await begin(agent, model, key);
    expect(printed).toMatch(words);
    expect(printed).not.toContain('"type":"error"');
    expect(exitCode).not.toBe(0);
    expect(await live.upstream.requests()).toEqual([]);
  });
});

test.skipIf(!findStrace())('none of them spoke to anybody but this machine', () => {
  expect([...spokenTo]).toEqual(['127.0.0.1']);
});
