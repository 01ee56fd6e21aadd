/** Templates are found by the schema's marks: what is expanded, what is left alone, what is checked without being run. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these templates are not JavaScript's.
import { expect, test } from 'vitest';
import { checkTemplates, expandMarked } from './expand.ts';

const shout = async (template: string) => template.toUpperCase();

test('of a provider the URL, the key and the headers are templates', async () => {
  const provider = {
    name: '$a',
    base_url: '$a',
    api_key: 'x$(a)',
    extra_headers: { a: '${a}', b: 'b' },
    extra_body: { a: '$a' },
    provider_options: { a: '$a' },
    system_prompt_prefix: '$a',
    models: [{ id: '$a' }],
    oauth: { access_token: '$a', expires_in: 1, expires_at: 1, client: { token_url: '$a' } },
  };
  expect(await expandMarked(provider, '/providers/x', shout)).toEqual({
    ...provider,
    base_url: '$A',
    api_key: 'X$(A)',
    extra_headers: { a: '${A}', b: 'b' },
  });
});

test('what holds no template is not copied', async () => {
  const provider = { base_url: 'a', api_key: 'a', extra_headers: { a: 'a' } };
  expect(await expandMarked(provider, '/providers/x', shout)).toBe(provider);
});

test('of an MCP server and a language server the command, its arguments and its environment are', async () => {
  const server = { command: '$a', args: ['$a', '$b'], env: { a: '$a' } };
  const expanded = { command: '$A', args: ['$A', '$B'], env: { a: '$A' } };
  const remote = { type: 'http' as const, url: '$a', headers: { a: '$a' }, enabled_tools: ['$a'] };
  expect(await expandMarked(server, '/lsp/x', shout)).toEqual(expanded);
  expect(await expandMarked({ ...server, ...remote }, '/mcp/x', shout)).toEqual({
    ...expanded,
    ...remote,
    url: '$A',
    headers: { a: '$A' },
  });
});

test('templates are checked with their places, and no command is run', () => {
  const config = {
    providers: { 'a/b': { api_key: '${UNSET:?}', base_url: '$(exit 1)', extra_headers: { x: '$' } } },
    mcp: { m: { command: '${SET:?}', args: ['$ok', '${open'] } },
  };
  expect(checkTemplates(config, { SET: 'yes' })).toMatchObject([
    { severity: 'warning', pointer: '/providers/a~1b/api_key', remedy: 'Set it.' },
    { severity: 'warning', pointer: '/providers/a~1b/extra_headers/x' },
    { severity: 'warning', pointer: '/mcp/m/args/1' },
  ]);
});
