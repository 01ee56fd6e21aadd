/** Which language server is started for which file, and what a project may not make of it. */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { ClientConfig } from '../../contract/config.ts';
import { automaticServers, serversFor } from './server-choice.ts';

const before = process.env.PATH;
let programs: string;
let workspace: string;

beforeEach(() => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'service-choice-')));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  [programs, workspace] = [join(root, 'bin'), join(root, 'workspace')];
  mkdirSync(programs);
  mkdirSync(workspace);
  process.env.PATH = programs;
});
afterEach(() => {
  process.env.PATH = before;
});

function file(path: string, mode = 0o644): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, '#!/bin/sh\n');
  chmodSync(path, mode);
  return path;
}

const program = (name: string) => file(join(programs, name), 0o755);
const project = (...names: readonly string[]) => {
  for (const name of names) file(join(workspace, name));
};
const chosen = (name: string, config: ClientConfig = {}, sandboxed = false) =>
  serversFor(join(workspace, name), workspace, config, sandboxed).map(({ definition, root }) =>
    [definition.name, root.slice(workspace.length + 1)].filter(Boolean).join(' in '),
  );

describe('`options.auto_lsp`', () => {
  test('sets up a known server whose command is on PATH and whose root marker is there', () => {
    project('go.mod', 'main.go');
    expect(chosen('main.go')).toEqual([]);
    program('gopls');
    expect(chosen('main.go')).toEqual(['gopls']);
    expect(chosen('main.go', { options: { auto_lsp: true } })).toEqual(['gopls']);
    expect(chosen('main.go', { options: { auto_lsp: false } })).toEqual([]);
    expect(chosen('main.py')).toEqual([]);
  });

  test('looks for the marker from the file up to the workspace, and no further', () => {
    program('gopls');
    project('tools/go.mod', 'tools/cmd/main.go', 'other/main.go');
    file(join(workspace, '..', 'go.mod'));
    expect(chosen('tools/cmd/main.go')).toEqual(['gopls in tools']);
    expect(chosen('other/main.go')).toEqual([]);
  });

  test('takes no command that lies in the workspace, whatever PATH says', () => {
    project('go.mod', 'main.go');
    file(join(workspace, 'node_modules/.bin/gopls'), 0o755);
    process.env.PATH = `${join(workspace, 'node_modules/.bin')}:node_modules/.bin:.:${programs}`;
    expect(chosen('main.go')).toEqual([]);
    symlinkSync(join(workspace, 'node_modules/.bin/gopls'), join(programs, 'gopls'));
    expect(chosen('main.go')).toEqual([]);
  });

  test('starts no server that runs code of the project, unless the settings name it or it runs in the sandbox', () => {
    program('rust-analyzer');
    project('Cargo.toml', 'src/main.rs');
    expect(chosen('src/main.rs')).toEqual([]);
    expect(chosen('src/main.rs', {}, true)).toEqual(['rust-analyzer']);
    expect(chosen('src/main.rs', { lsp: { 'rust-analyzer': {} } })).toEqual(['rust-analyzer']);
  });

  test('starts the server for TypeScript only where a TypeScript is installed beside it', () => {
    project('package.json', 'a.ts', 'node_modules/typescript/lib/tsserver.js');
    const modules = join(programs, '../lib/node_modules');
    const server = file(join(modules, 'typescript-language-server/lib/cli.mjs'), 0o755);
    symlinkSync(server, join(programs, 'typescript-language-server'));
    expect(chosen('a.ts')).toEqual([]);
    file(join(modules, 'typescript/lib/tsserver.js'));
    expect(chosen('a.ts')).toEqual(['typescript-language-server']);
  });

  test('takes no program that runs anything for a language server', () => {
    for (const name of ['deno', 'dart', 'node', 'npx']) program(name);
    project('deno.json', 'pubspec.yaml', 'a.ts', 'a.dart');
    expect([...chosen('a.ts', {}, true), ...chosen('a.dart', {}, true)]).toEqual([]);
    expect(chosen('a.ts', { lsp: { deno: {} } })).toEqual(['deno']);
  });

  test('starts one server for a file, and none where the settings name one for it', () => {
    for (const name of ['pyright-langserver', 'ruff', 'basedpyright-langserver']) program(name);
    project('pyproject.toml', 'a.py');
    expect(chosen('a.py')).toEqual(['pyright']);
    expect(chosen('a.py', { lsp: { mine: { command: 'mine', filetypes: ['py'] } } })).toEqual(['mine']);
    expect(chosen('a.py', { lsp: { pyright: { disabled: true } } })).toEqual(['ruff']);
    expect(chosen('a.py', { lsp: { pyright: { disabled: true } } }, true)).toEqual(['basedpyright']);
  });
});

describe('a server that the settings name', () => {
  test('is completed from what is known of its name, or of its command', () => {
    const [byName] = serversFor(
      join(workspace, 'a.go'),
      workspace,
      { lsp: { gopls: { args: ['-v'] } } },
      false,
    );
    expect(byName?.definition).toMatchObject({
      rootMarkers: ['go.work', 'go.mod'],
      known: { command: 'gopls' },
    });
    expect(chosen('a.go', { lsp: { go: { command: '/opt/bin/gopls' } } })).toEqual(['go']);
    expect(chosen('a.go', { lsp: { go: { command: 'gopls', filetypes: ['mod'] } } })).toEqual([]);
  });

  test('needs a root marker only where the settings name one', () => {
    expect(chosen('a.go', { lsp: { gopls: {} } })).toEqual(['gopls']);
    expect(chosen('a.go', { lsp: { gopls: { root_markers: ['go.mod'] } } })).toEqual([]);
  });

  test('is not set up a second time by itself', () => {
    const names = automaticServers({ lsp: { go: { command: 'gopls' } } }).map(({ name }) => name);
    expect(names).not.toContain('gopls');
    expect(names).toContain('pyright');
  });
});
