/** Connections to MCP servers that many people keep: how many there are at most, which goes first, and that nothing is left of what ended. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keepLoginsInMemory } from './login-keeper.ts';
import type { Mcp } from './mcp.ts';
import type { OwnMcpServer } from './own-servers.ts';
import { call, hostile, testContext, testMcp, testWorkspace } from './test-mcp.ts';

const full = 'this server has as many connections to MCP servers as it may; try again later';

/** Servers of many people, each a process that leaves its number in `pids`. */
function many(bounds: { readonly most: number; readonly lookMs?: number }) {
  const workspacePath = testWorkspace();
  const pids = join(workspacePath, 'pids');
  const marks = new Map<string, string>();
  let looked = 0;
  const ownMcpServers = {
    of: async () => [],
    marks: async (held: readonly { readonly id: string }[]) => {
      looked += 1;
      return held.map(({ id }) => marks.get(id) ?? null);
    },
  };
  const mcp = testMcp({}, { ownMcpServers }, {}, bounds);
  const own = (person: string, name: string, deed = 'well'): OwnMcpServer => {
    const id = `${person}-${name}`;
    const mark = marks.get(id) ?? '1';
    marks.set(id, mark);
    const rest = { userId: null, logins: keepLoginsInMemory(), fault: null };
    return { id, name, entry: hostile(deed, pids), mark, ...rest };
  };
  return {
    ...{ mcp, marks, own, looked: () => looked },
    place: (...servers: OwnMcpServer[]) => ({ workspacePath, ownMcpServers: servers }),
    /** How many processes were started, and how many of them are left. */
    started: () => (existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n').map(Number) : []),
    alive: () => {
      const all = existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n').map(Number) : [];
      return all.filter(isAlive).length;
    },
  };
}

const people = ['ada', 'bob', 'eve'];

test('many people with many servers hold as many as may be, and those that were used last', async () => {
  const { mcp, own, place, started, alive } = many({ most: 4 });
  for (const person of people) {
    await mcp.tools(place(own(person, 'a'), own(person, 'b')));
    expect(mcp.heldOwn().length).toBeLessThanOrEqual(4);
  }
  expect(mcp.heldOwn()).toEqual(['bob-a', 'bob-b', 'eve-a', 'eve-b']);
  // Used again it is the youngest: the next one takes another's place.
  await mcp.tools(place(own('bob', 'a')));
  await mcp.tools(place(own('ada', 'a')));
  expect(mcp.heldOwn()).toEqual(['eve-a', 'eve-b', 'bob-a', 'ada-a']);
  expect(started()).toHaveLength(7);
  await expect.poll(alive).toBe(4);
});

test('however many come at once, no more processes are left than may be, and none after the end', async () => {
  const { mcp, own, place, alive } = many({ most: 3 });
  const all = Array.from({ length: 12 }, (_, at) => mcp.tools(place(own(`p${at}`, 'a'))));
  await Promise.all(all);
  expect(mcp.heldOwn()).toHaveLength(3);
  await expect.poll(alive).toBe(3);
  await mcp.close();
  expect(mcp.heldOwn()).toEqual([]);
  await expect.poll(alive).toBe(0);
});

test('one that works is ended for nobody: the others are told so, and have theirs once it is done', async () => {
  const { mcp, own, place, alive } = many({ most: 1 });
  const [busy, next] = [own('ada', 'a', 'slow'), own('bob', 'b')];
  const { context } = testContext(place().workspacePath);
  const work = call(await mcp.tools(place(busy)), 'mcp_a_act', {}, context);
  const server = await mcp.connectOwn(busy, place());
  await expect.poll(() => server.busy).toBe(true);
  expect(await mcp.tools(place(next))).toEqual([]);
  expect(mcp.states(place(next))).toEqual([{ name: 'b', state: 'failed', detail: full }]);
  await expect(mcp.connectOwn(next, place())).rejects.toThrow(full);
  expect((await work).content).toContain('done in the end');
  expect((await mcp.tools(place(next))).map(({ name }) => name)).toEqual(['mcp_b_act']);
  expect(mcp.heldOwn()).toEqual(['bob-b']);
  await expect.poll(alive).toBe(1);
});

test.each<[string, (parts: ReturnType<typeof many>) => unknown]>([
  ['was changed', ({ marks }) => marks.set('ada-a', '2')],
  ['was removed', ({ marks }) => marks.delete('ada-a')],
])('one whose setting %s elsewhere ends by itself; the others stay', async (_what, change) => {
  const parts = many({ most: 10, lookMs: 50 });
  const { mcp, own, place, alive } = parts;
  await mcp.tools(place(own('ada', 'a'), own('bob', 'b')));
  change(parts);
  await expect.poll(() => mcp.heldOwn()).toEqual(['bob-b']);
  await expect.poll(alive).toBe(1);
});

test('what was changed is connected to anew, once; where nothing is held nobody looks any more', async () => {
  const { mcp, own, place, marks, started, alive, looked } = many({ most: 10, lookMs: 50 });
  await mcp.tools(place(own('ada', 'a')));
  marks.set('ada-a', '2');
  await Promise.all([place(own('ada', 'a')), place(own('ada', 'a'))].map((one) => mcp.tools(one)));
  expect(started()).toHaveLength(2);
  await expect.poll(alive).toBe(1);
  await endAll(mcp);
  await expect.poll(alive).toBe(0);
  const before = looked();
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(looked()).toBeLessThanOrEqual(before + 1);
});

test('who reads a resource keeps the connection while they wait', async () => {
  const { mcp, own, place } = many({ most: 1 });
  const server = await mcp.connectOwn(own('ada', 'a', 'silent'), place());
  const asked = Promise.withResolvers<void>();
  const reading = server.request(() => asked.promise, new AbortController().signal);
  await expect.poll(() => server.busy).toBe(true);
  expect(await mcp.tools(place(own('bob', 'b')))).toEqual([]);
  asked.resolve();
  await reading;
  expect(await mcp.tools(place(own('bob', 'b')))).toHaveLength(1);
});

async function endAll(mcp: Mcp): Promise<void> {
  for (const id of mcp.heldOwn()) await mcp.endOwn(id);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
