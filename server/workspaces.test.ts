/** Whom the workspaces of a server belong to, and as whom commands run in them. */
import { execFileSync } from 'node:child_process';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createLog } from './log.ts';
import { findExecutable } from './runtime/processes/executable.ts';
import { sandboxHere } from './runtime/processes/test-sandbox.ts';
import { bashTool } from './runtime/tools/bash.ts';
import { grepTool } from './runtime/tools/grep.ts';
import { createJobs } from './runtime/tools/jobs.ts';
import { callTool, testWorkspace } from './runtime/tools/test-workspace.ts';
import { writeTool } from './runtime/tools/write.ts';
import { type FolderRules, workspaceFolder, workspaceFolders } from './workspaces.ts';

const asRoot = process.getuid?.() === 0;
const has = !('unavailable' in (await sandboxHere()));
const when = test.skipIf(!has);
const log = createLog('silent');

async function dataFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'service-workspaces-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const data = join(folder, 'data');
  await mkdir(join(data, 'workspaces'), { recursive: true, mode: 0o700 });
  // The temporary folder itself is closed to others; a server's data lies where the way is open.
  await chmod(folder, 0o711);
  return data;
}

test('a workspace belongs to the server’s user, or, where that is root, to an ordinary one', async () => {
  const data = await dataFolder();
  const { folder } = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
  const { uid, mode } = await stat(folder);
  expect(mode & 0o777).toBe(0o700);
  if (asRoot) expect(uid).not.toBe(0);
  else expect(uid).toBe(process.getuid?.());
});

test('what root has made in it before belongs to that user as well, and the folders above stay closed but for passing', async () => {
  const data = await dataFolder();
  await mkdir(join(data, 'workspaces/ws_1/src'), { recursive: true });
  await writeFile(join(data, 'workspaces/ws_1/src/a.txt'), 'x');
  await writeFile(join(data, 'secret'), 'x', { mode: 0o600 });
  const { folder } = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
  const owner = (await stat(folder)).uid;
  expect((await stat(join(folder, 'src/a.txt'))).uid).toBe(owner);
  expect((await stat(join(data, 'secret'))).uid).toBe(process.getuid?.());
  expect((await stat(data)).mode & 0o066).toBe(0);
});

when(
  'commands and tools work in it together, whoever of them made a file; none of a command’s processes is root (needs bubblewrap)',
  async () => {
    const sandbox = await sandboxHere();
    if ('unavailable' in sandbox) throw new Error(sandbox.unavailable);
    const data = await dataFolder();
    const { folder } = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
    const context = testWorkspace().context({ workspacePath: folder });
    const bash = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });
    const write = writeTool({ requireSandbox: true });
    expect(await callTool(write, { file_path: 'made/by/tool.txt', content: 'one\n' }, context)).toMatchObject(
      {
        is_error: false,
      },
    );
    const command =
      'echo two >> made/by/tool.txt && mkdir made/also && echo x > made/also/file && cat /proc/self/uid_map';
    const output = await callTool(bash, { command }, context);
    expect(output).toMatchObject({ is_error: false });
    expect(await readFile(join(folder, 'made/by/tool.txt'), 'utf8')).toBe('one\ntwo\n');
    const { uid } = await stat(join(folder, 'made/also/file'));
    expect(uid).toBe((await stat(folder)).uid);
    if (asRoot) expect(uid).not.toBe(0);
  },
);

test.skipIf(!asRoot || !has)(
  'in a folder of root’s own commands are root’s own for one person, and refused where there are several (needs bubblewrap)',
  async () => {
    let shared = false;
    const sandbox = await sandboxHere({ mayBeRoot: () => !shared });
    if ('unavailable' in sandbox) throw new Error(sandbox.unavailable);
    const data = await dataFolder();
    await chmod(join(data, '..'), 0o700);
    const { folder } = await workspaceFolder(join(data, 'workspaces'), 'ws_1', log);
    expect((await stat(folder)).uid).toBe(0);
    const context = testWorkspace().context({ workspacePath: folder });
    const bash = bashTool({ sandbox, allowNetwork: false, jobs: createJobs() });
    expect(await callTool(bash, { command: 'touch one' }, context)).toMatchObject({ is_error: false });
    shared = true;
    const refused = await callTool(bash, { command: 'touch two' }, context);
    expect(refused).toMatchObject({
      is_error: true,
      content: expect.stringMatching(/runs nothing as root.*SERVICE_WORKSPACES_DIR/),
    });
    expect(await readdir(folder)).toEqual(['one']);
    const grep = grepTool(
      { requireSandbox: true },
      { timeoutMs: 5000, ripgrepPath: findExecutable('rg'), sandbox },
    );
    expect(await callTool(grep, { pattern: 'x' }, context)).toMatchObject({ is_error: false });
  },
  30_000,
);

