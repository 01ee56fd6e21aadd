/** Real language servers, in real runs: what an edit breaks is in the result of the edit, and the tools know the code. */
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ClientConfig } from '../../contract/config.ts';
import { hookBench, hookFolder, type ScriptedCall } from '../hooks/test-hooks.ts';
import { findOnPath } from './search-path.ts';
import { isAlive, lspBench, readNotes, smallServer } from './test-lsp.ts';

const packages = join(import.meta.dirname, '../../../node_modules');
const typescriptServer = join(packages, '.bin/typescript-language-server');
const pyright = join(packages, '.bin/pyright-langserver');
/** The Go of the tests and its language server, as `make` installs them. */
const goFolder = join(import.meta.dirname, '../../../.venv/bin');
const before = process.env.PATH;

// A person has both on PATH; what this process was started with need not have them.
beforeAll(() => {
  process.env.PATH = `${goFolder}:${before}`;
});
afterAll(() => {
  process.env.PATH = before;
});

const { attempt } = hookBench();
const rules = { query: { permissionMode: 'bypass' as const } };

/** A bench whose settings name this server alone, with the time that a cold start takes on a busy machine. */
function realBench(config: ClientConfig) {
  return lspBench(() => config, {
    times: { startWaitMs: 30_000, judgeMs: 30_000, requestMs: 30_000, quietMs: 300 },
  });
}

test('in a run, the result of an edit holds what the edit broke, and the change itself holds', async () => {
  const folder = hookFolder();
  folder.write('a.x', 'this is right\n', 0o644);
  const call: readonly ScriptedCall[] = [
    { name: 'write', arguments: { file_path: 'b.x', content: 'this is wrong\n' } },
    { name: 'ls', arguments: { path: '.' } },
  ];
  const lsp = { small: smallServer('good', join(folder.path, '..', 'notes')) };
  const { results } = await attempt(folder, { ...rules, call, config: { lsp } });
  expect(results[0]).toMatchObject({
    is_error: false,
    content:
      'Created b.x (14 bytes).\n\nb.x has 1 error (small):\nerror 1:9 this is wrong is wrong [small 0]',
  });
  expect(folder.read('b.x')).toBe('this is wrong\n');
  expect(
    readNotes(join(folder.path, '..', 'notes'))
      .flatMap(({ pid }) => pid ?? [])
      .filter(isAlive),
  ).toEqual([]);
});

test('in a run, what was found late is told with the next edit, also of the same file', async () => {
  const folder = hookFolder();
  folder.write('a.x', 'right\n', 0o644);
  const references = { name: 'references', arguments: { file_path: 'a.x', line: 1, column: 1 } };
  const write = (content: string) => ({ name: 'write', arguments: { file_path: 'a.x', content } });
  const call: readonly ScriptedCall[] = [
    { name: 'view', arguments: { file_path: 'a.x' } },
    write('wrong\n'),
    references,
    write('wrong again\n'),
  ];
  const lsp = { small: smallServer('asked, clearing, found late', join(folder.path, '..', 'notes')) };
  const { results } = await attempt(folder, { ...rules, call, config: { lsp } });
  expect(results.at(-1)?.content).toMatch(
    /\n\na\.x had 1 error \(small\) before this change, found late:\nerror 1:1 wrong is wrong \[small 0\]$/,
  );
});

test('TypeScript: a type error that a write makes is in the result of the write', async () => {
  const folder = hookFolder();
  folder.write('tsconfig.json', '{ "compilerOptions": { "strict": true, "types": [], "lib": ["ES5"] } }');
  folder.write('add.ts', 'export const add = (a: number, b: number): number => a + b;\n');
  const call: readonly ScriptedCall[] = [
    {
      name: 'write',
      arguments: { file_path: 'use.ts', content: "import { add } from './add';\nadd(1, 'two');\n" },
    },
    { name: 'diagnostics', arguments: { file_path: 'use.ts' } },
  ];
  const lsp = { typescript: { command: typescriptServer } };
  // What an edit waits for is bounded, and a cold start on a busy machine may take longer: the tool waits for it.
  const { results } = await attempt(folder, { ...rules, call, config: { lsp } });
  const found =
    /error 2:8 Argument of type '.*' is not assignable to parameter of type 'number'\. \[ts 2345\]/;
  expect(results.map(({ content }) => content).join('\n')).toMatch(found);
});

