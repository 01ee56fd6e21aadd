/** The folder of a project's data, whose name no repository can know. */
import { mkdir, readFile, stat, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { testProject } from '../test-project.ts';
import { knownDataFolder, localDataFolder, makeDataFolder } from './local-data.ts';

async function located(options = {}) {
  const project = await testProject();
  return { ...project, located: { places: await project.places(), config: { options } } };
}

test('has a name that is made once, however many commands ask at the same time, and is this person’s secret', async () => {
  const { located: here, home, path } = await located();
  expect(await knownDataFolder(here)).toBeNull();
  const folders = await Promise.all(Array.from({ length: 20 }, () => localDataFolder(here)));
  expect(new Set(folders).size).toBe(1);
  expect(relative(path('.'), folders[0] ?? '')).toMatch(/^\.service\/data-[0-9a-f]{20}$/);
  expect(await knownDataFolder(here)).toBe(folders[0]);
  expect((await stat(join(home, '.local/share/service/data-name'))).mode & 0o777).toBe(0o600);
});

test('is for its owner alone, and kept out of git by itself', async () => {
  const { located: here } = await located();
  const folder = await makeDataFolder(here);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toMatch(/^\*$/m);
});

test.each([[''], ['../../elsewhere'], ['data-short']])(
  'is not where a damaged name says: %j',
  async (name) => {
    const { located: here, home, put } = await located();
    await put(join(home, '.local/share/service/data-name'), name);
    await expect(localDataFolder(here)).rejects.toThrow(/does not hold the name/);
  },
);

test('`options.data_directory` that the repository has as a link out of the project, or into git, is refused', async () => {
  const { located: here, home, path } = await located({ data_directory: 'data' });
  await symlink(home, path('data'));
  await expect(makeDataFolder(here)).rejects.toThrow(/leads out of the project/);
  const git = await located({ data_directory: 'data' });
  await mkdir(git.path('.git/hooks'));
  await symlink(git.path('.git/hooks'), git.path('data'));
  await expect(makeDataFolder(git.located)).rejects.toThrow(/into the data of git/);
});
