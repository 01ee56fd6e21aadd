/** Aliases, deprecated keys and values with two names: each file says what it says under proper names. */
import { describe, expect, test } from 'vitest';
import { formatDiagnostic } from './diagnostic.ts';
import { normalize } from './normalize.ts';
import { parseSettings } from './parse.ts';

async function normalized(text: string) {
  const { written, document } = await parseSettings(new TextEncoder().encode(text), 'service.json');
  if (!written || !document) throw new Error('The test is to give valid settings');
  const { config, diagnostics, pointerInFile } = normalize(written, document);
  return { config, told: diagnostics.map(formatDiagnostic), pointerInFile };
}

describe('mcpServers', () => {
  test('`mcpServers` is another name of mcp', async () => {
    const { config, told, pointerInFile } = await normalized('{"mcpServers":{"a":{"command":"x"}}}');
    expect(config).toEqual({ mcp: { a: { command: 'x' } } });
    expect(told).toEqual([]);
    expect(pointerInFile('/mcp/a/command')).toBe('/mcpServers/a/command');
  });

  test('`mcpServers` and mcp name the same server: mcp counts, whole, and the other is told', async () => {
    const { config, told, pointerInFile } = await normalized(`{
      "mcpServers": { "a": { "command": "x", "args": ["-v"] }, "b": { "command": "y" } },
      "mcp": { "a": { "command": "z" } },
    }`);
    expect(config).toEqual({ mcp: { a: { command: 'z' }, b: { command: 'y' } } });
    expect(told).toEqual([
      'service.json:2:23: warning: /mcpServers/a: "a" stands under mcp too, and only that counts. Remove one of the two.',
    ]);
    expect(pointerInFile('/mcp/a/command')).toBe('/mcp/a/command');
    expect(pointerInFile('/mcp/b/command')).toBe('/mcpServers/b/command');
  });

  test('a server may be called like what every object has', async () => {
    const { config } = await normalized(
      '{"mcpServers":{"constructor":{"command":"x"},"toString":{"command":"y"}},"mcp":{}}',
    );
    expect(Object.keys(config.mcp ?? {})).toEqual(['constructor', 'toString']);
  });
});

describe('deprecated keys', () => {
  test.each([
    ['true', 'disabled'],
    ['false', 'auto'],
  ])(
    '`options.disable_notifications` %s is read as notification_style %s, and warns with its place',
    async (old, style) => {
      const { config, told, pointerInFile } = await normalized(
        `{\n  "options": { "disable_notifications": ${old} }\n}`,
      );
      expect(config).toEqual({ options: { notification_style: style } });
      expect(told).toEqual([
        'service.json:2:16: warning: /options/disable_notifications: The key "disable_notifications" is deprecated. Use notification_style: "disabled" says the same as disable_notifications: true, and "auto" the same as false.',
      ]);
      expect(pointerInFile('/options/notification_style')).toBe('/options/disable_notifications');
    },
  );

  test.each([
    ['true', 'co-authored-by'],
    ['false', 'none'],
  ])(
    '`options.attribution.co_authored_by` %s is read as trailer_style %s, and warns with its place',
    async (old, style) => {
      const { config, told } = await normalized(`{"options":{"attribution":{"co_authored_by":${old}}}}`);
      expect(config).toEqual({ options: { attribution: { trailer_style: style } } });
      expect(told).toEqual([expect.stringMatching(/^service\.json:1:28: warning: .* Use trailer_style: /)]);
    },
  );

  test('beside their replacement they have no effect, which is told', async () => {
    const { config, told } = await normalized(
      '{"options":{"notification_style":"bell","disable_notifications":true}}',
    );
    expect(config).toEqual({ options: { notification_style: 'bell' } });
    expect(told).toEqual([
      expect.stringContaining('is deprecated, and has no effect beside "notification_style"'),
    ]);
  });
});

test('`providers.*.type` may have the reference’s names, which become the real ones', async () => {
  const types = ['vendor-a', 'vendor-a-compat', 'vendor-b', 'vendor-c', 'vendor-d', 'vendor-e', 'openai'];
  const providers = Object.fromEntries(types.map((type) => [type, { type }]));
  const { config, told } = await normalized(JSON.stringify({ providers }));
  expect(Object.values(config.providers ?? {}).map(({ type }) => type)).toEqual([
    ...['openai', 'openai-compat', 'anthropic', 'gemini', 'azure', 'vertexai', 'openai'],
  ]);
  expect(told).toEqual([]);
});

test('what only looks like an alias, where anything may stand, stays as it is', async () => {
  const text =
    '{"providers":{"x":{"extra_body":{"mcpServers":{"type":"vendor-a"},"disable_notifications":true}}}}';
  const { config, told } = await normalized(text);
  expect(config).toEqual(JSON.parse(text));
  expect(told).toEqual([]);
});
