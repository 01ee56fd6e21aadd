/** Agent profiles: which are found, which counts, and what each leaves of a run. */
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { converse, testFolder } from '../test-conversation.ts';
import { leavesTool, stricterMode } from './profile.ts';
import { createProfiles } from './profiles.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const file = (front: string, body = 'You review.') => `---\n${front}\n---\n\n${body}\n`;
const manyKeys = Array.from({ length: 15_000 }, (_, index) => `k${index}:`).join('\n');
const reviewer = file('name: reviewer\ndescription: Reviews.\ntools: [view, grep]');

describe('a profile in a file', () => {
  test('of the project answers with its own instructions, and has its own tools alone', async () => {
    const { path, file: write } = await testFolder();
    await write('.service/agents/reviewer.md', reviewer);
    const { system, tools } = await converse(upstream, path, {}, { query: { agentSlug: 'reviewer' } });
    expect(system).toMatch(/^You review\./);
    expect(tools.toSorted()).toEqual(['grep', 'view']);
  });

  test('is what the documentation shows', async () => {
    const text = await readFile(join(import.meta.dirname, '../../../docs/agents.md'), 'utf8');
    const shown = /```markdown\n(.*?)```/s.exec(text)?.[1] ?? '';
    const { path, file: write } = await testFolder();
    await write('.service/agents/x.md', shown);
    const profiles = createProfiles({ shared: () => false });
    expect(await profiles.find('reviewer', { workspaceId: 'ws_1', workspacePath: path })).toMatchObject({
      tools: ['view', 'ls', 'glob', 'grep', 'mcp_git_*'],
      permission_mode: 'read_only',
    });
  });

  test('of the person counts before one of the project, and neither before one that is built in', async () => {
    const [project, person] = [await testFolder(), await testFolder()];
    for (const slug of ['reviewer', 'coder'])
      await project.file(`.service/agents/${slug}.md`, file(`slug: ${slug}\ndescription: The project's.`));
    await person.file('reviewer.md', file("name: reviewer\ndescription: The person's."));
    const profiles = createProfiles({ directory: person.path, shared: () => false });
    const place = { workspaceId: 'ws_1', workspacePath: project.path };
    expect(await profiles.find('reviewer', place)).toMatchObject({
      source: 'global',
      description: "The person's.",
    });
    expect(await profiles.find('coder', place)).toMatchObject({ source: 'builtin' });
  });

  test('counts after one that is handed in for the workspace', async () => {
    const project = await testFolder();
    await project.file('.service/agents/reviewer.md', reviewer);
    const handed = { ...(await builtIn('task')), slug: 'reviewer', source: 'api' as const };
    const asked: string[] = [];
    const source = {
      find: async (workspaceId: string, slug: string) => {
        asked.push(`${workspaceId} ${slug}`);
        return slug === 'reviewer' ? handed : null;
      },
      list: async () => [handed],
    };
    const profiles = createProfiles({ source, shared: () => false });
    const place = { workspaceId: 'ws_1', workspacePath: project.path };
    expect(await profiles.find('reviewer', place)).toBe(handed);
    expect(asked).toEqual(['ws_1 reviewer']);
    expect((await profiles.list(place)).filter(({ slug }) => slug === 'reviewer')).toEqual([handed]);
  });

  test('of a project cannot choose a model by its name, only one of the two that the person has set', async () => {
    const [project, person] = [await testFolder(), await testFolder()];
    const naming = (slug: string, model: string) => file(`slug: ${slug}\ndescription: x\nmodel: ${model}`);
    await project.file('.service/agents/a.md', naming('a', 'dear:huge'));
    await project.file('.service/agents/b.md', naming('b', 'small'));
    await person.file('c.md', naming('c', 'dear:huge'));
    const profiles = createProfiles({ directory: person.path, shared: () => false });
    const own = await profiles.own({ workspaceId: 'ws_1', workspacePath: project.path });
    const models = own.flatMap(({ slug, model }) => (slug.length === 1 ? [[slug, model]] : []));
    expect(Object.fromEntries(models)).toEqual({ a: null, b: 'small', c: 'dear:huge' });
  });

  test('takes its slug from its name, else from the name of the file, and its tools also from one line', async () => {
    const { path, file: write } = await testFolder();
    await write(
      '.service/agents/x.md',
      file('name: The Reviewer\ndescription: x\ntools: view, mcp_*\ncolor: red'),
    );
    const profiles = createProfiles({ shared: () => false });
    expect(await profiles.find('x', { workspaceId: 'ws_1', workspacePath: path })).toMatchObject({
      name: 'The Reviewer',
      tools: ['view', 'mcp_*'],
    });
  });

  test.each([
    ['no description', file('name: broken'), 'description'],
    ['no instructions', file('description: x', ''), 'no instructions'],
    ['no YAML', file('description: [x'), 'no YAML'],
    ['no front matter', 'You review.', 'does not begin with front matter'],
    [
      'a right that a profile cannot give',
      file('description: x\npermission_mode: bypass'),
      'permission_mode',
    ],
    ['a bomb of aliases', file('a: &a [x]\nb: &b [*a, *a]\ndescription: x'), 'alias'],
    ['a member twice', file('description: x\ndescription: y'), 'description twice'],
    ['keys that take a parser minutes', file(manyKeys), 'longer than'],
    ['too much text', file('description: x', 'x'.repeat(200_000)), 'larger than'],
  ])('with %s is told when it is named', async (_what, content, why) => {
    const { path, file: write } = await testFolder();
    await write('.service/agents/broken.md', content);
    const profiles = createProfiles({ shared: () => false });
    const found = profiles.find('broken', { workspaceId: 'ws_1', workspacePath: path });
    await expect(found).rejects.toMatchObject({
      code: 'agent_not_found',
      message: expect.stringMatching(new RegExp(`broken\\.md.*${why}`, 'i')),
    });
  });

  test('is not read through a link that leads out of the project', async () => {
    const [project, outside] = [await testFolder(), await testFolder()];
    const secret = await outside.file('secret.md', reviewer);
    await project.file('.service/agents/other.md', file('description: x'));
    await symlink(secret, join(project.path, '.service/agents/secret.md'));
    const own = await createProfiles({ shared: () => false }).own({
      workspaceId: 'ws_1',
      workspacePath: project.path,
    });
    expect(own.map(({ slug }) => slug)).toEqual(['coder', 'plan', 'research', 'task', 'other']);
  });

  test('lies also in the root of the repository, but for many people only in their own workspace', async () => {
    const { path, file: write } = await testFolder();
    await write('.git/HEAD', '');
    await write('.service/agents/reviewer.md', reviewer);
    await write('below/x', '');
    const place = { workspaceId: 'ws_1', workspacePath: join(path, 'below') };
    expect(await createProfiles({ shared: () => false }).find('reviewer', place)).toMatchObject({
      source: 'project',
    });
    await expect(createProfiles({ shared: () => true }).find('reviewer', place)).rejects.toMatchObject({
      code: 'agent_not_found',
    });
  });
});

