/** A settings file from bytes to settings: what is read, what is refused, and what the reader is told. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { clientConfigSchema } from '../contract/config.ts';
import { type Diagnostic, formatDiagnostic } from './diagnostic.ts';
import { parseSettings } from './parse.ts';

const examples = join(import.meta.dirname, '../../schemas/service.examples');

function parse(text: string) {
  return parseSettings(new TextEncoder().encode(text), 'service.json');
}

/** Each diagnostic in short: severity, line:column, pointer. */
function marks(diagnostics: readonly Diagnostic[]): string[] {
  return diagnostics.map(
    ({ severity, place, pointer }) => `${severity} ${place?.line}:${place?.column} ${pointer}`,
  );
}

describe('what is read', () => {
  test('comments, trailing commas and a byte order mark are allowed', async () => {
    const { written: config, diagnostics } = await parse(
      '\uFEFF{\n  // why\n  "options": { "debug": true, /* so */ },\n}\n',
    );
    expect(diagnostics).toEqual([]);
    expect(config).toEqual({ options: { debug: true } });
  });

  test.each(['', '  \n', '// nothing yet\n'])('a file with nothing in it says nothing: %j', async (text) => {
    expect(await parse(text)).toMatchObject({ written: {}, diagnostics: [] });
  });

  test('every valid example, into what the generated validator accepts', async () => {
    for (const file of await readdir(join(examples, 'valid'))) {
      const { written: config, diagnostics } = await parse(
        await readFile(join(examples, 'valid', file), 'utf8'),
      );
      expect({ file, errors: diagnostics.filter(({ severity }) => severity === 'error') }).toEqual({
        file,
        errors: [],
      });
      expect({ file, accepted: clientConfigSchema.safeParse(config).success }).toEqual({
        file,
        accepted: true,
      });
    }
  });

  test('variables stay as they are written', async () => {
    const { written: config } = await parse(
      '{"providers":{"openai":{"api_key":"$(steal) $OPENAI_API_KEY"}}}',
    );
    expect(config?.providers?.openai?.api_key).toBe('$(steal) $OPENAI_API_KEY');
  });
});

describe('what is not known', () => {
  test('is a warning with the nearest known key, at the key, and is left out', async () => {
    const { written: config, diagnostics } = await parse(
      '{\n  "option": {},\n  "options": { "debugg": true, "debug": true }\n}',
    );
    expect(marks(diagnostics)).toEqual(['warning 2:3 /option', 'warning 3:16 /options/debugg']);
    expect(diagnostics.map(({ remedy }) => remedy)).toEqual([
      'Did you mean "options"?',
      'Did you mean "debug"?',
    ]);
    expect(config).toEqual({ options: { debug: true } });
  });

  test('names what is known where nothing is near', async () => {
    const { diagnostics } = await parse('{"permissions":{"environment":{}}}');
    const [found] = diagnostics;
    expect(found).toMatchObject({
      severity: 'warning',
      expected: 'one of allowed_tools',
      remedy: 'Remove it.',
    });
  });

  test('keys with slashes and tildes are pointed at rightly', async () => {
    const { written: config, diagnostics } = await parse('{"providers":{"a/b~c":{"x/y":1,"name":"n"}}}');
    expect(marks(diagnostics)).toEqual(['warning 1:24 /providers/a~1b~0c/x~1y']);
    expect(config).toEqual({ providers: { 'a/b~c': { name: 'n' } } });
  });

  test('hooks of an event that is not read are told, since a guard that does not stand is a danger', async () => {
    const text = '{"hooks":{"PreToolUse":[{"command":"x"}],"after":[{"command":"y"}]}}';
    const { written: config, diagnostics } = await parse(text);
    expect(marks(diagnostics)).toEqual(['warning 1:11 /hooks/PreToolUse', 'warning 1:42 /hooks/after']);
    expect(diagnostics[0]?.remedy).toBe('Did you mean "pre_tool_use"?');
    expect(config).not.toBeNull();
  });
});

