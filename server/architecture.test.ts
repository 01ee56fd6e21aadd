/** Who may import whom: every import of the repository, type imports and dynamic ones included, against one table. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

/** Open to every part of the server. */
const open = ['problem', 'ids', 'clock', 'log', 'tracing', 'contract'];

/** What each part of the server may import besides itself. A part is a folder, or a file beside them. */
const parts: Readonly<Record<string, readonly string[]>> = {
  main: [
    'app',
    'assembly',
    'services',
    'config',
    'server-settings',
    'start-summary',
    'housekeeping',
    'open-telemetry',
    ...open,
  ],
  'open-telemetry': ['server-settings', 'log', 'tracing'],
  housekeeping: ['services', 'server-settings', ...open],
  'start-summary': ['services', 'config', 'server-settings', ...open],
  app: ['http', 'operations', 'services'],
  http: ['address-place', 'handler', ...open],
  operations: ['handler', 'exact-json', 'given-anew', 'storable', ...open],
  handler: ['services', ...open],
  'mcp-access': ['runtime', 'config', ...open],
  assembly: [
    'services',
    ...['runtime', 'config', 'identity', 'store', 'outbound', 'workspaces', 'workspace-settings', 'mail'],
    'server-settings',
    'provider-settings',
    'mcp-servers',
    'model-catalogs',
    'memory-search',
    'skills',
    'knowledge',
    'scheduler',
    'embedder-choice',
    'web-search',
    'process-name',
    ...open,
  ],
  services: [
    ...['runtime', 'config', 'identity', 'store', 'workspaces', 'workspace-settings', 'mail'],
    'server-settings',
    'provider-settings',
    'mcp-servers',
    'model-catalogs',
    'memory-search',
    'skills',
    'knowledge',
    'scheduler',
    'embedder-choice',
    'web-search',
    ...open,
  ],
  runtime: [
    'outbound',
    'children-at-exit',
    'exact-json',
    'git-owner',
    'given-anew',
    'keep-newest',
    'loaded-once',
    'plan-steps',
    'process-name',
    'process-stat',
    'storable',
    'text-encoding',
    ...open,
  ],
  config: ['children-at-exit', 'git-owner', 'outbound', 'process-name', ...open],
  'server-settings': ['config', 'outbound', ...open],
  identity: ['address-place', 'exact-json', 'outbound', 'scopes', 'sync-to-disk', ...open],
  knowledge: ['outbound', 'process-stat', 'text-encoding', ...open],
  store: [
    'given-anew',
    'keep-newest',
    'loaded-once',
    'plan-steps',
    'process-name',
    'scopes',
    'sync-to-disk',
    ...open,
  ],
  'address-place': [],
  'exact-json': [],
  'git-owner': [],
  'given-anew': ['contract'],
  'keep-newest': [],
  'loaded-once': [],
  'plan-steps': ['contract'],
  scopes: ['contract'],
  scheduler: ['outbound', ...open],
  maintenance: [
    'store',
    'config',
    'server-settings',
    'identity',
    'knowledge',
    'outbound',
    'sync-to-disk',
    ...open,
  ],
  outbound: ['contract'],
  'embedder-choice': ['knowledge', 'store', ...open],
  'model-catalogs': ['config', 'store', 'outbound', ...open],
  'memory-search': ['store', 'knowledge', ...open],
  skills: ['store', 'runtime', 'outbound', ...open],
  mail: [],
  workspaces: ['log', 'problem'],
  'workspace-settings': ['config', ...open],
  'web-search': ['outbound', ...open],
  'provider-settings': ['config', 'keep-newest', ...open],
  'mcp-servers': open,
  problem: ['contract'],
  ids: ['contract'],
  clock: ['contract'],
  log: ['contract'],
  tracing: [],
  'process-name': ['process-stat'],
  'process-stat': [],
  'children-at-exit': [],
  storable: [],
  'text-encoding': [],
  'sync-to-disk': [],
  contract: [],
  // Measures the server from outside and its parts from inside; nothing imports it.
  bench: ['app', 'assembly', 'services', 'server-settings', 'process-stat', ...open],
};

/** Folders with one face, the file that bears their name; `app` is the page that lists all of http/. */
const faces = [
  'operations',
  'assembly',
  'runtime',
  'config',
  'server-settings',
  'identity',
  'store',
  'maintenance',
  'outbound',
  'workspace-settings',
  'provider-settings',
  'mcp-servers',
  'knowledge',
  'web-search',
  'scheduler',
  'skills',
];

