/** Skills: which are found, what the model sees of them, and what loading one gives. */
import { execFileSync } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { converse, testFolder } from '../test-conversation.ts';
import { testExtensionParts } from '../test-extension.ts';
import { createSkills } from './skills.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const skill = (name: string, description: string, body = 'Do it well.', more = '') =>
  `---\nname: ${name}\ndescription: ${description}\n${more}---\n\n${body}\n`;

describe('where skills are found', () => {
  test.each(['.agents/skills', '.service/skills', '.claude/skills', '.cursor/skills'])(
    'in %s of the project',
    async (place) => {
      const { path, file } = await testFolder();
      await file(`${place}/release-notes/SKILL.md`, skill('release-notes', 'Writes release notes.'));
      const { system, tools } = await converse(upstream, path);
      expect(system).toContain('- release-notes: Writes release notes.');
      expect(tools).toContain('skill');
    },
  );

  test('in the root of the repository and in the working folder, of which the nearer counts', async () => {
    const { path, file } = await testFolder();
    execFileSync('git', ['init', '-q', path]);
    await file('.agents/skills/one/SKILL.md', skill('one', 'of the root'));
    await file('.agents/skills/two/SKILL.md', skill('two', 'of the root alone'));
    await file('packages/a/.agents/skills/one/SKILL.md', skill('one', 'of the package'));
    const { system } = await converse(upstream, join(path, 'packages/a'));
    expect(system).toContain('- one: of the package\n- two: of the root alone');
    expect(system).not.toContain('one: of the root');
  });

  test('`options.skills_paths` names further folders, of which links are followed', async () => {
    const { path, file } = await testFolder();
    await file('kept/elsewhere/tidy/SKILL.md', skill('tidy', 'Tidies up.'));
    await mkdir(join(path, 'house'));
    await symlink(join(path, 'kept/elsewhere/tidy'), join(path, 'house/tidy'));
    const { system } = await converse(upstream, path, { options: { skills_paths: ['./house'] } });
    expect(system).toContain('- tidy: Tidies up.');
  });

  test('among the person’s own, which a project’s skill of the same name replaces', async () => {
    const { path, file } = await testFolder();
    await file('own/skills/one/SKILL.md', skill('one', 'of the person'));
    await file('own/skills/two/SKILL.md', skill('two', 'also of the person'));
    await file('project/.agents/skills/one/SKILL.md', skill('one', 'of the project'));
    const { system } = await converse(
      upstream,
      join(path, 'project'),
      {},
      { skillFolders: [join(path, 'own/skills')] },
    );
    expect(system).toContain('- one: of the project\n- two: also of the person');
  });

  test('but a project cannot link to folders outside of it', async () => {
    const { path, file } = await testFolder();
    await file('private/diary/SKILL.md', skill('diary', 'the person’s diary'));
    await mkdir(join(path, 'project/.agents/skills'), { recursive: true });
    await symlink(join(path, 'private/diary'), join(path, 'project/.agents/skills/diary'));
    await symlink(join(path, 'private'), join(path, 'project/.claude'));
    const { system } = await converse(upstream, join(path, 'project'));
    expect(system).not.toContain('diary');
  });

  test('a circle of links ends', async () => {
    const { path, file } = await testFolder();
    await file('.agents/skills/deep/one/SKILL.md', skill('one', 'found'));
    await symlink('..', join(path, '.agents/skills/deep/up'));
    const { system } = await converse(upstream, path);
    expect(system).toContain('- one: found');
  });
});

describe('the front matter', () => {
  test.each([
    ['no front matter', 'Just text.', 'does not begin with front matter'],
    ['front matter that does not end', '---\nname: broken\n', 'does not begin with front matter'],
    ['no YAML', '---\n{ : [\n---\n', 'its front matter is no YAML'],
    ['a list', '---\n- name\n---\n', 'a list or a word instead of members'],
    ['a key twice', '---\nname: broken\nname: other\n---\n', 'has name twice'],
    [
      'keys that take a parser minutes',
      `---\nname: broken\n${Array.from({ length: 15_000 }, (_, index) => `k${index}:`).join('\n')}\n---\n`,
      'longer than 8 KiB',
    ],
    ['no description', '---\nname: broken\n---\n', 'description: is missing'],
    ['an empty description', '---\nname: broken\ndescription: ""\n---\n', 'description: is empty'],
    ['a description too long', skill('broken', 'x'.repeat(1025)), 'description: has more than 1024'],
    ['another name than its folder', skill('other', 'x'), 'they have to be the same'],
    ['a name with spaces', skill('"my broken"', 'x'), 'letters and digits'],
    [
      'a compatibility too long',
      skill('broken', 'x', '', `compatibility: ${'x'.repeat(501)}\n`),
      'more than 500',
    ],
    [
      'a bomb of aliases',
      `---\na: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n---\n`,
      'has the alias *a',
    ],
  ])('with %s the skill is left out, and its state says why', async (_, content, reason) => {
    const { path, file } = await testFolder();
    await file('.agents/skills/broken/SKILL.md', content);
    await file('.agents/skills/good/SKILL.md', skill('good', 'works'));
    const skills = createSkills(testExtensionParts());
    expect(await skills.instructions?.({ workspacePath: path })).toContain('\n- good: works\n');
    const own = skills.states({ workspacePath: path }).filter(({ source }) => source !== 'builtin');
    expect(own).toEqual([
      { name: 'broken', source: 'project', state: 'failed', detail: expect.stringContaining(reason) },
      { name: 'good', source: 'project', state: 'ready', detail: null },
    ]);
  });

  test('of a folder that holds more than can be kept in mind those count that come first', async () => {
    const { path, file } = await testFolder();
    // Of a quarter of a megabyte each.
    for (let number = 10; number < 80; number += 1)
      await file(
        `.agents/skills/s-${number}/SKILL.md`,
        skill(`s-${number}`, 'works', 'x'.repeat(256 * 1024 - 100)),
      );
    const skills = createSkills(testExtensionParts());
    const told = await skills.instructions?.({ workspacePath: path });
    expect(told).toContain('\n- s-73: works\n');
    expect(told).not.toContain('s-74: works');
    expect(skills.states({ workspacePath: path }).find(({ name }) => name === 's-74')).toMatchObject({
      state: 'failed',
      detail: expect.stringContaining('longer than 16 MB together'),
    });
  });

  test('may have Windows line ends, a mark of byte order, and keys that are not known here', async () => {
    const { path, file } = await testFolder();
    const text = skill(
      'one',
      'works',
      'Body.',
      'license: MIT\nallowed-tools: [bash]\nmetadata: { author: me }\n',
    );
    await file('.agents/skills/one/SKILL.md', `\ufeff${text.replaceAll('\n', '\r\n')}`);
    const { results } = await converse(upstream, path, {}, { calls: [['skill', { name: 'one' }]] });
    expect(results[0]).toMatch(/^The skill one; .*\n\nBody\.$/);
  });

  test('that keeps a skill from models does so', async () => {
    const { path, file } = await testFolder();
    await file(
      '.agents/skills/mine/SKILL.md',
      skill('mine', 'for people', 'x', 'disable-model-invocation: true\n'),
    );
    const calls = [['skill', { name: 'mine' }]] as const;
    const { system, results } = await converse(upstream, path, {}, { calls });
    expect(system).not.toContain('for people');
    expect(results[0]).toContain('There is no skill mine');
  });
});

