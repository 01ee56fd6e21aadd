// The ls and glob tools on real folders: order, limits, ignore files, escapes.
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { globTool } from './glob.ts';
import { lsTool } from './ls.ts';
import {
  callTool,
  repositoryAbove,
  type TestWorkspace,
  testWorkspace,
  unreachableFile,
} from './test-workspace.ts';

const rules = { requireSandbox: false };
const strict = { requireSandbox: true };
const limits = { max_depth: 0, max_items: 1000 };
/** A pattern and a name that are compared for ever. */
const endless = { pattern: '*a*a*a*a*a*a*a*a*a*a*b', name: `${'a'.repeat(200)}x` };

function fill(workspace: TestWorkspace): void {
  workspace.file('src/a.ts', '', 30);
  workspace.file('src/deep/b.ts', '', 10);
  workspace.file('src/deep/c.js', '', 20);
  workspace.file('build/out.ts', '');
  workspace.file('notes.txt', '');
  workspace.file('.gitignore', '\ufeffbuild/\n');
  workspace.file('.serviceignore', 'notes.txt\n');
  workspace.file('src/.gitignore', '*.js\n');
  workspace.file('.git/HEAD', '');
}

/** A workspace that is a folder of a repository, with what the root of that leaves out. */
function inRepository(): TestWorkspace {
  const workspace = testWorkspace();
  repositoryAbove(workspace, 'node_modules/\n*.log\n');
  for (const path of ['node_modules/dep/i.js', 'src/a.js', 'src/x.log']) workspace.file(path, '');
  return workspace;
}