/** Packages that belong to some parts alone. */
const packages: Readonly<Record<string, readonly string[]>> = {
  express: ['app', 'http', 'bench'],
  'express-openapi-validator': ['http'],
  'prom-client': ['http'],
  knex: ['store', 'bench'],
  pg: ['store'],
  sqlite3: ['store'],
  'sqlite-vec': ['store'],
  nodemailer: ['mail'],
  croner: ['scheduler'],
  'onnxruntime-node': ['knowledge'],
  '@anush008/tokenizers': ['knowledge'],
  // Loaded where traces are asked for, and nowhere else.
  '@opentelemetry/api': ['open-telemetry'],
  '@opentelemetry/exporter-trace-otlp-http': ['open-telemetry'],
  '@opentelemetry/resources': ['open-telemetry'],
  '@opentelemetry/sdk-trace': ['open-telemetry'],
  // Whatever speaks to the outside goes through the guard.
  undici: ['outbound'],
};

/** What the other top-level folders may import besides themselves. */
const folders: Readonly<Record<string, readonly string[]>> = {
  codegen: [],
  clients: [],
  'contract-tests': ['clients'],
};

/** What the `service` command may import of the server besides the client. */
const terminalFaces = [
  'server/main.ts',
  'server/config/config.ts',
  'server/server-settings/server-settings.ts',
  'server/maintenance/maintenance.ts',
  'server/mcp-access.ts',
];

/** The imports of a file: paths from the root of the repository, and names of packages. */
type Imports = ReadonlyMap<string, readonly string[]>;

describe('the repository', () => {
  const imports = readImports();

  test('has no import that the table does not allow', () => {
    expect(imports.size).toBeGreaterThan(100);
    expect(breaksOf(imports)).toEqual([]);
  });

  test('has no circle', () => {
    expect(circlesOf(imports)).toEqual([]);
  });
});

describe('the check itself', () => {
  test.each([
    ['server/http/sse.ts', 'server/store/store.ts', 'http may not import store'],
    ['server/http/sse.ts', 'server/services.ts', 'http may not import services'],
    ['server/app.ts', 'server/runtime/runtime.ts', 'app may not import runtime'],
    ['server/runtime/runs/run.ts', 'server/store/store.ts', 'runtime may not import store'],
    ['server/store/runs.ts', 'server/handler.ts', 'store may not import handler'],
    ['server/services.ts', 'server/store/runs.ts', 'store has one face'],
    ['server/operations/runs.ts', 'server/operations/sessions.ts', 'a family may not import another'],
    ['server/operations/runs.ts', 'express', 'express is not for operations'],
    ['server/runtime/runs/run.ts', 'knex', 'knex is not for runtime'],
    ['server/stranger.ts', 'server/problem.ts', 'stranger is not in the table'],
    ['server/problem.ts', 'clients/typescript/client.ts', 'problem may not import clients'],
    ['clients/typescript/client.ts', 'server/problem.ts', 'clients may not import server'],
    ['clients/terminal/main.ts', 'server/store/store.ts', 'clients may not import server'],
    ['clients/typescript/client.ts', 'server/config/config.ts', 'clients may not import server'],
    ['codegen/generate.ts', 'server/problem.ts', 'codegen may not import server'],
    ['contract-tests/fuzz/run.ts', 'server/main.ts', 'contract-tests may not import server'],
  ])('finds that %s imports %s', (from, to, named) => {
    const families = new Map([
      ['server/operations/operations.ts', ['server/operations/sessions.ts', 'server/operations/runs.ts']],
    ]);
    const breaks = breaksOf(new Map([...families, [from, [to]]]));
    expect(breaks).toEqual([`${from}: ${named} (${to})`]);
  });

  test('finds a circle, and reads every kind of import', () => {
    const circle = new Map([
      ['server/a.ts', ['server/b.ts']],
      ['server/b.ts', ['server/c.ts']],
      ['server/c.ts', ['server/a.ts']],
    ]);
    expect(circlesOf(circle)).toEqual(['server/a.ts → server/b.ts → server/c.ts → server/a.ts']);
    const source = `
      import type { A } from './a.ts'; import { b } from './b.ts'; export * from './c.ts';
      import './d.ts'; const e = await import('./e.ts'); type F = import('./f.ts').F; import g from 'g/sub';`;
    expect(specifiersIn(source)).toEqual([
      './a.ts',
      './b.ts',
      './c.ts',
      './d.ts',
      './e.ts',
      './f.ts',
      'g/sub',
    ]);
  });
});

