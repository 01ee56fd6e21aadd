/** A rule that denies a redirected file ends the line by whichever of its names the file is called, from whichever folder. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cpuMsOf } from '../../test-cpu.ts';
import { decide, type Verdict } from './permissions.ts';

let above = '';
let root = '';

/** `out` is a link to `middle`, and that one to `build`; `deep` leads to a folder in another. */
beforeAll(() => {
  above = realpathSync(mkdtempSync(join(tmpdir(), 'service-redirects-')));
  root = join(above, 'workspace');
  for (const folder of ['build/sub', 'src/build', 'other/inner', 'twice/twice'])
    mkdirSync(join(root, folder), { recursive: true });
  symlinkSync('build', join(root, 'middle'));
  symlinkSync(join(root, 'middle'), join(root, 'out'));
  symlinkSync('build/sub', join(root, 'deep'));
  symlinkSync('build/x', join(root, 'file'));
  symlinkSync('.', join(root, 'here'));
  symlinkSync(root, join(above, 'link'));
});
afterAll(() => rmSync(above, { recursive: true, force: true }));

function verdict(command: string, pattern: string, workspacePath = root): Verdict['verdict'] {
  const params = { command: command.replaceAll('ROOT', root) };
  const need = { action: 'execute', description: '', path: workspacePath, params } as const;
  const rules = [{ tool: 'bash', decision: 'deny', pattern: pattern.replaceAll('ROOT', root) }] as const;
  const rest = { mode: 'bypass', allowedTools: [], hookAllows: false, grants: [] } as const;
  return decide({ name: 'bash', input: params }, need, { ...rest, rules, workspacePath }).verdict;
}