/** A server whose operator lists one folder, and what it makes of the paths of workspaces. */
async function rooted(more: Partial<FolderRules> = {}) {
  const data = await realpath(await dataFolder());
  const root = join(data, '..', 'projects');
  await mkdir(join(root, 'website'), { recursive: true });
  const paths = new Map<string, string>();
  const rules = {
    workspacesDirectory: join(data, 'workspaces'),
    projectFolder: null,
    roots: [root],
    ownFolders: [data],
    ...more,
  };
  const forgotten: string[] = [];
  const gone = new Set<string>();
  const kept = {
    exists: async (id: string) => !gone.has(id),
    pathOf: async (id: string) => paths.get(id) ?? null,
    forget: async (id: string) => void forgotten.push(id),
  };
  const folders = workspaceFolders(rules, kept, log);
  return { data, root, paths, folders, forgotten, gone, website: join(root, 'website') };
}

test('a path is accepted below a root that the operator lists, by where it really leads, and nowhere else', async () => {
  const { data, root, folders, website } = await rooted();
  await writeFile(join(root, 'file'), '');
  await symlink(website, join(root, 'link'));
  await symlink(data, join(root, 'out'));
  await symlink(root, join(data, '..', 'way'));
  expect(await folders.accept(website)).toBe(website);
  expect(await folders.accept(join(root, 'link'))).toBe(website);
  expect(await folders.accept(join(data, '..', 'way/website'))).toBe(website);
  for (const path of ['', '/other', '/website-2', '/../data', '/out', '/file', '/link/..', '/none'])
    expect(await folders.accept(root + path), path).toBeNull();
  for (const path of ['/', '/etc', `${root}-2`]) expect(await folders.accept(path), path).toBeNull();
});

test('what the server keeps for itself is no workspace, nor what lies in it or around it, whatever the operator lists', async () => {
  const { data, folders } = await rooted({ roots: ['/'] });
  for (const path of [data, join(data, 'workspaces'), join(data, '..')])
    expect(await folders.accept(path), path).toBeNull();
  const nobody = await rooted({ roots: [] });
  expect(await nobody.folders.accept(nobody.website)).toBeNull();
});

test('a workspace is opened only where its path still leads to the very folder that was accepted', async () => {
  const { root, paths, folders, website } = await rooted();
  paths.set('ws_1', website);
  expect(await folders.open('ws_1')).toBe(website);
  expect(await folders.place('ws_1')).toBe(`${hostname()}:${website}`);
  await rename(website, join(root, 'elsewhere'));
  const unavailable = { code: 'workspace_unavailable' };
  await expect(folders.open('ws_1')).rejects.toMatchObject(unavailable);
  await symlink(join(root, 'elsewhere'), website);
  await expect(folders.open('ws_1')).rejects.toMatchObject(unavailable);
  expect(await folders.place('ws_1')).toBeNull();
});

test('inside the command any folder of the person is taken, and theirs is never removed', async () => {
  const { data, root, folders, website, paths } = await rooted({ projectFolder: tmpdir(), roots: [] });
  expect(await folders.accept(website)).toBe(website);
  expect(await folders.accept(join(root, 'none'))).toBeNull();
  expect(await folders.open('ws_1')).toBe(tmpdir());
  paths.set('ws_2', website);
  expect(await folders.open('ws_2')).toBe(website);
  await mkdir(join(data, 'workspaces/ws_1'));
  await folders.remove('ws_1');
  expect(await readdir(join(data, 'workspaces'))).toEqual(['ws_1']);
});

