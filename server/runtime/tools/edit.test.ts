// The edit and write tools on real files: exactness, what is kept, what is refused.
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { editTool } from './edit.ts';
import { multieditTool } from './multiedit.ts';
import { callTool, type TestWorkspace, testWorkspace } from './test-workspace.ts';
import { viewTool } from './view.ts';
import { writeTool } from './write.ts';

const rules = { requireSandbox: false };
const [edit, write, view] = [editTool(rules), writeTool(rules), viewTool(rules)];
const [strictEdit, strictWrite] = [editTool({ requireSandbox: true }), writeTool({ requireSandbox: true })];

async function viewed(workspace: TestWorkspace, name: string, content: string | Uint8Array): Promise<string> {
  const path = workspace.file(name, content);
  await callTool(view, { file_path: name }, workspace.context());
  return path;
}

describe('edit', () => {
  test('replaces the one match and asks for permission with a unified diff', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'src/a.ts', 'one\ntwo\nthree\n');
    const call = await edit.prepare(
      { file_path: 'src/a.ts', old_string: 'two', new_string: '2' },
      workspace.context(),
    );
    expect(call.permission).toMatchObject({
      action: 'write',
      path: join(workspace.path, 'src'),
      description: 'Edit src/a.ts',
    });
    expect(call.permission?.diff).toContain(
      '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three',
    );
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo\nthree\n');
    expect(await call.run()).toMatchObject({ is_error: false, content: 'Edited src/a.ts: 1 replacement.' });
    expect(readFileSync(path, 'utf8')).toBe('one\n2\nthree\n');
  });

  test('a second edit needs no second view', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'x y');
    await callTool(edit, { file_path: 'a', old_string: 'x', new_string: '1' }, workspace.context());
    await callTool(edit, { file_path: 'a', old_string: 'y', new_string: '2' }, workspace.context());
    expect(readFileSync(path, 'utf8')).toBe('1 2');
  });

  test('two edits prepared together and run at once both hold', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'x y');
    const context = workspace.context();
    const calls = await Promise.all([
      edit.prepare({ file_path: 'a', old_string: 'x', new_string: '1' }, context),
      edit.prepare({ file_path: 'a', old_string: 'y', new_string: '2' }, context),
    ]);
    const outputs = await Promise.all(calls.map((call) => call.run()));
    expect(outputs.map((output) => output.is_error)).toEqual([false, false]);
    expect(readFileSync(path, 'utf8')).toBe('1 2');
  });

  test('carriage returns, byte order mark and mode stay as they were', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'run.sh', '\uFEFFone\r\ntwo\r\nthree\r\n');
    chmodSync(path, 0o754);
    await callTool(
      edit,
      { file_path: 'run.sh', old_string: 'one\ntwo', new_string: 'a\nb\nc' },
      workspace.context(),
    );
    expect(readFileSync(path, 'utf8')).toBe('\uFEFFa\r\nb\r\nc\r\nthree\r\n');
    expect(statSync(path).mode & 0o777).toBe(0o754);
  });

  test('lines are found whichever way they end, and those of the place are kept', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'mixed', 'a\nb\nc\nd\ne\r\nf\r\ng\n');
    const change = (old_string: string, new_string: string) =>
      callTool(edit, { file_path: 'mixed', old_string, new_string }, workspace.context());
    await change('e\nf', 'E\nF');
    await change('a\nb', 'A\nB');
    expect(readFileSync(path, 'utf8')).toBe('A\nB\nc\nd\nE\r\nF\r\ng\n');
    await expect(change('d\nE\nF', 'x')).rejects.toThrow(
      'From line 4 on it is there, but some of those lines end with CRLF and others with LF',
    );
  });

  test('a file that is written anew keeps carriage returns and byte order mark, which a view does not show', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'run.bat', '\uFEFFone\r\ntwo\r\n');
    const anew = (content: string) => callTool(write, { file_path: 'run.bat', content }, workspace.context());
    expect((await anew('a\nb\n')).content).toBe(
      'Overwrote run.bat (9 bytes). Its line ends and byte order mark are as they were.',
    );
    expect(readFileSync(path, 'utf8')).toBe('\uFEFFa\r\nb\r\n');
    const plain = await viewed(workspace, 'run.sh', 'one\ntwo\r\nthree\n');
    await callTool(write, { file_path: 'run.sh', content: 'a\nb\n' }, workspace.context());
    expect(readFileSync(plain, 'utf8')).toBe('a\nb\n');
  });

  test('special replacement patterns are plain text', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'price: X');
    await callTool(edit, { file_path: 'a', old_string: 'X', new_string: "$& $1 $$ $'" }, workspace.context());
    expect(readFileSync(path, 'utf8')).toBe("price: $& $1 $$ $'");
  });

  test('replace_all replaces every match', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'x x x');
    const input = { file_path: 'a', old_string: 'x', new_string: '', replace_all: true };
    expect((await callTool(edit, input, workspace.context())).metadata).toMatchObject({ replacements: 3 });
    expect(readFileSync(path, 'utf8')).toBe('  ');
  });

  test.each([
    ['no match', { old_string: 'zzz', new_string: '' }, /was not found/],
    ['several matches', { old_string: 'x', new_string: 'y' }, /occurs 2 times.*unique.*replace_all/],
    ['an empty old_string', { old_string: '', new_string: 'y' }, /write makes a file.*\n.*old_string/],
    ['no change', { old_string: 'one', new_string: 'one' }, /the same/],
  ])('%s is refused with what to do', async (_case, input, message) => {
    const workspace = testWorkspace();
    await viewed(workspace, 'a', 'x one x');
    await expect(edit.prepare({ file_path: 'a', ...input }, workspace.context())).rejects.toThrow(message);
  });

  test.each([
    [
      'line numbers of view',
      '     2\t  two();',
      'Leave out the line numbers, which view puts before each line.',
    ],
    ['escaped line breaks', 'one();\\n  two();', /It is there without the backslashes/],
    [
      'other white space',
      'one();\ntwo();',
      /From line 1 on it differs only in white space. There it reads:\none\(\);\n {2}two\(\);$/,
    ],
    [
      'a line that has changed',
      'one();\n  three();',
      /as line 1 does, but line 2 is:\n {2}two\(\);\ninstead of:\n {2}three\(\);$/,
    ],
    ['more than there is', '  two();\nend', /as line 2 does, but line 3 is:\n\ninstead of:\nend$/],
    ['nothing like it', 'zzz', /No line is like its first one. View/],
  ])(
    'a text that is not there as it was written, for %s, is answered with what is',
    async (_case, old_string, message) => {
      const workspace = testWorkspace();
      await viewed(workspace, 'a', 'one();\n  two();\n');
      const call = edit.prepare({ file_path: 'a', old_string, new_string: 'x' }, workspace.context());
      await expect(call).rejects.toThrow(message);
    },
  );

  test('a text that is there several times is answered with its lines', async () => {
    const workspace = testWorkspace();
    await viewed(workspace, 'a', `x\ny\nx x\n${'x\n'.repeat(20)}`);
    const call = edit.prepare({ file_path: 'a', old_string: 'x\n', new_string: 'z' }, workspace.context());
    await expect(call).rejects.toThrow(
      'occurs 22 times in a, at lines 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and on. Add',
    );
  });

  test('the search for what may have been meant does not take long in a huge file', async () => {
    const workspace = testWorkspace();
    await viewed(workspace, 'a', 'x\n'.repeat(400_000));
    const old_string = `${'x\n'.repeat(100_000)}y`;
    const spent = await cpuMsOf(async () => {
      const call = edit.prepare({ file_path: 'a', old_string, new_string: 'z' }, workspace.context());
      await expect(call).rejects.toThrow(/first 200 lines are like/);
    });
    expect(spent).toBeLessThan(4000);
  });

  test('a missing file is answered with names that are like it', async () => {
    const workspace = testWorkspace();
    workspace.file('src/handler.ts', '');
    const call = edit.prepare(
      { file_path: 'src/handlr.ts', old_string: 'a', new_string: 'b' },
      workspace.context(),
    );
    await expect(call).rejects.toThrow('src/handlr.ts does not exist. Did you mean src/handler.ts?');
  });

  test('a missing file is not made by accident', async () => {
    const workspace = testWorkspace();
    const call = edit.prepare({ file_path: 'new.ts', old_string: 'a', new_string: 'b' }, workspace.context());
    await expect(call).rejects.toThrow(/does not exist. Use write/);
    expect(existsSync(join(workspace.path, 'new.ts'))).toBe(false);
  });

  test('a file that was never viewed, or changed since, is refused; viewed again it is edited', async () => {
    const workspace = testWorkspace();
    const input = { file_path: 'a', old_string: 'x', new_string: 'y' };
    workspace.file('a', 'x');
    await expect(edit.prepare(input, workspace.context())).rejects.toThrow(/has not been viewed/);
    await viewed(workspace, 'a', 'x');
    workspace.file('a', 'x changed by a person');
    await expect(edit.prepare(input, workspace.context())).rejects.toThrow(/has changed since/);
    await callTool(view, { file_path: 'a' }, workspace.context());
    expect((await callTool(edit, input, workspace.context())).is_error).toBe(false);
  });

  test('a change made while permission was pending is not overwritten', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'x');
    const call = await edit.prepare(
      { file_path: 'a', old_string: 'x', new_string: 'y' },
      workspace.context(),
    );
    writeFileSync(path, 'x and the work of a person');
    expect(await call.run()).toMatchObject({
      is_error: true,
      content: expect.stringContaining('has changed since'),
    });
    expect(readFileSync(path, 'utf8')).toBe('x and the work of a person');
  });

  test('binary and non-UTF-8 files are refused', async () => {
    const workspace = testWorkspace();
    workspace.file('latin1', new Uint8Array([0x66, 0xe9, 0x65]));
    await callTool(view, { file_path: 'latin1' }, workspace.context());
    const call = edit.prepare({ file_path: 'latin1', old_string: 'f', new_string: 'g' }, workspace.context());
    await expect(call).rejects.toThrow(/not UTF-8/);
  });
});

