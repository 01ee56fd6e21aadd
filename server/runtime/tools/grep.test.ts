// The grep tool, with ripgrep and without: the same questions to both.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findExecutable } from '../processes/executable.ts';
import type { Sandbox } from '../processes/sandbox.ts';
import { sandboxHere } from '../processes/test-sandbox.ts';
import { grepTool } from './grep.ts';
import {
  callTool,
  repositoryAbove,
  SECRET,
  type TestWorkspace,
  testWorkspace,
  unreachableFile,
} from './test-workspace.ts';
import type { ToolContext } from './tool.ts';

const rg = findExecutable('rg');
const detected = await sandboxHere();
const bwrap = 'unavailable' in detected ? null : detected;

interface Variant {
  readonly name: string;
  readonly missing: boolean;
  readonly ripgrepPath: string | null;
  readonly sandbox: Sandbox | null;
}

const variants: readonly Variant[] = [
  { name: 'own search', missing: false, ripgrepPath: null, sandbox: null },
  { name: 'ripgrep', missing: !rg, ripgrepPath: rg, sandbox: null },
  { name: 'ripgrep in bubblewrap', missing: !rg || !bwrap, ripgrepPath: rg, sandbox: bwrap },
];

describe.each(variants)('$name', ({ name, missing, ripgrepPath, sandbox }) => {
  const needs =
    ripgrepPath === null && name === 'own search' ? '' : ` (needs ${name.replace(' in ', ' and ')})`;
  const asked = (title: string) => `${title}${needs}`;
  const when = test.skipIf(missing);

  function grep(
    workspace: TestWorkspace,
    input: Record<string, unknown>,
    timeoutMs = 5000,
    signal?: AbortSignal,
  ) {
    const tool = grepTool({ requireSandbox: sandbox !== null }, { timeoutMs, ripgrepPath, sandbox });
    return callTool(tool, input, workspace.context(signal && { signal }));
  }

  when(asked('lines come with file and number, newest file first'), async () => {
    const workspace = testWorkspace();
    workspace.file('old.txt', 'needle 1\nhay\nneedle 2\r\n', 60);
    workspace.file('sub/new.txt', 'hay\nneedle 3\n', 10);
    const output = await grep(workspace, { pattern: 'needle \\d' });
    expect(output.content).toBe('sub/new.txt:2: needle 3\nold.txt:1: needle 1\nold.txt:3: needle 2');
  });

  when(asked('what a rule denies takes no room from the rest'), async () => {
    const workspace = testWorkspace();
    for (const name of ['a', 'b', 'c']) workspace.file(`secret/${name}`, 'needle\n'.repeat(100), 10);
    workspace.file('old.txt', 'needle\n', 60);
    const tool = grepTool({ requireSandbox: sandbox !== null }, { timeoutMs: 5000, ripgrepPath, sandbox });
    const context = workspace.context({ hidden: async () => (path) => path.startsWith('secret/') });
    expect(await callTool(tool, { pattern: 'needle' }, context)).toEqual({
      content: 'old.txt:1: needle\n(What a rule denies is left out.)',
      is_error: false,
      metadata: { matches: 1, truncated: false },
    });
  });

  when(asked('ignored, binary and .git files are left out'), async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', '\ufeffbuild/\n*.log\n');
    workspace.file('.serviceignore', 'private.txt\n');
    for (const path of ['build/a.txt', 'x.log', 'private.txt', '.git/x']) workspace.file(path, 'needle');
    workspace.file('binary.txt', 'a\0needle\n');
    workspace.file('.hidden/seen.txt', 'needle\n');
    expect((await grep(workspace, { pattern: 'needle' })).content).toBe('.hidden/seen.txt:1: needle');
    expect((await grep(workspace, { pattern: 'needle', include: '*.log' })).content).toBe(
      'No matches found.',
    );
  });

  when(asked('a file that can be listed but not reached is passed over'), async () => {
    const workspace = testWorkspace();
    workspace.file('a.ts', 'needle');
    unreachableFile(workspace.path, 'b.ts', 'needle');
    expect(await grep(workspace, { pattern: 'needle' })).toEqual({
      content: 'a.ts:1: needle',
      is_error: false,
      metadata: { matches: 1, truncated: false },
    });
  });

  when(asked('path and include narrow the search'), async () => {
    const workspace = testWorkspace();
    for (const path of ['src/a.ts', 'src/sub/b.ts', 'src/c.js', 'other/d.ts']) workspace.file(path, 'needle');
    const found = async (input: Record<string, unknown>) =>
      (await grep(workspace, { pattern: 'needle', ...input })).content
        .replaceAll(':1: needle', '')
        .split('\n')
        .sort();
    expect(await found({ path: 'src', include: '*.ts' })).toEqual(['src/a.ts', 'src/sub/b.ts']);
    expect(await found({ include: 'src/*.{ts,js}' })).toEqual(['src/a.ts', 'src/c.js']);
    expect(await found({ path: 'src', include: 'sub/**' })).toEqual(['src/sub/b.ts']);
    expect(await found({ path: 'other/d.ts' })).toEqual(['other/d.ts']);
  });

  when(asked('ignore files of every folder count, of both names, and may let in again'), async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', '*.log\n');
    workspace.file('a/.gitignore', 'gen\n');
    workspace.file('a/b/.serviceignore', 'secret.txt\n');
    const files = ['a/b/gen/x.txt', 'a/b/y.txt', 'a/b/secret.txt', 'a/keep.log', 'z.log'];
    for (const path of files) workspace.file(path, 'needle');
    const found = async (input: Record<string, unknown> = {}) =>
      (await grep(workspace, { pattern: 'needle', ...input })).content.replaceAll(':1: needle', '');
    expect(await found()).toBe('a/b/y.txt');
    expect(await found({ path: 'a/b' })).toBe('a/b/y.txt');
    expect(await found({ include: '**/*.{txt,log}' })).toBe('a/b/y.txt');
    workspace.file('a/.serviceignore', '!keep.log\n', 5);
    expect((await found({ path: 'a' })).split('\n').sort()).toEqual(['a/b/y.txt', 'a/keep.log']);
  });

  when(asked('of the two ignore files of a folder .serviceignore has the last word'), async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', '!*.log\n');
    workspace.file('.serviceignore', '*.log\n');
    for (const path of ['x.log', 'y.txt']) workspace.file(path, 'needle');
    expect((await grep(workspace, { pattern: 'needle' })).content).toBe('y.txt:1: needle');
  });

  when(asked('a folder that is left out is searched by who names it'), async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', 'node_modules\n');
    workspace.file('node_modules/dep/.gitignore', 'tmp\n');
    for (const path of ['node_modules/dep/index.js', 'node_modules/dep/tmp/x.js'])
      workspace.file(path, 'needle');
    expect((await grep(workspace, { pattern: 'needle' })).content).toBe('No matches found.');
    for (const path of ['node_modules', 'node_modules/dep', 'node_modules/dep/index.js'])
      expect((await grep(workspace, { pattern: 'needle', path })).content).toBe(
        'node_modules/dep/index.js:1: needle',
      );
  });

  /** The files with a needle, as one person finds them or one of many. */
  async function filesWithNeedle(
    context: ToolContext,
    input: Record<string, unknown> = {},
    requireSandbox = false,
  ) {
    const tool = grepTool({ requireSandbox }, { timeoutMs: 5000, ripgrepPath, sandbox });
    const { content } = await callTool(tool, { pattern: 'needle', ...input }, context);
    return content.replaceAll(':1: needle', '').split('\n').toSorted();
  }

  function fillWithNeedles(workspace: TestWorkspace, paths: readonly string[]): void {
    for (const path of paths) workspace.file(path, 'needle');
  }

  when(
    asked('ignore files count from the root of the repository on for one person, and of none for many'),
    async () => {
      const workspace = testWorkspace();
      repositoryAbove(workspace, 'node_modules/\n*.log\n/workspace/src/made\n/gen\n');
      workspace.file('../.serviceignore', 'private.txt\n!seen.log\n');
      workspace.file('.gitignore', '!kept.log\n');
      const seen = ['gen/a.txt', 'kept.log', 'seen.log', 'src/b.txt', 'src/deep/kept.log'];
      const hidden = ['node_modules/dep/i.js', 'private.txt', 'src/made/c.txt', 'src/deep/x.log', 'x.log'];
      fillWithNeedles(workspace, [...seen, ...hidden]);
      const context = workspace.context();
      const inSrc = seen.filter((path) => path.startsWith('src/'));
      expect(await filesWithNeedle(context)).toEqual(seen);
      expect(await filesWithNeedle(context, { include: '**/*.{txt,log,js}' })).toEqual(seen);
      expect(await filesWithNeedle(context, { path: 'src' })).toEqual(inSrc);
      expect(await filesWithNeedle(context, { path: 'src', include: '*.{txt,log}' })).toEqual(inSrc);
      expect(await filesWithNeedle(context, { path: 'node_modules' })).toEqual(['node_modules/dep/i.js']);
      expect(await filesWithNeedle(context, {}, true)).toEqual([...seen, ...hidden].toSorted());
    },
  );

  when(asked('a folder that a nearer rule lets in again is searched, by the other rules'), async () => {
    const workspace = testWorkspace();
    repositoryAbove(workspace, 'made/\n*.log\n');
    workspace.file('a [1]/.gitignore', '!made/\n');
    const paths = [
      'a [1]/b.txt',
      'a [1]/deep/made/c.txt',
      'a [1]/made/d.log',
      'a [1]/made/e.txt',
      'made/f.txt',
    ];
    fillWithNeedles(workspace, paths);
    const seen = ['a [1]/b.txt', 'a [1]/deep/made/c.txt', 'a [1]/made/e.txt'];
    for (const input of [{}, { path: 'a [1]' }, { include: '**/*.{txt,log}' }])
      expect(await filesWithNeedle(workspace.context(), input)).toEqual(seen);
  });

  when(asked('what is left out takes the place of nothing, however much of it there is'), async () => {
    const workspace = testWorkspace();
    repositoryAbove(workspace, 'dist/\n');
    workspace.file('.serviceignore', 'data/\n');
    workspace.file('.gitignore', 'src/../x\n/more\n');
    workspace.file('a/.gitignore', '/more\n');
    const needles = 'needle\n'.repeat(60);
    for (let at = 0; at < 250; at += 1) {
      workspace.file(`data/${at}.txt`, needles);
      workspace.file(`a/more/${at}.txt`, needles);
    }
    workspace.file('z.txt', 'needle\n');
    workspace.file('a/z.txt', 'needle\n');
    expect(await filesWithNeedle(workspace.context())).toEqual(['a/z.txt', 'z.txt']);
    expect(await filesWithNeedle(workspace.context(), { path: 'a' })).toEqual(['a/z.txt']);
  });

  when(asked('a rule with a slash means a path from its own folder on, however far above'), async () => {
    const workspace = testWorkspace();
    repositoryAbove(workspace, '/workspace/a/b/one.txt\n');
    workspace.file('.gitignore', 'a/b/two.txt\n/b\n*.log\n');
    workspace.file('a/.gitignore', '/b/three.txt\n/two.txt\n');
    const files = ['one.txt', 'two.txt', 'three.txt', 'four.txt', 'x.log', 'b/five.txt', 'c/two.txt'];
    fillWithNeedles(
      workspace,
      files.map((path) => `a/b/${path}`),
    );
    for (const path of ['.', 'a', 'a/b'])
      expect(await filesWithNeedle(workspace.context(), { path })).toEqual([
        'a/b/b/five.txt',
        'a/b/c/two.txt',
        'a/b/four.txt',
      ]);
  });

  when.each([
    ['itself', 'workspace/\n*.txt\n'],
    ['with all beside it', '*\n!.gitignore\n'],
    ['by all that it holds', '*.txt\n/workspace/*\n!/workspace/.gitkeep\n'],
    ['by all that lies in it', 'workspace/**\n'],
  ])(asked('a workspace that is left out %s is searched as if it stood alone'), async (_how, above) => {
    const workspace = testWorkspace();
    repositoryAbove(workspace, above);
    workspace.file('.gitignore', '*.log\n');
    workspace.file('.gitkeep', '');
    fillWithNeedles(workspace, ['a.txt', 'src/b.txt', 'src/c.log', 'src/deep/d.txt']);
    const context = workspace.context();
    expect(await filesWithNeedle(context)).toEqual(['a.txt', 'src/b.txt', 'src/deep/d.txt']);
    expect(await filesWithNeedle(context, { path: 'src' })).toEqual(['src/b.txt', 'src/deep/d.txt']);
    const deep = workspace.context({ workspacePath: join(workspace.path, 'src/deep') });
    expect(await filesWithNeedle(deep)).toEqual(['d.txt']);
  });

  when(asked('a workspace of which rules let something in again is searched for that alone'), async () => {
    const workspace = testWorkspace();
    repositoryAbove(workspace, '/workspace/*\n!/workspace/src/\n');
    fillWithNeedles(workspace, ['a.txt', 'src/b.txt', 'own/c.txt']);
    expect(await filesWithNeedle(workspace.context())).toEqual(['src/b.txt']);
    repositoryAbove(workspace, '/workspace/*\n');
    workspace.file('.gitignore', '!own/\n');
    expect(await filesWithNeedle(workspace.context())).toEqual(['own/c.txt']);
  });

  when(asked('the nearest repository ends the way up, and without one there is none'), async () => {
    const workspace = testWorkspace();
    workspace.file('../.gitignore', '*.txt\n');
    fillWithNeedles(workspace, ['a.txt', 'own/b.txt', 'own/deep/c.txt', 'own/deep/d.log']);
    expect(await filesWithNeedle(workspace.context())).toContain('a.txt');
    repositoryAbove(workspace, '*.txt\n');
    workspace.file('own/.git/HEAD', 'ref: refs/heads/main\n');
    workspace.file('own/.gitignore', '*.log\n');
    for (const [folder, seen] of [
      ['own', ['b.txt', 'deep/c.txt']],
      ['own/deep', ['c.txt']],
    ] as const) {
      const context = workspace.context({ workspacePath: join(workspace.path, folder) });
      expect(await filesWithNeedle(context)).toEqual(seen);
    }
  });

  when(asked('a linked workspace belongs to the repository that it really lies in'), async () => {
    const workspace = testWorkspace();
    const elsewhere = testWorkspace();
    repositoryAbove(workspace, '*.log\n');
    repositoryAbove(elsewhere, '*.txt\n');
    fillWithNeedles(workspace, ['a.txt', 'x.log']);
    const link = join(elsewhere.path, 'link');
    symlinkSync(workspace.path, link);
    expect(await filesWithNeedle(workspace.context({ workspacePath: link }))).toEqual(['a.txt']);
  });

  when(
    asked('rules of the repository count beside the workspace too, and however long they are'),
    async () => {
      const workspace = testWorkspace();
      repositoryAbove(workspace, `${'# long\n'.repeat(20_000)}*.log\n`);
      fillWithNeedles(workspace, ['../beside/a.txt', '../beside/x.log', 'b.txt', 'y.log']);
      const context = workspace.context();
      expect(await filesWithNeedle(context)).toEqual(['b.txt']);
      expect(await filesWithNeedle(context, { path: '../beside' })).toEqual([
        join(workspace.path, '../beside/a.txt'),
      ]);
    },
  );

  when(asked('include may be a whole path, hidden, or what is not wanted'), async () => {
    const workspace = testWorkspace();
    const files = ['src/a.ts', '.github/b.ts', 'c.js', 'src/.env', '.npmrc'];
    for (const [age, path] of files.entries()) workspace.file(path, 'needle', age * 10);
    const found = async (include: string) =>
      (await grep(workspace, { pattern: 'needle', include })).content
        .replaceAll(':1: needle', '')
        .split('\n');
    expect(await found(join(workspace.path, 'src/*.ts'))).toEqual(['src/a.ts']);
    expect(await found('**/*.ts')).toEqual(['src/a.ts', '.github/b.ts']);
    expect(await found('.github/*')).toEqual(['.github/b.ts']);
    expect(await found('!*.ts')).toEqual(['c.js', 'src/.env', '.npmrc']);
    expect(await found('!src/**')).toEqual(['.github/b.ts', 'c.js', '.npmrc']);
    expect(await found('{.env,.npmrc}')).toEqual(['src/.env', '.npmrc']);
    expect(await found('**/{.env,c.js}')).toEqual(['c.js', 'src/.env']);
  });

  when(asked('expressions of other dialects are understood'), async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', 'f(interface{})\r\nwidth: 12\r\n');
    const found = async (pattern: string) => (await grep(workspace, { pattern })).content;
    expect(await found('interface{}')).toBe('a.txt:1: f(interface{})');
    expect(await found('{')).toBe('a.txt:1: f(interface{})');
    expect(await found('wid(?=th)')).toBe('a.txt:2: width: 12');
    expect(await found('(?P<n>[[:digit:]]+)$')).toBe('a.txt:2: width: 12');
    expect(await found('(?i)WIDTH')).toBe('a.txt:2: width: 12');
    workspace.file('b.txt', '\uFEFFÄpfel\nkaffee\n');
    for (const pattern of ['^\\p{Lu}', '^\\pL\\PN+l$', '^\\x{C4}', '^Ä'])
      expect(await found(pattern)).toBe('b.txt:1: Äpfel');
  });

  when(asked('an ignore file counts from its first rule on, behind a byte order mark too'), async () => {
    const workspace = testWorkspace();
    workspace.file('below/deep/.gitignore', '\ufeffmade/\n*.log\n');
    for (const path of ['below/deep/made/a.txt', 'below/deep/b.log', 'below/deep/c.txt'])
      workspace.file(path, 'needle');
    for (const path of ['.', 'below', 'below/deep'])
      expect((await grep(workspace, { pattern: 'needle', path })).content).toBe('below/deep/c.txt:1: needle');
  });

  when(asked('a file of more than 20 MB is left out, and refused where it is named'), async () => {
    const workspace = testWorkspace();
    workspace.file('small.log', 'ERROR');
    workspace.file('app.log', Buffer.alloc(20 * 1024 * 1024 + 1, 'ERROR\n'));
    expect((await grep(workspace, { pattern: 'ERROR' })).content).toBe('small.log:1: ERROR');
    expect(await grep(workspace, { pattern: 'ERROR', path: 'app.log' })).toMatchObject({
      is_error: true,
      content:
        'app.log is too large to be searched here (20971521 bytes; at most 20971520). Use a command, such as grep.',
    });
  });

  when(asked('UTF-16 is read, and what is binary further down is left out'), async () => {
    const workspace = testWorkspace();
    workspace.file('wide.txt', Buffer.from('\ufeffneedle\r\n', 'utf16le'), 20);
    workspace.file('late.txt', `needle\n${`${'q'.repeat(79)}\n`.repeat(2000)}\0`, 10);
    workspace.file('other.txt', 'needle\n');
    const output = await grep(workspace, { pattern: 'needle' });
    expect(output.content).toBe('other.txt:1: needle\nwide.txt:1: needle');
  });

  when(asked('100 lines are shown, each cut at 500 characters'), async () => {
    const workspace = testWorkspace();
    workspace.file('many.txt', `${'n'.repeat(3000)}\n`.repeat(300));
    const lines = (await grep(workspace, { pattern: 'n' })).content.split('\n');
    expect(lines).toHaveLength(101);
    expect(lines[0]).toBe(`many.txt:1: ${'n'.repeat(500)}…`);
    expect(lines[100]).toMatch(/Only 100 lines/);
  });

  when(asked('a pattern is never an option nor a command'), async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', '-rf --files $(touch made) `touch made`\n');
    for (const pattern of ['-rf', '--files', '$(touch made)', '`touch made`', '--pre=touch']) {
      const output = await grep(workspace, { pattern, literal_text: true });
      expect(output.is_error).toBe(false);
    }
    await grep(workspace, { pattern: '-rf', path: '$(touch made)' });
    await grep(workspace, { pattern: '-rf', include: '--pre=touch' });
    expect(existsSync(join(workspace.path, 'made'))).toBe(false);
    expect((await grep(workspace, { pattern: '-rf' })).content).toMatch(/^a.txt:1:/);
  });

  when(asked('literal_text takes the pattern as it is, (?i) ignores case'), async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', 'f(x)\nFX\n');
    expect((await grep(workspace, { pattern: 'f(x)', literal_text: true })).content).toBe('a.txt:1: f(x)');
    expect((await grep(workspace, { pattern: '(?i)fx' })).content).toBe('a.txt:2: FX');
  });

  when(asked('an invalid expression is a result that says so'), async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', 'x');
    const output = await grep(workspace, { pattern: '(unclosed' });
    expect(output).toMatchObject({
      is_error: true,
      content: expect.stringMatching(/regular expression.*literal_text/s),
    });
  });

  when(asked('names count with their capitals, as they do for git here'), async () => {
    const workspace = testWorkspace();
    workspace.file('.gitignore', 'build/\nTAGS\n');
    for (const path of ['Build/a.txt', 'src/tags/b.txt', 'build/c.txt', 'TAGS/d.txt'])
      workspace.file(path, 'needle');
    const { content } = await grep(workspace, { pattern: 'needle' });
    expect(content.split('\n').toSorted()).toEqual(['Build/a.txt:1: needle', 'src/tags/b.txt:1: needle']);
  });

  when(asked('links are not followed'), async () => {
    const workspace = testWorkspace();
    symlinkSync('../outside', join(workspace.path, 'out'));
    symlinkSync(workspace.secretFile, join(workspace.path, 'file'));
    mkdirSync(join(workspace.path, 'empty'));
    expect((await grep(workspace, { pattern: SECRET })).content).toBe('No matches found.');
  });

  when(asked('an interrupted search of an expression that takes for ever stops at once'), async () => {
    const workspace = testWorkspace();
    // Whether it fits depends on each of 800 characters that chance has chosen: no engine knows a short way.
    workspace.file('dice.txt', randomBytes(8_000_000).toString('hex'));
    const pattern = '(.*[0-7].{400}){2}[g-z]';
    const output = await grep(workspace, { pattern }, 600_000, AbortSignal.timeout(300));
    expect(output).toMatchObject({ is_error: true, metadata: { interrupted: true } });
  });
});