describe('loading a skill', () => {
  test('lends the folders of those that the model is told of, however many there are', async () => {
    const { path, file } = await testFolder();
    for (let number = 0; number < 250; number += 1)
      await file(`own/skills/one-${number}/SKILL.md`, skill(`one-${number}`, 'works'));
    await mkdir(join(path, 'project'));
    const skills = createSkills(testExtensionParts({ skillFolders: [join(path, 'own/skills')] }));
    const place = { workspacePath: join(path, 'project') };
    const told = (await skills.instructions?.(place))?.match(/^- one-\d+/gm) ?? [];
    const lent = (skills.readableFolders?.(place) ?? []).filter((folder) => folder.includes('/own/'));
    expect(lent.map((folder) => `- ${basename(folder)}`)).toEqual(told);
    expect(told.length).toBeGreaterThan(150);
    expect(told.length).toBeLessThanOrEqual(200);
  });

  test('gives its instructions and the names of its files, which are then read without asking', async () => {
    const { path, file } = await testFolder();
    await file('own/skills/one/SKILL.md', skill('one', 'works', 'Read references/more.md.'));
    const more = await file('own/skills/one/references/more.md', 'the details');
    const beside = await file('own/secret.txt', 'not of the skill');
    await mkdir(join(path, 'project'));
    const { results } = await converse(
      upstream,
      join(path, 'project'),
      {},
      {
        skillFolders: [join(path, 'own/skills')],
        calls: [
          ['skill', { name: 'one' }],
          ['view', { file_path: more }],
          ['view', { file_path: beside }],
          ['write', { file_path: more, content: 'changed' }],
        ],
      },
    );
    expect(results[0]).toContain(`its folder is ${join(path, 'own/skills/one')}`);
    expect(results[0]).toContain('Read references/more.md.\n\nFiles beside it:\nreferences/more.md');
    expect(results[1]).toContain('the details');
    expect(results[2]).toContain('Permission denied');
    expect(results[3]).toContain('Permission denied');
  });

  test('its scripts run in the sandbox, which sees them and cannot change them, under the permissions of any command', async () => {
    const { path, file } = await testFolder();
    const script = await file(
      'own/skills/one/run.sh',
      'echo the script ran; echo x >> "$0" || echo and stays as it is',
    );
    await file('own/skills/one/SKILL.md', skill('one', 'works'));
    await mkdir(join(path, 'project'));
    const options = {
      skillFolders: [join(path, 'own/skills')],
      calls: [['bash', { command: `sh ${script}` }]],
    } as const;
    const [asked] = (await converse(upstream, join(path, 'project'), {}, options)).results;
    expect(asked).toContain('Permission denied');
    const config = { permissions: { allowed_tools: ['bash'] } };
    const [ran] = (await converse(upstream, join(path, 'project'), config, options)).results;
    expect(ran).toContain('the script ran');
    expect(ran).toContain('and stays as it is');
  });

  test('`options.disabled_skills` are neither named to the model nor loaded when it asks for them all the same', async () => {
    const { path, file } = await testFolder();
    await file('.agents/skills/off/SKILL.md', skill('off', 'switched off', 'hidden words'));
    await file('.agents/skills/on/SKILL.md', skill('on', 'switched on'));
    const config = { options: { disabled_skills: ['off'] } };
    const { system, results } = await converse(upstream, path, config, {
      calls: [['skill', { name: 'off' }]],
    });
    expect(system).not.toContain('switched off');
    expect(results[0]).toBe('There is no skill off; there are: on, jq, service-config, service-hooks.');
  });

  test('a skill cannot turn the tool off or on that loads it: `options.disabled_tools` does', async () => {
    const { path, file } = await testFolder();
    await file('.agents/skills/on/SKILL.md', skill('on', 'switched on'));
    const { tools, system } = await converse(upstream, path, { options: { disabled_tools: ['skill'] } });
    expect(tools).not.toContain('skill');
    expect(system).not.toContain('switched on');
  });
});