describe('what a profile leaves', () => {
  test.each<[readonly string[] | null, string, boolean]>([
    [null, 'bash', true],
    [null, 'plan', false],
    [['plan'], 'plan', true],
    [['*'], 'bash', true],
    [['*'], 'plan', false],
    [['mcp_git_*'], 'mcp_git_log', true],
    [['mcp_git_*'], 'mcp_mail_send', false],
    [['view'], 'view', true],
    [['view'], 'viewer', false],
    [[], 'view', false],
  ])('of the tools: %o leaves %s: %s', (tools, name, left) => {
    expect(leavesTool({ tools: tools && [...tools] }, name)).toBe(left);
  });

  test.each([
    ['ask', null, 'ask'],
    ['bypass', 'read_only', 'read_only'],
    ['ask', 'accept_edits', 'ask'],
    ['accept_edits', 'ask', 'ask'],
    ['read_only', 'accept_edits', 'read_only'],
    ['deny_unlisted', 'ask', 'deny_unlisted'],
  ] as const)('of the permission mode: %s under %s is %s', (mode, ceiling, left) => {
    expect(stricterMode(mode, ceiling)).toBe(left);
  });

  test('of the built-in ones holds at the call too: plan, research and task change nothing', async () => {
    for (const agentSlug of ['plan', 'research', 'task']) {
      const { path } = await testFolder();
      const calls = [['write', { file_path: 'a.txt', content: 'x' }]] as const;
      const { tools, results } = await converse(
        upstream,
        path,
        {},
        { calls, query: { agentSlug, permissionMode: 'bypass' } },
      );
      expect(tools).toEqual(expect.arrayContaining(['view', 'grep']));
      for (const tool of ['write', 'edit', 'bash']) expect(tools).not.toContain(tool);
      expect(results[0]).toContain('There is no tool write');
    }
  });

  test('lets a user-defined one with every tool do no more than its mode says', async () => {
    const { path, file: write } = await testFolder();
    await write('.service/agents/careful.md', file('description: x\npermission_mode: read_only'));
    const calls = [['write', { file_path: 'a.txt', content: 'x' }]] as const;
    const query = { agentSlug: 'careful', permissionMode: 'bypass' as const };
    const { results } = await converse(upstream, path, {}, { calls, query });
    expect(results[0]).toContain('read_only');
  });
});

async function builtIn(slug: string) {
  return createProfiles({ shared: () => false }).find(slug, { workspaceId: 'ws_1', workspacePath: '/' });
}
