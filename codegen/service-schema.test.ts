/** Holds the schema of the settings file to its own rules: complete, described, readable by every editor. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { describe, expect, test } from 'vitest';
import { placesOf, readSettingsSchema } from './schema-places.ts';

const repository = join(import.meta.dirname, '..');
const text = await readFile(join(repository, 'schemas/service.schema.json'), 'utf8');
const root = await readSettingsSchema(repository);
const ajv = new Ajv({ strict: false });
const places = placesOf(root);
const keys = places.filter(({ path }) => path !== '' && !path.endsWith('*') && !path.endsWith('[]'));

/** What draft-07 and 2020-12 read alike, and the notes that neither judges by. */
const keywords = new Set([
  ...[
    '$ref',
    'type',
    'enum',
    'properties',
    'additionalProperties',
    'required',
    'items',
    'minLength',
    'pattern',
  ],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'if', 'then', 'description', 'default', 'examples'],
  ...['allowComments', 'allowTrailingCommas'],
  ...['deprecated', 'deprecationMessage', 'enumDescriptions', 'errorMessage', 'x-alias-of', 'x-aliases'],
  ...['x-confined', 'x-expand', 'x-merge', 'x-regexp', 'x-replaced-by', 'x-restricted', 'writeOnly'],
  ...['x-secret-names', 'x-guard', 'x-passed-on', 'x-url'],
]);

test('it uses only keywords that draft-07 and 2020-12 read alike', () => {
  const { $schema, title, definitions, ...top } = root;
  const schemas = [top, ...Object.values(definitions), ...places.slice(1).map(({ schema }) => schema)];
  const strange = schemas.flatMap((schema) =>
    Object.keys(schema).filter((keyword) => !keywords.has(keyword)),
  );
  expect(strange).toEqual([]);
  expect($schema).toBe('https://json-schema.org/draft/2020-12/schema');
});

test('nothing stands beside a reference, where draft-07 would not see it', () => {
  const beside = text.match(/"\$ref": "[^"]*",|,\s*"\$ref"/g);
  expect(beside).toBeNull();
});

test('every key has a description that is a sentence', () => {
  const bare = keys.filter(({ schema }) => !/^[A-Z].*[^.]\.$/.test(String(schema.description ?? '')));
  expect(bare.map(({ path }) => path)).toEqual([]);
});

test('every value has an example, and every example and default is valid', () => {
  for (const { path, schema } of keys) {
    const examples = (schema.examples ?? []) as unknown[]; // examples is a list in both drafts
    if (schema.type !== 'object' && !schema['x-merge'])
      expect({ path, examples }).not.toEqual({ path, examples: [] });
    const validate = ajv.compile({ ...schema, definitions: root.definitions });
    const written = 'default' in schema ? [...examples, schema.default] : examples;
    expect({ path, bad: written.filter((value) => !validate(value)) }).toEqual({ path, bad: [] });
  }
});

test('objects are closed, save the maps whose names or contents are the user’s', () => {
  const open = places.filter(
    ({ schema }) => schema.type === 'object' && schema.additionalProperties === undefined,
  );
  expect(open).toEqual([]);
});

test('each enum explains every value it has', () => {
  const uneven = keys.filter(
    ({ schema }) =>
      Array.isArray(schema.enumDescriptions) &&
      schema.enumDescriptions.length !== (schema.enum as unknown[]).length, // it stands only beside an enum
  );
  expect(uneven).toEqual([]);
});

test('provider types carry the real names first and then as many aliases', () => {
  const type = keys.find(({ path }) => path === 'providers.*.type')?.schema;
  expect(type?.enum).toEqual([
    ...['openai', 'openai-compat', 'anthropic', 'gemini', 'azure', 'vertexai'],
    ...['vendor-a', 'vendor-a-compat', 'vendor-b', 'vendor-c', 'vendor-d', 'vendor-e'],
  ]);
});

test('the restricted sections are the eleven that need trust, and the limits and the network of commands, which a repository may not lift', () => {
  const restricted = keys.filter(({ schema }) => schema['x-restricted']).map(({ path }) => path);
  expect(restricted.sort()).toEqual([
    ...['hooks', 'image_generation', 'lsp', 'mcp', 'mcpServers', 'options.context_paths'],
    ...[
      'options.limits',
      'options.skills_paths',
      'permissions',
      'providers',
      'speech_to_text',
      'text_to_speech',
      'tools.bash',
    ],
  ]);
});