function readImports(): Imports {
  const files = globSync(['server/**/*.ts', 'codegen/**/*.ts', 'clients/**/*.ts', 'contract-tests/**/*.ts'], {
    cwd: root,
    exclude: (path) => /(^|\/)(node_modules|generated|\.venv)$/.test(path),
  });
  return new Map(
    files.flatMap((file) => {
      const source = readFileSync(join(root, file), 'utf8');
      const specifiers = specifiersIn(source);
      if (isTest(file, specifiers)) return [];
      return [[file, specifiers.map((specifier) => targetOf(file, specifier))] as const];
    }),
  );
}

/** Tests, and what only they use, may import anything. */
function isTest(file: string, specifiers: readonly string[]): boolean {
  return (
    /\.(test|compile-fail)\.ts$|\/test-[^/]+\.ts$/.test(file) ||
    specifiers.some((one) => /^vitest\b/.test(one))
  );
}

function specifiersIn(source: string): string[] {
  const imported = ts.preProcessFile(source, true, true).importedFiles;
  // Types can be imported in the middle of a line, which the quick reader does not see.
  const inline = [...source.matchAll(/\bimport\('([^']+)'\)/g)].map(([, specifier = '']) => specifier);
  const order = (specifier: string) => source.indexOf(`'${specifier}'`);
  const all = new Set([...imported.map(({ fileName }) => fileName), ...inline]);
  return [...all].sort((left, right) => order(left) - order(right));
}

function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith('.')) return relative(root, join(root, dirname(file), specifier));
  const [scope = '', name] = specifier.split('/');
  return scope.startsWith('@') ? `${scope}/${name}` : scope;
}

function breaksOf(imports: Imports): string[] {
  const families = new Set(imports.get('server/operations/operations.ts') ?? []);
  return [...imports].flatMap(([from, targets]) =>
    targets.flatMap((to) => {
      const fault = faultOf(from, to, families);
      return fault === null ? [] : [`${from}: ${fault} (${to})`];
    }),
  );
}

function faultOf(from: string, to: string, families: ReadonlySet<string>): string | null {
  const [folder = '', ...rest] = from.split('/');
  const [otherFolder = '', ...otherRest] = to.split('/');
  if (folder !== 'server') return faultOfFolder(from, to);
  const part = partOf(rest);
  if (!to.endsWith('.ts')) return packages[to]?.includes(part) === false ? `${to} is not for ${part}` : null;
  const other = otherFolder === 'server' ? partOf(otherRest) : otherFolder;
  if (part === other) return faultOfFamilies(from, to, families);
  const allowed = parts[part];
  if (!allowed) return `${part} is not in the table`;
  if (!allowed.includes(other)) return `${part} may not import ${other}`;
  const face = faces.includes(other) && otherRest[1] !== `${other}.ts`;
  return face ? `${other} has one face` : null;
}

function faultOfFolder(from: string, to: string): string | null {
  const [folder = ''] = from.split('/');
  const [other = ''] = to.split('/');
  const top = ['server', ...Object.keys(folders)];
  if (folder === other || !top.includes(other)) return null;
  if (from.startsWith('clients/terminal/') && terminalFaces.includes(to)) return null;
  return folders[folder]?.includes(other) ? null : `${folder} may not import ${other}`;
}

function faultOfFamilies(from: string, to: string, families: ReadonlySet<string>): string | null {
  return families.has(from) && families.has(to) ? 'a family may not import another' : null;
}

function partOf(path: readonly string[]): string {
  return (path[0] ?? '').replace(/\.ts$/, '');
}

/** Each circle once, from its first file in the order of names. */
function circlesOf(imports: Imports): string[] {
  const circles = new Set<string>();
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]): void => {
    const at = way.indexOf(file);
    if (at >= 0) circles.add([...way.slice(at), file].join(' → '));
    if (at >= 0 || done.has(file)) return;
    for (const target of imports.get(file) ?? []) if (imports.has(target)) visit(target, [...way, file]);
    done.add(file);
  };
  for (const file of [...imports.keys()].sort()) visit(file, []);
  return [...circles];
}
