/** A request with every optional parameter that the vendor's SDK of today knows: a new one stops this from compiling. */
import type Anthropic from '@anthropic-ai/sdk';
import { hello } from './vendor.ts';

type Base = Anthropic.Messages.MessageCreateParamsNonStreaming;
type BetaBase = Anthropic.Beta.Messages.MessageCreateParamsNonStreaming;
type Tool = Required<Anthropic.Tool>;

const cache_control: Required<Anthropic.CacheControlEphemeral> = { type: 'ephemeral', ttl: '1h' };
const data = 'iVBORw0KGgo=';

const weather: Tool = {
  type: 'custom',
  name: 'get_weather',
  description: 'Tells the weather of a place.',
  input_schema: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  input_examples: [{ place: 'Rome' }],
  allowed_callers: ['direct'],
  defer_loading: false,
  eager_input_streaming: true,
  strict: true,
  cache_control,
};

const call: Required<Anthropic.Beta.BetaToolUseBlockParam> = {
  type: 'tool_use',
  id: 'toolu_1',
  name: 'get_weather',
  input: { place: 'Rome' },
  caller: { type: 'direct' },
  toolset_name: null,
  cache_control,
};

/** A client may find its tools by a tool of its own, as Claude Code does. */
const search: Anthropic.ToolUseBlockParam = {
  type: 'tool_use',
  id: 'toolu_0',
  name: 'find_tools',
  input: {},
};
const foundTools: Anthropic.ToolResultBlockParam = {
  type: 'tool_result',
  tool_use_id: 'toolu_0',
  content: [{ type: 'tool_reference', tool_name: 'get_weather' }],
};

const result: Required<Anthropic.Beta.BetaToolResultBlockParam> = {
  type: 'tool_result',
  tool_use_id: 'toolu_1',
  content: [{ type: 'text', text: 'Rain.', cache_control, citations: null }],
  is_error: false,
  toolset_name: null,
  cache_control,
};

const picture: Required<Anthropic.ImageBlockParam> = {
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data },
  transformations: { oversized_image: 'downsize' },
  cache_control,
};

const notes: Required<Anthropic.Beta.BetaRequestDocumentBlock> = {
  type: 'document',
  source: { type: 'text', media_type: 'text/plain', data: 'It rains.' },
  title: 'Notes',
  context: 'Of today.',
  citations: { enabled: true },
  cache_control,
};

const found: Required<Anthropic.Beta.BetaSearchResultBlockParam> = {
  type: 'search_result',
  source: 'https://example.com',
  title: 'Found',
  content: [{ type: 'text', text: 'Sun.' }],
  citations: { enabled: true },
  cache_control,
};

const system: Required<Anthropic.Beta.BetaSystemMessageParam> = {
  role: 'system',
  content: [{ type: 'text', text: 'Be quick.' }],
  clear_at: 'never',
  output_config: { effort: 'low' },
};

const shared = {
  model: hello.model,
  max_tokens: 4000,
  cache_control,
  diagnostics: { previous_message_id: null },
  inference_geo: 'eu',
  metadata: { user_id: 'someone' },
  service_tier: 'auto',
  speed: 'standard',
  stop_sequences: ['END'],
  stream: false,
  system: [{ type: 'text', text: 'Be brief.', cache_control, citations: null }],
  thinking: { type: 'enabled', budget_tokens: 1024, display: 'summarized' },
  tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  user_profile_id: 'profile_1',
  workspace_id: 'workspace_1',
} as const satisfies Partial<BetaBase>;

/** What is not a beta. */
export const everything: Required<Base> = {
  ...shared,
  stop_sequences: [...shared.stop_sequences],
  system: [...shared.system],
  container: { id: null, skills: null },
  output_config: { effort: 'high', format: { type: 'json_schema', schema: { type: 'object' } } },
  messages: [
    { role: 'user', content: [picture, notes, { type: 'text', text: 'And the weather?' }] },
    { role: 'assistant', content: [search, call] },
    { role: 'user', content: [foundTools, result] },
  ],
  tools: [weather, { type: 'bash_20250124', name: 'bash' }],
};

/** What is a beta, too; threads are told of by a test of their own. */
export const everyBeta: Required<BetaBase> = {
  ...shared,
  stop_sequences: [...shared.stop_sequences],
  system: [...shared.system],
  betas: ['context-management-2025-06-27', 'mid-conversation-output-config-2026-07-01'],
  billing_policy: { type: 'billing_policy' },
  compaction: { type: 'summarize', instructions: 'Keep names.' },
  container: { id: null, skills: [{ type: 'anthropic', skill_id: 'pdf', version: 'latest' }] },
  context_management: {
    edits: [
      { type: 'clear_thinking_20251015', keep: { type: 'thinking_turns', value: 2 } },
      {
        type: 'clear_tool_uses_20250919',
        keep: { type: 'tool_uses', value: 3 },
        trigger: { type: 'input_tokens', value: 50_000 },
        clear_at_least: { type: 'input_tokens', value: 5000 },
        clear_tool_inputs: true,
        exclude_tools: ['get_weather'],
      },
    ],
  },
  fallback_credit_token: { token: 'credit', mode: 'best_effort' },
  fallbacks: [{ model: 'another-model', max_tokens: 10 }],
  mcp_servers: [
    {
      type: 'url',
      name: 'issues',
      url: 'https://example.com/mcp',
      authorization_token: null,
      tool_configuration: { enabled: true, allowed_tools: null },
    },
  ],
  output_config: {
    effort: 'max',
    format: { type: 'json_schema', schema: { type: 'object' } },
    task_budget: { type: 'tokens', total: 20_000, remaining: null },
  },
  // The older name of output_config.format: the SDK sends one of the two alone.
  output_format: null,
  thread: null,
  messages: [
    { role: 'user', content: [found, notes, { type: 'text', text: 'And the weather?' }] },
    system,
    { role: 'assistant', content: [search, call] },
    { role: 'user', content: [foundTools, result] },
  ],
  tools: [
    weather,
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 1000 },
    { type: 'web_search_20260318', name: 'web_search', max_uses: 1, allowed_domains: ['example.com'] },
    { type: 'mcp_toolset', mcp_server_name: 'issues' },
  ],
};