describe('write', () => {
  test('makes the folders, reports the bytes and leaves no temporary file', async () => {
    const workspace = testWorkspace();
    const call = await write.prepare({ file_path: 'a/b/c.txt', content: 'héllo' }, workspace.context());
    expect(call.permission).toMatchObject({ action: 'write', description: 'Create a/b/c.txt' });
    expect(call.permission?.diff).toMatch(/^--- /);
    expect(call.permission?.diff).toContain('--- /dev/null\n+++ b/a/b/c.txt');
    expect(existsSync(join(workspace.path, 'a'))).toBe(false);
    expect((await call.run()).content).toBe('Created a/b/c.txt (6 bytes).');
    expect(readdirSync(join(workspace.path, 'a/b'))).toEqual(['c.txt']);
  });

  test('replaces a viewed file in one step, and the session may go on writing it', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a', 'old');
    const before = statSync(path).ino;
    await callTool(write, { file_path: 'a', content: 'new' }, workspace.context());
    expect(statSync(path).ino).not.toBe(before);
    await callTool(write, { file_path: 'a', content: 'newer' }, workspace.context());
    expect(readFileSync(path, 'utf8')).toBe('newer');
  });

  test('a file that was never viewed is not overwritten', async () => {
    const workspace = testWorkspace();
    workspace.file('a', 'old');
    const call = write.prepare({ file_path: 'a', content: 'new' }, workspace.context());
    await expect(call).rejects.toThrow(/View it first/);
  });

  test('a file that appeared while permission was pending is not overwritten', async () => {
    const workspace = testWorkspace();
    const call = await write.prepare({ file_path: 'a', content: 'new' }, workspace.context());
    workspace.file('a', 'by a person');
    expect((await call.run()).is_error).toBe(true);
    expect(readFileSync(join(workspace.path, 'a'), 'utf8')).toBe('by a person');
  });

  test('a folder, a path through a file, and too much content are refused', async () => {
    const workspace = testWorkspace();
    workspace.file('file', '');
    mkdirSync(join(workspace.path, 'folder'));
    const prepare = (file_path: string, content = '') =>
      write.prepare({ file_path, content }, workspace.context());
    await expect(prepare('folder')).rejects.toThrow(/is a folder/);
    await expect(prepare('file/below')).rejects.toThrow(/not a folder/);
    await expect(prepare('big', 'x'.repeat(10 * 1024 * 1024 + 1))).rejects.toThrow(/too large/);
  });
});

