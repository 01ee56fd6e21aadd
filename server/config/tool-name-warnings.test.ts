/** Names of tools as other programs write them: what would guard nothing is told before it is needed. */
import { expect, test } from 'vitest';
import { formatDiagnostic } from './diagnostic.ts';
import { parseSettings } from './parse.ts';

async function warned(settings: object): Promise<readonly string[]> {
  const { diagnostics, written } = await parseSettings(Buffer.from(JSON.stringify(settings)), 's.json');
  expect(written).not.toBeNull();
  return diagnostics.map((one) => formatDiagnostic(one).replace(/^s\.json:\d+:\d+: /, ''));
}

const strange = (pointer: string, meant: string) =>
  `warning: ${pointer}: No tool has this name, written so. Did you mean "${meant}"?`;

test.each([
  ['Bash', 'bash'],
  ['Read', 'view'],
  ['web_fetch', 'fetch'],
  ['WebSearch', 'web_search'],
  ['lsp_diagnostics', 'diagnostics'],
  ['jobkill', 'job_kill'],
  ['mcp__github__create_issue', 'mcp_github_create_issue'],
])('%s switches nothing off and allows nothing: %s was meant', async (name, meant) => {
  expect(await warned({ options: { disabled_tools: ['view', name] } })).toEqual([
    strange('/options/disabled_tools/1', meant),
  ]);
  const allowed_tools = [name, `${name}(git diff *)`, `${name}:execute`];
  expect(await warned({ permissions: { allowed_tools } })).toEqual(
    allowed_tools.map((_, index) => strange(`/permissions/allowed_tools/${index}`, meant)),
  );
});

test.each([
  ['Bash', 'bash'],
  ['^(Edit|Write)$', 'edit'],
  ['^Read$', 'view'],
  ['bash|WebFetch', 'fetch'],
])('a hook for %s guards nothing', async (matcher, meant) => {
  expect(await warned({ hooks: { pre_tool_use: [{ matcher, command: './guard.sh' }] } })).toEqual([
    strange('/hooks/pre_tool_use/0/matcher', meant),
  ]);
});

test('names that are there, parts of them, those of servers and those that nobody knows are left alone', async () => {
  const names = ['bash', 'skill', 'list_mcp_resources', 'mcp_github_create_issue', 'generate_image'];
  const matchers = ['', '^(bash|write)$', 'edit', 'job_', '(?i)bash', '^mcp_', '.*', 'something_of_ours'];
  const settings = {
    options: { disabled_tools: names },
    permissions: { allowed_tools: [...names, 'mcp_*', 'job_*', 'edi*', 'bash(git diff *)', 'edit:write'] },
    hooks: { pre_tool_use: matchers.map((matcher) => ({ matcher, command: 'true' })) },
  };
  expect(await warned(settings)).toEqual([]);
});

const many = (count: number, name: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => name(i));

test.each<[string, string[], string | null]>([
  ['one name, very often', many(200_000, () => 'a'), 'view'],
  ['very many names', many(15_000, (index) => String(index).padStart(56, 'x')), null],
  ['a name that is very long', [`mcp__${'a__'.repeat(300_000)}!`], 'view'],
])('in a file with %s each is compared once, and only so many are', async (_, names, last) => {
  const disabled_tools = ['Bash', ...names, 'Read'];
  expect(await warned({ options: { disabled_tools } })).toEqual([
    strange('/options/disabled_tools/0', 'bash'),
    ...(last ? [strange(`/options/disabled_tools/${names.length + 1}`, last)] : []),
  ]);
});
