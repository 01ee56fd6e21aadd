// The view tool on real files: what it shows, where it stops, what it refuses.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { grepTool } from './grep.ts';
import { callTool, SECRET, testWorkspace } from './test-workspace.ts';
import { viewTool } from './view.ts';
import { writeTool } from './write.ts';

const view = viewTool({ requireSandbox: false });
const strictView = viewTool({ requireSandbox: true });

describe('what is shown', () => {
  test('lines carry their numbers, without byte order mark and carriage returns', async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', '\uFEFFone\r\ntwo\r\n');
    const output = await callTool(view, { file_path: 'a.txt' }, workspace.context());
    expect(output).toMatchObject({ content: '     1\tone\n     2\ttwo', is_error: false });
  });

  test('200 lines are shown by default and the reader is told how to go on', async () => {
    const workspace = testWorkspace();
    workspace.file('long.txt', Array.from({ length: 450 }, (_, index) => `line ${index + 1}\n`).join(''));
    const first = await callTool(view, { file_path: 'long.txt' }, workspace.context());
    expect(first.content.split('\n')).toHaveLength(201);
    expect(first.content).toMatch(/lines 1 to 200 of 450. Go on with offset 201/);
    const last = await callTool(view, { file_path: 'long.txt', offset: 449, limit: 50 }, workspace.context());
    expect(last.content).toBe('   449\tline 449\n   450\tline 450');
    const behind = await callTool(view, { file_path: 'long.txt', offset: 900 }, workspace.context());
    expect(behind.content).toMatch(/only 450 lines/);
  });

  test('a long line is cut at 2000 characters and the whole at 200 KB', async () => {
    const workspace = testWorkspace();
    workspace.file('wide.txt', `${'x'.repeat(5000)}\n`.repeat(300));
    const output = await callTool(view, { file_path: 'wide.txt', limit: 300 }, workspace.context());
    expect(output.content.split('\n')[0]).toBe(`     1\t${'x'.repeat(2000)}… (3000 more characters)`);
    expect(output.content.length).toBeLessThan(201 * 1024);
    expect(output.content).toMatch(/Cut at 200 KB/);
  });

  test('a page in the middle of a file of 30 MB is shown', async () => {
    const workspace = testWorkspace();
    workspace.file('huge.log', `${'y'.repeat(99)}\n`.repeat(300_000));
    const output = await callTool(
      view,
      { file_path: 'huge.log', offset: 100_000, limit: 2 },
      workspace.context(),
    );
    expect(output.content).toMatch(/^100000\ty+\n100001\ty+\n\(There is more/);
  });

  test('an empty file is called empty', async () => {
    const workspace = testWorkspace();
    workspace.file('empty', '');
    expect((await callTool(view, { file_path: 'empty' }, workspace.context())).content).toBe(
      'empty is empty.',
    );
  });
});

describe('what is refused', () => {
  test('a binary file, with its size', async () => {
    const workspace = testWorkspace();
    workspace.file('a.png', new Uint8Array([137, 80, 78, 71, 0, 1, 2]));
    const output = await callTool(view, { file_path: 'a.png' }, workspace.context());
    expect(output).toMatchObject({
      is_error: true,
      content: expect.stringContaining('binary file (7 bytes)'),
    });
  });

  test('a missing file, with the names that are like it', async () => {
    const workspace = testWorkspace();
    workspace.file('src/handler.ts', '');
    const call = view.prepare({ file_path: 'src/handlr.ts' }, workspace.context());
    await expect(call).rejects.toThrow('src/handlr.ts does not exist. Did you mean src/handler.ts?');
  });

  test('a file in a missing folder, with the folder that may have been meant', async () => {
    const workspace = testWorkspace();
    workspace.file('source/a/b.ts', '');
    const refused = (file_path: string) =>
      view.prepare({ file_path }, workspace.context()).catch((error: Error) => error.message);
    expect(await refused('sourc/a/b.ts')).toBe(
      'sourc/a/b.ts does not exist: there is no folder sourc. Did you mean source?',
    );
    expect(await refused('source/x/y/b.ts')).toBe(
      'source/x/y/b.ts does not exist: there is no folder source/x. Did you mean source/a?',
    );
    expect(await refused('source/a/b.ts/c.ts')).toMatch(/does not exist|not a folder/);
  });

  test.each([
    ['a folder', { file_path: '.' }, /is a folder. Use ls/],
    ['a NUL', { file_path: 'a\0b' }, /NUL/],
    ['a missing path', {}, /file_path/],
    ['an unknown field', { file_path: 'a', lines: 3 }, /lines/],
    ['a wrong type', 'a.txt', /Wrong input/],
  ])('%s, with a message that says what is wrong', async (_case, input, message) => {
    await expect(view.prepare(input, testWorkspace().context())).rejects.toThrow(message);
  });

  test('a named pipe, without waiting for its writer', async () => {
    const workspace = testWorkspace();
    execFileSync('mkfifo', [join(workspace.path, 'pipe')]);
    const output = await callTool(view, { file_path: 'pipe' }, workspace.context());
    expect(output).toMatchObject({ is_error: true, content: 'pipe is not a regular file.' });
  });
});

