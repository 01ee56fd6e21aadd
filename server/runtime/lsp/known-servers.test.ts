/** The table of known servers: consistent in itself, and the same as in the documentation. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { genericCommands, knownServers } from './known-servers.ts';

test('no name stands twice, and every server has types and markers', () => {
  const names = knownServers.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names.length).toBeGreaterThanOrEqual(40);
  for (const { filetypes, root_markers } of knownServers) {
    expect(filetypes).not.toEqual([]);
    expect(root_markers).not.toEqual([]);
  }
});

test('a command that runs anything starts no server unnamed', () => {
  const generic = knownServers.filter(({ command }) => genericCommands.has(command));
  expect(generic.filter(({ needs_naming }) => needs_naming === undefined)).toEqual([]);
});

test.each([
  ['basedpyright', 'the Python of a .venv that came with the project'],
  ['texlab', 'a .latexmkrc, which is Perl'],
  ['fortls', 'pip, for itself'],
])('%s starts only where it is named: it runs %s', (name) => {
  expect(knownServers.find((server) => server.name === name)?.needs_naming).toEqual(expect.any(String));
});

test('the documentation lists them as they are', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/language-servers.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `'));
  expect(rows).toEqual(
    knownServers.map(({ name, command, args = [], filetypes, root_markers, needs_naming }) =>
      `| \`${name}\` | \`${[command, ...args].join(' ')}\` | ${filetypes.join(' ')} | ${root_markers.join(' ')} | ${needs_naming ?? 'by itself'} |`.replaceAll(
        /(?<= )\*(?=\.)/g,
        '\\*',
      ),
    ),
  );
});