describe('what is refused', () => {
  test('every invalid example, with a place and a remedy, or at least warned of', async () => {
    for (const file of await readdir(join(examples, 'invalid'))) {
      const { written: config, diagnostics } = await parse(
        await readFile(join(examples, 'invalid', file), 'utf8'),
      );
      const unknownOnly = diagnostics.every(({ severity }) => severity === 'warning');
      expect({ file, told: diagnostics.length }).toEqual({ file, told: 1 });
      expect({ file, loaded: config !== null }).toEqual({ file, loaded: unknownOnly });
      expect({ file, warned: unknownOnly }).toEqual({
        file,
        warned: /unknown-(key|kind|section|option|tool)/.test(file),
      });
      expect(diagnostics[0]?.remedy).toMatch(/[.?]$/);
    }
  });

  test('everything that is wrong is told at once, from the top', async () => {
    const { written: config, diagnostics } = await parse(`{
  "models": { "large": { "provider": "" } },
  "tools": { "grep": { "timeout": 5 } },
  "options": { "notification_style": "bel", "debug": "yes", "stray": 1 },
}`);
    expect(config).toBeNull();
    expect(diagnostics.map(formatDiagnostic)).toEqual([
      'service.json:2:24: error: /models/large: The key "model" is missing. Add "model": "gpt-5.2".',
      'service.json:2:38: error: /models/large/provider: This is empty; expected a string that is not empty. Write, for example, "openai".',
      'service.json:3:35: error: /tools/grep/timeout: A bare number counts nanoseconds, and this is less than a millisecond. Write a duration such as "5s".',
      'service.json:4:38: error: /options/notification_style: This is none of the values that are known; expected one of "auto", "native", "osc", "bell", "disabled". Did you mean "bell"?',
      'service.json:4:54: error: /options/debug: This is a string; expected true or false. Write, for example, true.',
      'service.json:4:61: warning: /options/stray: The key "stray" is not known, and has no effect; expected one of context_paths, skills_paths, tui, debug, debug_lsp, disable_auto_summarize, data_directory, disabled_tools, disable_provider_auto_update, disable_default_providers, attribution, disable_metrics, initialize_as, auto_lsp, progress, disable_notifications, notification_style, disabled_skills, limits, model_names. Remove it.',
    ]);
  });

  test('what the schema cannot say is told beside what it says', async () => {
    const { written, diagnostics } = await parse(
      '{\n"models": 1,\n"hooks": {\n"pre_tool_use": [\n{ "matcher": "(" },\n{ "matcher": 1, "command": "x" }\n],\n"later": [] },\n"tools": { "grep": { "timeout": "0s" } }\n}',
    );
    expect(written).toBeNull();
    expect(marks(diagnostics)).toEqual([
      'error 2:11 /models',
      'error 5:1 /hooks/pre_tool_use/0',
      'error 5:14 /hooks/pre_tool_use/0/matcher',
      'error 6:14 /hooks/pre_tool_use/1/matcher',
      'warning 8:1 /hooks/later',
      'error 9:33 /tools/grep/timeout',
    ]);
  });

  test.each([
    '[]',
    '"x"',
    'null',
    '{ "hooks": [] }',
    '{ "hooks": { "pre_tool_use": {} } }',
    '{ "tools": 1 }',
  ])('a form that is wrong at its root is told once: %s', async (text) => {
    const { diagnostics } = await parse(text);
    expect(diagnostics.map(({ severity }) => severity)).toEqual(['error']);
  });

  test.each(['mcp', 'mcpServers'])(
    'a server of %s that has only a url, since without a type it would be a command',
    async (section) => {
      const { written: config, diagnostics } = await parse(
        `{"${section}":{"issues":{"url":"https://mcp.example.com"}}}`,
      );
      expect(config).toBeNull();
      expect(marks(diagnostics)).toEqual([`error 1:${section.length + 22} /${section}/issues/url`]);
      expect(diagnostics[0]?.remedy).toContain('Add "type": "http" beside the url');
    },
  );

  test('a secret at a wrong place is not repeated', async () => {
    const { diagnostics } = await parse(
      '{"providers":{"openai":{"type":"sk-secret","api_key":["sk-secret"]}},"options":"sk-secret"}',
    );
    expect(diagnostics).toHaveLength(3);
    expect(JSON.stringify(diagnostics)).not.toContain('sk-secret');
  });

  test.each([
    ['{"a": }', '1:7', 'value expected'],
    ['{"a" 1}', '1:6', 'colon expected'],
    ['{\r\n  "a": 1\r\n  "b": 2\r\n}', '3:3', 'comma expected'],
    ['{"options": {', '1:14', 'close brace expected'],
    ['{} {}', '1:4', 'end of file expected'],
    ["{'a': 1}", '1:2', 'invalid symbol'],
  ])('broken JSON %j, at %s', async (text, at, words) => {
    const { written: config, diagnostics } = await parse(text);
    expect(config).toBeNull();
    const [first] = diagnostics;
    expect(`${first?.place?.line}:${first?.place?.column}`).toBe(at);
    expect(first?.message).toContain(words);
  });

  test('a key that stands twice, since readers differ in which one counts', async () => {
    const { written: config, diagnostics } = await parse('{"options":{"debug":true,\n"debug":false}}');
    expect(config).toBeNull();
    expect(marks(diagnostics)).toEqual(['error 2:1 /options/debug']);
  });

  test('the key __proto__, wherever it stands', async () => {
    const { written: config, diagnostics } = await parse(
      '{"providers":{"x":{"extra_body":[{"__proto__":{"polluted":true}}]}}}',
    );
    expect(config).toBeNull();
    expect(marks(diagnostics)).toEqual(['error 1:35 /providers/x/extra_body/0/__proto__']);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  test('a duration of nothing', async () => {
    const { written: config, diagnostics } = await parse('{"tools":{"grep":{"timeout":"0s"}}}');
    expect(config).toBeNull();
    expect(marks(diagnostics)).toEqual(['error 1:29 /tools/grep/timeout']);
  });

  test('what is not UTF-8, at the first broken character', async () => {
    const bytes = Buffer.concat([Buffer.from('{\n  "a'), Buffer.from([0xff, 0xfe]), Buffer.from('": 1}')]);
    const { written: config, diagnostics } = await parseSettings(bytes, 'service.json');
    expect(config).toBeNull();
    expect(marks(diagnostics)).toEqual(['error 2:5 ']);
    expect(diagnostics[0]?.remedy).toBe('Save it as UTF-8.');
  });

  test('what is too deep to be settings, before it exhausts the stack', async () => {
    for (const text of ['['.repeat(200_000), '{"a":'.repeat(100_000), `${'['.repeat(65)}${']'.repeat(65)}`]) {
      const { written: config, diagnostics } = await parse(text);
      expect(config).toBeNull();
      expect(diagnostics[0]?.message).toContain('nested more than 64 levels');
    }
  });

  test('braces in strings and comments are not depth', async () => {
    const { diagnostics } = await parse(`{"$schema": "${'{'.repeat(100)}" /* ${'['.repeat(100)} */}`);
    expect(diagnostics).toEqual([]);
  });

  test('what is too large to be settings', async () => {
    const { diagnostics } = await parse(`{"$schema":"${'x'.repeat(1024 * 1024)}"}`);
    expect(diagnostics[0]?.message).toContain('larger than 1048576 bytes');
  });
});

test.each([
  ['', 'fine'],
  ['^(bash|write)$', 'fine'],
  ['mcp_.*|bash', 'fine'],
  ['bash', 'fine'],
  ['[a-z]+\\d{2}', 'fine'],
  ['(bash', 'broken'],
  ['bash)', 'broken'],
  ['a**', 'broken'],
  ['^(bash|write$', 'broken'],
  ['|*', 'broken'],
  ['(?=bash)', 'broken'],
  [`(${'a'.repeat(300)}`, 'broken'],
])('a hook with the matcher %j is %s', async (matcher, state) => {
  const { diagnostics } = await parse(
    JSON.stringify({ hooks: { pre_tool_use: [{ matcher, command: 'true' }] } }),
  );
  expect(diagnostics.map(({ pointer }) => pointer)).toEqual(
    state === 'fine' ? [] : ['/hooks/pre_tool_use/0/matcher'],
  );
});
