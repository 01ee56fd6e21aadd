/** Servers of the settings, each of them a process for each workspace: how many there are at most, and what is left of those that went. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isHeld } from '../../test-garbage.ts';
import { call, hostile, testContext, testMcp, testWorkspace } from './test-mcp.ts';

const full = 'this server has as many connections to MCP servers as it may; try again later';

test('however many workspaces use a server of the settings, as many processes are left as may be', async () => {
  const pids = join(testWorkspace(), 'pids');
  const mcp = testMcp({ each: hostile('well', pids) }, {}, {}, { most: 3 });
  const places = Array.from({ length: 6 }, () => ({ workspacePath: testWorkspace() }));
  for (const place of places) expect(await mcp.tools(place)).toHaveLength(1);
  expect(processesIn(pids)).toHaveLength(6);
  await expect.poll(() => processesIn(pids).filter(isAlive)).toHaveLength(3);
  expect(places.map((place) => mcp.states(place)[0]?.state)).toEqual([
    ...['idle', 'idle', 'idle'],
    ...['ready', 'ready', 'ready'],
  ]);
  // Who comes again has theirs again.
  expect(await mcp.tools(places[0] ?? { workspacePath: '' })).toHaveLength(1);
  await mcp.close();
  await expect.poll(() => processesIn(pids).filter(isAlive)).toEqual([]);
});

test('a server of the settings that works is ended for nobody: other workspaces are told so', async () => {
  const mcp = testMcp({ each: hostile('slow') }, {}, {}, { most: 1 });
  const [one, other] = [{ workspacePath: testWorkspace() }, { workspacePath: testWorkspace() }];
  const { context } = testContext(one.workspacePath);
  const work = call(await mcp.tools(one), 'mcp_each_act', {}, context);
  await expect.poll(async () => (await mcp.connect('each', one))?.busy).toBe(true);
  expect(await mcp.tools(other)).toEqual([]);
  expect(mcp.states(other)).toEqual([{ name: 'each', state: 'failed', detail: full }]);
  await expect(mcp.connect('each', other)).rejects.toThrow(full);
  expect((await work).content).toContain('done in the end');
  expect(await mcp.tools(other)).toHaveLength(1);
});

test('one that somebody waits for while it connects goes after those that nobody uses, though it is older', async () => {
  const mcp = testMcp({ late: hostile('late'), well: hostile('well') }, {}, {}, { most: 2 });
  const [one, other, third] = [newPlace(), newPlace(), newPlace()];
  const connecting = mcp.connect('late', one);
  await mcp.connect('well', other);
  await mcp.connect('well', third);
  expect((await connecting)?.listing?.tools).toHaveLength(1);
  expect(mcp.states(other).find(({ name }) => name === 'well')?.state).toBe('idle');
});

test('of a server that nobody uses any more, what it offered is not held', async () => {
  const place = { workspacePath: testWorkspace() };
  const mcp = testMcp({ idle: hostile('well') }, {}, { idleMs: 50 });
  const listing = await mcp.connect('idle', place).then((server) => new WeakRef(server?.listing ?? {}));
  await expect.poll(() => isHeld(listing)).toBe(false);
  expect(mcp.states(place)).toEqual([{ name: 'idle', state: 'idle', detail: null }]);
});

function newPlace() {
  return { workspacePath: testWorkspace() };
}

function processesIn(file: string): number[] {
  return readFileSync(file, 'utf8').trim().split('\n').map(Number);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