test('a regular expression that never ends is stopped by the timeout, and the server stays alive meanwhile', async () => {
  const workspace = testWorkspace();
  workspace.file('early.txt', 'aaa\n', 1);
  workspace.file('bomb.txt', `${'a'.repeat(60)}!\n`, 100);
  const tool = grepTool({ requireSandbox: false }, { timeoutMs: 5000, ripgrepPath: null, sandbox: null });
  let beats = 0;
  const heart = setInterval(() => (beats += 1), 20);
  const started = Date.now();
  const output = await callTool(tool, { pattern: '^(a+)+$' }, workspace.context());
  clearInterval(heart);
  expect(output.content).toMatch(/^early.txt:1: aaa\n\(Stopped after 5 s/);
  expect(output).toMatchObject({ is_error: true, metadata: { timed_out: true } });
  expect(Date.now() - started).toBeLessThan(20_000);
  expect(beats).toBeGreaterThan(10);
});

test.skipIf(!rg)(
  'rules that take for ever to compare are stopped by the timeout, and the server stays alive meanwhile (needs ripgrep)',
  async () => {
    const workspace = testWorkspace();
    const deep = 'a/'.repeat(60);
    workspace.file('.gitignore', `${'**/a*/'.repeat(8)}b\n`);
    workspace.file(`${deep}found.txt`, 'needle\n');
    const tool = grepTool({ requireSandbox: false }, { timeoutMs: 3000, ripgrepPath: rg, sandbox: null });
    let beats = 0;
    const heart = setInterval(() => (beats += 1), 20);
    const output = await callTool(tool, { pattern: 'needle', path: deep }, workspace.context());
    clearInterval(heart);
    expect(output).toMatchObject({ is_error: true, metadata: { timed_out: true } });
    expect(beats).toBeGreaterThan(10);
  },
);

test('a search outside takes a read permission in single mode and is refused elsewhere', async () => {
  const workspace = testWorkspace();
  const options = { timeoutMs: 5000, ripgrepPath: null, sandbox: null };
  const call = await grepTool({ requireSandbox: false }, options).prepare(
    { pattern: 'secret', path: '..' },
    workspace.context(),
  );
  expect(call.permission).toMatchObject({ action: 'read' });
  expect((await call.run()).content).toContain(SECRET);
  const refused = grepTool({ requireSandbox: true }, options).prepare(
    { pattern: 'x', path: '..' },
    workspace.context(),
  );
  await expect(refused).rejects.toThrow(/outside the workspace/);
});

test.each([
  ['cannot be started', 'echo "bwrap: No permissions to create new namespace" >&2; exit 1'],
  ['is killed', 'printf "%s\\0001:needle\\n" "$PWD/a.txt"; kill -9 $$'],
])('where ripgrep %s, the own search does its work', async (_how, script) => {
  const workspace = testWorkspace();
  workspace.file('a.txt', 'needle\n');
  workspace.file('b.txt', 'needle\n', 10);
  const ripgrepPath = join(testWorkspace().path, 'rg');
  writeFileSync(ripgrepPath, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const tool = grepTool({ requireSandbox: false }, { timeoutMs: 5000, ripgrepPath, sandbox: null });
  const found = await callTool(tool, { pattern: 'needle' }, workspace.context());
  expect(found).toMatchObject({ content: 'a.txt:1: needle\nb.txt:1: needle', is_error: false });
});

test('where a search finds so much of what is denied that it ends, it does not say that there is no more', async () => {
  const workspace = testWorkspace();
  for (let file = 0; file < 11; file += 1) workspace.file(`secret/${file}`, 'needle\n'.repeat(1000), 10);
  workspace.file('old.txt', 'needle\n', 60);
  const tool = grepTool({ requireSandbox: false }, { timeoutMs: 5000, ripgrepPath: null, sandbox: null });
  const context = workspace.context({ hidden: async () => (path) => path.startsWith('secret/') });
  const { content } = await callTool(tool, { pattern: 'needle' }, context);
  expect(content).not.toContain('No matches');
  expect(content).toContain('(The search ended before it came to a line that may be shown. Use a narrower');
});