test('beside them, of what counts by itself, only what goes to providers as it is needs trust', () => {
  const passedOn = keys.filter(({ schema }) => schema['x-passed-on']).map(({ path }) => path);
  expect(passedOn).toEqual(['models.large.provider_options', 'models.small.provider_options']);
});

test('only hooks are appended when files merge', () => {
  const marked = places
    .filter(({ schema }) => schema['x-merge'])
    .map(({ path, schema }) => [path, schema['x-merge']]);
  expect(marked).toEqual([
    ['hooks.pre_tool_use', 'append'],
    ['hooks.*', 'append'],
  ]);
});

test('what is deprecated names its replacement', () => {
  const deprecated = keys.filter(({ schema }) => schema.deprecated);
  expect(
    deprecated.map(({ path, schema }) => [path, String(schema.deprecationMessage).split(':')[0]]),
  ).toEqual([
    ['options.attribution.co_authored_by', 'Use trailer_style'],
    ['options.disable_notifications', 'Use notification_style'],
  ]);
});

describe('the keys and their defaults', () => {
  test('are those of the reference, no more and no fewer', () => {
    const found = keys.map(({ path, schema }) =>
      'default' in schema ? `${path} = ${JSON.stringify(schema.default)}` : path,
    );
    expect(found.sort()).toEqual([...expectedKeys()].sort());
  });
});

const sampling = 'temperature top_p top_k frequency_penalty presence_penalty provider_options';
const selectedModel = `model provider fallbacks reasoning_effort think max_tokens ${sampling}`;
const mcpServer =
  'command env args type="stdio" url disabled=false disabled_tools enabled_tools timeout=15 headers ' +
  'oauth=true oauth_grant="authorization_code" oauth_client_id oauth_client_secret oauth_scope oauth_issuer oauth_callback_port';
const hook = 'matcher command timeout=30 on_error="deny"';

/** The table that the reference draws, one line an object, with what it leaves to us: logins, limits, the network and the folders of commands. */
const table: Readonly<Record<string, string>> = {
  '': '$schema models providers mcp mcpServers lsp options permissions tools hooks image_generation text_to_speech speech_to_text',
  'models.': 'large small',
  'models.large.': selectedModel,
  'models.small.': selectedModel,
  'providers.*.':
    'id name base_url type="openai" api_key oauth disable=false system_prompt_prefix extra_headers extra_body provider_options flat_rate models',
  'providers.*.oauth.': 'access_token refresh_token expires_in expires_at client',
  'providers.*.oauth.client.': 'client_id client_secret auth_url token_url auth_style',
  'providers.*.models[].':
    'id name cost_per_1m_in cost_per_1m_out cost_per_1m_in_cached cost_per_1m_out_cached context_window default_max_tokens can_reason reasoning_levels default_reasoning_effort supports_attachments options',
  'providers.*.models[].options.': sampling,
  'mcp.*.': mcpServer,
  'mcpServers.*.': mcpServer,
  'lsp.*.': 'disabled=false command args env filetypes root_markers init_options options timeout=30',
  'options.':
    'context_paths skills_paths tui debug=false debug_lsp=false disable_auto_summarize=false data_directory=".service" disabled_tools disable_provider_auto_update=false disable_default_providers=false attribution disable_metrics=false initialize_as="AGENTS.md" auto_lsp=true progress=true disable_notifications=false notification_style="auto" disabled_skills limits model_names',
  'options.limits.': 'max_steps=50 max_tokens max_cost max_attempts=4 max_agent_depth=1 max_agents=10',
  'options.tui.': 'compact_mode=false diff_mode verbose_steps=false completions transparent=false',
  'options.tui.completions.': 'max_depth=0 max_items=1000',
  'options.attribution.': 'trailer_style="assisted-by" co_authored_by generated_with=true',
  'permissions.': 'allowed_tools',
  'tools.': 'bash ls grep',
  'tools.bash.': 'network=false readable_paths',
  'tools.ls.': 'max_depth=0 max_items=1000',
  'tools.grep.': 'timeout="5s"',
  'hooks.': 'pre_tool_use',
  'hooks.pre_tool_use[].': hook,
  'hooks.*[].': hook,
  'image_generation.': 'provider model',
  'text_to_speech.': 'provider model voice format',
  'speech_to_text.': 'provider model language',
};

function expectedKeys(): string[] {
  return Object.entries(table).flatMap(([at, names]) =>
    names.split(' ').map((name) => `${at}${name.replace('=', ' = ')}`),
  );
}
