/** Files of words for the agent are read where commands of agents run meanwhile, which may exchange them. */
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { markdownFiles } from '../context/markdown-files.ts';
import { listSkillFolder } from '../skills/skill-tool.ts';
import { testFolder } from '../test-conversation.ts';
import { readGuidance } from './guidance-file.ts';

async function projectBesideSecret() {
  const { path, file } = await testFolder();
  await file('secret/key.md', 'the secret');
  await file('secret/other.md', 'another secret');
  const [project, secret] = [join(path, 'project'), join(path, 'secret')];
  await mkdir(join(project, 'notes'), { recursive: true });
  await writeFile(join(project, 'notes/key.md'), 'a note');
  return { project, secret };
}

/** What `look` finds while what lies at the place gives way to a link and comes back, again and again. */
async function lookWhileExchanged<Found>(
  place: string,
  link: string,
  look: () => Promise<Found>,
): Promise<readonly Found[]> {
  const exchanging = { ends: false };
  await symlink(link, `${place}.link`);
  const exchange = async () => {
    while (!exchanging.ends) {
      await rename(place, `${place}.own`);
      await rename(`${place}.link`, place);
      await rename(place, `${place}.link`);
      await rename(`${place}.own`, place);
    }
  };
  const exchanged = exchange();
  const found: Found[] = [];
  for (let met = 0; met < 500; ) {
    const one = await look();
    // While nothing lies there a look is over at once, and says nothing.
    if (one !== null && !(Array.isArray(one) && one.length === 0)) met = found.push(one);
    await setImmediate();
  }
  exchanging.ends = true;
  await exchanged;
  return found;
}

test.each([
  ['it', 'notes/key.md', 'key.md'],
  ['its folder', 'notes', '.'],
])(
  'a file is not read where a link to elsewhere is put in the place of %s meanwhile',
  async (_what, exchanged, link) => {
    const { project, secret } = await projectBesideSecret();
    const file = join(project, 'notes/key.md');
    const read = await lookWhileExchanged(join(project, exchanged), join(secret, link), () =>
      readGuidance(file, { within: project, maxBytes: 1000 }),
    );
    expect(read.map((one) => one && 'text' in one && one.text)).not.toContain('the secret');
    expect(await readGuidance(file, { within: project, maxBytes: 1000 })).toMatchObject({ text: 'a note' });
  },
);

test('a folder tells no names where a link to elsewhere is put in its place meanwhile', async () => {
  const { project, secret } = await projectBesideSecret();
  const folder = join(project, 'notes');
  const names = await lookWhileExchanged(folder, secret, () => markdownFiles(folder, project));
  expect(names.flat().filter((name) => name.endsWith('other.md'))).toEqual([]);
  expect(await markdownFiles(folder, project)).toEqual([join(folder, 'key.md')]);
});

test.each([
  ['it', '.'],
  ['a folder in it', 'more'],
])(
  'a skill tells no files where a link to elsewhere is put in the place of %s meanwhile',
  async (_what, exchanged) => {
    const { project, secret } = await projectBesideSecret();
    const folder = join(project, 'notes');
    await mkdir(join(folder, 'more'));
    await writeFile(join(folder, 'more/one.md'), 'one');
    const looks = await lookWhileExchanged(join(folder, exchanged), secret, async () => {
      const { files } = listSkillFolder(folder);
      return files.map(({ path }) => path);
    });
    expect(looks.flat().filter((path) => path.endsWith('other.md'))).toEqual([]);
    expect(listSkillFolder(folder).files.map(({ path }) => path)).toEqual(['key.md', 'more/one.md']);
  },
);

test('a link that leads out of the project does not tell which files are there', async () => {
  const { project, secret } = await projectBesideSecret();
  const link = join(project, 'AGENTS.md');
  await symlink(secret, link);
  expect(await markdownFiles(link, project)).toEqual([link]);
  // What is the person's own may lie anywhere.
  expect(await markdownFiles(link, null)).toEqual([join(secret, 'key.md'), join(secret, 'other.md')]);
});