describe('what may be written', () => {
  test('a path outside takes a write permission in single mode and is refused elsewhere', async () => {
    const workspace = testWorkspace();
    const input = { file_path: '../outside/new.txt', content: 'x' };
    const call = await write.prepare(input, workspace.context());
    expect(call.permission).toMatchObject({ action: 'write', path: join(workspace.secretFile, '..') });
    await expect(strictWrite.prepare(input, workspace.context())).rejects.toThrow(/outside the workspace/);
  });

  test('links that lead outside are refused, for files and for folders', async () => {
    const workspace = testWorkspace();
    symlinkSync(workspace.secretFile, join(workspace.path, 'file'));
    symlinkSync('../outside', join(workspace.path, 'folder'));
    for (const file_path of ['file', 'folder/new.txt', 'folder/deep/new.txt']) {
      await expect(strictWrite.prepare({ file_path, content: 'x' }, workspace.context())).rejects.toThrow(
        /outside/,
      );
    }
  });

  test('a folder exchanged for a link while permission was pending is not written through', async () => {
    const workspace = testWorkspace();
    const call = await strictWrite.prepare(
      { file_path: 'folder/new.txt', content: 'x' },
      workspace.context(),
    );
    symlinkSync('../outside', join(workspace.path, 'folder'));
    expect((await call.run()).is_error).toBe(true);
    expect(readdirSync(join(workspace.secretFile, '..'))).toEqual(['secret.txt']);
    expect(lstatSync(join(workspace.path, 'folder')).isSymbolicLink()).toBe(true);
  });

  test.each([
    '.git/hooks/pre-commit',
    '.git/config',
    '.git/config.worktree',
    '.git/commondir',
    'service.json',
    '.service.json',
    '.service/service.json',
    'a/../.git/config',
  ])('%s is refused where a sandbox is required and asked for elsewhere', async (file_path) => {
    const workspace = testWorkspace();
    const input = { file_path, content: 'x' };
    await expect(strictWrite.prepare(input, workspace.context())).rejects.toThrow(/protected/);
    expect((await write.prepare(input, workspace.context())).permission?.action).toBe('write');
  });

  test.each([
    ['a pointer', (path: string) => writeFileSync(join(path, '.git'), 'gitdir: ./.bare\n')],
    ['a link', (path: string) => symlinkSync('.bare', join(path, '.git'))],
  ])('what git obeys is refused also in the folder that .git leads to as %s', async (_form, lead) => {
    const workspace = testWorkspace();
    rmSync(join(workspace.path, '.git'), { recursive: true, force: true });
    mkdirSync(join(workspace.path, '.bare'));
    lead(workspace.path);
    for (const name of ['config', 'hooks/pre-commit', 'config.worktree', 'commondir']) {
      const input = { file_path: `.bare/${name}`, content: 'x' };
      await expect(strictWrite.prepare(input, workspace.context())).rejects.toThrow(/protected/);
    }
    const input = { file_path: '.bare/description', content: 'x' };
    expect((await strictWrite.prepare(input, workspace.context())).permission?.action).toBe('write');
  });

  test('what the settings of git name is refused where a sandbox is required', async () => {
    const workspace = testWorkspace();
    workspace.file('.git/config', '[core]\n\thooksPath = .husky\n');
    const input = { file_path: '.husky/pre-commit', content: 'x' };
    await expect(strictWrite.prepare(input, workspace.context())).rejects.toThrow(/protected/);
    expect((await write.prepare(input, workspace.context())).permission?.action).toBe('write');
  });

  test('a protected file is not edited through a link to it', async () => {
    const workspace = testWorkspace();
    await viewed(workspace, '.git/config', '[core]');
    symlinkSync('.git/config', join(workspace.path, 'innocent'));
    const call = strictEdit.prepare(
      { file_path: 'innocent', old_string: '[core]', new_string: 'x' },
      workspace.context(),
    );
    await expect(call).rejects.toThrow(/protected/);
  });
});

