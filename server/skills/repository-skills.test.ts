/** Which folders of a commit are skills, also where there are very many. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import type { TreeEntry } from './git-repository.ts';
import { skillsIn } from './repository-skills.ts';

const entry = (path: string): TreeEntry => ({ path, kind: 'file', executable: false, object: path, size: 1 });

/** The folders of skills in a commit of these files. */
async function foldersOf(paths: readonly string[], subfolder: string | null): Promise<string[]> {
  const contents = new Map(paths.map((path) => [path, Buffer.from('x')]));
  const commit = { commit: 'c', entries: paths.map(entry), read: async () => contents };
  return (await skillsIn(commit, subfolder)).skills.map(({ path }) => path);
}

test.each([
  [['b/SKILL.md', 'a/SKILL.md', 'a/deeper/SKILL.md', 'ab/SKILL.md'], null, ['a', 'ab', 'b']],
  [['SKILL.md', 'a/SKILL.md'], null, ['']],
  [['1/2/3/4/SKILL.md', '1/2/3/5/6/SKILL.md'], null, ['1/2/3/4']],
  [['top/1/2/3/4/SKILL.md', 'top/1/2/3/5/6/SKILL.md'], 'top', ['top/1/2/3/4']],
])('of %j below %o the highest that are not too deep count', async (paths, subfolder, expected) => {
  expect(await foldersOf(paths, subfolder)).toEqual(expected);
});

test.each([
  ['a folder each', (n: number) => `${'a'.repeat(250)}/b${n}/SKILL.md`],
  ['very deep folders', (n: number) => `${n}/${'a/'.repeat(100)}SKILL.md`],
])('20,000 instructions in %s are refused at little cost', async (_title, pathOf) => {
  const paths = Array.from({ length: 20_000 }, (_, n) => pathOf(n));
  const spent = await cpuMsOf(() =>
    expect(foldersOf(paths, null)).rejects.toThrow(/There (are more than 100 skills|is no folder)/),
  );
  expect(spent).toBeLessThan(4000);
});

test('of the faults of one skill a hundred are told', async () => {
  const files = Array.from({ length: 20_000 }, (_, n) => ({ ...entry(`a/${n}`), size: 100_000_000 }));
  const commit = { commit: 'c', entries: [entry('a/SKILL.md'), ...files], read: async () => new Map() };
  const { skills } = await skillsIn(commit, null);
  expect(skills).toMatchObject([{ path: 'a', content: null, faults: { length: 100 } }]);
});