describe('ls', () => {
  test('shows a tree without what the ignore files name', async () => {
    const workspace = testWorkspace();
    fill(workspace);
    symlinkSync('../outside', join(workspace.path, 'out'));
    const output = await callTool(lsTool(rules, limits), {}, workspace.context());
    expect(output.content.split('\n')).toEqual([
      './',
      '  .gitignore',
      '  .serviceignore',
      '  out (link)',
      '  src/',
      '    .gitignore',
      '    a.ts',
      '    deep/',
      '      b.ts',
    ]);
  });

  test('ignore files above the listed folder count too', async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', '/src/deep/secret*\n');
    workspace.file('src/deep/secret.txt', '');
    workspace.file('src/deep/b.ts', '');
    const output = await callTool(lsTool(rules, limits), { path: 'src/deep' }, workspace.context());
    expect(output.content).toBe('src/deep/\n  b.ts');
  });

  test('ignore files above the workspace count for one person, and not for many', async () => {
    const workspace = inRepository();
    const list = async (mode: typeof rules, path = '.') =>
      (await callTool(lsTool(mode, limits), { path }, workspace.context())).content.split('\n').slice(1);
    expect(await list(rules)).toEqual(['  src/', '    a.js']);
    expect(await list(rules, 'src')).toEqual(['  a.js']);
    expect(await list(rules, 'node_modules')).toEqual(['  dep/', '    i.js']);
    expect(await list(strict)).toEqual([
      ...['  node_modules/', '    dep/', '      i.js'],
      ...['  src/', '    a.js', '    x.log'],
    ]);
  });

  test('a workspace that rules above leave out is listed as if it stood alone', async () => {
    const workspace = inRepository();
    for (const above of ['workspace/\n*.js\n', '/workspace/*\n', '*\n']) {
      repositoryAbove(workspace, above);
      const { content } = await callTool(lsTool(rules, limits), { path: 'src' }, workspace.context());
      expect(content).toBe('src/\n  a.js\n  x.log');
    }
  });

  test('the depth of the settings is not exceeded by the depth of a call', async () => {
    const workspace = testWorkspace();
    workspace.file('a/b/c/d.txt', '');
    const lines = async (max_depth: number, depth?: number) => {
      const output = await callTool(
        lsTool(rules, { max_depth, max_items: 9 }),
        { ...(depth !== undefined && { depth }) },
        workspace.context(),
      );
      return output.content.split('\n').length - 1;
    };
    expect([await lines(0), await lines(2), await lines(2, 3), await lines(2, 1), await lines(0, 1)]).toEqual(
      [4, 2, 2, 1, 1],
    );
  });

  test('says so when there is more than max_items', async () => {
    const workspace = testWorkspace();
    for (let index = 0; index < 30; index += 1) workspace.file(`f${index}`, '');
    const output = await callTool(lsTool(rules, { max_depth: 0, max_items: 10 }), {}, workspace.context());
    expect(output.content.split('\n')).toHaveLength(12);
    expect(output.content).toMatch(/Cut at 10 entries/);
    expect(output.metadata).toMatchObject({ truncated: true });
  });

  test('patterns to ignore leave out folders with all they hold', async () => {
    const workspace = testWorkspace();
    workspace.file('vendor/x/y.txt', '');
    workspace.file('a.txt', '');
    const output = await callTool(lsTool(rules, limits), { ignore: ['vendor'] }, workspace.context());
    expect(output.content).toBe('./\n  a.txt');
  });

  test('a name with a line break cannot pass for another line', async () => {
    const workspace = testWorkspace();
    workspace.file('a\nb', '');
    const output = await callTool(lsTool(rules, limits), {}, workspace.context());
    expect(output.content).toBe('./\n  "a\\nb"');
  });

  test('a folder outside takes a list permission in single mode and is refused elsewhere', async () => {
    const workspace = testWorkspace();
    symlinkSync('../outside', join(workspace.path, 'out'));
    for (const path of ['..', 'out', '/']) {
      await expect(lsTool(strict, limits).prepare({ path }, workspace.context())).rejects.toThrow(
        /outside the workspace/,
      );
      const call = await lsTool(rules, limits).prepare({ path }, workspace.context());
      expect(call.permission).toMatchObject({ action: 'list' });
    }
  });

  test('shows a folder that is left out to who names it', async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', 'node_modules\n');
    workspace.file('node_modules/dep/index.js', '');
    const list = (path: string) => callTool(lsTool(rules, limits), { path }, workspace.context());
    expect((await list('.')).content).not.toContain('node_modules');
    expect((await list('node_modules')).content).toBe('node_modules/\n  dep/\n    index.js');
  });

  test('a file and a missing folder are refused, with what to do', async () => {
    const workspace = testWorkspace();
    workspace.file('source/a.ts', '');
    const near = await callTool(lsTool(rules, limits), { path: 'sourc' }, workspace.context());
    expect(near).toMatchObject({ is_error: true, content: 'sourc does not exist. Did you mean source?' });
    workspace.file('a', '');
    expect((await callTool(lsTool(rules, limits), { path: 'a' }, workspace.context())).content).toMatch(
      /not a folder. Use view/,
    );
    expect((await callTool(lsTool(rules, limits), { path: 'b' }, workspace.context())).content).toMatch(
      /does not exist/,
    );
  });

  test('an interrupted listing without the names of a pattern that never ends stops at once', async () => {
    const workspace = testWorkspace();
    workspace.file(endless.name, '');
    const context = workspace.context({ signal: AbortSignal.timeout(300) });
    const output = await callTool(lsTool(rules, limits), { ignore: [endless.pattern] }, context);
    expect(output).toMatchObject({ is_error: true, metadata: { interrupted: true } });
  });
});