test('TypeScript: uses, definitions and symbols are found, and an edit that breaks another file says so', async () => {
  const bench = realBench({ lsp: { typescript: { command: typescriptServer } } });
  const { workspace } = bench;
  workspace.file('tsconfig.json', '{ "compilerOptions": { "strict": true, "types": [], "lib": ["ES5"] } }');
  const use = "import { add } from './add';\nexport const three = add(1, 2);\n";
  expect(await bench.note('add.ts', 'export const add = (a: number, b: number): number => a + b;\n')).toBe(
    '',
  );
  expect(await bench.note('use.ts', use)).toBe('');
  expect(await bench.note('use.ts', `${use}three.nothing;\n`)).toContain(
    "use.ts has 1 error (typescript):\nerror 3:7 Property 'nothing' does not exist on type 'number'. [ts 2339]",
  );
  expect(await bench.note('use.ts', use)).toBe('');
  expect((await bench.call('references', { file_path: 'add.ts', symbol: 'add' })).content).toBe(
    [
      '3 references:',
      'add.ts:1:14: export const add = (a: number, b: number): number => a + b;',
      "use.ts:1:10: import { add } from './add';",
      'use.ts:2:22: export const three = add(1, 2);',
    ].join('\n'),
  );
  const definition = { file_path: 'use.ts', line: 2, symbol: 'add' };
  expect((await bench.call('definition', definition)).content).toMatch(/^add\.ts:1:14: export const add/);
  workspace.file('library.ts', 'export const long = [1].length;\n');
  const library = (await bench.call('definition', { file_path: 'library.ts', symbol: 'length' })).content;
  expect(library).toMatch(/^\/.*lib\.es5\.d\.ts:\d+:\d+ \(outside the workspace\)$/);
  expect((await bench.call('symbols', { file_path: 'use.ts' })).content).toContain('2: constant three');
  expect((await bench.call('symbols', { query: 'three' })).content).toMatch(/^use\.ts:2:\d+: \w+ three/);
  const broken = await bench.note('add.ts', 'export const add = (a: number): number => a;\n');
  expect(broken).toBe('Elsewhere: 1 new error in use.ts (1).');
  expect((await bench.call('diagnostics', {})).content).toContain(
    'use.ts has 1 error:\nerror 2:29 Expected 1 arguments',
  );
  rmSync(join(workspace.path, 'use.ts'));
  expect((await bench.call('diagnostics', {})).content).not.toContain('use.ts');
});

test('pyright: what is wrong is told, and told no more once it is right', async () => {
  const bench = realBench({ lsp: { pyright: { command: pyright } } });
  expect(await bench.note('a.py', 'x: str = 1\n')).toContain(
    'error 1:10 Type "Literal[1]" is not assignable to declared type "str"',
  );
  expect(await bench.note('a.py', 'x: int = 1\n')).toBe('');
  expect((await bench.call('symbols', { file_path: 'a.py' })).content).toBe('1: variable x');
  await bench.note('a.py', 'x: str = 1\n');
  renameSync(join(bench.workspace.path, 'a.py'), join(bench.workspace.path, 'b.py'));
  expect((await bench.call('diagnostics', {})).content).not.toContain('a.py');
});

test('gopls sets itself up where it is on PATH and the project has a go.mod', async () => {
  expect(findOnPath('gopls', '/nowhere'), 'gopls is needed: make python installs it').not.toBeNull();
  const bench = realBench({});
  bench.workspace.file('go.mod', 'module example.com/small\n\ngo 1.20\n');
  bench.workspace.file('use.go', 'package small\n\nvar three = add(1, 2)\n');
  expect(await bench.note('add.go', 'package small\n\nfunc add(a, b int) int { return a + c }\n')).toContain(
    'add.go has 1 error (gopls):\nerror 3:37 undefined: c',
  );
  expect(await bench.note('add.go', 'package small\n\nfunc add(a, b int) int { return a + b }\n')).toBe('');
  expect((await bench.call('references', { file_path: 'use.go', symbol: 'add' })).content).toBe(
    '2 references:\nadd.go:3:6: func add(a, b int) int { return a + b }\nuse.go:3:13: var three = add(1, 2)',
  );
  expect(await bench.note('add.go', 'package small\n\nfunc plus(a, b int) int { return a + b }\n')).toContain(
    'Elsewhere: 1 new error in use.go (1).',
  );
});

test('unnamed, the server for TypeScript takes the TypeScript beside it, never that of the project', async () => {
  const bench = realBench({});
  const { workspace } = bench;
  workspace.file('tsconfig.json', '{ "compilerOptions": { "types": [], "lib": ["ES5"] } }');
  // Whoever loads this leaves a mark.
  const canary = `require('node:fs').writeFileSync(${JSON.stringify(join(workspace.path, 'canary'))}, '')`;
  workspace.file('node_modules/typescript/package.json', '{ "name": "typescript", "version": "5.9.9" }');
  workspace.file('node_modules/typescript/lib/tsserver.js', canary);
  workspace.file('node_modules/typescript/lib/typescript.js', canary);
  mkdirSync(join(workspace.path, '..', 'bin'));
  symlinkSync(typescriptServer, join(workspace.path, '..', 'bin', 'typescript-language-server'));
  process.env.PATH = `${join(workspace.path, '..', 'bin')}:${goFolder}:${before}`;
  const note = await bench.note('a.ts', 'export const x: number = "one";\n').finally(() => {
    process.env.PATH = `${goFolder}:${before}`;
  });
  expect(note).toContain('a.ts has 1 error (typescript-language-server)');
  expect(existsSync(join(workspace.path, 'canary'))).toBe(false);
});