test('a workspace that is opened while it is deleted leaves no folder', async () => {
  const { data, folders, gone } = await rooted();
  await folders.open('ws_1');
  await folders.remove('ws_1');
  gone.add('ws_1');
  await expect(folders.open('ws_1')).rejects.toMatchObject({ code: 'workspace_unavailable' });
  // Several at once: what one of them makes another may take away.
  const opened = await Promise.allSettled(Array.from({ length: 8 }, () => folders.open('ws_1')));
  for (const one of opened)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'workspace_unavailable' });
  expect(await readdir(join(data, 'workspaces'))).toEqual([]);
  expect(await folders.open('ws_2')).toBe(join(data, 'workspaces/ws_2'));
});

test('a folder is removed however deep a command has made it, and nothing that its links lead to', async () => {
  const { data, folders } = await rooted();
  const directory = join(data, 'workspaces');
  const name = 'd'.repeat(100);
  const deepen = `ln -s ../ws_2 link; i=0; while [ $i -lt 60 ]; do mkdir ${name}; cd -P ${name}; i=$((i+1)); done; echo > file; ln -s ${directory}/ws_2 .`;
  await mkdir(join(directory, 'ws_2/src'), { recursive: true });
  for (const name of ['ws_1', '.deleted-ws_1-x']) {
    await mkdir(join(directory, name));
    execFileSync('sh', ['-c', deepen], { cwd: join(directory, name) });
  }
  await folders.remove('ws_1');
  expect(await readdir(directory)).toEqual(['ws_2']);
  expect(await readdir(join(directory, 'ws_2'))).toEqual(['src']);
});

test('a folder is removed whose folders a command has closed to its owner', async () => {
  const { data, folders } = await rooted();
  const directory = join(data, 'workspaces');
  const closed = join(directory, 'ws_1/a/b');
  await mkdir(closed, { recursive: true });
  await writeFile(join(closed, 'file'), 'x');
  // Root is let through everywhere.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) execFileSync('chown', ['-R', '65533', data]);
  for (const path of [closed, join(closed, '..')]) await chmod(path, 0o500);
  if (isRoot) process.seteuid?.(65533);
  try {
    await folders.remove('ws_1');
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
  expect(await readdir(directory)).toEqual([]);
});

test('the folder of a workspace is removed with what another server has left of it, and no other', async () => {
  const { data, folders, forgotten } = await rooted();
  const directory = join(data, 'workspaces');
  for (const name of ['ws_1/src', 'ws_2', '.deleted-ws_1-x/src', '.deleted-ws_0-x/src'])
    await mkdir(join(directory, name), { recursive: true });
  await folders.remove('ws_1');
  expect(await readdir(directory)).toEqual(['.deleted-ws_0-x', 'ws_2']);
  // It was never used.
  await folders.remove('ws_3');
  expect(await readdir(directory)).toEqual(['.deleted-ws_0-x', 'ws_2']);
  expect(forgotten).toEqual(['ws_1', 'ws_3']);
});

test('what is left of any workspace is removed, past what cannot be', async () => {
  const { data, folders } = await rooted();
  const directory = join(data, 'workspaces');
  for (const name of ['.deleted-ws_0-x', '.deleted-ws_1-x/src', 'ws_2'])
    await mkdir(join(directory, name), { recursive: true });
  const programs = await mkdtemp(join(tmpdir(), 'service-programs-'));
  onTestFinished(() => rm(programs, { recursive: true }));
  const remove = `case "$3" in *ws_0*) echo 'Stale file handle' >&2; exit 1;; esac; exec ${findExecutable('rm')} "$@"`;
  await writeFile(join(programs, 'rm'), `#!/bin/sh\n${remove}\n`, { mode: 0o755 });
  vi.stubEnv('PATH', `${programs}:${process.env.PATH}`);
  onTestFinished(() => void vi.unstubAllEnvs());
  await folders.removeLeft();
  expect(await readdir(directory)).toEqual(['.deleted-ws_0-x', 'ws_2']);
  await expect(folders.remove('ws_0')).rejects.toThrow('rm ended with 1: Stale file handle');
});