describe('folders of the service itself', () => {
  const grepLimits = { timeoutMs: 5000, ripgrepPath: null, sandbox: null };
  test('are not read or written, whoever would allow it, and a workspace inside of one is', async () => {
    const workspace = testWorkspace();
    workspace.file('a.txt', 'mine\n');
    workspace.file('.service/data/service.db', 'rows\n');
    const data = join(workspace.path, '.service/data');
    for (const [hidden, file] of [
      [join(workspace.path, '..'), workspace.secretFile],
      [join(workspace.path, '..'), '../outside/secret.txt'],
      [data, '.service/data/service.db'],
    ] as const) {
      const rules = { requireSandbox: false, hiddenPaths: [hidden] };
      const refused = 'belongs to the service itself';
      const context = workspace.context();
      await expect(callTool(viewTool(rules), { file_path: file }, context)).rejects.toThrow(refused);
      const writing = { file_path: file, content: 'x' };
      await expect(callTool(writeTool(rules), writing, context)).rejects.toThrow(refused);
      const search = { pattern: '.', path: '../..' };
      await expect(callTool(grepTool(rules, grepLimits), search, context)).rejects.toThrow(
        'of the service itself',
      );
      const own = await callTool(viewTool(rules), { file_path: 'a.txt' }, context);
      expect(own).toMatchObject({ content: '     1\tmine' });
    }
  });
});

describe('paths that lead outside', () => {
  const escapes = [
    '../outside/secret.txt',
    'link-to-file',
    'link-to-folder/secret.txt',
    'deep/../link-to-folder/secret.txt',
  ];

  function withLinks() {
    const workspace = testWorkspace();
    mkdirSync(join(workspace.path, 'deep'));
    symlinkSync(workspace.secretFile, join(workspace.path, 'link-to-file'));
    symlinkSync('../outside', join(workspace.path, 'link-to-folder'));
    return workspace;
  }

  test.each(escapes)('%s is refused where a sandbox is required', async (path) => {
    await expect(strictView.prepare({ file_path: path }, withLinks().context())).rejects.toThrow(
      /outside the workspace/,
    );
  });

  test('an absolute path is refused where a sandbox is required, whether it exists or not', async () => {
    const workspace = withLinks();
    for (const path of [workspace.secretFile, '/etc/passwd', '/no/such/file']) {
      await expect(strictView.prepare({ file_path: path }, workspace.context())).rejects.toThrow(
        /outside the workspace/,
      );
    }
  });

  test.each(escapes)('%s takes a read permission in single mode', async (path) => {
    const workspace = withLinks();
    const call = await view.prepare({ file_path: path }, workspace.context());
    expect(call.permission).toMatchObject({ action: 'read', path: join(workspace.secretFile, '..') });
    expect((await call.run()).content).toContain(SECRET);
  });

  test('a file exchanged for a link after the check is not followed', async () => {
    const workspace = testWorkspace();
    const file = workspace.file('a.txt', 'harmless');
    const call = await strictView.prepare({ file_path: 'a.txt' }, workspace.context());
    execFileSync('ln', ['-sf', workspace.secretFile, file]);
    const output = await call.run();
    expect(output.is_error).toBe(true);
    expect(output.content).not.toContain(SECRET);
  });

  test('a link inside the workspace is followed', async () => {
    const workspace = testWorkspace();
    workspace.file('real.txt', 'inside');
    symlinkSync('real.txt', join(workspace.path, 'alias.txt'));
    const call = await strictView.prepare({ file_path: 'alias.txt' }, workspace.context());
    expect(call.permission).toBeNull();
    expect((await call.run()).content).toContain('inside');
  });

  test('a circle of links and a link to nothing are refused', async () => {
    const workspace = testWorkspace();
    symlinkSync('circle', join(workspace.path, 'circle'));
    symlinkSync('nothing', join(workspace.path, 'dangling'));
    await expect(view.prepare({ file_path: 'circle' }, workspace.context())).rejects.toThrow(/circle/);
    await expect(view.prepare({ file_path: 'dangling' }, workspace.context())).rejects.toThrow(
      /link to nothing/,
    );
  });
});

test('an argument that looks like a shell substitution makes no file', async () => {
  const workspace = testWorkspace();
  await expect(view.prepare({ file_path: '$(touch made)' }, workspace.context())).rejects.toThrow(
    /does not exist/,
  );
  writeFileSync(join(workspace.path, '`touch made`'), 'x');
  expect((await callTool(view, { file_path: '`touch made`' }, workspace.context())).is_error).toBe(false);
  expect(existsSync(join(workspace.path, 'made'))).toBe(false);
});