describe('a redirected file', () => {
  test.each([
    'echo > build/x',
    'echo > ./build/x',
    'echo > .//build//x',
    'echo > build/../build/x',
    'echo > src/../build/x',
    'echo > "build"/x',
    "echo > 'bui'ld/\\x",
    'echo >> ./build/x',
    'echo &> ./build/x',
    'echo >| ./build/x',
    'echo 2> ./build/x',
    'echo <> ./build/x',
    '> ./build/x',
    'echo > ROOT/build/x',
    'echo > ROOT/src/../build/x',
    'bash -c "echo > ./build/x"',
    'sort -o ./build/x a',
  ])('is denied however its path is spelled: %s', (command) => {
    expect(verdict(command, '> build/*')).toBe('deny');
  });

  test.each([
    'cd build && echo > x',
    'cd ./build && echo > ./x',
    'cd src; cd ../build; echo > x',
    'cd src && echo > ../build/x',
    'pushd build; echo > x',
    'builtin cd -- build; echo > x',
    '(cd build; echo > x)',
    'cd ROOT/build && echo > x',
    'cd new && echo > ../build/x',
    'cd "$where" && echo > x',
    'cd; echo > x',
    'CDPATH=build cd sub; echo > x',
    'bash -c "cd build; echo > x"',
    'env -C build bash -c "echo > x"',
    'env -C build bash -c "sort -o x a"',
    'pushd -n build; popd; echo > x',
    'cd src; cd -- ../build; echo > x',
    "find build -execdir sh -c 'echo > x' ';'",
    'cd build && sort -o x a',
  ])('is denied from the folder that the line may be in: %s', (command) => {
    expect(verdict(command, '> build/*')).toBe('deny');
  });

  test('is denied from a folder that a loop leads to', () => {
    expect(verdict('for i in 1 2; do cd twice; done; echo > x', '> twice/twice/*')).toBe('deny');
  });

  test.each([
    'echo > out/x',
    'echo > middle/x',
    'echo > deep/../x',
    'echo > src/../deep/../x',
    'echo > deep/../../src/../deep/../x',
    'echo > file',
    'echo > here/build/x',
    'echo > here/here/out/new',
    'cd out && echo > x',
    'cd deep && echo > ../x',
    'cd deep && cd .. && echo > build/x',
    'cd -P deep && cd -P .. && echo > x',
    'echo > /proc/self/cwd/build/x',
    'exec 3< .; echo > /dev/fd/3/build/x',
  ])('is denied where links lead to it: %s', (command) => {
    expect(verdict(command, '> build/*')).toBe('deny');
  });

  test('is denied by the names of the links, too', () => {
    for (const pattern of ['> out/*', '> middle/*', '> build/*', '> ./out/*', '> ROOT/build/*'])
      expect(verdict('cd src && echo > ../out/x', pattern), pattern).toBe('deny');
  });

  test('is denied to what reads it as well', () => {
    for (const command of ['cat < ./build/x', 'cd build; cat < x', 'cat < out/x'])
      expect(verdict(command, '< build/*'), command).toBe('deny');
    expect(verdict('cat < ./build/x', '> build/*')).toBe('allow');
  });

  test('is denied in a workspace that is a link itself', () => {
    const link = join(above, 'link');
    for (const command of [
      'echo > ./build/x',
      `echo > ${link}/build/x`,
      'echo > ROOT/build/x',
      'cd out; echo > x',
    ])
      for (const pattern of ['> build/*', `> ${link}/build/*`])
        expect(verdict(command, pattern, link), command).toBe('deny');
  });

  test.each([
    'sudo sort -o build/x a',
    'env LC_ALL=C sort -o ./build/x a',
    'ionice -c 3 sort --output=build/x a',
    "find src -exec sort -o build/x {} ';'",
    "find src -execdir sort -o x {} ';'",
    'env -C build sort -o x a',
    'sudo -D build sort -o x a',
    'cd build && sudo sort -o x a',
    'xargs sort -o build/x',
    'xargs sort',
    'curl --output-dir build -o x https://example.org',
    'curl -o x --output-dir=build https://example.org',
    'curl --expand-output build/x https://example.org',
    "curl --variable x=build/x --expand-output '{{x}}' https://example.org",
    "curl -w '%output{build/x}a' https://example.org",
    'curl -sw@format https://example.org',
    'curl --write-out "$format" https://example.org',
    'curl --ssl-sessions build/x https://example.org',
    `yq -s '"build/x"' a.yaml`,
    `yq --split-exp '"build/x"' a.yaml`,
    'git fast-export --export-marks=build/x HEAD',
    'sed -I .bak s/a/b/ build/x',
  ])('is denied where an option writes it, whatever starts the command: %s', (command) => {
    expect(verdict(command, '> build/*')).toBe('deny');
  });

  test.each([
    ['echo > ../x', '> /*'],
    ['cd .. && echo > x', '> /*'],
    ['echo > src/build/x', '> src/build/*'],
    ['cd src && echo > build/x', '> src/build/*'],
  ])('outside, or further down, is denied by its path: %s', (command, pattern) => {
    expect(verdict(command, pattern)).toBe('deny');
  });

  test.each([
    ['echo > ./built', '> build/*'],
    ['echo > src/../x', '> build/*'],
    ['echo > ./x', '> /*'],
    ['cd src && echo > x', '> build/*'],
    ['cd src && echo > build/x', '> ROOT/built/*'],
    ['mkdir -p new && cd new && echo > x', '> build/*'],
    ['echo > src/build/x', '> ./src/built/*'],
    ['echo > /tmp/x', '> ./*'],
    ['echo > /tmp/x', '> ROOT/*'],
    ['cd "$where" && echo > /tmp/x', '> build/*'],
    ['echo > /dev/stderr', '> build/*'],
    ['echo > /dev/fd/2', '> build/*'],
    ['npm test > log 2>&1', '> build/*'],
    ['cd src && cd .. && echo > x', '> build/*'],
    ['find . -execdir cat {} + > x', '> /*'],
    ['sudo sort -o built/x a', '> build/*'],
    ['env -C build sort -o x a > y', '< build/*'],
    ['curl -o x https://example.org', '> build/*'],
    ["curl -w '%{http_code}' --write-out '%{size_download}' https://example.org", '> build/*'],
    ['curl --expand-url https://example.org', '> build/*'],
    ['yq -ojson .a a.yaml', '> build/*'],
  ])('is not denied where it is another: %s by %s', (command, pattern) => {
    expect(verdict(command, pattern)).toBe('allow');
  });

  test.each([
    ['many files', () => Array.from({ length: 3000 }, (_, at) => `>a/${at}`).join(';')],
    ['a deep path', () => `> ${'a/../'.repeat(3500)}b`],
    [
      'many folders',
      () => `${Array.from({ length: 40 }, (_, at) => `cd ${at}`).join(';')}; ${'> a/b;'.repeat(2000)}`,
    ],
    ['links to themselves', () => `cd here; ${'> here/here/here/here/b;'.repeat(600)}`],
  ])('is decided about in time, with %s', async (_name, command) => {
    const line = command();
    const spent = await cpuMsOf(() => verdict(line, '> build/*'));
    expect(spent).toBeLessThan(1500);
  });

  test('is allowed by the word that is written alone', () => {
    const decided = (command: string) => {
      const params = { command };
      const need = { action: 'execute', description: '', path: root, params } as const;
      const rest = { mode: 'ask', hookAllows: false, grants: [], rules: [], workspacePath: root } as const;
      const allowedTools = ['bash(echo)', 'bash(> build/*)', 'bash(cd *)'];
      return decide({ name: 'bash', input: params }, need, { ...rest, allowedTools }).verdict;
    };
    expect(decided('echo > build/x')).toBe('allow');
    for (const command of ['echo > ./build/x', 'echo > out/x', 'cd build && echo > x'])
      expect(decided(command), command).toBe('ask');
  });
});