describe('multiedit', () => {
  const multiedit = multieditTool(rules);

  test('makes its replacements in their order, of which later ones see what earlier ones changed', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a.ts', 'one two three two');
    const edits = [
      { old_string: 'one', new_string: 'zero' },
      { old_string: 'two', new_string: '2', replace_all: true },
      { old_string: 'zero 2', new_string: 'begin' },
    ];
    const call = await multiedit.prepare({ file_path: 'a.ts', edits }, workspace.context());
    expect(call.permission).toMatchObject({ action: 'write', description: 'Make 3 changes in a.ts' });
    expect(call.permission?.diff).toContain('+begin three 2');
    expect(await call.run()).toMatchObject({ is_error: false, content: 'Edited a.ts: 4 replacements.' });
    expect(readFileSync(path, 'utf8')).toBe('begin three 2');
  });

  test('makes none of them where one cannot be made, and says which', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a.ts', 'one two');
    const edits = [
      { old_string: 'one', new_string: '1' },
      { old_string: 'three', new_string: '3' },
    ];
    await expect(multiedit.prepare({ file_path: 'a.ts', edits }, workspace.context())).rejects.toThrow(
      'old_string was not found in a.ts (edit 2 of 2; none was made)',
    );
    expect(readFileSync(path, 'utf8')).toBe('one two');
  });

  test('refuses edits that undo each other, a file not viewed, and one that changed since', async () => {
    const workspace = testWorkspace();
    const path = await viewed(workspace, 'a.ts', 'one');
    const there = { old_string: 'one', new_string: 'two' };
    const back = { old_string: 'two', new_string: 'one' };
    const prepare = (file_path: string, edits: object[]) =>
      multiedit.prepare({ file_path, edits }, workspace.context());
    await expect(prepare('a.ts', [there, back])).rejects.toThrow('leave a.ts as it is');
    workspace.file('b.ts', 'one');
    await expect(prepare('b.ts', [there])).rejects.toThrow('View it first');
    const call = await prepare('a.ts', [there]);
    writeFileSync(path, 'one, changed by somebody');
    expect(await call.run()).toMatchObject({
      is_error: true,
      content: expect.stringContaining('has changed since'),
    });
    expect(readFileSync(path, 'utf8')).toBe('one, changed by somebody');
  });
});
