/** Several files become one: what counts, and where it comes from. */
import { expect, test } from 'vitest';
import type { ClientConfig } from '../contract/config.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { merge, sourceOf } from './merge.ts';

const hook = (command: string) => ({ command });

test('objects merge key by key, and of all else the nearest counts', () => {
  const { config } = merge([
    {
      models: { small: { provider: 'a', model: 's' } },
      options: { debug: true, tui: { compact_mode: true } },
    },
    { options: { debug: false, tui: { transparent: true } } },
  ]);
  expect(config).toEqual({
    models: { small: { provider: 'a', model: 's' } },
    options: { debug: false, tui: { compact_mode: true, transparent: true } },
  });
});

test('`options.disabled_tools` of a nearer file replaces the farther list, even by an empty one', () => {
  const farther = { options: { disabled_tools: ['bash', 'fetch'] } };
  expect(merge([farther, { options: { disabled_tools: ['edit'] } }]).config.options?.disabled_tools).toEqual([
    'edit',
  ]);
  expect(merge([farther, { options: { disabled_tools: [] } }]).config.options?.disabled_tools).toEqual([]);
});

test('`permissions.allowed_tools` of a nearer file replaces the farther list', () => {
  const { config } = merge([
    { permissions: { allowed_tools: ['bash'] } },
    { permissions: { allowed_tools: ['view'] } },
  ]);
  expect(config.permissions?.allowed_tools).toEqual(['view']);
});

test('`hooks.pre_tool_use` of all files run, farther first: a nearer file removes no guard', () => {
  const { config, sources } = merge([
    { hooks: { pre_tool_use: [hook('a'), hook('b')] } },
    { hooks: { pre_tool_use: [] } },
    { hooks: { pre_tool_use: [hook('c')], later: [hook('d')] } },
  ]);
  expect(config.hooks).toEqual({ pre_tool_use: [hook('a'), hook('b'), hook('c')], later: [hook('d')] });
  expect(sourceOf(sources, '/hooks/pre_tool_use/2/command')).toEqual({
    layer: 2,
    pointer: '/hooks/pre_tool_use/0/command',
  });
});

test('the files themselves stay as they were', () => {
  const farther: ClientConfig = {
    hooks: { pre_tool_use: [hook('a')] },
    options: { tui: { compact_mode: true } },
  };
  const before = structuredClone(farther);
  merge([farther, { hooks: { pre_tool_use: [hook('b')] }, options: { tui: { transparent: true } } }]);
  expect(farther).toEqual(before);
});

test('each value knows the file it comes from, lists as a whole', () => {
  const { sources } = merge([
    { options: { debug: true, disabled_tools: ['a'], progress: true } },
    { options: { debug: false, disabled_tools: ['b', 'c'] } },
  ]);
  const layer = (pointer: string) => sourceOf(sources, pointer)?.layer;
  expect(['/options/debug', '/options/progress', '/options/disabled_tools'].map(layer)).toEqual([1, 0, 1]);
  expect(sourceOf(sources, '/options/disabled_tools/1')).toEqual({
    layer: 1,
    pointer: '/options/disabled_tools/1',
  });
  expect(sourceOf(sources, '/options')).toBeNull();
});

test('where anything may stand, an object and a scalar replace each other, with all that was in them', () => {
  const body = (extra_body: Record<string, unknown>): ClientConfig => ({ providers: { x: { extra_body } } });
  const gone = merge([body({ a: { b: { c: 1 } } }), body({ a: 2 })]);
  expect(gone.config.providers?.x?.extra_body).toEqual({ a: 2 });
  expect([...gone.sources.keys()]).toEqual(['/providers/x/extra_body/a']);
  const back = merge([body({ a: 2 }), body({ a: { b: 1 } })]);
  expect(back.config.providers?.x?.extra_body).toEqual({ a: { b: 1 } });
  expect([...back.sources.keys()]).toEqual(['/providers/x/extra_body/a/b']);
});

test('names that every object has mean nothing here', () => {
  const { config } = merge([
    { mcp: {} },
    JSON.parse('{"mcp":{"constructor":{"command":"x"}}}') as ClientConfig,
  ]);
  expect(config.mcp?.constructor).toEqual({ command: 'x' });
  expect(Reflect.get(config.mcp ?? {}, 'toString')).toBeUndefined();
});

test('two large files are merged in no time', async () => {
  const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`k${index}`, { a: index }]));
  const few = Object.fromEntries(Object.keys(many).map((key) => [key, 1]));
  const files = [many, few, many].map((extra_body) => ({ providers: { x: { extra_body } } }));
  expect(await cpuMsOf(() => merge(files))).toBeLessThan(3000);
});