describe('glob', () => {
  const glob = globTool(rules);

  test('has as much room where a rule denies the newest files', async () => {
    const workspace = testWorkspace();
    for (let file = 0; file < 101; file += 1) workspace.file(`secret/${file}.ts`, '', 10);
    workspace.file('old.ts', '', 60);
    const hidden = async () => (path: string) => path.startsWith('secret/');
    expect(await callTool(glob, { pattern: '**/*.ts' }, workspace.context({ hidden }))).toEqual({
      content: 'old.ts\n(What a rule denies is left out.)',
      is_error: false,
      metadata: { files: 1, truncated: false },
    });
  });

  test('passes over a file that can be listed but not reached', async () => {
    const workspace = testWorkspace();
    workspace.file('a.ts', '');
    unreachableFile(workspace.path, 'b.ts', '');
    const found = await callTool(glob, { pattern: '**/*.ts' }, workspace.context());
    expect(found).toMatchObject({ content: 'a.ts', is_error: false });
  });

  test('takes a whole path, one that goes up, and a folder that is left out', async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', 'node_modules\n');
    for (const path of ['src/a.ts', 'node_modules/dep/a.ts']) workspace.file(path, '');
    const find = async (input: object, context = workspace.context()) =>
      (await callTool(glob, input, context)).content;
    expect(await find({ pattern: join(workspace.path, 'src/*.ts') })).toBe('src/a.ts');
    expect(await find({ pattern: join(workspace.path, 'src/a.ts') })).toBe('src/a.ts');
    expect(await find({ pattern: '../*.ts', path: 'src/deep' })).toMatch('src/a.ts');
    expect(await find({ pattern: '*.ts', path: 'node_modules' })).toBe('node_modules/dep/a.ts');
    expect(await find({ pattern: 'src/' })).toBe('No files found: glob finds files; use ls for folders.');
  });

  test('asks before it looks where a whole path leads outside', async () => {
    const workspace = testWorkspace();
    const pattern = join(workspace.path, '../outside/*');
    const call = await glob.prepare({ pattern }, workspace.context());
    expect(call.permission).toMatchObject({ action: 'list', path: join(workspace.path, '../outside') });
    await expect(globTool(strict).prepare({ pattern }, workspace.context())).rejects.toThrow(/outside/);
  });

  test('finds the newest first, without what the ignore files name', async () => {
    const workspace = testWorkspace();
    fill(workspace);
    for (const pattern of ['**/*.ts', '*.ts', './**/*.{ts,js}']) {
      expect((await callTool(glob, { pattern }, workspace.context())).content).toBe(
        'src/deep/b.ts\nsrc/a.ts',
      );
    }
    expect((await callTool(glob, { pattern: '*.ts', path: 'src/deep' }, workspace.context())).content).toBe(
      'src/deep/b.ts',
    );
    expect((await callTool(glob, { pattern: '*.none' }, workspace.context())).content).toBe(
      'No files found.',
    );
  });

  test('ignore files above the workspace count for one person, and not for many', async () => {
    const workspace = inRepository();
    const find = async (mode: typeof rules, path = '.') =>
      (await callTool(globTool(mode), { pattern: '**/*.{js,log}', path }, workspace.context())).content
        .split('\n')
        .toSorted();
    expect(await find(rules)).toEqual(['src/a.js']);
    expect(await find(rules, 'src')).toEqual(['src/a.js']);
    expect(await find(strict)).toEqual(['node_modules/dep/i.js', 'src/a.js', 'src/x.log']);
  });

  test('shows the 100 newest and says that there are more', async () => {
    const workspace = testWorkspace();
    for (let index = 0; index < 120; index += 1) workspace.file(`f${index}.txt`, '', index * 60);
    const lines = (await callTool(glob, { pattern: '*.txt' }, workspace.context())).content.split('\n');
    expect(lines).toHaveLength(101);
    expect([lines[0], lines[99]]).toEqual(['f0.txt', 'f99.txt']);
    expect(lines[100]).toMatch(/100 newest/);
  });

  test('links are not followed out of the workspace', async () => {
    const workspace = testWorkspace();
    symlinkSync('../outside', join(workspace.path, 'out'));
    expect((await callTool(glob, { pattern: '**/secret.txt' }, workspace.context())).content).toBe(
      'No files found.',
    );
    await expect(
      globTool(strict).prepare({ pattern: '*', path: 'out' }, workspace.context()),
    ).rejects.toThrow(/outside/);
  });

  test('an interrupted search of a pattern that never ends stops at once', async () => {
    const workspace = testWorkspace();
    mkdirSync(join(workspace.path, 'd'));
    workspace.file(endless.name, '');
    const started = Date.now();
    const context = workspace.context({ signal: AbortSignal.timeout(300) });
    const output = await callTool(glob, { pattern: endless.pattern }, context);
    expect(output).toMatchObject({ is_error: true, metadata: { interrupted: true } });
    expect(Date.now() - started).toBeLessThan(20_000);
  });
});
