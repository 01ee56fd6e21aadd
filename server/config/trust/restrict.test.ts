/** What is cut from a file that is not trusted. */
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { testProject } from '../test-project.ts';
import {
  escapingPaths,
  restrictedPointers,
  staysWithin,
  withoutPointers,
  withoutRestricted,
} from './restrict.ts';

test('restricted sections are found under every name, and nothing else is', () => {
  const written = {
    $schema: './service.schema.json',
    mcp: {},
    mcpServers: { a: { command: 'x' } },
    options: { context_paths: [], debug: true, tui: { diff_mode: 'split' as const } },
    models: {},
  };
  expect(restrictedPointers(written)).toEqual(['/mcp', '/mcpServers', '/options/context_paths']);
  expect(withoutRestricted(written)).toEqual({
    $schema: './service.schema.json',
    options: { debug: true, tui: { diff_mode: 'split' } },
    models: {},
  });
  // What was read stays as it was: the review before trusting shows all of it.
  expect(written.mcpServers).toEqual({ a: { command: 'x' } });
});

test('what goes to a provider as it is needs trust: by it a provider may reach servers and take instructions', () => {
  const large = { provider: 'anthropic', model: 'm', max_tokens: 5 };
  const provider_options = { mcp_servers: [{ type: 'url', url: 'https://stranger.example' }] };
  const written = { models: { large: { ...large, provider_options } } };
  expect(restrictedPointers(written)).toEqual(['/models/large/provider_options']);
  expect(withoutRestricted(written)).toEqual({ models: { large } });
});

test('the network of commands needs trust, the limits of tools do not', () => {
  const written = { tools: { bash: { network: true }, grep: { timeout: '2s' } } };
  expect(restrictedPointers(written)).toEqual(['/tools/bash']);
  expect(withoutRestricted(written)).toEqual({ tools: { grep: { timeout: '2s' } } });
});

test('the limits of runs need trust: a repository may not lift what its person allows', () => {
  const written = { options: { limits: { max_cost: 1000 }, debug: true } };
  expect(restrictedPointers(written)).toEqual(['/options/limits']);
  expect(withoutRestricted(written)).toEqual({ options: { debug: true } });
});

test('paths that lead out of the project are found, and only they', async () => {
  const { home, root, path } = await testProject();
  await mkdir(path('sub'));
  await symlink(home, path('out'));
  const escaping = (data_directory: string, workingDirectory = root) =>
    escapingPaths({ options: { data_directory } }, { workingDirectory, projectRoot: root });
  expect(await escaping('../x')).toEqual(['/options/data_directory']);
  expect(await escaping('../x', path('sub'))).toEqual([]);
  expect(await escaping('out/x')).toEqual(['/options/data_directory']);
  expect(await escaping('x/out')).toEqual([]);
  expect(
    withoutPointers({ options: { data_directory: 'x', debug: true } }, ['/options/data_directory']),
  ).toEqual({
    options: { debug: true },
  });
});

test('a folder that another command makes in the same moment stays within, too', async () => {
  const root = await mkdtemp(join(tmpdir(), 'service-stays-'));
  onTestFinished(() => rm(root, { recursive: true }));
  const judged = Array.from({ length: 500 }, async (_, at) => {
    const folder = join(root, String(at));
    const [stays] = await Promise.all([staysWithin(folder, root), mkdir(folder)]);
    return stays;
  });
  expect((await Promise.all(judged)).filter((stays) => !stays)).toEqual([]);
});
