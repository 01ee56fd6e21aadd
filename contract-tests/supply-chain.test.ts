/** What an installation lets in: packages by their hash alone, of exact versions, and no script of theirs but two. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
}

const locked: Readonly<Record<string, LockedPackage>> = JSON.parse(read('package-lock.json')).packages;
/** What `make agents` installs, in a folder of its own. */
const agents: typeof locked = JSON.parse(read('contract-tests/agents/package-lock.json')).packages;
/** Those that come from outside: not our own workspaces, and not the links to them. */
const foreign = [...Object.entries(locked), ...Object.entries(agents)].filter(
  ([path, { link }]) => path.includes('node_modules/') && link !== true,
);

test('every package that comes from outside is held to a hash', () => {
  expect(foreign.length).toBeGreaterThan(100);
  const unheld = foreign.filter(
    ([, { integrity, inBundle }]) => !inBundle && !/^sha512-/.test(integrity ?? ''),
  );
  expect(unheld.map(([path]) => path)).toEqual([]);
});

test('none comes from a place other than the registry: no repository, no address, no file', () => {
  // What comes from the registry is written without its address, by .npmrc.
  expect(read('.npmrc')).toMatch(/^omit-lockfile-registry-resolved=true$/m);
  const elsewhere = foreign.filter(
    ([, { resolved, version }]) => resolved !== undefined || !/^\d/.test(version ?? ''),
  );
  expect(elsewhere.map(([path]) => path)).toEqual([]);
});

test('every dependency is asked for in one exact version', () => {
  const workspaces = Object.keys(locked).filter((path) => !path.includes('node_modules'));
  const manifests = [...workspaces, 'contract-tests/agents'];
  expect(manifests.length).toBeGreaterThan(4);
  const loose = manifests.flatMap((path) => {
    const manifest = JSON.parse(read(join(path, 'package.json')));
    const asked = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies };
    return Object.entries<string>(asked).filter(
      ([, version]) => !/^(npm:@?[^@]+@)?\d+\.\d+\.\d+$/.test(version),
    );
  });
  expect(loose).toEqual([]);
});

test('no package runs a script of its own at installation, but for the two that have to be built', () => {
  const makefile = read('Makefile');
  const installing = commands(makefile, /\bnpm (?:ci|install|i|add)\b.*/g);
  expect(installing).toEqual([
    expect.stringMatching(/^npm ci --ignore-scripts\b/),
    // By the exact versions of its package.json, and the hashes of its lock.
    expect.stringMatching(/^npm install --ignore-scripts --no-save .*--prefix contract-tests\/agents$/),
  ]);
  const rebuilt = commands(makefile, /\bnpm rebuild\b.*/g).map((command) => command.split(' ')[2]);
  expect(rebuilt.toSorted()).toEqual(['node', 'sqlite3']);
  // A package that newly brings a script is seen here, and somebody decides whether it may stay unrun.
  const withScript = foreign.filter(([, one]) => one.hasInstallScript).map(([path]) => path);
  expect(withScript.toSorted()).toEqual([
    // It and opencode put the program of this machine's kind in another place, from where nobody starts it here.
    'node_modules/@anthropic-ai/claude-code',
    'node_modules/@scarf/scarf',
    'node_modules/node',
    // It fetches the libraries of graphics cards; the one that the embedder runs on lies in the package.
    'node_modules/onnxruntime-node',
    'node_modules/opencode-ai',
    // It warns of versions that do not fit together, and makes nothing.
    'node_modules/protobufjs',
    'node_modules/sqlite3',
  ]);
});

test('image and continuous integration install by way of the Makefile alone', () => {
  for (const file of ['Dockerfile', '.ci/run'])
    expect(commands(read(file), /\b(?:npm|npx|yarn|pnpm)\s+(?:ci|install|i|add|exec|x)\b.*/g), file).toEqual(
      [],
    );
});

test('every Python package is asked for in one exact version', () => {
  const lines = read('contract-tests/requirements.txt')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#') && !line.startsWith('--'));
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.filter((line) => !/^[\w.[\]-]+==[\w.]+/.test(line))).toEqual([]);
});

function commands(text: string, pattern: RegExp): string[] {
  const withoutComments = text.replaceAll(/^\s*@?#.*$/gm, '');
  return [...withoutComments.matchAll(pattern)].map(([command]) => command);
}

function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

test('everything runs on the Node that is pinned, whichever the system has', () => {
  const pinned: string = JSON.parse(read('package.json')).dependencies.node;
  expect(process.version).toBe(`v${pinned}`);
  expect(process.execPath.startsWith(join(root, 'node_modules'))).toBe(true);
});
